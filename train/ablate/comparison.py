"""The scores of every cell -> means and differences to the full cell, over seeds and tasks.

A difference is taken on the cells (request, run) that both systems have a value in, runs averaged
first, on the requests that every seed has. Cells of one seed share their warm start, so seeds pair
off too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from eval.basis.cells import MEASURES as DIMENSION_MEASURES
from eval.crossed import ByItem, Crossed, over_seeds, verdict
from eval.measures import REWARD, Measure
from eval.metrics import ALL, Group, Rows, groups, primary, value
from eval.multiplicity import holm
from eval.plan import Plan
from tasks.basis.instances import DIMENSIONS

Systems = Mapping[str, Mapping[int, Rows]]
"""Cell -> seed -> the scores of its run."""


@dataclass(frozen=True, slots=True)
class CellNumbers:
    """One cell in one place. ``mean``: its own; ``difference``: to the full cell.

    ``coverage``: the share of planned cells with a value, over its seeds. ``verdict``: see
    ``eval.crossed``; empty for the full cell. ``p_holm``: over the ablation's primary differences.
    """

    cell: str
    mean: Crossed | None
    difference: Crossed | None
    coverage: float
    verdict: str
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class PlaceTable:
    """All cells in one place: a measure under a condition. ``primary``: declared beforehand."""

    measure: Measure
    condition: str
    primary: bool
    rows: tuple[CellNumbers, ...]


def places(plan: Plan) -> list[tuple[Group, bool]]:
    """Where cells are compared, in reading order, and whether that is a primary place."""
    if plan.task == "calbench":
        declared = primary(plan.kinds)
        found = groups(plan.kinds, ())
        return [(g, (g.measure.name, g.condition, g.variant) in declared) for g in found]
    measures = [DIMENSION_MEASURES[name] for name in DIMENSIONS]
    wide = [Group(measure, ALL, ALL) for measure in (REWARD, *measures)]
    narrow = [Group(measure, one, ALL) for one in plan.kinds for measure in measures]
    return [(group, True) for group in wide] + [(group, False) for group in narrow]


def tables(plan: Plan, systems: Systems, full: str) -> list[PlaceTable]:
    """One table a place; the full cell first, then the others in their order."""
    return adjusted([_table(group, main, systems, full) for group, main in places(plan)])


def _table(group: Group, main: bool, systems: Systems, full: str) -> PlaceTable:
    rows = []
    for cell, by_seed in systems.items():
        mean = over_seeds([by_item(one, group) for one in by_seed.values()])
        shared = [seed for seed in by_seed if seed in systems[full]]
        pairs = [paired(by_seed[seed], systems[full][seed], group) for seed in shared]
        difference = over_seeds(pairs) if cell != full else None
        said = "" if cell == full else verdict(difference, group.measure)
        rows.append(CellNumbers(cell, mean, difference, coverage(by_seed.values(), group), said))
    return PlaceTable(group.measure, group.condition, main, tuple(rows))


def by_item(rows: Rows, group: Group) -> ByItem:
    """The values of one system, by request."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for row in rows.values():
        one = value(row, group.measure) if group.holds(row) else None
        if one is not None:
            found[row.id].append((one, row.source))
    return found


def paired(rows: Rows, full: Rows, group: Group) -> ByItem:
    """Cell minus full in the cells where both have a value, by request."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for key, row in rows.items():
        if group.holds(row):
            ours, theirs = value(row, group.measure), value(full[key], group.measure)
            if ours is not None and theirs is not None:
                found[row.id].append((ours - theirs, row.source))
    return found


def coverage(seeds: Iterable[Rows], group: Group) -> float:
    """Planned cells with a value / planned cells."""
    planned = covered = 0
    for rows in seeds:
        for row in rows.values():
            if group.holds(row):
                planned += 1
                covered += value(row, group.measure) is not None
    return covered / planned if planned else 0.0


def adjusted(found: Sequence[PlaceTable]) -> list[PlaceTable]:
    """Holm over all primary differences that have a p; the others are exploratory."""
    family = [
        (table.measure.name, table.condition, row.cell, row.difference.p)
        for table in found
        if table.primary
        for row in table.rows
        if row.difference is not None and row.difference.p is not None
    ]
    values = holm([p for *_, p in family])
    known = {tuple(key): p for (*key, _), p in zip(family, values, strict=True)}
    return [
        replace(
            table,
            rows=tuple(
                replace(row, p_holm=known.get((table.measure.name, table.condition, row.cell)))
                for row in table.rows
            ),
        )
        for table in found
    ]

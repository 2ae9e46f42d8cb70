"""Scores of one system -> means with their n, support and coverage. No files here.

A measure has a value in a cell (request, run) only where the answer is complete; the composed
reward and the share of complete answers have one wherever the model replied. A cell without a
value lowers coverage and nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from eval.intervals import cluster_interval, numbered, pass_hat, run_std
from eval.measures import ANSWERED, HEADLINE, MEASURES, REWARD, Measure
from eval.records import COMPLETE, UNDELIVERED, Key, Scored, sha256

ALL = "all"
Rows = Mapping[Key, Scored]


@dataclass(frozen=True, slots=True)
class Group:
    """One place in a table: a measure under a condition and a variant, each possibly ``all``."""

    measure: Measure
    condition: str
    variant: str

    def holds(self, row: Scored) -> bool:
        """Whether the cell of ``row`` belongs here."""
        return self.condition in (ALL, row.condition) and self.variant in (ALL, row.variant)


@dataclass(frozen=True, slots=True)
class Summary:
    """One number of one system. ``planned``: cells the plan holds here; ``cells``: those used.

    ``std``: over runs, on items that have a value in every run; None for one run. ``total``: the
    sum over cells.
    """

    mean: float | None
    low: float | None
    high: float | None
    std: float | None
    cells: int
    planned: int
    items: int
    clusters: int
    total: float

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest mean over all planned cells, for measures that lie in [0, 1]."""
        if not self.planned:
            return None
        missing = self.planned - self.cells
        return self.total / self.planned, (self.total + missing) / self.planned

    @property
    def coverage(self) -> float:
        """Share of planned cells that have a value."""
        return self.cells / self.planned if self.planned else 0.0


def value(row: Scored, measure: Measure) -> float | None:
    """The measure in this cell; None where it has no value."""
    if measure is REWARD:
        return row.reward
    if measure is ANSWERED:
        return None if row.state in UNDELIVERED else float(row.state == COMPLETE)
    return row.measures.get(measure.name)


def applies(rows: Iterable[Scored], measure: Measure) -> bool:
    """Whether the measure can have a value for a request, given its rows of any system and run.

    Only ``perspective`` depends on the request: nothing tells holders apart who all agree.
    """
    if measure.name != "perspective":
        return True
    return any(row.parts.get("perspective") is not None for row in rows)


def groups(kinds: Mapping[str, str], variants: Iterable[str]) -> list[Group]:
    """Every place of the tables, in reading order: overall reward first, then each condition."""
    several = [ALL, *variants]
    found = [Group(measure, ALL, variant) for measure in (REWARD, ANSWERED) for variant in several]
    for condition, kind in kinds.items():
        fitting = [measure for measure in MEASURES if measure.kind == kind]
        for measure in (REWARD, ANSWERED, *fitting):
            found += [Group(measure, condition, variant) for variant in several]
    return found


def primary(kinds: Mapping[str, str]) -> set[tuple[str, str, str]]:
    """The contrasts declared beforehand: overall reward, and each condition's headline measure."""
    headline = {(HEADLINE[kind], condition, ALL) for condition, kind in kinds.items()}
    return {(REWARD.name, ALL, ALL), *headline}


def summarize(rows: Rows, group: Group) -> Summary:
    """The mean of one system in one place, over its own complete cells."""
    by_item: dict[str, list[Scored]] = defaultdict(list)
    for row in rows.values():
        if group.holds(row):
            by_item[row.id].append(row)
    sources, cells, planned = [], 0, 0
    values: list[list[float]] = []
    for item in by_item.values():
        if not applies(item, group.measure):
            continue
        planned += len(item)
        found = [v for row in item if (v := value(row, group.measure)) is not None]
        if found:
            cells += len(found)
            values.append(found)
            sources.append(item[0].source)
    return summary_of(values, sources, cells, planned)


def summary_of(values: list[list[float]], sources: list[str], cells: int, planned: int) -> Summary:
    """``values``: per item, its values in run order."""
    if not values:
        return Summary(None, None, None, None, 0, planned, 0, 0, 0.0)
    runs = max(map(len, values))
    balanced = np.asarray([found for found in values if len(found) == runs])
    means = np.asarray([sum(found) / len(found) for found in values])
    found = cluster_interval(means, numbered(sources))
    std = run_std(balanced.mean(axis=0).tolist())
    return Summary(
        mean=found.mean,
        low=found.low,
        high=found.high,
        std=std,
        cells=cells,
        planned=planned,
        items=found.items,
        clusters=found.clusters,
        total=sum(map(sum, values)),
    )


def pass_power(rows: Rows, group: Group, runs: int, k: int) -> Summary:
    """pass^k of a measure that is 0 or 1: the chance that k of a request's runs all succeed.

    Only requests with a value in every run count; ``cells`` of ``planned`` requests do.
    """
    by_item: dict[str, list[Scored]] = defaultdict(list)
    for row in rows.values():
        if group.holds(row):
            by_item[row.id].append(row)
    values, sources = [], []
    for item in by_item.values():
        found = [v for row in item if (v := value(row, group.measure)) is not None]
        if len(found) == runs:
            successes = sum(v == 1.0 for v in found)
            values.append([pass_hat(successes, runs, k)])
            sources.append(item[0].source)
    return summary_of(values, sources, len(values), len(by_item))


def matched(rows: Rows, variants: Iterable[str], measure: Measure) -> dict[Key, Scored]:
    """The cells whose story, holder, condition and run have a value in every variant."""
    wanted = set(variants)
    seen: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for row in rows.values():
        if value(row, measure) is not None:
            seen[pair_key(row)].add(row.variant)
    return {
        key: row
        for key, row in rows.items()
        if value(row, measure) is not None and seen[pair_key(row)] >= wanted
    }


def pair_key(row: Scored) -> tuple[str, str, str, str, int, int]:
    """What a PUBLIC and a PRIVATE cell share when they are a matched pair."""
    return (row.source, row.story, row.condition, row.holder, row.turns, row.run)


def support_hash(keys: Iterable[Key]) -> str:
    """Twelve hex digits that name a set of cells."""
    return sha256("\n".join(f"{name}\t{run}" for name, run in sorted(keys)))[:12]

"""Calendar tables in the shape papers print them: conditions x models, PUBLIC / PRIVATE, turns.

All means are over the support that every compared system shares, so columns compare.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eval.intervals import MIN_CLUSTERS
from eval.measures import ALL as MEASURES
from eval.measures import HEADLINE, Measure
from eval.metrics import Rows, Summary, pair_key, summary_of, support_hash, value
from eval.paper import PLUS_MINUS, Cell, PaperTable, Row, difference_cell
from eval.records import Key, Scored


@dataclass(frozen=True, slots=True)
class Point:
    """The mean of one system at one turn length; the interval is None below 8 source tasks."""

    turns: int
    mean: float
    low: float | None
    high: float | None
    items: int


@dataclass(frozen=True, slots=True)
class TurnCurve:
    """One measure over turn lengths, by system."""

    title: str
    lines: tuple[tuple[str, tuple[Point, ...]], ...]


def shared_keys(rows: Mapping[str, Rows], condition: str, measure: Measure) -> list[Key]:
    """The cells of a condition that have a value for every system, in plan order."""
    first, *others = rows.values()
    return [
        key
        for key, row in first.items()
        if row.condition == condition
        and value(row, measure) is not None
        and all(value(one[key], measure) is not None for one in others)
    ]


def mean_over(rows: Rows, keys: Iterable[Key], measure: Measure) -> Summary:
    """The mean of one system over these cells, all of which have a value."""
    by_item: dict[str, list[float]] = {}
    sources: dict[str, str] = {}
    count = 0
    for key in keys:
        found = value(rows[key], measure)
        assert found is not None, "the shared support holds values only"
        by_item.setdefault(key[0], []).append(found)
        sources[key[0]] = rows[key].source
        count += 1
    return summary_of(list(by_item.values()), list(sources.values()), count, count)


def _cell(found: Summary, unit: str) -> Cell:
    return Cell(found.mean, unit, std=found.std, n=found.items, planned=found.planned)


def calendar_tables(
    rows: Mapping[str, Rows], kinds: Mapping[str, str], contrasts: Sequence[Row]
) -> list[PaperTable]:
    """Conditions x models, PUBLIC and PRIVATE, turn lengths; those that have something to show."""
    found = [
        condition_table(rows, kinds),
        variant_table(rows, kinds, contrasts),
        turn_table(rows, kinds),
    ]
    return [one for one in found if one is not None]


def condition_table(rows: Mapping[str, Rows], kinds: Mapping[str, str]) -> PaperTable:
    """Systems by conditions, each condition by its headline measure."""
    measures = {name: MEASURES[HEADLINE[kind]] for name, kind in kinds.items()}
    keys = {name: shared_keys(rows, name, one) for name, one in measures.items()}
    names = "; ".join(
        f"{name}: {len({k[0] for k in keys[name]}):,} items, support {support_hash(keys[name])}"
        for name in kinds
    )
    return PaperTable(
        "conditions",
        "Conditions and systems",
        f"Headline measure of each condition over what every system completed ({names}). "
        f"{PLUS_MINUS}: run-to-run std on frozen inputs, over items with every run.",
        ("system",),
        tuple(f"{name}: {one.label}" for name, one in measures.items()),
        tuple(
            (
                (system,),
                tuple(
                    _cell(mean_over(held, keys[name], one), one.unit)
                    for name, one in measures.items()
                ),
            )
            for system, held in rows.items()
        ),
    )


def variant_table(
    rows: Mapping[str, Rows], kinds: Mapping[str, str], contrasts: Sequence[Row]
) -> PaperTable | None:
    """PUBLIC, PRIVATE and the gap, matched within story; None when the plan has one variant."""
    variants = ("PUBLIC", "PRIVATE")
    lines: list[tuple[tuple[str, ...], list[Cell]]] = [((system,), []) for system in rows]
    spans = []
    for condition, kind in kinds.items():
        measure = MEASURES[HEADLINE[kind]]
        keys = matched_keys(rows, condition, measure, variants)
        if not keys["PUBLIC"]:
            continue
        spans.append((f"{condition}: {measure.label}", 3))
        for (_, cells), held in zip(lines, rows.values(), strict=True):
            means = [mean_over(held, keys[name], measure) for name in variants]
            gap = (means[1].mean or 0.0) - (means[0].mean or 0.0)
            cells += [_cell(one, measure.unit) for one in means]
            cells.append(Cell(gap, measure.unit, n=means[1].items, signed=True))
    if not spans:
        return None
    lines += _gap_lines(contrasts, [name.partition(":")[0] for name, _ in spans])
    return PaperTable(
        "variants",
        "PUBLIC and PRIVATE",
        "Matched within story, holder and run, complete in both variants for every system. Gap: "
        "PRIVATE minus PUBLIC. Last rows: system minus system, with its cluster interval.",
        ("system",),
        ("PUBLIC", "PRIVATE", "gap") * len(spans),
        tuple((labels, tuple(cells)) for labels, cells in lines),
        tuple(spans),
    )


def _gap_lines(
    contrasts: Sequence[Row], conditions: Sequence[str]
) -> list[tuple[tuple[str, ...], list[Cell]]]:
    pairs = list(dict.fromkeys(tuple(one["arms"]) for one in contrasts))
    lines: list[tuple[tuple[str, ...], list[Cell]]] = []
    for base, trained in pairs:
        found = {
            (one["condition"], one["variant"]): one
            for one in contrasts
            if one["arms"] == [base, trained] and one["measure"] in HEADLINE.values()
        }
        cells = [
            difference_cell(found[(condition, variant)])
            if (condition, variant) in found
            else Cell()
            for condition in conditions
            for variant in ("PUBLIC", "PRIVATE", "PRIVATE \N{MINUS SIGN} PUBLIC")
        ]
        lines.append(((f"{trained} \N{MINUS SIGN} {base}",), cells))
    return lines


def matched_keys(
    rows: Mapping[str, Rows], condition: str, measure: Measure, variants: Sequence[str]
) -> dict[str, list[Key]]:
    """By variant the shared cells whose twins in every other variant are shared too."""
    first = next(iter(rows.values()))
    by_pair: dict[tuple[object, ...], dict[str, Key]] = {}
    for key in shared_keys(rows, condition, measure):
        row: Scored = first[key]
        by_pair.setdefault(pair_key(row), {})[row.variant] = key
    whole = [one for one in by_pair.values() if all(name in one for name in variants)]
    return {name: [one[name] for one in whole] for name in variants}


def turn_table(rows: Mapping[str, Rows], kinds: Mapping[str, str]) -> PaperTable | None:
    """Systems and conditions by turn length; None for a single length."""
    curves = turn_curves(rows, kinds)
    lengths = sorted({p.turns for one in curves for _, points in one.lines for p in points})
    if len(lengths) < 2:
        return None
    units = {
        f"{c}: {MEASURES[HEADLINE[k]].label}": MEASURES[HEADLINE[k]].unit for c, k in kinds.items()
    }
    lines = []
    for curve in curves:
        for system, points in curve.lines:
            at = {one.turns: one for one in points}
            cells = tuple(
                Cell(at[n].mean, units[curve.title], n=at[n].items) if n in at else Cell()
                for n in lengths
            )
            lines.append(((curve.title, system), cells))
    return PaperTable(
        "turns",
        "By length of the story",
        "Over what every system completed. Lengths hold different stories unless the plan asks "
        "several lengths of each; the contrasts over turns are paired within the story.",
        ("condition", "system"),
        tuple("1 turn" if n == 1 else f"{n} turns" for n in lengths),
        tuple(lines),
    )


def turn_curves(rows: Mapping[str, Rows], kinds: Mapping[str, str]) -> list[TurnCurve]:
    """The headline measure of each condition by turn length, over the shared support."""
    first = next(iter(rows.values()))
    found = []
    for condition, kind in kinds.items():
        measure = MEASURES[HEADLINE[kind]]
        by_turns: dict[int, list[Key]] = {}
        for key in shared_keys(rows, condition, measure):
            by_turns.setdefault(first[key].turns, []).append(key)
        lines = tuple(
            (
                system,
                tuple(
                    point(turns, mean_over(held, by_turns[turns], measure))
                    for turns in sorted(by_turns)
                ),
            )
            for system, held in rows.items()
        )
        found.append(TurnCurve(f"{condition}: {measure.label}", lines))
    return [one for one in found if one.lines[0][1]]


def point(turns: int, found: Summary) -> Point:
    """A summary as a point of a curve."""
    enough = found.clusters >= MIN_CLUSTERS
    low, high = (found.low, found.high) if enough else (None, None)
    assert found.mean is not None, "a point has values"
    return Point(turns, found.mean, low, high, found.items)

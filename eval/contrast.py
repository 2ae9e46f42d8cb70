"""One contrast: the paired difference of two systems in one place of the tables.

Every number is taken over the paired support: the cells (request, run) where both systems have a
value. Runs of one request are averaged first; the source task is the independent unit. What is not
defined is None, with a reason.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from eval.formatting import signed
from eval.intervals import (
    MIN_CLUSTERS,
    Equivalence,
    Interval,
    SignFlip,
    cluster_interval,
    equivalence,
    mcnemar_mid_p,
    numbered,
    sign_flip,
)
from eval.measures import REWARD, Measure
from eval.metrics import Group, support_hash
from eval.multiplicity import holm_and_rest, max_t
from eval.repeats import (
    FiveRuns,
    Pair,
    Passes,
    balanced,
    five_runs,
    has_interval,
    passes,
    variance_of,
)
from eval.variance import Variance

UNBALANCED = 0.02  # share of items without every run above which a reader is told


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Paired counts of one run: both right, only trained, only base, neither; McNemar mid-p."""

    run: int
    n11: int
    n10: int
    n01: int
    n00: int
    mid_p: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """Trained minus base in one place of the table. None: not defined here, see ``reason``.

    ``low``, ``high``: 95 % cluster interval, None below 8 source tasks. ``p``: cluster sign flips;
    ``p_t``: cluster t. ``p_max_t``, ``p_holm``: adjusted over the declared family; ``q``:
    Benjamini-Hochberg over the exploratory rest. ``bound_low``, ``bound_high``: the difference if
    every cell without a value had turned out worst and best. ``if_incomplete_wrong``: the
    difference when such a cell counts as wrong. ``n10_expected``, ``n01_expected``: mean paired
    counts of a run if runs of the two systems met in every possible order. ``sums``: by source
    task the sum of its item differences; not written.
    """

    measure: str
    label: str
    condition: str
    variant: str
    unit: str
    higher_is_better: bool
    primary: bool
    base: float | None
    trained: float | None
    difference: float | None
    se: float | None
    low: float | None
    high: float | None
    p: float | None
    p_exact: bool
    p_t: float | None
    p_max_t: float | None
    p_holm: float | None
    q: float | None
    verdict: str
    reason: str
    task_weighted_difference: float | None
    base_run_std: float | None
    trained_run_std: float | None
    runs: FiveRuns | None
    variance: Variance | None
    passes: tuple[Passes, ...]
    equivalence: Equivalence | None
    items: int
    clusters: int
    cells: int
    planned: int
    base_cells: int
    trained_cells: int
    support: str
    bound_low: float | None
    bound_high: float | None
    if_incomplete_wrong: float | None
    counts: tuple[RunCounts, ...]
    n10_expected: float | None
    n01_expected: float | None
    sums: Mapping[str, float]

    def row(self) -> dict[str, Any]:
        """As ``compare.json`` holds it."""
        found = asdict(replace(self, sums={}))
        del found["sums"]
        return found


def contrast(
    group: Group,
    planned: list[Pair],
    is_primary: bool,
    margin: float | None = None,
    plain: bool = True,
    names: tuple[str, str] = ("base", "trained"),
) -> Contrast:
    """The paired estimate of one group over its common support.

    ``margin``: of a declared claim of no difference. ``plain``: values are those of single
    answers; False where they are differences already (PRIVATE - PUBLIC, turns). ``names``: of the
    two arms, for the reason why something is not defined.
    """
    measure = group.measure
    common = [pair for pair in planned if pair.base is not None and pair.trained is not None]
    found = _estimate(common)
    estimate, test = found.interval, found.test
    shown = estimate is not None and has_interval(estimate)
    low, high = (estimate.low, estimate.high) if estimate and shown else (None, None)
    p = test.p if test and found.interval and found.interval.clusters > 1 else None
    bounded = measure.unit != "count" and plain
    low_bound, high_bound = bounds(planned) if bounded else (None, None)
    runs = sorted({pair.key[1] for pair in planned})
    table = balanced(common, runs)
    repeated = five_runs(table) if table else None
    counts = run_counts(common) if bounded else ()
    n10, n01 = expected_counts(common) if counts else (None, None)
    return Contrast(
        measure=measure.name,
        label=measure.label,
        condition=group.condition,
        variant=group.variant,
        unit=measure.unit,
        higher_is_better=measure.higher_is_better,
        primary=is_primary,
        base=found.base,
        trained=found.trained,
        difference=estimate.mean if estimate else None,
        se=estimate.se if estimate else None,
        low=low,
        high=high,
        p=p,
        p_exact=bool(test and test.exact),
        p_t=estimate.p_t if estimate and shown else None,
        p_max_t=None,
        p_holm=None,
        q=None,
        verdict=_verdict(estimate, low, high, p, measure) if plain else _change(estimate, low, p),
        reason=_reason(planned, estimate, measure, names),
        task_weighted_difference=estimate.mean_of_cluster_means if estimate else None,
        base_run_std=repeated.base_std if repeated else None,
        trained_run_std=repeated.trained_std if repeated else None,
        runs=repeated,
        variance=variance_of(table) if table else None,
        passes=passes(table) if table and counts and len(runs) > 1 else (),
        equivalence=_equivalence(estimate, margin, measure) if shown else None,
        items=estimate.items if estimate else 0,
        clusters=estimate.clusters if estimate else 0,
        cells=len(common),
        planned=len(planned),
        base_cells=sum(pair.base is not None for pair in planned),
        trained_cells=sum(pair.trained is not None for pair in planned),
        support=support_hash(pair.key for pair in common),
        bound_low=low_bound,
        bound_high=high_bound,
        if_incomplete_wrong=incomplete_wrong(planned, measure) if bounded else None,
        counts=counts,
        n10_expected=n10,
        n01_expected=n01,
        sums=found.sums,
    )


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What the common support gives; nothing where it is empty."""

    interval: Interval | None = None
    test: SignFlip | None = None
    base: float | None = None
    trained: float | None = None
    sums: Mapping[str, float] = field(default_factory=dict)


def _estimate(common: list[Pair]) -> _Estimate:
    """Interval and test of the item differences, and both means over items."""
    if not common:
        return _Estimate()
    items: dict[str, list[Pair]] = defaultdict(list)
    for pair in common:
        items[pair.key[0]].append(pair)
    names = [found[0].source for found in items.values()]
    sources = numbered(names)
    base = np.asarray([_mean(p.base for p in found) for found in items.values()])
    trained = np.asarray([_mean(p.trained for p in found) for found in items.values()])
    difference = trained - base
    sums = np.bincount(sources, weights=difference).astype(np.float64)
    return _Estimate(
        interval=cluster_interval(difference, sources),
        test=sign_flip(sums),
        base=float(base.mean()),
        trained=float(trained.mean()),
        sums=dict(zip(dict.fromkeys(names), sums.tolist(), strict=True)),
    )


def _mean(values: Iterable[float | None]) -> float:
    """The common support holds values only."""
    found = [one for one in values if one is not None]
    return sum(found) / len(found)


def _reason(
    planned: list[Pair], estimate: Interval | None, measure: Measure, names: tuple[str, str]
) -> str:
    """Why something is None; empty when nothing is."""
    if estimate is None:
        return why_nothing(planned, *names)
    if estimate.clusters == 1:
        return "1 source task: neither an interval nor a test"
    if estimate.se is not None and estimate.se <= 1e-12:
        shown = signed(estimate.mean, measure.unit)
        return f"every source task differs by the same {shown}: no spread, so no interval"
    if estimate.clusters < MIN_CLUSTERS:
        return f"{estimate.clusters} source tasks, fewer than {MIN_CLUSTERS}: no interval"
    return ""


def why_nothing(planned: Sequence[Pair], base: str = "base", trained: str = "trained") -> str:
    """Why no cell has a value of both systems, which are called as given."""
    before = sum(pair.base is not None for pair in planned)
    after = sum(pair.trained is not None for pair in planned)
    if not planned:
        return "nothing is planned here"
    if before and after:
        return (
            f"disjoint supports: {base} has a value in {before} cells, {trained} in {after}, "
            "none in common"
        )
    says = f"{trained if before else base} has no value"
    if not before and not after:
        says = f"neither {base} nor {trained} has a value"
    return f"{says} in any of the {len(planned)} cells"


def _equivalence(
    estimate: Interval | None, margin: float | None, measure: Measure
) -> Equivalence | None:
    if estimate is None or margin is None or measure.unit == "count":
        return None
    return equivalence(estimate, margin)


def bounds(planned: Sequence[Pair]) -> tuple[float | None, float | None]:
    """The difference over all planned cells with every missing value at its worst, at its best."""
    if not planned:
        return None, None
    low = high = 0.0
    for pair in planned:
        low += _or(pair.trained, 0.0) - _or(pair.base, 1.0)
        high += _or(pair.trained, 1.0) - _or(pair.base, 0.0)
    return low / len(planned), high / len(planned)


def incomplete_wrong(planned: Sequence[Pair], measure: Measure) -> float | None:
    """The same where such a value counts as wrong."""
    wrong = 0.0 if measure.higher_is_better else 1.0
    if not planned:
        return None
    total = sum(_or(pair.trained, wrong) - _or(pair.base, wrong) for pair in planned)
    return total / len(planned)


def _or(found: float | None, default: float) -> float:
    return default if found is None else found


def run_counts(common: Iterable[Pair]) -> tuple[RunCounts, ...]:
    """Paired counts per run, for measures that are 0 or 1; none for others."""
    table: dict[int, dict[tuple[bool, bool], int]] = defaultdict(lambda: defaultdict(int))
    for pair in common:
        if pair.base not in (0.0, 1.0) or pair.trained not in (0.0, 1.0):
            return ()
        table[pair.key[1]][(pair.trained == 1.0, pair.base == 1.0)] += 1
    return tuple(
        RunCounts(
            run=run,
            n11=cells[(True, True)],
            n10=cells[(True, False)],
            n01=cells[(False, True)],
            n00=cells[(False, False)],
            mid_p=mcnemar_mid_p(cells[(True, False)], cells[(False, True)]),
        )
        for run, cells in sorted(table.items())
    )


def expected_counts(common: Iterable[Pair]) -> tuple[float, float]:
    """n10*, n01* summed over items: a (R - b) / R and b (R - a) / R, with R the item's cells."""
    by_item: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for pair in common:
        seen = by_item[pair.key[0]]
        seen[0] += pair.trained == 1.0
        seen[1] += pair.base == 1.0
        seen[2] += 1
    items = by_item.values()
    return sum(a * (r - b) / r for a, b, r in items), sum(b * (r - a) / r for a, b, r in items)


def _verdict(
    estimate: Interval | None,
    low: float | None,
    high: float | None,
    p: float | None,
    measure: Measure,
) -> str:
    """As ``verdict``; without spread between source tasks the test decides alone."""
    if estimate is None:
        return verdict(None, None, None, measure)
    if p is None or estimate.clusters < MIN_CLUSTERS:
        return FEW
    if low is None or high is None:
        low = high = estimate.mean
    return verdict(low, high, p, measure)


def _change(estimate: Interval | None, low: float | None, p: float | None) -> str:
    """Of a difference of differences, which is higher or lower, not better or worse."""
    high = estimate.high if estimate and low is not None else None
    found = _verdict(estimate, low, high, p, REWARD)
    return {"better": "higher", "worse": "lower"}.get(found, found)


FEW = "too few tasks"


def verdict(low: float | None, high: float | None, p: float | None, measure: Measure) -> str:
    """One word for the table. The interval and the test must agree, or it is inconclusive."""
    if p is None:
        return "no pairs"
    if low is None or high is None:
        return FEW
    excludes, rejects = low > 0 or high < 0, p < 0.05
    if excludes != rejects:
        return "inconclusive"
    if not excludes:
        return "no difference shown"
    return "better" if (low > 0) == measure.higher_is_better else "worse"


def adjusted(contrasts: list[Contrast]) -> list[Contrast]:
    """Max-T and Holm over the primary contrasts that have a p, Benjamini-Hochberg over the rest."""
    stepped, q_values = holm_and_rest([c.p for c in contrasts], [c.primary for c in contrasts])
    found = [
        replace(one, p_holm=p_holm, q=q)
        for one, p_holm, q in zip(contrasts, stepped, q_values, strict=True)
    ]
    family = [n for n, one in enumerate(found) if one.p_holm is not None]
    for n, p_max_t in zip(family, max_t([found[n].sums for n in family]), strict=True):
        found[n] = replace(found[n], p_max_t=p_max_t)
    return found


def cautions(named: Sequence[tuple[str, Contrast]]) -> list[str]:
    """Sentences a reader needs before believing the primary contrasts.

    ``named``: each contrast with the arm it is of, which is named where there are several.
    """
    arms = dict.fromkeys(name for name, _ in named)
    found = []
    for arm in arms:
        primary = [one for name, one in named if name == arm and one.primary]
        checks = (fragile, not_adjusted, unbalanced)
        said = [text for one in primary for check in checks if (text := check(one))]
        before = f"{arm}, " if len(arms) > 1 else ""
        found += [before + text for text in (*undefined(primary), *said)]
    return [*found, *out_of_reach([one for _, one in named if one.primary])]


def place(one: Contrast) -> str:
    """How warnings name a contrast."""
    return f"{one.label} ({one.condition})"


def undefined(primary: list[Contrast]) -> list[str]:
    """Why primary contrasts have no number, no test or no interval; one sentence a reason."""
    found: dict[str, list[str]] = {}
    for one in primary:
        if one.reason and one.planned:
            found.setdefault(one.reason, []).append(place(one))
    return [f"{', '.join(places)}: {reason}" for reason, places in found.items()]


def fragile(one: Contrast) -> str:
    """A sentence where incomplete answers could turn a primary verdict round; else empty."""
    if not one.primary or one.verdict not in ("better", "worse") or one.difference is None:
        return ""
    ends = (one.if_incomplete_wrong, one.bound_low, one.bound_high)
    if all(end is None or end * one.difference > 0 for end in ends):
        return ""
    return (
        f"{place(one)}: {one.verdict} over the requests both completed "
        f"({one.cells} of {one.planned} cells), but the incomplete ones could turn that round"
    )


def not_adjusted(one: Contrast) -> str:
    """A sentence where a verdict rests on the unadjusted p alone; else empty."""
    if one.verdict not in ("better", "worse") or one.p_max_t is None or one.p_max_t < 0.05:
        return ""
    return (
        f"{place(one)}: {one.verdict} by its own test (p {one.p:.3f}), not after adjustment for "
        f"the contrasts declared beside it (max-T p {one.p_max_t:.3f})"
    )


def unbalanced(one: Contrast) -> str:
    """A sentence where mean and std over runs leave many items out; else empty."""
    kept = one.runs.items if one.runs else 0
    if one.items == 0 or one.items - kept <= UNBALANCED * one.items:
        return ""
    return (
        f"{place(one)}: {kept} of {one.items} items have every run for both; mean "
        "\N{PLUS-MINUS SIGN} std over runs is over those, the difference over all"
    )


def out_of_reach(primary: list[Contrast]) -> list[str]:
    """A sentence where the source tasks are too few for Holm to reject anything."""
    tested = [one for one in primary if one.p is not None]
    most = max((one.clusters for one in tested), default=0)
    least = 2.0 ** (1 - most)
    if len(tested) < 2 or least * len(tested) <= 0.05:
        return []
    return [
        f"{most} source tasks: no p below {least:.3f} can occur, so Holm over {len(tested)} "
        "contrasts can never reject"
    ]

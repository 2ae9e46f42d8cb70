"""Base against trained on matched pairs -> ``compare.json``.

Every number is taken over the paired support: the cells (request, run) where both systems have a
value. Runs of one request are averaged first; the source task is the independent unit.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from configs.errors import UserError
from eval.intervals import (
    MIN_CLUSTERS,
    Interval,
    SignFlip,
    cluster_interval,
    holm,
    mcnemar_mid_p,
    numbered,
    run_std,
    sign_flip,
)
from eval.measures import Measure
from eval.metrics import (
    ALL,
    Group,
    Rows,
    applies,
    groups,
    pair_key,
    primary,
    support_hash,
    value,
)
from eval.plan import Plan
from eval.records import Key, Scored, read_identity, read_json, read_scores, write_json
from eval.scoring import score_path

GAP = "PRIVATE \N{MINUS SIGN} PUBLIC"


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
    """Trained minus base in one place of the table. None: not defined on this support.

    ``low``, ``high``: 95 % cluster interval, None below 8 source tasks. ``p``: cluster sign flips.
    ``bound_low``, ``bound_high``: the difference if every cell without a value had turned out
    worst and best. ``if_incomplete_wrong``: the difference when such a cell counts as wrong.
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
    p_holm: float | None
    verdict: str
    task_weighted_difference: float | None
    base_run_std: float | None
    trained_run_std: float | None
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


@dataclass(frozen=True, slots=True)
class Pair:
    """One planned cell seen by both systems; None where a system has no value."""

    key: Key
    source: str
    base: float | None
    trained: float | None


Item = list[tuple[Key, Scored, Scored]]  # the cells of one request: key, base's row, trained's


def compare(plan: Plan, base: str, trained: str) -> dict[str, Any]:
    """Compare two scored systems and write ``compare.json``; returns what was written."""
    if base == trained:
        raise UserError(f"--base and --trained are both {base!r}; name two systems")
    base_rows, trained_rows = load_rows(plan, base), load_rows(plan, trained)
    variants = sorted({row.variant for row in base_rows.values()}, reverse=True)  # PUBLIC first
    declared = primary(plan.kinds)
    contrasts = []
    items = paired_items(base_rows, trained_rows)
    for group in groups(plan.kinds, variants):
        found = pairs(items, group)
        contrasts.append(contrast(group, found, _name(group) in declared))
        wide = (group.measure.name, group.condition, ALL)
        if group.variant == "PRIVATE" and "PUBLIC" in variants and wide in declared:
            gap = Group(group.measure, group.condition, GAP)
            contrasts.append(contrast(gap, gap_pairs(items, gap), False))
    contrasts = adjusted(contrasts)
    result = {
        "plan_hash": plan.hash,
        "answers": plan.answer_form,
        "base": asdict(read_identity(identity_path(plan, base))),
        "trained": asdict(read_identity(identity_path(plan, trained))),
        "warnings": [
            *warnings(plan, base, trained, base_rows, trained_rows),
            *(text for one in contrasts if (text := fragile(one))),
        ],
        "contrasts": [asdict(one) for one in contrasts],
    }
    write_json(plan.folder / "compare.json", result)
    return result


def load_rows(plan: Plan, system: str) -> dict[Key, Scored]:
    """The scores of a system by (request, run), in plan order."""
    return {(row.id, row.run): row for row in read_scores(score_path(plan, system))}


def identity_path(plan: Plan, system: str) -> Path:
    return plan.folder / "responses" / f"{system}.json"


def _name(group: Group) -> tuple[str, str, str]:
    return (group.measure.name, group.condition, group.variant)


def paired_items(base: Rows, trained: Rows) -> list[Item]:
    """The cells of both systems by request, in plan order."""
    by_item: dict[str, Item] = defaultdict(list)
    for key, row in base.items():
        by_item[row.id].append((key, row, trained[key]))
    return list(by_item.values())


def pairs(items: Iterable[Item], group: Group) -> list[Pair]:
    """Every planned cell of the group, in plan order."""
    measure = group.measure
    return [
        Pair(key, b.source, value(b, measure), value(t, measure))
        for item in items
        if group.holds(item[0][1]) and applies((r for _, b, t in item for r in (b, t)), measure)
        for key, b, t in item
    ]


def gap_pairs(items: Iterable[Item], group: Group) -> list[Pair]:
    """PRIVATE minus PUBLIC of each matched story, holder and run, for both systems."""
    wide = Group(group.measure, group.condition, ALL)
    public: dict[object, Pair] = {}
    private: dict[object, Pair] = {}
    for item in items:
        halves = private if item[0][1].variant == "PRIVATE" else public
        for pair, (_, row, _) in zip(pairs([item], wide), item, strict=False):
            halves[pair_key(row)] = pair
    return [
        Pair(
            found.key,
            found.source,
            _minus(found.base, public[shared].base),
            _minus(found.trained, public[shared].trained),
        )
        for shared, found in private.items()
        if shared in public
    ]


def _minus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def contrast(group: Group, planned: list[Pair], is_primary: bool) -> Contrast:
    """The paired estimate of one group over its common support."""
    measure = group.measure
    common = [pair for pair in planned if pair.base is not None and pair.trained is not None]
    estimate, test, base, trained = _estimate(common)
    bounded = measure.unit != "count" and group.variant != GAP
    low_bound, high_bound = _bounds(planned) if bounded else (None, None)
    enough = estimate is not None and estimate.clusters >= MIN_CLUSTERS
    low, high = (estimate.low, estimate.high) if estimate and enough else (None, None)
    return Contrast(
        measure=measure.name,
        label=measure.label,
        condition=group.condition,
        variant=group.variant,
        unit=measure.unit,
        higher_is_better=measure.higher_is_better,
        primary=is_primary,
        base=base,
        trained=trained,
        difference=estimate.mean if estimate else None,
        se=estimate.se if estimate else None,
        low=low,
        high=high,
        p=test.p if test else None,
        p_exact=bool(test and test.exact),
        p_holm=None,
        verdict=verdict(low, high, test.p if test else None, measure),
        task_weighted_difference=estimate.mean_of_cluster_means if estimate else None,
        base_run_std=_std([(p.key, p.base) for p in common]),
        trained_run_std=_std([(p.key, p.trained) for p in common]),
        items=estimate.items if estimate else 0,
        clusters=estimate.clusters if estimate else 0,
        cells=len(common),
        planned=len(planned),
        base_cells=sum(pair.base is not None for pair in planned),
        trained_cells=sum(pair.trained is not None for pair in planned),
        support=support_hash(pair.key for pair in common),
        bound_low=low_bound,
        bound_high=high_bound,
        if_incomplete_wrong=_incomplete_wrong(planned, measure) if bounded else None,
        counts=run_counts(common) if bounded else (),
    )


def _estimate(
    common: list[Pair],
) -> tuple[Interval | None, SignFlip | None, float | None, float | None]:
    """Interval and test of the item differences, and both means over items."""
    if not common:
        return None, None, None, None
    items: dict[str, list[Pair]] = defaultdict(list)
    for pair in common:
        items[pair.key[0]].append(pair)
    sources = numbered([found[0].source for found in items.values()])
    base = np.asarray([_mean(p.base for p in found) for found in items.values()])
    trained = np.asarray([_mean(p.trained for p in found) for found in items.values()])
    difference = trained - base
    test = sign_flip(np.bincount(sources, weights=difference).astype(np.float64))
    return cluster_interval(difference, sources), test, float(base.mean()), float(trained.mean())


def _mean(values: Iterable[float | None]) -> float:
    """The common support holds values only."""
    found = [one for one in values if one is not None]
    return sum(found) / len(found)


def _std(values: list[tuple[Key, float | None]]) -> float | None:
    """Run-to-run std over the items that have a value in every run of the support."""
    runs = sorted({key[1] for key, _ in values})
    by_item: dict[str, dict[int, float]] = defaultdict(dict)
    for (name, run), found in values:
        assert found is not None, "the common support holds values only"
        by_item[name][run] = found
    balanced = [[one[run] for run in runs] for one in by_item.values() if len(one) == len(runs)]
    return run_std(np.asarray(balanced).mean(axis=0).tolist()) if balanced else None


def _bounds(planned: list[Pair]) -> tuple[float | None, float | None]:
    """The difference over all planned cells with every missing value at its worst, at its best."""
    if not planned:
        return None, None
    low = high = 0.0
    for pair in planned:
        low += _or(pair.trained, 0.0) - _or(pair.base, 1.0)
        high += _or(pair.trained, 1.0) - _or(pair.base, 0.0)
    return low / len(planned), high / len(planned)


def _incomplete_wrong(planned: list[Pair], measure: Measure) -> float | None:
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


def verdict(low: float | None, high: float | None, p: float | None, measure: Measure) -> str:
    """One word for the table. The interval and the test must agree, or it is inconclusive."""
    if p is None:
        return "no pairs"
    if low is None or high is None:
        return "too few tasks"
    excludes, rejects = low > 0 or high < 0, p < 0.05
    if excludes != rejects:
        return "inconclusive"
    if not excludes:
        return "no difference shown"
    return "better" if (low > 0) == measure.higher_is_better else "worse"


def fragile(one: Contrast) -> str:
    """A sentence where incomplete answers could turn a primary verdict round; else empty."""
    if not one.primary or one.verdict not in ("better", "worse") or one.difference is None:
        return ""
    ends = (one.if_incomplete_wrong, one.bound_low, one.bound_high)
    if all(end is None or end * one.difference > 0 for end in ends):
        return ""
    return (
        f"{one.label} ({one.condition}): {one.verdict} over the requests both completed "
        f"({one.cells} of {one.planned} cells), but the incomplete ones could turn that round"
    )


def adjusted(contrasts: list[Contrast]) -> list[Contrast]:
    """Holm over the primary contrasts that have a p; the others are exploratory."""
    family = [one for one in contrasts if one.primary and one.p is not None]
    values = dict(zip(map(id, family), holm([one.p or 0.0 for one in family]), strict=True))
    return [replace(one, p_holm=values.get(id(one))) for one in contrasts]


def warnings(plan: Plan, base: str, trained: str, base_rows: Rows, trained_rows: Rows) -> list[str]:
    """What a reader must know before believing the table."""
    found = []
    first, second = (read_identity(identity_path(plan, name)) for name in (base, trained))
    if first.fingerprint == second.fingerprint:
        found.append(f"{base} and {trained} have the same weights ({first.fingerprint})")
    if first.prompts_hash != second.prompts_hash:
        found.append("the rendered probe prompts differ: the chat templates are not the same")
    drift = _prompt_drift(base_rows, trained_rows)
    if drift:
        found.append(f"rendered prompts differ in length on {drift} of {len(plan.ids)} requests")
    for name in (base, trained):
        tally = read_json(score_path(plan, name).with_suffix(".json"), "run `python -m eval score`")
        same, several = tally["identical_requests"], tally["repeated_requests"]
        if plan.config.sampling.temperature > 0 and several and same >= 0.95 * several:
            found.append(
                f"{name}: {same} of {several} requests got the same text in every run; "
                "its runs are not independent samples"
            )
    return found


def _prompt_drift(base: Rows, trained: Rows) -> int:
    """Requests whose prompts have different token counts for the two systems."""
    drifted = set()
    for key, row in base.items():
        other = trained[key].prompt_tokens
        if None not in (row.prompt_tokens, other) and row.prompt_tokens != other:
            drifted.add(row.id)
    return len(drifted)


def summed(counts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Paired counts added over runs, for reading only: runs are not independent pairs."""
    total = {"n11": 0, "n10": 0, "n01": 0, "n00": 0}
    for one in counts:
        for name in total:
            total[name] += one[name]
    return total

"""The difference of a recipe: several checkpoints of it (training seeds), each against its base.

Runs of one checkpoint say nothing about a second training. So each checkpoint has a contrast of its
own, and this is the mean over them, with checkpoints and source tasks both random
(``eval.crossed``), over the requests that every checkpoint and its base completed.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eval.contrast import bounds, incomplete_wrong, why_nothing
from eval.crossed import ByItem, over_seeds, shared_items, verdict
from eval.measures import REWARD
from eval.metrics import Group, support_hash
from eval.multiplicity import holm_and_rest
from eval.repeats import Pair


@dataclass(frozen=True, slots=True)
class RecipeContrast:
    """Trained minus base over the checkpoints of a recipe, in one place of the tables.

    ``by_checkpoint``: each one's difference, ``base``, ``trained``, ``difference``: the means over
    them, all over the same requests. ``low``, ``high``, ``p``, ``df``: for new source tasks and new
    checkpoints; ``tasks_low``, ``tasks_high``: for new tasks and these very checkpoints. None: not
    defined, see ``reason``. ``p_holm``: over the declared contrasts of recipes, ``q``:
    Benjamini-Hochberg over their other ones. ``cells``, ``planned``, bounds and
    ``if_incomplete_wrong``: over the cells of all checkpoints, as in ``eval.contrast``.
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
    by_checkpoint: tuple[float, ...]
    tasks_low: float | None
    tasks_high: float | None
    low: float | None
    high: float | None
    p: float | None
    df: float | None
    p_holm: float | None
    q: float | None
    verdict: str
    reason: str
    items: int
    clusters: int
    cells: int
    planned: int
    support: str
    bound_low: float | None
    bound_high: float | None
    if_incomplete_wrong: float | None

    def row(self) -> dict[str, Any]:
        """As ``compare.json`` holds it."""
        return asdict(self)


def recipe_contrast(
    group: Group, planned: Sequence[Sequence[Pair]], is_primary: bool, plain: bool = True
) -> RecipeContrast:
    """``planned``: for each checkpoint its cells beside those of its base.

    ``plain``: as in ``eval.contrast.contrast``.
    """
    measure = group.measure
    every = [pair for pairs in planned for pair in pairs]
    differences, bases = [], []
    for pairs in planned:
        one, other = _by_item(pairs)
        differences.append(one)
        bases.append(other)
    found = over_seeds(differences)
    shared = shared_items(differences)
    base = over_seeds([{name: one[name] for name in shared} for one in bases])
    bounded = measure.unit != "count" and plain
    low_bound, high_bound = bounds(every) if bounded else (None, None)
    return RecipeContrast(
        measure=measure.name,
        label=measure.label,
        condition=group.condition,
        variant=group.variant,
        unit=measure.unit,
        higher_is_better=measure.higher_is_better,
        primary=is_primary,
        base=base.mean if base else None,
        trained=base.mean + found.mean if base and found else None,
        difference=found.mean if found else None,
        by_checkpoint=found.by_seed if found else (),
        tasks_low=found.tasks_low if found else None,
        tasks_high=found.tasks_high if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        p=found.p if found else None,
        df=found.df if found else None,
        p_holm=None,
        q=None,
        verdict=verdict(found, measure) if plain else CHANGES[verdict(found, REWARD)],
        reason=found.reason if found else _why_nothing(planned),
        items=found.items if found else 0,
        clusters=found.clusters if found else 0,
        cells=sum(pair.base is not None and pair.trained is not None for pair in every),
        planned=len(every),
        support=support_hash((name, 0) for name in shared),
        bound_low=low_bound,
        bound_high=high_bound,
        if_incomplete_wrong=incomplete_wrong(every, measure) if bounded else None,
    )


CHANGES = {
    name: {"better": "higher", "worse": "lower"}.get(name, name)
    for name in (
        "better", "worse", "these checkpoints only", "one checkpoint: unknown", "not shown",
        "too few tasks", "no pairs",
    )
}  # fmt: skip
"""A difference of differences is higher or lower, not better or worse."""


def _by_item(pairs: Sequence[Pair]) -> tuple[ByItem, ByItem]:
    """The differences of the cells with both values, and the base's values there, by request."""
    difference: dict[str, list[tuple[float, str]]] = defaultdict(list)
    base: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for pair in pairs:
        if pair.base is not None and pair.trained is not None:
            difference[pair.key[0]].append((pair.trained - pair.base, pair.source))
            base[pair.key[0]].append((pair.base, pair.source))
    return difference, base


def _why_nothing(planned: Sequence[Sequence[Pair]]) -> str:
    for number, pairs in enumerate(planned, 1):
        if not any(one.base is not None and one.trained is not None for one in pairs):
            return f"checkpoint {number}: {why_nothing(pairs)}"
    return "no request that every checkpoint and its base completed"


def adjusted(contrasts: Sequence[RecipeContrast]) -> list[RecipeContrast]:
    """Holm over the primary ones that have a p, Benjamini-Hochberg over the rest."""
    stepped, q_values = holm_and_rest([c.p for c in contrasts], [c.primary for c in contrasts])
    return [
        replace(one, p_holm=p_holm, q=q)
        for one, p_holm, q in zip(contrasts, stepped, q_values, strict=True)
    ]

"""Arms on matched pairs -> ``compare.json``: base against trained, many systems, two settings.

The declared (primary) contrasts are adjusted together by max-T and Holm; all others are
exploratory. ``eval.contrast`` has the estimates, ``eval.pairing`` says which cells are paired.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from configs.errors import UserError
from eval.checkpoints import RecipeContrast, recipe_contrast
from eval.checkpoints import adjusted as adjusted_recipes
from eval.contrast import Contrast, adjusted, cautions, contrast
from eval.metrics import ALL, Group, Rows, groups, primary
from eval.pairing import (
    Arm,
    Item,
    Match,
    across_conditions,
    gap_pairs,
    identity_path,
    load_rows,
    met,
    paired_items,
    pairs,
    read_side,
    turn_pairs,
    turn_weights,
)
from eval.plan import Plan
from eval.records import COMPLETE, read_identity, read_sealed, write_sealed
from eval.repeats import Pair
from eval.scoring import read_tally

GAP = "PRIVATE \N{MINUS SIGN} PUBLIC"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms with the cells they share. ``kinds``: what each condition of the table asks for."""

    base: Arm
    trained: Arm
    kinds: Mapping[str, str]
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the tables with its cells. ``plain``: values of single answers, not differences
    of them."""

    group: Group
    planned: list[Pair]
    primary: bool
    plain: bool = True


def compare(
    plan: Plan, base: str, trained: str | Sequence[str], margin: float | None = None
) -> dict[str, Any]:
    """Compare each of ``trained`` with ``base`` and write ``compare.json``; returns that.

    An arm is ``SYSTEM`` or ``SYSTEM/CONDITION``; several checkpoints of one recipe are
    ``NAME=SYSTEM,SYSTEM,...``. ``margin``: of a claim of no difference, fixed beforehand, in the
    unit of the measure (0.02 is 2 points).
    """
    checked_margin(margin)
    matches = matches_of(plan, base, trained)
    chosen = arms_of(matches)
    systems = list(dict.fromkeys(one.system for one in chosen))
    rows = {name: load_rows(plan, name) for name in systems}
    found: list[tuple[Comparison, Contrast]] = []
    recipes: list[tuple[Match, RecipeContrast]] = []
    for match in matches:
        comparisons = [matched_arms(plan, *pair, rows) for pair in match.pairs]
        for comparison in comparisons:
            found += [(comparison, one) for one in contrasts(comparison, margin)]
        if match.is_recipe:
            recipes += [(match, one) for one in recipe_contrasts(comparisons)]
    adjusted_ones = adjusted([one for _, one in found])
    result = {
        "plan_hash": plan.hash,
        "answers": plan.answer_form,
        "base": asdict(read_identity(identity_path(plan, chosen[0].system))),
        "trained": asdict(read_identity(identity_path(plan, chosen[1].system))),
        "arms": [one.name for one in chosen],
        "margin": margin,
        "coverage": coverage(rows),
        "warnings": [
            *warnings(plan, systems, rows),
            *few_checkpoints(matches),
            *cautions(
                [(pair.trained.name, c) for (pair, _), c in zip(found, adjusted_ones, strict=True)]
            ),
        ],
        "recipes": recipe_rows(recipes),
        "contrasts": [
            {"arms": [pair.base.name, pair.trained.name], **one.row()}
            for (pair, _), one in zip(found, adjusted_ones, strict=True)
        ],
    }
    write_sealed(plan.folder / "compare.json", result)
    return result


def recipe_contrasts(comparisons: Sequence[Comparison]) -> list[RecipeContrast]:
    """The mean over checkpoints in every place of the tables, none adjusted yet."""
    found = []
    for of_each in zip(*map(places, comparisons), strict=True):
        place = of_each[0]
        planned = [one.planned for one in of_each]
        found.append(recipe_contrast(place.group, planned, place.primary, place.plain))
    return found


def recipe_rows(found: Sequence[tuple[Match, RecipeContrast]]) -> list[dict[str, Any]]:
    """As ``compare.json`` holds them, adjusted together; ``members``: who met whom."""
    ready = adjusted_recipes([one for _, one in found])
    return [
        {
            "arms": [match.base.name, match.trained.name],
            "members": [[base.name, trained.name] for base, trained in match.pairs],
            **one.row(),
        }
        for (match, _), one in zip(found, ready, strict=True)
    ]


def arms_of(matches: Iterable[Match]) -> list[Arm]:
    """All arms, each once; the first two meet."""
    return list(dict.fromkeys(arm for match in matches for pair in match.pairs for arm in pair))


FEW_CHECKPOINTS = 3


def few_checkpoints(matches: Iterable[Match]) -> list[str]:
    """A sentence for each recipe of too few checkpoints to say much of another training."""
    counts = {match.trained.name: len(match.pairs) for match in matches if match.is_recipe}
    return [
        f"{name}: {count} {'checkpoint' if count == 1 else 'checkpoints'}; whether another "
        f"training would show the same can hardly be said, {FEW_CHECKPOINTS} are the least"
        for name, count in counts.items()
        if count < FEW_CHECKPOINTS
    ]


def read_compared(plan: Plan, names: Sequence[str]) -> dict[str, Any]:
    """What was compared. ``names``: the systems there are.

    Raises ``UserError`` when ``compare.json`` is damaged, of another plan or of other systems.
    """
    path = plan.folder / "compare.json"
    found = read_sealed(path, "run `python -m eval compare`")
    if found["plan_hash"] != plan.hash:
        raise UserError(f"{path}: of another plan; compare again")
    if "recipes" not in found:
        raise UserError(f"{path}: of an earlier version; compare again")
    for arm in found["arms"]:
        if (system := arm.partition("/")[0]) not in names:
            raise UserError(f"{path}: no responses of {system!r}; compare again")
    return found


def matches_of(plan: Plan, base: str, trained: str | Sequence[str]) -> list[Match]:
    """The base with each of the others. Raises ``UserError`` when one is named twice, or is not of
    the plan."""
    names = [trained] if isinstance(trained, str) else list(trained)
    for name, count in Counter([base, *names]).items():
        if count > 1 and name == base:
            raise UserError(f"--base and --trained are both {base!r}; name two systems")
        if count > 1:
            raise UserError(f"--trained {name!r} is given twice; name it once")
    sides = [read_side(plan, base, "--base"), *(read_side(plan, n, "--trained") for n in names)]
    known = [one.name for one in sides if one.is_recipe]
    known += [arm.name for one in sides for arm in one.arms]
    for name, count in Counter(known).items():
        if count > 1:
            raise UserError(f"--base, --trained: {name!r} is named twice; name it once")
    return [met(sides[0], other) for other in sides[1:]]


def checked_margin(margin: float | None) -> None:
    """Raises ``UserError`` for a margin that is no distance."""
    if margin is not None and not 0 < margin < 1:
        raise UserError(
            f"--margin {margin}: give a distance between 0 and 1, such as 0.02 for 2 points"
        )


def matched_arms(plan: Plan, base: Arm, trained: Arm, rows: Mapping[str, Rows]) -> Comparison:
    """The cells that two arms share. Raises ``UserError`` when there are none to share."""
    first, second = rows[base.system], rows[trained.system]
    if not base.condition and not trained.condition:
        return Comparison(base, trained, plan.kinds, paired_items(first, second))
    if not (base.condition and trained.condition):
        raise UserError(
            f"{base.name} and {trained.name}: give both a condition, or neither of them"
        )
    kinds = plan.kinds[base.condition], plan.kinds[trained.condition]
    if kinds[0] != kinds[1]:
        raise UserError(
            f"{base.condition} asks for a {kinds[0]}, {trained.condition} for a {kinds[1]}; "
            "compare conditions that ask for the same"
        )
    name = base.condition
    if base.condition != trained.condition:
        name = f"{trained.condition} \N{MINUS SIGN} {base.condition}"
    items = paired_items(
        across_conditions(first, base.condition, name),
        across_conditions(second, trained.condition, name),
    )
    if not items:
        raise UserError(
            f"{base.name} and {trained.name}: no story is asked under both conditions; "
            "plan both on the same stories"
        )
    return Comparison(base, trained, {name: kinds[0]}, items)


def contrasts(found: Comparison, margin: float | None) -> list[Contrast]:
    """Every place of the tables, none adjusted yet."""
    names = (found.base.name, found.trained.name)
    return [
        contrast(
            one.group, one.planned, one.primary, margin if one.plain else None, one.plain, names
        )
        for one in places(found)
    ]


def places(found: Comparison) -> Iterator[Place]:
    """Every place of the tables; after each, PRIVATE - PUBLIC and the turn contrasts of it."""
    items = found.items
    variants = sorted({one[0][1].variant for one in items}, reverse=True)  # PUBLIC first
    turns = turn_weights(one[0][1].turns for one in items)
    declared = primary(found.kinds)
    for group in groups(found.kinds, variants):
        name = (group.measure.name, group.condition, group.variant)
        yield Place(group, pairs(items, group), name in declared)
        wide = (group.measure.name, group.condition, ALL)
        if wide not in declared:
            continue
        if group.variant == "PRIVATE" and "PUBLIC" in variants:
            gap = Group(group.measure, group.condition, GAP)
            yield Place(gap, gap_pairs(items, gap), False, plain=False)
        if group.variant == variants[-1]:
            yield from _turn_places(items, group, turns)


def _turn_places(
    items: Sequence[Item], group: Group, turns: Mapping[str, Mapping[str | int, float]]
) -> Iterator[Place]:
    """Those for which some story has every length that they need."""
    for name, weights in turns.items():
        planned = turn_pairs(items, group, weights)
        if planned:
            place = Group(group.measure, group.condition, name)
            yield Place(place, planned, False, plain=False)


def coverage(rows: Mapping[str, Rows]) -> list[dict[str, Any]]:
    """Planned cells by state, for each system, condition and variant, in plan order."""
    found = []
    for system, held in rows.items():
        tally: dict[tuple[str, str], Counter[str]] = {}
        for row in held.values():
            tally.setdefault((row.condition, row.variant), Counter())[row.state] += 1
        for (condition, variant), states in tally.items():
            found.append(
                {
                    "system": system,
                    "condition": condition,
                    "variant": variant,
                    "planned": states.total(),
                    "states": dict(sorted(states.items())),
                }
            )
    return found


def warnings(plan: Plan, systems: Sequence[str], rows: Mapping[str, Rows]) -> list[str]:
    """What a reader must know of the systems before believing the table; the first is the base."""
    found = []
    first = read_identity(identity_path(plan, systems[0]))
    weights = {first.fingerprint: systems[0]}
    for name in systems[1:]:
        other = read_identity(identity_path(plan, name))
        same = weights.setdefault(other.fingerprint, name)
        if same != name:
            found.append(f"{same} and {name} have the same weights ({other.fingerprint})")
        if first.prompts_hash != other.prompts_hash:
            found.append("the rendered probe prompts differ: the chat templates are not the same")
        drift = _prompt_drift(rows[systems[0]], rows[name])
        if drift:
            found.append(
                f"rendered prompts differ in length on {drift} of {len(plan.ids)} requests"
            )
    for name in systems:
        found += [text for text in (_nothing_complete(name, rows[name].values()),) if text]
        found += _same_text(plan, name)
    return found


def _nothing_complete(system: str, rows: Iterable[Any]) -> str:
    states = Counter(row.state for row in rows)
    if states[COMPLETE]:
        return ""
    listed = ", ".join(f"{state} {count}" for state, count in sorted(states.items()))
    return f"{system} completed no request ({listed}): no measure of its answers has a value"


def _same_text(plan: Plan, system: str) -> list[str]:
    tally = read_tally(plan, system)
    same, several = tally["identical_requests"], tally["repeated_requests"]
    if plan.config.sampling.temperature > 0 and several and same >= 0.95 * several:
        return [
            f"{system}: {same} of {several} requests got the same text in every run; "
            "its runs are not independent samples"
        ]
    return []


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

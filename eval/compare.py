"""Arms on matched pairs -> ``compare.json``: base against trained, many systems, two settings.

The declared (primary) contrasts are adjusted together by max-T and Holm; all others are
exploratory. ``eval.contrast`` has the estimates, ``eval.pairing`` says which cells are paired.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from configs.errors import UserError
from eval.contrast import Contrast, adjusted, cautions, contrast
from eval.metrics import ALL, Group, Rows, groups, primary
from eval.pairing import (
    Arm,
    Item,
    across_conditions,
    gap_pairs,
    identity_path,
    load_rows,
    paired_items,
    pairs,
    read_arm,
    turn_pairs,
    turn_weights,
)
from eval.plan import Plan
from eval.records import COMPLETE, read_identity, read_sealed, write_sealed
from eval.scoring import read_tally

GAP = "PRIVATE \N{MINUS SIGN} PUBLIC"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms with the cells they share. ``kinds``: what each condition of the table asks for."""

    base: Arm
    trained: Arm
    kinds: Mapping[str, str]
    items: Sequence[Item]


def compare(
    plan: Plan, base: str, trained: str | Sequence[str], margin: float | None = None
) -> dict[str, Any]:
    """Compare each of ``trained`` with ``base`` and write ``compare.json``; returns that.

    An arm is ``SYSTEM`` or ``SYSTEM/CONDITION``. ``margin``: of a claim of no difference, fixed
    beforehand, in the unit of the measure (0.02 is 2 points).
    """
    checked_margin(margin)
    first, *others = chosen = read_arms(plan, base, trained)
    systems = list(dict.fromkeys(one.system for one in chosen))
    rows = {name: load_rows(plan, name) for name in systems}
    found: list[tuple[Comparison, Contrast]] = []
    for other in others:
        comparison = matched_arms(plan, first, other, rows)
        found += [(comparison, one) for one in contrasts(comparison, margin)]
    adjusted_ones = adjusted([one for _, one in found])
    result = {
        "plan_hash": plan.hash,
        "answers": plan.answer_form,
        "base": asdict(read_identity(identity_path(plan, first.system))),
        "trained": asdict(read_identity(identity_path(plan, others[0].system))),
        "arms": [one.name for one in chosen],
        "margin": margin,
        "coverage": coverage(rows),
        "warnings": [
            *warnings(plan, systems, rows),
            *cautions(
                [(pair.trained.name, c) for (pair, _), c in zip(found, adjusted_ones, strict=True)]
            ),
        ],
        "contrasts": [
            {"arms": [pair.base.name, pair.trained.name], **one.row()}
            for (pair, _), one in zip(found, adjusted_ones, strict=True)
        ],
    }
    write_sealed(plan.folder / "compare.json", result)
    return result


def read_compared(plan: Plan, names: Sequence[str]) -> dict[str, Any]:
    """What was compared. ``names``: the systems there are.

    Raises ``UserError`` when ``compare.json`` is damaged, of another plan or of other systems.
    """
    path = plan.folder / "compare.json"
    found = read_sealed(path, "run `python -m eval compare`")
    if found["plan_hash"] != plan.hash:
        raise UserError(f"{path}: of another plan; compare again")
    for arm in found["arms"]:
        if (system := arm.partition("/")[0]) not in names:
            raise UserError(f"{path}: no responses of {system!r}; compare again")
    return found


def read_arms(plan: Plan, base: str, trained: str | Sequence[str]) -> list[Arm]:
    """All arms, base first. Raises ``UserError`` when one is named twice or is not of the plan."""
    names = [trained] if isinstance(trained, str) else list(trained)
    for name, count in Counter([base, *names]).items():
        if count > 1 and name == base:
            raise UserError(f"--base and --trained are both {base!r}; name two systems")
        if count > 1:
            raise UserError(f"--trained {name!r} is given twice; name it once")
    return [read_arm(plan, base, "--base"), *(read_arm(plan, one, "--trained") for one in names)]


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
    """Every place of the tables; after each, PRIVATE - PUBLIC and the turn contrasts of it."""
    items = found.items
    variants = sorted({one[0][1].variant for one in items}, reverse=True)  # PUBLIC first
    turns = turn_weights(one[0][1].turns for one in items)
    declared = primary(found.kinds)
    names = (found.base.name, found.trained.name)
    made = []
    for group in groups(found.kinds, variants):
        name = (group.measure.name, group.condition, group.variant)
        planned = pairs(items, group)
        made.append(contrast(group, planned, name in declared, margin, names=names))
        wide = (group.measure.name, group.condition, ALL)
        if wide not in declared:
            continue
        if group.variant == "PRIVATE" and "PUBLIC" in variants:
            gap = Group(group.measure, group.condition, GAP)
            made.append(contrast(gap, gap_pairs(items, gap), False, plain=False, names=names))
        if group.variant == variants[-1]:
            made += _turn_contrasts(items, group, turns, names)
    return made


def _turn_contrasts(
    items: Sequence[Item],
    group: Group,
    turns: Mapping[str, Mapping[str | int, float]],
    names: tuple[str, str],
) -> list[Contrast]:
    """Those for which some story has every length that they need."""
    made = []
    for name, weights in turns.items():
        planned = turn_pairs(items, group, weights)
        if planned:
            place = Group(group.measure, group.condition, name)
            made.append(contrast(place, planned, False, plain=False, names=names))
    return made


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
    for name in systems[1:]:
        other = read_identity(identity_path(plan, name))
        if first.fingerprint == other.fingerprint:
            found.append(f"{systems[0]} and {name} have the same weights ({first.fingerprint})")
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

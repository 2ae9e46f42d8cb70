"""Rubric parts of a BASIS answer: criteria met / criteria by dimension, and a gate on its form.

Pure: the judge has spoken before. A dimension without a judgement makes the whole value None,
because a mean over the rest would reward an answer for the failure of its judge.
"""

from collections.abc import Collection, Mapping

from configs.rewards import RubricReward
from rewards.judgements import Judgement
from rewards.score import Score
from tasks.basis.instances import Dimension
from tasks.extraction import Incomplete

PART_OF: Mapping[Dimension, str] = {
    "belief": "belief",
    "profile": "user_profile",
    "solution": "solution",
}


def rubric_score(
    dimensions: Collection[Dimension],
    judged: Mapping[Dimension, Judgement] | Incomplete,
    num_words: int,
    config: RubricReward,
) -> Score:
    """Score an answer that was asked for ``dimensions``.

    ``judged``: a judgement for each dimension; or ``Incomplete``: the answer has not the form
    asked for, and earns 0 without a judge. ``num_words``: length of the whole answer. Parts in
    [0, 1]: belief, user_profile, solution, format (1: the form is right), concise (0: too long).
    """
    concise = float(num_words <= config.max_words)
    if isinstance(judged, Incomplete):
        nothing = {PART_OF[name]: 0.0 for name in dimensions}
        unmet = {**nothing, "format": 0.0, "concise": concise}
        return Score(0.0, unmet, judged.reason, counted=nothing)
    fractions = {PART_OF[name]: judged[name].fraction for name in dimensions}
    parts = {**fractions, "format": 1.0, "concise": concise}
    gated = _gated(fractions, config)
    value, note = _value(gated, config), _note(judged, dimensions)
    off = 0.0 if concise else config.over_length
    if value is not None:
        value = max(0.0, value - off)
    failures = {PART_OF[n]: judged[n].reason for n in dimensions if judged[n].scores is None}
    counted = {name: None if one is None else max(0.0, one - off) for name, one in gated.items()}
    return Score(value, parts, note, failures, counted)


def _value(gated: Mapping[str, float | None], config: RubricReward) -> float | None:
    """Weighted mean; None when a part that counts was not judged, or none counts."""
    total = weight_sum = 0.0
    for part, fraction in gated.items():
        weight = config.weight(part)
        if not weight:
            continue
        if fraction is None:
            return None
        total += weight * fraction
        weight_sum += weight
    return total / weight_sum if weight_sum else None


def _gated(
    fractions: Mapping[str, float | None], config: RubricReward
) -> Mapping[str, float | None]:
    """The fractions after the gates. A gate on what was not judged leaves its part unknown."""
    gated = dict(fractions)
    for gate in config.gates:
        if gate.part not in fractions or gate.needs not in fractions:
            continue
        needed = fractions[gate.needs]
        if needed is None:
            gated[gate.part] = None
        elif needed < gate.at_least:
            gated[gate.part] = 0.0
    return gated


def _note(judged: Mapping[Dimension, Judgement], dimensions: Collection[Dimension]) -> str:
    """Why the judge said nothing, or where the candidate said nothing."""
    failed = [f"judge {name}: {judged[name].reason}" for name in dimensions if judged[name].reason]
    empty = [
        f"empty {PART_OF[name]}" for name in dimensions if judged[name].state == "empty_candidate"
    ]
    return "; ".join(failed + empty)

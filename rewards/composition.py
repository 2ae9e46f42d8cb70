"""Parts -> one number: the weighted mean over the parts that apply, after the gates.

This is the one place where a reward gets its meaning; training and evaluation both call it.
"""

import math
from collections.abc import Mapping

from configs.rewards import RewardConfig
from rewards.belief import belief_parts
from rewards.optimality import optimality
from rewards.score import Score
from tasks.calbench.answers import Belief, Plan
from tasks.calbench.reference import Reference
from tasks.extraction import Incomplete

Answer = Belief | Plan | Incomplete


def score(reference: Reference, answer: Answer, config: RewardConfig) -> Score:
    """Score an answer to a calendar request. An incomplete answer earns the lowest value, 0."""
    note = answer.reason if isinstance(answer, Incomplete) else answer.fault
    parts: Mapping[str, float | None]
    if reference.kind == "belief":
        parts = belief_parts(reference, answer if isinstance(answer, Belief) else None)
    else:
        plan = answer if isinstance(answer, Plan) else None
        parts = {"optimality": optimality(reference.subjective, plan)}
    return compose(parts, config, note)


def compose(parts: Mapping[str, float | None], config: RewardConfig, note: str = "") -> Score:
    """Weighted mean of the parts; a part that is None or not finite is None and has no weight.

    The value is None when no part with a weight applies.
    """
    finite = {name: _finite(value) for name, value in parts.items()}
    gated = dict(finite)
    for gate in config.gates:
        needed = finite.get(gate.needs)
        shut = needed is not None and needed < gate.at_least
        if shut and gated.get(gate.part) is not None:
            gated[gate.part] = 0.0
    total = weight_sum = 0.0
    for name, value in gated.items():
        weight = config.weight(name)
        if value is not None and weight:
            total += weight * value
            weight_sum += weight
    value = total / weight_sum if weight_sum else None
    return Score(value, finite, note, counted=gated)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None

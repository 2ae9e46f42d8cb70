"""What a complete answer to a calendar request is measured by: (reference, answer) -> numbers.

Belief answers: ``entries``, ``whole_agent``, ``perspective`` are shares; ``stale_entries`` counts
wrong entries that still show the start calendar where the holder knows of a change,
``leaked_entries`` wrong ones that show the world where the holder does not know of it.
Plan answers, 0 or 1: ``optimal``, ``dearer`` (feasible), ``infeasible`` under the holder's belief;
``world_feasible`` under the world.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rewards.belief import belief_parts
from rewards.optimality import cost_of
from tasks.calbench.answers import Belief, Plan
from tasks.calbench.reference import Reference


@dataclass(frozen=True, slots=True)
class Measure:
    """How a measure is named and read.

    ``unit``: hit is 0 or 1 per answer; part and score lie between; count has no upper end.
    """

    name: str
    label: str
    kind: Literal["belief", "plan", "any"]
    unit: Literal["hit", "part", "score", "count"]
    higher_is_better: bool = True


REWARD = Measure("reward", "composed reward", "any", "score")
ANSWERED = Measure("answered", "complete answers", "any", "hit")
MEASURES: tuple[Measure, ...] = (
    Measure("entries", "entries right", "belief", "part"),
    Measure("whole_agent", "whole agents right", "belief", "hit"),
    Measure("perspective", "telling entries right", "belief", "part"),
    Measure("stale_entries", "stale entries an answer", "belief", "count", False),
    Measure("leaked_entries", "leaked entries an answer", "belief", "count", False),
    Measure("optimal", "plans optimal for holder", "plan", "hit"),
    Measure("dearer", "plans feasible but dearer", "plan", "hit", False),
    Measure("infeasible", "plans infeasible for holder", "plan", "hit", False),
    Measure("world_feasible", "plans feasible in the world", "plan", "hit"),
)
ALL: dict[str, Measure] = {m.name: m for m in (REWARD, ANSWERED, *MEASURES)}
HEADLINE = {"belief": "whole_agent", "plan": "optimal"}


def measure(reference: Reference, answer: Belief | Plan) -> dict[str, float]:
    """The measures of one complete answer; those that do not apply are left out."""
    if isinstance(answer, Belief):
        return _belief(reference, answer)
    return _plan(reference, answer)


def _belief(reference: Reference, answer: Belief) -> dict[str, float]:
    parts: Mapping[str, float | None] = belief_parts(reference, answer)
    found = {name: value for name, value in parts.items() if value is not None}
    return {**found, **_copied(reference, answer)}


def _copied(reference: Reference, answer: Belief) -> dict[str, float]:
    """Wrong entries, told apart by what they copy."""
    stale = leaked = 0
    rows = zip(answer.entries, reference.belief, reference.initial, reference.world, strict=True)
    for stated, true, initial, world in rows:
        if stated == true:
            continue
        for s, t, i, w in zip(stated, true, initial, world, strict=True):
            stale += s != t and s == i
            leaked += s != t and s == w and s != i
    return {"stale_entries": float(stale), "leaked_entries": float(leaked)}


def _plan(reference: Reference, answer: Plan) -> dict[str, float]:
    cost = cost_of(reference.subjective, answer)
    optimal = cost == reference.subjective.optimum
    return {
        "optimal": float(optimal),
        "dearer": float(cost is not None and not optimal),
        "infeasible": float(cost is None),
        "world_feasible": float(cost_of(reference.objective, answer) is not None),
    }

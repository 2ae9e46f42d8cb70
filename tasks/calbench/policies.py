"""Deterministic answers to every request: what copying and constant planning are worth.

They are read and scored like a model's completions and stand in the same tables.
"""

from collections.abc import Callable

from tasks.calbench.prompts import belief_answer, plan_answer
from tasks.calbench.reference import PlanTable, Reference
from tasks.calbench.solver import first_optimal_plan


def right_answer(reference: Reference) -> str:
    """The holder's belief, or the first plan that is optimal under it."""
    if reference.kind == "belief":
        return belief_answer(reference.belief, "".join(reference.agents))
    return _plan(reference, reference.subjective)


def world_copy(reference: Reference) -> str:
    """The world instead of the belief; the world-optimal plan instead of the holder's."""
    if reference.kind == "belief":
        return belief_answer(reference.world, "".join(reference.agents))
    return _plan(reference, reference.objective)


def initial_copy(reference: Reference) -> str:
    """The start calendars instead of the belief; the plan that is optimal on them."""
    if reference.kind == "belief":
        return belief_answer(reference.initial, "".join(reference.agents))
    return _plan(reference, reference.starting)


def empty_answer(reference: Reference) -> str:
    """Nothing."""
    return ""


def constant_answer(reference: Reference) -> str:
    """Every entry free; meeting i in slot i."""
    if reference.kind == "belief":
        rows = (("F",) * reference.num_slots,) * len(reference.agents)
        return belief_answer(rows, "".join(reference.agents))
    return plan_answer(tuple(range(len(reference.meetings))), reference.meetings)


POLICIES: dict[str, Callable[[Reference], str]] = {
    "world copy": world_copy,
    "initial copy": initial_copy,
    "constant": constant_answer,
    "empty": empty_answer,
}


def _plan(reference: Reference, table: PlanTable) -> str:
    return plan_answer(first_optimal_plan(table), reference.meetings)

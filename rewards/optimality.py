"""Optimality of a plan under the holder's beliefs, from tables made when the example was built.

The ladder: 1 for every tied optimum, then feasible plans by their cost gap, then infeasible ones,
and 0 for an incomplete answer, so that leaving hard requests out never pays.
"""

from tasks.calbench.answers import Plan
from tasks.calbench.reference import PlanTable
from tasks.calbench.solver import plan_cost

INFEASIBLE = 0.1
DEAREST_FEASIBLE = 0.2
NEAREST_FEASIBLE = 0.5  # the supremum of feasible plans that are not optimal


def optimality(table: PlanTable, answer: Plan | None) -> float:
    """Value in [0, 1]. ``answer`` None is an incomplete answer.

    A feasible plan of cost c gets 0.2 + 0.3 * (1 - (c - optimum) / (worst - optimum)).
    """
    if answer is None:
        return 0.0
    cost = cost_of(table, answer)
    if cost is None:
        return INFEASIBLE
    if cost == table.optimum:
        return 1.0
    gap = (cost - table.optimum) / (table.worst - table.optimum)
    return DEAREST_FEASIBLE + (NEAREST_FEASIBLE - DEAREST_FEASIBLE) * (1.0 - gap)


def cost_of(table: PlanTable, answer: Plan) -> int | None:
    """Displacement cost; None when the plan is infeasible or names something that is no slot."""
    if answer.fault:
        return None
    slots = [slot for slot in answer.slots if slot is not None]
    if len(slots) != len(answer.slots):
        return None
    return plan_cost(slots, table)

"""Feasibility, displacement cost and the exact optimum of a calendar plan.

A plan gives each meeting one slot. It is feasible when meetings that share a participant have
different slots, no participant's entry in the slot is immovable, and every agent has at least as
many free entries as meetings. The last condition does not depend on the plan: the displaced errands
of an agent need free slots outside its meetings, and counting shows that they exist exactly then.
Cost: every displaced movable errand pays its own cost once, however far it goes.
"""

import itertools
from collections.abc import Iterable, Sequence
from operator import add

import numpy as np

from configs.errors import UserError
from tasks.calbench.calendars import Calendars, Meeting
from tasks.calbench.reference import PlanTable

BLOCKED = 1 << 40  # more than any sum of costs: a meeting in such a slot displaces the immovable
MAX_SEARCH_NODES = 2_000_000


class TooHardError(UserError):
    """The search for an optimum outgrew its bound; no answer is better than a wrong one."""


def plan_table(calendars: Calendars, meetings: Sequence[Meeting]) -> PlanTable | None:
    """Cost table and exact optimum; None when no plan is feasible.

    Raises ``TooHardError`` when meetings that do not all share participants are so many that
    branch and bound passes ``MAX_SEARCH_NODES``.
    """
    if not has_room(calendars, meetings):
        return None
    costs = cost_rows(calendars, meetings)
    conflicts = conflict_pairs(meetings)
    optimum = least_cost(costs, conflicts)
    if optimum is None:
        return None
    if max(map(max, costs)) < BLOCKED:
        return PlanTable(tuple(map(tuple, costs)), conflicts, optimum, sum(map(max, costs)))
    return PlanTable(
        costs=tuple([tuple([c if c < BLOCKED else None for c in row]) for row in costs]),
        conflicts=conflicts,
        optimum=optimum,
        worst=sum([max([c for c in row if c < BLOCKED]) for row in costs]),
    )


def has_room(calendars: Calendars, meetings: Sequence[Meeting]) -> bool:
    """Every agent has a free entry for each meeting it attends."""
    attended = [0] * len(calendars)
    for meeting in meetings:
        for agent in meeting.participants:
            attended[agent] += 1
    busy = [len(list(filter(None, row))) for row in calendars]  # no errand is false
    return all(len(calendars[0]) - b >= k for b, k in zip(busy, attended, strict=True))


def cost_rows(calendars: Calendars, meetings: Sequence[Meeting]) -> list[list[int]]:
    """costs[m][s]: summed over participants; at least ``BLOCKED`` where an entry is immovable."""
    price = [
        [0 if e is None else BLOCKED if e.blocked else e.cost for e in row] for row in calendars
    ]
    rows: dict[tuple[int, ...], list[int]] = {}  # meetings of the same people cost the same
    for meeting in meetings:
        if meeting.participants not in rows:
            row: Iterable[int] = price[meeting.participants[0]]
            for agent in meeting.participants[1:]:
                row = map(add, row, price[agent])
            rows[meeting.participants] = list(row)
    return [rows[meeting.participants] for meeting in meetings]


def conflict_pairs(meetings: Sequence[Meeting]) -> tuple[tuple[int, int], ...]:
    """Pairs (i, j), i < j, of meetings with a common participant."""
    sets = [frozenset(meeting.participants) for meeting in meetings]
    pairs = itertools.combinations(range(len(sets)), 2)
    return tuple((i, j) for i, j in pairs if not sets[i].isdisjoint(sets[j]))


def least_cost(costs: list[list[int]], conflicts: tuple[tuple[int, int], ...]) -> int | None:
    """The least total cost of slots in which conflicting meetings differ; None if there is none."""
    lowest = [min(row) for row in costs]
    if max(lowest) >= BLOCKED:
        return None
    first = [row.index(low) for row, low in zip(costs, lowest, strict=True)]
    if len(set(first)) == len(first):
        return sum(lowest)  # nobody competes for the cheapest slots
    num_meetings = len(costs)
    if len(conflicts) == num_meetings * (num_meetings - 1) // 2:
        return _assignment(costs)
    return _branch_and_bound(costs, conflicts, lowest)


def _assignment(costs: list[list[int]]) -> int | None:
    """All meetings share participants pairwise: a linear assignment problem."""
    if len(costs) > len(costs[0]):
        return None
    from scipy.optimize import linear_sum_assignment  # 22 MB, which reports need not hold

    _, columns = linear_sum_assignment(np.array(costs, dtype=np.float64))  # exact below 2**53
    total = sum([row[column] for row, column in zip(costs, columns.tolist(), strict=True)])
    return total if total < BLOCKED else None


def _branch_and_bound(
    costs: list[list[int]], conflicts: tuple[tuple[int, int], ...], lowest: list[int]
) -> int | None:
    """Depth first over meetings, most constrained first, cheapest slots first.

    A meeting with d conflicts never needs more than its d + 1 cheapest slots: of any d + 1, one
    is taken by none of its neighbours, and moving there does not cost more.
    """
    neighbours = _neighbours(len(costs), conflicts)
    order = sorted(range(len(costs)), key=lambda m: (-len(neighbours[m]), -lowest[m], m))
    candidates = [
        sorted((c, s) for s, c in enumerate(costs[m]) if c < BLOCKED)[: len(neighbours[m]) + 1]
        for m in order
    ]
    rest = [0] * (len(order) + 1)
    for depth in range(len(order) - 1, -1, -1):
        rest[depth] = rest[depth + 1] + lowest[order[depth]]
    best = BLOCKED
    nodes = 0
    slots = [-1] * len(costs)

    def place(depth: int, spent: int) -> None:
        nonlocal best, nodes
        nodes += 1
        if nodes > MAX_SEARCH_NODES:
            raise TooHardError(
                f"{len(costs)} meetings that do not all share participants: no exact optimum "
                f"within {MAX_SEARCH_NODES} search nodes; use fewer meetings"
            )
        if depth == len(order):
            best = spent
            return
        meeting = order[depth]
        taken = {slots[other] for other in neighbours[meeting]}
        for cost, slot in candidates[depth]:
            if spent + cost + rest[depth + 1] >= best:
                break  # the slots that follow are no cheaper
            if slot not in taken:
                slots[meeting] = slot
                place(depth + 1, spent + cost)
        slots[meeting] = -1

    place(0, 0)
    return best if best < BLOCKED else None


def _neighbours(num_meetings: int, conflicts: tuple[tuple[int, int], ...]) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in range(num_meetings)]
    for first, second in conflicts:
        neighbours[first].append(second)
        neighbours[second].append(first)
    return neighbours


def first_optimal_plan(table: PlanTable) -> tuple[int, ...]:
    """The optimal plan that comes first when plans are sorted by the slots of their meetings."""
    num_meetings = len(table.costs)
    neighbours = _neighbours(num_meetings, table.conflicts)
    lowest = [min(c for c in row if c is not None) for row in table.costs]
    rest = [sum(lowest[m:]) for m in range(num_meetings + 1)]
    slots: list[int] = []

    def place(budget: int) -> bool:
        meeting = len(slots)
        if meeting == num_meetings:
            return True
        taken = {slots[other] for other in neighbours[meeting] if other < meeting}
        for slot, cost in enumerate(table.costs[meeting]):
            if cost is None or slot in taken or cost + rest[meeting + 1] > budget:
                continue
            slots.append(slot)
            if place(budget - cost):
                return True
            slots.pop()
        return False

    found = place(table.optimum)
    assert found, "a table's optimum is attained"
    return tuple(slots)


def plan_cost(slots: Sequence[int], table: PlanTable) -> int | None:
    """Displacement cost of one slot per meeting (each in range); None when it is infeasible."""
    if len(set(slots)) != len(slots):
        for first, second in table.conflicts:
            if slots[first] == slots[second]:
                return None
    total = 0
    for row, slot in zip(table.costs, slots, strict=True):
        cost = row[slot]
        if cost is None:
            return None
        total += cost
    return total

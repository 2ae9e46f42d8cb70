"""Reference: what a calendar request's answer is scored against, frozen when the example is built.

Entries are tokens: ``F`` free, ``M<cost>`` a movable errand, ``X`` an immovable one.
Slots are numbered from 0; agents and meetings are indices into ``agents`` and ``meetings``.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Rows = tuple[tuple[str, ...], ...]  # one row per agent, one token per slot


@dataclass(frozen=True, slots=True)
class PlanTable:
    """The cost of every choice under one set of calendars, and the exact optimum.

    ``costs[m][s]``: displacement cost of meeting ``m`` in slot ``s``; None where somebody's entry
    there is immovable. ``conflicts``: pairs of meetings with a common participant.
    ``optimum``: the least cost over feasible plans. ``worst``: the sum of each meeting's dearest
    finite cost, an upper bound on the cost of any feasible plan.
    """

    costs: tuple[tuple[int | None, ...], ...]
    conflicts: tuple[tuple[int, int], ...]
    optimum: int
    worst: int


@dataclass(frozen=True, slots=True)
class Reference:
    """``kind`` says which structure the answer must hold.

    ``belief``: the holder's true belief. ``perspective``: the (agent, slot) entries on which the
    holders of this story differ; empty when all agree. ``subjective``: the plan table under the
    holder's belief; ``objective``: under the world; ``starting``: under the start calendars.
    """

    kind: Literal["belief", "plan"]
    agents: tuple[str, ...]
    meetings: tuple[str, ...]
    num_slots: int
    initial: Rows
    belief: Rows
    world: Rows
    perspective: tuple[tuple[int, int], ...]
    subjective: PlanTable
    objective: PlanTable
    starting: PlanTable


def dump(reference: Reference) -> str:
    """The reference as compact JSON text, for ``Example.target``."""
    fields = {
        "kind": reference.kind,
        "agents": reference.agents,
        "meetings": reference.meetings,
        "num_slots": reference.num_slots,
        "initial": reference.initial,
        "belief": reference.belief,
        "world": reference.world,
        "perspective": reference.perspective,
        "subjective": _table_fields(reference.subjective),
        "objective": _table_fields(reference.objective),
        "starting": _table_fields(reference.starting),
    }
    return json.dumps(fields, separators=(",", ":"))


def _table_fields(table: PlanTable) -> dict[str, Any]:
    return {
        "costs": table.costs,
        "conflicts": table.conflicts,
        "optimum": table.optimum,
        "worst": table.worst,
    }


@lru_cache(maxsize=65536)
def parse(target: str) -> Reference:
    """The inverse of ``dump``. Cached: a group's completions share one reference."""
    raw: dict[str, Any] = json.loads(target)
    return Reference(
        kind=raw["kind"],
        agents=tuple(raw["agents"]),
        meetings=tuple(raw["meetings"]),
        num_slots=raw["num_slots"],
        initial=_rows(raw["initial"]),
        belief=_rows(raw["belief"]),
        world=_rows(raw["world"]),
        perspective=tuple((agent, slot) for agent, slot in raw["perspective"]),
        subjective=_table(raw["subjective"]),
        objective=_table(raw["objective"]),
        starting=_table(raw["starting"]),
    )


def _rows(raw: list[list[str]]) -> Rows:
    return tuple(tuple(row) for row in raw)


def _table(raw: dict[str, Any]) -> PlanTable:
    return PlanTable(
        costs=_costs(raw["costs"]),
        conflicts=tuple((first, second) for first, second in raw["conflicts"]),
        optimum=raw["optimum"],
        worst=raw["worst"],
    )


def _costs(raw: list[list[int | None]]) -> tuple[tuple[int | None, ...], ...]:
    return tuple(tuple(row) for row in raw)

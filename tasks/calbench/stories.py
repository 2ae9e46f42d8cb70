"""Belief stories: two errands of a source task become immovable, and not every agent hears of it.

Roles: two owners (each knows its own update), one intermediary (hears of both), the rest
uninformed. PUBLIC: everybody hears of both. PRIVATE: only the intermediary does. Both variants
start from the same calendars and end in the same world. What a holder believes is the start
calendars plus the updates it knows, so that there are at most four different beliefs.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tasks.calbench.calendars import Calendars, CalendarTask
from tasks.calbench.reference import PlanTable
from tasks.calbench.solver import plan_table

Family = Literal["lock", "pivotal"]
Known = frozenset[int]  # indices of the updates an agent knows
BOTH: Known = frozenset({0, 1})
MAX_PIVOTAL_PAIRS = 128  # drawn pairs among which the most telling one is kept


@dataclass(frozen=True, slots=True)
class Update:
    """The movable errand in ``slot`` of agent ``owner`` becomes immovable."""

    owner: int
    slot: int


@dataclass(frozen=True)
class Scenario:
    """What a story's two variants share. ``updates`` belong to two different owners."""

    source: CalendarTask
    family: Family
    updates: tuple[Update, Update]
    intermediary: int

    @property
    def id(self) -> str:
        return f"{self.source.id}:{self.family}"

    @property
    def uninformed(self) -> tuple[int, ...]:
        told = {self.intermediary, *(update.owner for update in self.updates)}
        return tuple(agent for agent in range(self.source.num_agents) if agent not in told)

    def known(self, variant: str, holder: int) -> Known:
        """The updates that ``holder`` knows when the story ends."""
        if variant == "PUBLIC" or holder == self.intermediary:
            return BOTH
        return frozenset(i for i, update in enumerate(self.updates) if update.owner == holder)

    def calendars(self, known: Known) -> Calendars:
        """The calendars as somebody who knows these updates believes them to be."""
        return lock(self.source.calendars, [self.updates[i] for i in sorted(known)])

    @cached_property
    def tables(self) -> dict[Known, PlanTable]:
        """One solve per different belief; the world is the belief that knows both updates."""
        solved = {}
        for known in (frozenset(), frozenset({0}), frozenset({1}), BOTH):
            table = plan_table(self.calendars(known), self.source.meetings)
            assert table is not None, "a scenario's world is feasible, and beliefs hold fewer locks"
            solved[known] = table
        return solved


def lock(calendars: Calendars, updates: Sequence[Update]) -> Calendars:
    """The calendars after the updates."""
    rows = [list(row) for row in calendars]
    for update in updates:
        errand = rows[update.owner][update.slot]
        assert errand is not None and not errand.blocked, "an update locks a movable errand"
        rows[update.owner][update.slot] = replace(errand, blocked=True)
    return tuple(tuple(row) for row in rows)


def scenario(task: CalendarTask, family: Family, seed: int) -> Scenario | None:
    """The family's scenario of a source task; None when the task has none.

    A task needs three agents, movable errands of two of them and, for ``pivotal``, an errand whose
    locking raises the optimum. The draw depends on the task's id, the family and the seed alone.
    """
    if task.num_agents < 3:
        return None
    rng = random.Random(f"{seed}:{family}:{task.id}")
    updates = _lock_pair(task, rng) if family == "lock" else _pivotal_pair(task, rng)
    if updates is None:
        return None
    owners = {update.owner for update in updates}
    intermediary = rng.choice([a for a in range(task.num_agents) if a not in owners])
    return Scenario(task, family, updates, intermediary)


def _movable(task: CalendarTask) -> list[list[Update]]:
    """Per agent, the updates that could happen to it."""
    return [
        [Update(agent, s) for s, e in enumerate(row) if e is not None and not e.blocked]
        for agent, row in enumerate(task.calendars)
    ]


def _optimum(task: CalendarTask, updates: Sequence[Update]) -> int | None:
    table = plan_table(lock(task.calendars, updates), task.meetings)
    return None if table is None else table.optimum


def _lock_pair(task: CalendarTask, rng: random.Random) -> tuple[Update, Update] | None:
    """Owners and errands drawn uniformly; a draw with an infeasible world is drawn again."""
    movable = _movable(task)
    owners = [agent for agent, updates in enumerate(movable) if updates]
    if len(owners) < 2:
        return None
    for _ in range(MAX_PIVOTAL_PAIRS):
        first, second = rng.sample(owners, 2)
        pair = (rng.choice(movable[first]), rng.choice(movable[second]))
        if _optimum(task, pair) is not None:
            return pair
    return None


def _pivotal_pair(task: CalendarTask, rng: random.Random) -> tuple[Update, Update] | None:
    """The first lock raises the optimum; the pair leaves most holders with a lower optimum.

    Among the drawn pairs, owners 1 and 2 count when what they know is cheaper than the world;
    the uninformed always are.
    """
    movable = _movable(task)
    before = _optimum(task, ())
    assert before is not None, "source tasks are feasible"
    pivotal = []
    for update in (u for updates in movable for u in updates):
        alone = _optimum(task, [update])
        if alone is not None and alone > before:
            pivotal.append((update, alone))
    pairs = [
        (first, second, alone)
        for first, alone in pivotal
        for updates in movable
        for second in updates
        if second.owner != first.owner
    ]
    rng.shuffle(pairs)
    best: tuple[Update, Update] | None = None
    most = -1
    for first, second, alone in pairs[:MAX_PIVOTAL_PAIRS]:
        world = _optimum(task, [first, second])
        if world is None:
            continue
        other = _optimum(task, [second])
        below = int(alone < world) + int(other is not None and other < world)
        if below > most:
            best, most = (first, second), below
        if most == 2:
            break
    return best


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said: by ``speaker`` to ``hearers``. ``update`` is None in turns without news."""

    speaker: int
    hearers: tuple[int, ...]
    update: int | None
    topic: str


@dataclass(frozen=True)
class Story:
    """A scenario told in one variant as ``num_turns`` turns; each turn holds one or two sayings."""

    scenario: Scenario
    variant: str
    turns: tuple[tuple[Turn, ...], ...]

    @property
    def id(self) -> str:
        return f"{self.scenario.id}:t{len(self.turns)}"


TOPICS = (
    "the printer works again",
    "lunch was good today",
    "the window in the hall is open",
    "the new chairs have arrived",
    "the coffee machine needs beans",
    "the parking lot gets new lamps",
    "the plants have been watered",
    "the lift is slow this morning",
    "the team photo looks nice",
    "the library has a new shelf",
    "the rain has stopped",
    "the door code stays the same",
)


def tell(scenario: Scenario, variant: str, num_turns: int, seed: int) -> Story:
    """The two deliveries among turns without calendar news.

    With one turn both deliveries fall into it. Delivery turns and fillers depend on the seed, the
    scenario and the number of turns, not on the variant: matched variants differ in who hears.
    """
    rng = random.Random(f"{seed}:tell:{scenario.id}:{num_turns}")
    positions = sorted(rng.sample(range(num_turns), 2)) if num_turns > 1 else [0, 0]
    order = rng.sample((0, 1), 2)
    turns: list[list[Turn]] = [[] for _ in range(num_turns)]
    for position, update in zip(positions, order, strict=True):
        turns[position].append(_delivery(scenario, variant, update))
    topics = rng.sample(TOPICS, len(TOPICS))
    for turn in turns:
        if not turn:
            turn.append(_filler(scenario.source.num_agents, topics.pop(), rng))
    return Story(scenario, variant, tuple(tuple(turn) for turn in turns))


def _delivery(scenario: Scenario, variant: str, update: int) -> Turn:
    owner = scenario.updates[update].owner
    everybody = tuple(a for a in range(scenario.source.num_agents) if a != owner)
    hearers = everybody if variant == "PUBLIC" else (scenario.intermediary,)
    return Turn(owner, hearers, update, "")


def _filler(num_agents: int, topic: str, rng: random.Random) -> Turn:
    speaker, hearer = rng.sample(range(num_agents), 2)
    everybody = tuple(a for a in range(num_agents) if a != speaker)
    return Turn(speaker, everybody if rng.random() < 0.5 else (hearer,), None, topic)

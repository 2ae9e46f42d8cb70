"""Native replay: carry out relocations round by round as the public environment would.

One round per meeting, in list order. In a round each participant submits one batch: moves of
errands, then the meeting's slot. The witness relocation of a feasible plan replays at exactly the
plan's displacement cost; that is the second, independent check of the solver.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.calbench.calendars import Calendars, Errand, Meeting


class ReplayError(ValueError):
    """A batch that the environment refuses; says the agent, the slot and the rule."""


@dataclass(frozen=True, slots=True)
class Move:
    """The errand in ``source`` goes to ``target``. ``errand_id``, where given, must match."""

    source: int
    target: int
    errand_id: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one participant does in one round."""

    agent: int
    moves: tuple[Move, ...]
    slot: int


def witness(
    calendars: Calendars, meetings: Sequence[Meeting], slots: Sequence[int]
) -> list[list[Batch]]:
    """Rounds that carry out a feasible plan, each displaced errand moving once.

    An absorbing slot of an agent is free at the start and holds none of its meetings.
    Raises ``ReplayError`` when an agent has too few of them.
    """
    absorbing = []
    for agent, row in enumerate(calendars):
        taken = {s for m, s in zip(meetings, slots, strict=True) if agent in m.participants}
        absorbing.append([s for s, entry in enumerate(row) if entry is None and s not in taken])
    rounds = []
    for meeting, slot in zip(meetings, slots, strict=True):
        batches = []
        for agent in meeting.participants:
            entry = calendars[agent][slot]
            moves: tuple[Move, ...] = ()
            if entry is not None:
                if not absorbing[agent]:
                    raise ReplayError(f"agent {agent}: no free slot takes errand {entry.id}")
                moves = (Move(slot, absorbing[agent].pop(0), entry.id),)
            batches.append(Batch(agent, moves, slot))
        rounds.append(batches)
    return rounds


def replay(
    calendars: Calendars, meetings: Sequence[Meeting], rounds: Sequence[Sequence[Batch]]
) -> int:
    """Total cost of the moves. Raises ``ReplayError`` at the first batch that breaks a rule."""
    if len(rounds) != len(meetings):
        raise ReplayError(f"{len(rounds)} rounds for {len(meetings)} meetings")
    state: list[list[Errand | int | None]] = [list(row) for row in calendars]  # int: meeting id
    cost = 0
    for meeting, batches in zip(meetings, rounds, strict=True):
        if sorted(batch.agent for batch in batches) != sorted(meeting.participants):
            raise ReplayError(f"meeting {meeting.id}: every participant submits one batch")
        if len({batch.slot for batch in batches}) != 1:
            raise ReplayError(f"meeting {meeting.id}: participants name different slots")
        for batch in batches:
            cost += _apply(state[batch.agent], batch, meeting.id)
    return cost


def _apply(row: list[Errand | int | None], batch: Batch, meeting_id: int) -> int:
    """Carry out one batch on one calendar, in place; returns what its moves cost."""
    slots = [batch.slot, *(s for move in batch.moves for s in (move.source, move.target))]
    for slot in slots:
        if isinstance(slot, bool) or not 0 <= slot < len(row):
            raise ReplayError(f"agent {batch.agent}: {slot!r} is not a slot")
    targets = [move.target for move in batch.moves]
    if len({*targets, batch.slot}) != len(targets) + 1:
        raise ReplayError(f"agent {batch.agent}: two entries would stand in one slot")
    lifted: dict[int, Errand] = {}
    for move in batch.moves:
        lifted[move.source] = _lift(row, move, batch.agent, lifted)
    for source in lifted:
        row[source] = None
    for move in batch.moves:
        if row[move.target] is not None:
            raise ReplayError(f"agent {batch.agent}: slot {move.target} is not free")
    for move in batch.moves:
        row[move.target] = lifted[move.source]
    if row[batch.slot] is not None:
        raise ReplayError(f"agent {batch.agent}: the meeting's slot {batch.slot} is not free")
    row[batch.slot] = meeting_id
    return sum(errand.cost for errand in lifted.values())


def _lift(
    row: list[Errand | int | None], move: Move, agent: int, lifted: dict[int, Errand]
) -> Errand:
    """The errand that a move takes; it must be there, movable, and taken once."""
    entry = row[move.source]
    if not isinstance(entry, Errand):
        raise ReplayError(f"agent {agent}: slot {move.source} holds no errand to move")
    if entry.blocked:
        raise ReplayError(f"agent {agent}: the errand in slot {move.source} is immovable")
    if move.errand_id is not None and move.errand_id != entry.id:
        raise ReplayError(
            f"agent {agent}: slot {move.source} holds {entry.id}, not {move.errand_id}"
        )
    if move.source in lifted or move.source == move.target:
        raise ReplayError(f"agent {agent}: errand {entry.id} is moved twice or to its own slot")
    return entry

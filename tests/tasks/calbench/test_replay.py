"""Native replay refuses what the public batch validator lets through."""

import pytest

from tasks.calbench.replay import Batch, Move, ReplayError, replay
from tests.tasks.calbench.small_tasks import task

ONE = task("3 . . 5 #", "A")  # errand 1 in slot 0, errand 2 in slot 3, errand 3 immovable in slot 4


def run(*moves: Move, slot: int) -> int:
    return replay(ONE.calendars, ONE.meetings, [[Batch(0, moves, slot)]])


def test_a_displaced_errand_pays_its_cost() -> None:
    assert run(Move(0, 1, errand_id=1), slot=0) == 3


def test_a_rotation_inside_one_batch_is_allowed_and_paid() -> None:
    assert run(Move(0, 3), Move(3, 1), slot=0) == 8


@pytest.mark.parametrize(
    ("moves", "slot", "message"),
    [
        ((), 0, "is not free"),
        ((Move(0, 3),), 0, "slot 3 is not free"),
        ((Move(0, 1), Move(0, 2)), 0, "moved twice"),
        ((Move(0, 0),), 1, "to its own slot"),
        ((Move(0, 1),), 1, "two entries would stand in one slot"),
        ((Move(0, 1), Move(3, 1)), 2, "two entries would stand in one slot"),
        ((Move(4, 1),), 4, "is immovable"),
        ((Move(1, 2),), 0, "holds no errand"),
        ((Move(0, 1, errand_id=2),), 0, "holds 1, not 2"),
        ((), True, "True is not a slot"),
        ((), 5, "5 is not a slot"),
        ((), -1, "-1 is not a slot"),
    ],
)
def test_broken_batches(moves: tuple[Move, ...], slot: int, message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        run(*moves, slot=slot)


def test_participants_must_name_one_slot_and_all_take_part() -> None:
    two = task(". . | . .", "AB")
    with pytest.raises(ReplayError, match="different slots"):
        replay(two.calendars, two.meetings, [[Batch(0, (), 0), Batch(1, (), 1)]])
    with pytest.raises(ReplayError, match="every participant"):
        replay(two.calendars, two.meetings, [[Batch(0, (), 0)]])
    with pytest.raises(ReplayError, match="0 rounds for 1 meetings"):
        replay(two.calendars, two.meetings, [])


def test_a_placed_meeting_never_moves() -> None:
    twice = task(". .", "A A")
    with pytest.raises(ReplayError, match="holds no errand"):
        replay(twice.calendars, twice.meetings, [[Batch(0, (), 0)], [Batch(0, (Move(0, 1),), 0)]])

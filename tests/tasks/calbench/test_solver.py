"""The exact optimum against the worked examples, exhaustive search, CP-SAT and native replay."""

import itertools
import random

import pytest

from scripts.cp_sat import cp_sat_optimum
from tasks.calbench.calendars import CalendarTask
from tasks.calbench.replay import ReplayError, replay, witness
from tasks.calbench.solver import (
    TooHardError,
    cost_rows,
    first_optimal_plan,
    least_cost,
    plan_cost,
    plan_table,
)
from tasks.calbench.sources import read_public
from tests.shared_data import shared_file
from tests.tasks.calbench.small_tasks import random_task, task

WORKED = [
    (". 3 . 1 | 2 . . #", "AB", 0),
    (". 4 4 . | 1 1 5 .", "AB A", 0),
    (". 7 7 | 3 . . | . 2 .", "A C", 0),
    (". 1 . . | . . # #", "AB AB", 1),
    (". 1 . | # . # | . # #", "AB AC", 1),
    ("1 1 .", "A A", None),
    (". 2 3 | # # .", "A AB", None),
    (". 9 . | . . 9", "AB AB", 9),
    ("1 2 | 3 4", "A", None),
    ("# . | . #", "AB", None),
    (". 5 2 | 1 . .", "AB", 1),
    (". 5 2 | # . .", "AB", 2),
]


@pytest.mark.parametrize(("calendars", "meetings", "optimum"), WORKED)
def test_worked_examples(calendars: str, meetings: str, optimum: int | None) -> None:
    small = task(calendars, meetings)
    table = plan_table(small.calendars, small.meetings)
    assert (None if table is None else table.optimum) == optimum


def exhaustive(small: CalendarTask) -> int | None:
    """Every plan, priced by its witness relocation in native replay."""
    costs = []
    for slots in itertools.product(range(small.num_slots), repeat=len(small.meetings)):
        rounds = None
        try:
            rounds = witness(small.calendars, small.meetings, slots)
            costs.append(replay(small.calendars, small.meetings, rounds))
        except ReplayError:
            continue
    return min(costs, default=None)


def optimum(small: CalendarTask) -> int | None:
    table = plan_table(small.calendars, small.meetings)
    return None if table is None else table.optimum


def test_3000_random_small_tasks_agree_with_exhaustive_replay() -> None:
    rng = random.Random("small tasks")
    tasks = [random_task(rng) for _ in range(3000)]
    found = [optimum(small) for small in tasks]
    assert found == [exhaustive(small) for small in tasks]
    assert 500 < sum(value is not None for value in found) < 2500  # both kinds are there


def test_1000_random_small_tasks_agree_with_cp_sat() -> None:
    rng = random.Random("cp-sat")
    tasks = [random_task(rng) for _ in range(1000)]
    assert [optimum(small) for small in tasks] == [cp_sat_optimum(small) for small in tasks]


def test_216_public_tasks_agree_with_the_record_cp_sat_and_replay() -> None:
    files = [shared_file("calbench", f"{kind}_full.jsonl") for kind in ("uniform", "varied")]
    for public in [one for file in files for one in read_public(file)]:
        table = plan_table(public.calendars, public.meetings)
        assert table is not None
        assert table.optimum == public.recorded_optimum == cp_sat_optimum(public), public.id
        slots = first_optimal_plan(table)
        rounds = witness(public.calendars, public.meetings, slots)
        assert replay(public.calendars, public.meetings, rounds) == table.optimum, public.id
        assert plan_cost(slots, table) == table.optimum, public.id


def test_every_plan_is_priced_as_its_witness_replays() -> None:
    rng = random.Random("plans")
    checked = 0
    for small in (random_task(rng) for _ in range(300)):
        table = plan_table(small.calendars, small.meetings)
        if table is None:
            continue
        for slots in itertools.product(range(small.num_slots), repeat=len(small.meetings)):
            cost = plan_cost(slots, table)
            if cost is not None:
                rounds = witness(small.calendars, small.meetings, slots)
                assert replay(small.calendars, small.meetings, rounds) == cost
                checked += 1
    assert checked > 1000


def test_tied_optima_are_equal_and_the_first_is_named() -> None:
    small = task(". 1 . . | . . # #", "AB AB")
    table = plan_table(small.calendars, small.meetings)
    assert table is not None
    assert plan_cost((0, 1), table) == plan_cost((1, 0), table) == table.optimum == 1
    assert first_optimal_plan(table) == (0, 1)
    assert plan_cost((0, 0), table) is None


def test_meetings_without_a_shared_participant_may_share_a_slot() -> None:
    small = task(". 7 7 | 3 . . | . 2 .", "A C")
    table = plan_table(small.calendars, small.meetings)
    assert table is not None
    assert plan_cost((0, 0), table) == 0


def test_search_without_an_end_is_refused_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.calbench.solver.MAX_SEARCH_NODES", 3)
    small = task(". 1 2 3 | . 1 2 3 | . 1 2 3", "AB BC A B C")
    conflicts = ((0, 1), (0, 2), (0, 3), (1, 3), (1, 4))
    with pytest.raises(TooHardError, match="no exact optimum"):
        least_cost(cost_rows(small.calendars, small.meetings), conflicts)

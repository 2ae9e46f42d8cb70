"""Measures of one answer, on a story whose holder does not know of a lock."""

from eval.measures import measure
from tasks.calbench.answers import Plan
from tasks.calbench.examples import reference
from tasks.calbench.stories import Scenario, Update, tell
from tests.tasks.calbench.small_tasks import task

SMALL = task("1 . . | . 5 . | . . 3", "A")
TOLD = Scenario(SMALL, "lock", (Update(0, 0), Update(1, 1)), intermediary=2)
UNAWARE = reference(tell(TOLD, "PRIVATE", 1, 0), 1, "direct")  # B has not heard of A0


def test_a_plan_can_be_feasible_for_the_holder_and_not_in_the_world() -> None:
    found = measure(UNAWARE, Plan((0,), "", False))
    assert found == {"optimal": 0.0, "dearer": 1.0, "infeasible": 0.0, "world_feasible": 0.0}
    found = measure(UNAWARE, Plan((1,), "", False))
    assert found == {"optimal": 1.0, "dearer": 0.0, "infeasible": 0.0, "world_feasible": 1.0}

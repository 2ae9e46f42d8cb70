"""What answers earn: parts, gates, the ladder of plans, and four lazy policies."""

import math

import pytest

from configs.data import CalbenchData, GeneratedTasks
from configs.rewards import Gate, RewardConfig
from rewards.composition import compose, score
from rewards.optimality import DEAREST_FEASIBLE, INFEASIBLE, NEAREST_FEASIBLE, optimality
from tasks.calbench.answers import Plan, read
from tasks.calbench.examples import examples, reference
from tasks.calbench.policies import POLICIES, right_answer
from tasks.calbench.reference import PlanTable, Reference, parse
from tasks.calbench.stories import Scenario, Update, tell
from tasks.extraction import Incomplete
from tests.tasks.calbench.small_tasks import task

FOUR = task("1 . . 1 | . 1 . 1 | . . 1 . | 1 . . .", "ABCD")
TOLD = Scenario(FOUR, "lock", (Update(0, 0), Update(1, 3)), intermediary=2)
UNINFORMED = reference(tell(TOLD, "PRIVATE", 2, 0), 3, "belief")
EVEN = RewardConfig(gates=())


def test_a_right_belief_earns_every_part() -> None:
    scored = score(UNINFORMED, read(right_answer(UNINFORMED), UNINFORMED), RewardConfig())
    assert scored.value == 1.0
    assert scored.parts == {"entries": 1.0, "whole_agent": 1.0, "perspective": 1.0}


def test_copying_the_world_has_most_entries_and_no_perspective() -> None:
    answer = read(POLICIES["world copy"](UNINFORMED), UNINFORMED)
    scored = score(UNINFORMED, answer, RewardConfig())
    assert scored.parts == {"entries": 14 / 16, "whole_agent": 0.0, "perspective": 0.0}
    assert scored.value == 0.0  # the gate: entries count when perspective is right
    assert score(UNINFORMED, answer, EVEN).value == pytest.approx((14 / 16) / 3)


def test_perspective_does_not_apply_where_holders_agree() -> None:
    public = reference(tell(TOLD, "PUBLIC", 2, 0), 3, "belief")
    scored = score(public, read(right_answer(public), public), RewardConfig())
    assert scored.parts["perspective"] is None
    assert scored.value == 1.0
    stale = score(public, read(POLICIES["initial copy"](public), public), RewardConfig())
    assert stale.value == pytest.approx((14 / 16 + 0) / 2)


TABLE = PlanTable(costs=((0, 1, 5, None), (0, 2, 9, 3)), conflicts=((0, 1),), optimum=1, worst=14)


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ((1, 0), 1.0),
        ((0, 1), 0.2 + 0.3 * (1 - 1 / 13)),
        ((2, 2), INFEASIBLE),  # a shared participant
        ((3, 0), INFEASIBLE),  # immovable
        ((2, 1), 0.2 + 0.3 * (1 - 6 / 13)),
        ((None, 0), INFEASIBLE),
    ],
)
def test_the_ladder_of_plans(slots: tuple[int | None, ...], expected: float) -> None:
    assert optimality(TABLE, Plan(slots, "", False)) == pytest.approx(expected)


def test_rungs_never_touch() -> None:
    assert 0.0 < INFEASIBLE < DEAREST_FEASIBLE < NEAREST_FEASIBLE < 1.0
    assert optimality(TABLE, None) == 0.0
    assert optimality(TABLE, Plan((1, 0), "M3 is no meeting", False)) == INFEASIBLE


def test_every_tied_optimum_earns_1() -> None:
    tied = PlanTable(costs=((1, 1, 2), (1, 1, 2)), conflicts=((0, 1),), optimum=2, worst=4)
    for slots in ((0, 1), (1, 0)):
        assert optimality(tied, Plan(slots, "", False)) == 1.0


def test_none_and_non_finite_parts_have_no_weight_and_stay_none() -> None:
    scored = compose({"entries": math.inf, "whole_agent": 1.0, "perspective": None}, EVEN)
    assert scored.parts == {"entries": None, "whole_agent": 1.0, "perspective": None}
    assert scored.value == 1.0
    assert compose({"entries": math.nan}, EVEN).value is None


def test_weights_and_gates_come_from_the_config() -> None:
    parts = {"entries": 0.5, "whole_agent": 0.0, "perspective": 0.5}
    assert compose(
        parts, RewardConfig(entries=2, whole_agent=1, perspective=1, gates=())
    ).value == (pytest.approx((1.0 + 0 + 0.5) / 4))
    gate = Gate(part="entries", needs="perspective", at_least=0.5)
    assert compose(parts, RewardConfig(gates=(gate,))).value == pytest.approx(1 / 3)
    shut = Gate(part="entries", needs="perspective", at_least=0.6)
    assert compose(parts, RewardConfig(gates=(shut,))).value == pytest.approx(0.5 / 3)
    assert compose(parts, RewardConfig(entries=0, whole_agent=0, gates=())).value == 0.5


def test_incomplete_earns_the_lowest_and_says_why() -> None:
    scored = score(UNINFORMED, Incomplete("missing_entry"), RewardConfig())
    assert scored.value == 0.0
    assert scored.note == "missing_entry"
    assert scored.parts == {"entries": 0.0, "whole_agent": 0.0, "perspective": 0.0}


def mean_reward(references: list[Reference], policy: str) -> float:
    answers = right_answer if policy == "right" else POLICIES[policy]
    values = [score(r, read(answers(r), r), RewardConfig()).value for r in references]
    return sum(value for value in values if value is not None) / len(values)


def test_four_lazy_policies_earn_clearly_less_than_right_answers() -> None:
    data = CalbenchData(
        split="train",
        generated=GeneratedTasks(
            agents=5, slots=8, meetings=3, participants=3, density=0.6, count=60
        ),
        families=("pivotal",),
        turns=(4,),
    )
    references = [parse(one.target) for one in examples(data)]
    for kind in ("belief", "plan"):
        asked = [r for r in references if r.kind == kind]
        stale = [r for r in asked if r.belief != r.world]
        told = [r for r in asked if r.belief != r.initial]
        earned = {policy: mean_reward(asked, policy) for policy in ("right", *POLICIES)}
        assert earned["right"] == 1.0
        assert earned["empty"] == 0.0
        assert earned["constant"] < 0.5
        assert earned["world copy"] < 0.85
        assert earned["initial copy"] < 0.5
        assert mean_reward(stale, "world copy") < 0.6
        assert mean_reward(told, "initial copy") < 0.6

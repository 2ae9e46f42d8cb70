"""Judgements -> parts and one number."""

import pytest

from configs.errors import UserError
from configs.rewards import RubricGate, RubricReward
from rewards.judgements import Case, Judgement
from rewards.rubric import rubric_score
from tasks.basis.instances import Dimension
from tasks.extraction import Incomplete

ALL: tuple[Dimension, ...] = ("belief", "profile", "solution")
CONFIG = RubricReward(belief=0.3, user_profile=0.2, solution=0.5)


def judged(dimension: Dimension, *scores: int) -> Judgement:
    return Judgement("a", dimension, "judged", scores)


def failed(dimension: Dimension) -> Judgement:
    return Judgement("a", dimension, "failed", None, reason="timeout")


HALF = judged("belief", 1, 0)
FULL = judged("profile", 1, 1)
QUARTER = judged("solution", 1, 0, 0, 0)
THREE = {"belief": HALF, "profile": FULL, "solution": QUARTER}


def test_criteria_met_over_criteria_by_part() -> None:
    scored = rubric_score(ALL, THREE, 100, CONFIG)
    assert scored.parts == {
        "belief": 0.5, "user_profile": 1.0, "solution": 0.25, "format": 1.0, "concise": 1.0,
    }  # fmt: skip
    assert scored.value == pytest.approx(0.3 * 0.5 + 0.2 * 1 + 0.5 * 0.25)
    assert scored.note == ""


def test_only_what_was_asked_for_counts() -> None:
    scored = rubric_score(("solution",), {"solution": QUARTER}, 100, CONFIG)
    assert scored.value == 0.25
    assert scored.parts == {"solution": 0.25, "format": 1.0, "concise": 1.0}


def test_a_judge_failure_is_none_and_never_0() -> None:
    scored = rubric_score(ALL, {**THREE, "profile": failed("profile")}, 100, CONFIG)
    assert scored.value is None
    assert scored.parts["user_profile"] is None
    assert scored.parts["belief"] == 0.5
    assert scored.note == "judge profile: timeout"
    assert scored.failures == {"user_profile": "timeout"}


def test_a_failure_where_the_weight_is_0_does_not_matter() -> None:
    config = RubricReward(belief=1, user_profile=0, solution=1)
    scored = rubric_score(ALL, {**THREE, "profile": failed("profile")}, 100, config)
    assert scored.value == 0.375
    assert rubric_score(("profile",), {"profile": FULL}, 9, config).value is None


def test_the_wrong_form_earns_0_without_a_judge() -> None:
    scored = rubric_score(ALL, Incomplete("no_answer"), 100, CONFIG)
    assert scored.value == 0.0
    assert scored.parts == {
        "belief": 0.0, "user_profile": 0.0, "solution": 0.0, "format": 0.0, "concise": 1.0,
    }  # fmt: skip
    assert scored.note == "no_answer"


GATED = RubricReward(gates=(RubricGate(part="solution", needs="belief", at_least=0.6),))


def test_a_gate_takes_the_value_of_a_part_and_leaves_the_part() -> None:
    scored = rubric_score(ALL, THREE, 100, GATED)  # belief 0.5 is below 0.6
    assert scored.value == pytest.approx(0.3 * 0.5 + 0.2 * 1.0)
    assert scored.parts["solution"] == 0.25
    passed = {**THREE, "belief": judged("belief", 1, 1)}
    assert rubric_score(ALL, passed, 100, GATED).value == pytest.approx(0.3 + 0.2 + 0.5 * 0.25)
    assert rubric_score(("solution",), {"solution": QUARTER}, 100, GATED).value == 0.25


def test_a_gate_on_what_was_not_judged_leaves_the_value_unknown() -> None:
    config = GATED.model_copy(update={"belief": 0.0})
    scored = rubric_score(ALL, {**THREE, "belief": failed("belief")}, 100, config)
    assert scored.value is None
    assert scored.failures == {"belief": "timeout"}


def test_a_gate_on_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="gate on 'belief' needs itself"):
        RubricReward(gates=(RubricGate(part="belief", needs="belief", at_least=1.0),))


def test_too_many_words_cost_something_down_to_0() -> None:
    config = RubricReward(max_words=10, over_length=0.1)
    asked: tuple[Dimension, ...] = ("solution",)
    assert rubric_score(asked, {"solution": QUARTER}, 10, config).value == 0.25
    scored = rubric_score(asked, {"solution": QUARTER}, 11, config)
    assert scored.value == pytest.approx(0.15)
    assert scored.parts["concise"] == 0.0
    assert rubric_score(asked, {"solution": judged("solution", 0, 0)}, 11, config).value == 0.0


def test_an_empty_dimension_is_named() -> None:
    empty = Judgement("a", "belief", "empty_candidate", (0, 0))
    scored = rubric_score(ALL, {**THREE, "belief": empty}, 100, CONFIG)
    assert scored.value == pytest.approx(0.2 + 0.125)
    assert scored.note == "empty belief"


@pytest.mark.parametrize("criteria", [(), ("Says a.", " ")])
def test_a_rubric_without_criteria_is_refused(criteria: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="x7: rubric correct_resolution has no criterion"):
        Case("x7", {"solution": "text"}, {"solution": criteria})


def test_parts_as_they_count_are_after_gates_and_deductions() -> None:
    gate = RubricGate(part="solution", needs="belief", at_least=0.6)
    config = RubricReward(belief=1, user_profile=1, solution=2, over_length=0.1, gates=(gate,))
    scored = rubric_score(ALL, THREE, 601, config)
    assert scored.counted == pytest.approx({"belief": 0.4, "user_profile": 0.9, "solution": 0.0})
    assert scored.parts["solution"] == 0.25
    without = rubric_score(ALL, Incomplete("no tags"), 3, config)
    assert without.counted == {"belief": 0.0, "user_profile": 0.0, "solution": 0.0}

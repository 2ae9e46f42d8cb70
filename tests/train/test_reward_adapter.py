"""python -m pytest tests/train/test_reward_adapter.py -v"""

import pytest

from configs.data import CalbenchData, GeneratedTasks
from configs.rewards import RewardConfig
from rewards.score import Score
from tasks.catalog import TASKS
from train.reward_adapter import Completion, RewardAdapter, completion_text
from train.scorers import PARTS, calendar_scorer, one_by_one

END = 7


def length_of(completion: Completion) -> Score:
    return Score(float(len(completion.text)), {})


@pytest.mark.parametrize(
    ("completion", "prefilled", "expected"),
    [
        ("plain", False, ("plain", False)),
        ([{"role": "assistant", "content": "chat"}], True, ("chat", True)),
        (
            [{"role": "assistant", "content": "answer", "reasoning_content": "why"}],
            True,
            ("<think>why</think>answer", False),
        ),
        (
            [{"role": "assistant", "content": "", "reasoning_content": "unclosed"}],
            True,
            ("<think>unclosed", False),
        ),
    ],
)
def test_every_shape_that_trl_hands_over_becomes_text(
    completion: object, prefilled: bool, expected: tuple[str, bool]
) -> None:
    assert completion_text(completion, prefilled) == expected  # type: ignore[arg-type]


def test_a_completion_without_an_end_token_is_truncated() -> None:
    adapter = RewardAdapter(one_by_one(length_of), frozenset({END}))
    values = adapter(
        ["q"] * 3, ["a", "bb", ""], [[1, END], [1, 2], []], ["calbench"] * 3, ["t"] * 3
    )
    assert values == [1.0, 2.0, 0.0]
    assert [one.completion.truncated for one in adapter.scored] == [False, True, True]


def test_a_masked_completion_leaves_the_baseline_too() -> None:
    adapter = RewardAdapter(one_by_one(length_of), frozenset({END}), mask_truncated=True)
    values = adapter(["q"] * 2, ["a", "bb"], [[1, END], [1, 2]], ["calbench"] * 2, ["t"] * 2)
    assert values == [1.0, None]
    assert adapter.scored[1].score.value == 2.0


def test_a_right_answer_earns_1_unless_it_was_cut_off() -> None:
    data = CalbenchData(split="train", generated=GeneratedTasks(count=1))
    score = calendar_scorer(RewardConfig())
    for example in list(TASKS["calbench"](data))[:10]:
        whole = Completion(example.reference_answer, "calbench", example.target, False, False)
        cut = Completion(example.reference_answer, "calbench", example.target, True, False)
        assert score(whole).value == 1.0
        assert score(cut).value == 0.0
        assert score(cut).note == "truncated"
        assert set(score(whole).parts) <= set(PARTS["calbench"])

"""Faults seen in systems like this one, where no other test holds them off.

python -m pytest tests/train/test_faults.py -v
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from configs.data import BasisData
from configs.errors import UserError
from configs.training import Training
from rewards.score import Score
from tasks.catalog import TASKS
from tests.train.basis_data import write_users
from tests.train.conftest import Configure
from tests.train.test_run import STOPPED, Interrupting, rows_of, same_weights, train
from train.reward_adapter import Completion
from train.scorers import PARTS

LORA = ("sft=null", "model.lora={rank: 4, alpha: 8}", "curriculum.stages=[{steps: 4}]")


def test_no_two_parts_share_a_name_so_that_no_metric_is_the_mean_of_two() -> None:
    names = [name for parts in PARTS.values() for name in parts]
    assert len(set(names)) == len(names) > 4
    assert not {"mean", "std"} & set(names)


@pytest.mark.parametrize(
    "extra",
    [
        "multi_objective_aggregation: normalize_then_sum",  # would ignore scale_rewards
        "eval_strategy: steps",  # would sample as training does; scores come from `eval`
        "reward_weights: [0.5]",  # not saved in checkpoints; weights are those of `reward`
    ],
)
def test_what_would_silently_train_or_score_otherwise_is_refused(
    configure: Configure, extra: str
) -> None:
    with pytest.raises(UserError, match=f"grpo.extra.{extra.partition(':')[0]}: is set by this"):
        configure(f"grpo.extra={{{extra}}}")


def test_no_prompt_holds_an_earlier_answer_that_a_template_could_shorten(
    configure: Configure, tmp_path: Path
) -> None:
    """Qwen3's template drops the thinking of past turns; ours are told inside one user message."""
    folder, _ = write_users(tmp_path)
    basis = BasisData(task="basis", split="train", files=(str(folder),), settings={"guided": (5,)})
    section = configure().sections[0]
    examples = [*TASKS[section.task](section), *TASKS["basis"](basis)]
    roles = {tuple(message["role"] for message in one.messages) for one in examples}
    assert {one.task for one in examples} == {"calbench", "basis"}
    assert roles == {("system", "user")}


def adapters(config: Training) -> dict[str, torch.Tensor]:
    folder = config.folder / "checkpoints" / "checkpoint-4"
    return load_file(folder / "adapter_model.safetensors")


def test_a_resumed_adapter_is_that_of_the_uninterrupted_run_to_the_bit(
    configure: Configure,
) -> None:
    whole, stopped = configure(*LORA), configure(*LORA)
    assert train(whole) == 0
    assert train(stopped, Interrupting(8 * 2 + 3, crash=False)) == STOPPED
    assert train(stopped, resume=True) == 0
    first, second = adapters(whole), adapters(stopped)
    assert first.keys() == second.keys() and len(first) > 0
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(one.abs().max() > 0 for name, one in first.items() if "lora_B" in name)
    assert same_weights(whole.folder / "final", stopped.folder / "final")


def constant(completion: Completion) -> Score:
    return Score(0.5, {"vowels": 0.5, "length": 0.5})


def test_groups_of_equal_rewards_leave_the_policy_as_it_is(configure: Configure) -> None:
    config = configure("sft=null", "curriculum.stages=[{steps: 2}]", "grpo.beta=0.0")
    assert train(config, constant) == 0
    rows = rows_of(config.folder / "metrics.jsonl")
    assert [(row["grad_norm"], row["dead_group_frac"]) for row in rows] == [(0.0, 1.0)] * 2
    assert same_weights(config.folder / "base", config.folder / "final")

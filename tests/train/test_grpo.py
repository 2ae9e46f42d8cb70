"""Our one override of TRL's trainer, on a real trainer: rewards in, tensor and metrics out.

python -m pytest tests/train/test_grpo.py -v
"""

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from configs.errors import UserError
from rewards.score import Score
from tests.train.conftest import Configure
from train.curriculum import Plan
from train.grpo import (
    BeliefTrainer,
    dead_fraction,
    distinct_fraction,
    grpo_arguments,
    make_trainer,
    score_metrics,
)
from train.models import Policy, eos_ids, load_model, load_tokenizer
from train.reward_adapter import Completion, RewardAdapter
from train.rows import to_dataset
from train.scorers import one_by_one

from .test_rows import example

INF, NAN = math.inf, math.nan


def by_text(completion: Completion) -> Score:
    """The completion says what it earns: ``value part``, either of them a number or None."""
    value, part = (None if word == "None" else float(word) for word in completion.text.split())
    return Score(value, {"judge": part, "solver": 1.0})


def trainer_of(configure: Configure, folder: Path, *overrides: str) -> BeliefTrainer:
    config = configure(*overrides)
    tokenizer = load_tokenizer(config.model, ["B8 M100"])
    policy = Policy(load_model(config.model, tokenizer, 0), tokenizer)
    adapter = RewardAdapter(
        one_by_one(by_text),
        eos_ids(policy.model, tokenizer),
        mask_truncated=config.grpo.mask_truncated,
    )
    rows = to_dataset([example("a")], Plan(0, 2, "", (0,) * 4, (1,) * 4, ()))
    return make_trainer(config, policy, rows, adapter, ["judge", "solver"], folder, [])


@pytest.fixture(scope="module")
def trainer(configure: Configure, tmp_path_factory: pytest.TempPathFactory) -> BeliefTrainer:
    return trainer_of(configure, tmp_path_factory.mktemp("trainer"))


def rewards(trainer: BeliefTrainer, texts: list[str], end: int | None = None) -> list[float]:
    """What the trainer makes of these completions of one prompt."""
    inputs: list[dict[str, Any]] = [dict(row) for row in trainer.train_dataset.select([0])]
    end = trainer.processing_class.eos_token_id if end is None else end
    trainer._metrics["train"].clear()
    tensor = trainer._calculate_rewards(
        inputs * len(texts),
        [inputs[0]["prompt"]] * len(texts),
        [[{"role": "assistant", "content": text}] for text in texts],
        [[5, end]] * len(texts),
    )
    assert tensor.shape == (len(texts), 1)
    values: list[float] = tensor[:, 0].tolist()
    return values


def metrics(trainer: BeliefTrainer) -> dict[str, float]:
    return {name: values[0] for name, values in trainer._metrics["train"].items()}


def test_trl_still_has_the_method_that_is_overridden() -> None:
    """When this fails, read TRL's new one and adapt ``BeliefTrainer._calculate_rewards``."""
    names = list(inspect.signature(GRPOTrainer._calculate_rewards).parameters)
    assert names == ["self", "inputs", "prompts", "completions", "completion_ids_list"]
    assert names == list(inspect.signature(BeliefTrainer._calculate_rewards).parameters)
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "self._calculate_rewards(inputs, prompts, completions, completion_ids_list)" in source
    assert 'self._logs["advantages"].extend(all_process_advantages.tolist())' in source


def test_inf_and_none_are_nan_and_counted(trainer: BeliefTrainer) -> None:
    values = rewards(trainer, ["inf 1", "1 1", "None 1", "0 1"])
    assert values == pytest.approx([NAN, 1.0, NAN, 0.0], nan_ok=True)
    logged = metrics(trainer)
    assert logged["nonfinite_rewards"] == 1
    assert logged["unscorable_frac"] == 0.5
    assert logged["dead_group_frac"] == 0


def test_every_part_is_logged_under_its_own_name_over_what_it_applies_to(
    trainer: BeliefTrainer,
) -> None:
    rewards(trainer, ["1 0.5", "1 None", "1 1", "1 inf"])
    logged = metrics(trainer)
    assert logged["rewards/judge"] == 0.75
    assert logged["missing/judge"] == 2
    assert logged["rewards/solver"] == 1.0
    assert logged["missing/solver"] == 0
    assert trainer.reward_func_names == ["reward"]


def row(
    turns: int, task: str, reward: float | None, parts: dict[str, float | None], failed: str = ""
) -> dict[str, Any]:
    return {
        "turns": turns, "task": task, "reward": reward, "parts": parts, "truncated": False,
        "completion": "a b", "note": "", "failures": {failed: "timeout"} if failed else {},
    }  # fmt: skip


def test_parts_are_logged_by_bin_of_turns_where_they_apply() -> None:
    rows = [
        row(1, "calbench", 0.5, {"entries": 0.25}),
        row(3, "calbench", 1.0, {"entries": 0.75}),
        row(8, "calbench", 0.0, {"entries": 0.0}),
        row(0, "basis", None, {"solution": None}, failed="solution"),
        row(2, "basis", 0.4, {"solution": 0.4}),
    ]
    logged = dict(score_metrics(rows, ["entries", "solution"]))
    binned = {name: value for name, value in logged.items() if name.startswith("turns_")}
    assert binned == pytest.approx(
        {
            "turns_0_3/reward/calbench": 0.75,
            "turns_0_3/rewards/entries": 0.5,
            "turns_0_3/spread/entries": math.sqrt(0.125),
            "turns_0_3/reward/basis": 0.4,
            "turns_0_3/rewards/solution": 0.4,
            "turns_0_3/spread/solution": NAN,
            "turns_0_3/failed/solution": 0.5,
            "turns_8_10/reward/calbench": 0.0,
            "turns_8_10/rewards/entries": 0.0,
            "turns_8_10/spread/entries": NAN,
        },
        nan_ok=True,
    )
    assert logged["rewards/entries"] == pytest.approx(1 / 3)


def test_dead_groups_and_equal_completions_are_told(trainer: BeliefTrainer) -> None:
    rewards(trainer, ["1 1", "1 1", "1 1", "1 0", "0 1", "1 1", "0 1", "1 1"])
    logged = metrics(trainer)
    assert logged["dead_group_frac"] == 0.5
    assert logged["distinct_frac"] == 0.5


def test_a_group_with_fewer_than_two_scores_is_dead() -> None:
    groups = [[1.0, 1.0, 1.0], [0.0, 1.0, NAN], [NAN, 1.0, NAN], [NAN, NAN, NAN]]
    assert dead_fraction(torch.tensor(groups)) == 0.75
    assert distinct_fraction(["a", "a", "b", "c"], 2) == 0.75


def test_all_truncated_and_masked_stops_the_run_with_advice(
    configure: Configure, tmp_path: Path
) -> None:
    masking = trainer_of(configure, tmp_path, "grpo.mask_truncated=true")
    group = ["1 1", "0 1", "1 1", "0 1"]
    for _ in range(2):
        assert all(math.isnan(value) for value in rewards(masking, group, end=5))
    with pytest.raises(UserError, match=r"cut at 48 tokens and masked.*grpo\.max_completion_len"):
        rewards(masking, group, end=5)


def test_a_models_own_sampling_defaults_do_not_leak_into_the_rollouts(
    configure: Configure, tmp_path: Path
) -> None:
    config = configure()
    tokenizer = load_tokenizer(config.model, ["B8 M100"])
    model = load_model(config.model, tokenizer, 0)
    assert model.generation_config is not None
    model.generation_config.update(top_k=1, temperature=0.01, do_sample=True)
    rows = to_dataset([example("a")], Plan(0, 2, "", (0,) * 4, (1,) * 4, ()))
    adapter = RewardAdapter(one_by_one(by_text), frozenset())
    trainer = make_trainer(config, Policy(model, tokenizer), rows, adapter, [], tmp_path, [])
    prompt_ids, _, fields = trainer._tokenize_prompts([rows[0]["prompt"]] * 8)
    completions, _ = trainer._generate_single_turn(prompt_ids, None, fields, 8)
    assert len({tuple(ids) for ids in completions}) == 8


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            "{top_k: 5, max_prompt_length: 10}",
            "grpo.extra.max_prompt_length: 10: TRL refuses it: GRPOConfig has no such argument; "
            "leave it out",
        ),
        (
            "{optim: best}",
            "grpo.extra.optim: 'best': TRL refuses it: best is not a valid Optimizer",
        ),
        ("{hub_strategy: x}", "grpo.extra.hub_strategy: 'x': TRL refuses it: x is not a valid Hub"),
    ],
)
def test_an_argument_that_trl_refuses_is_named_in_one_short_line(
    configure: Configure, tmp_path: Path, extra: str, message: str
) -> None:
    with pytest.raises(UserError) as refused:
        grpo_arguments(configure(f"grpo.extra={extra}"), tmp_path)
    assert str(refused.value).startswith(message)
    assert len(str(refused.value)) < 280


def test_trl_arguments_keep_order_and_windows(configure: Configure, tmp_path: Path) -> None:
    config = configure("grpo.micro_batch=2", "grpo.steps_per_generation=2", "grpo.extra={top_k: 5}")
    arguments = grpo_arguments(config, tmp_path)
    assert arguments.shuffle_dataset is False
    assert arguments.num_train_epochs == 1
    assert arguments.gradient_accumulation_steps == 4  # 2 prompts * 4 completions / 2
    assert arguments.steps_per_generation == 8
    assert arguments.generation_batch_size == 16
    assert arguments.top_k == 5

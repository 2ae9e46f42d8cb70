"""Advantages of parts normalized by themselves: by hand, against TRL's, and in a real trainer.

python -m pytest tests/train/test_aggregation.py -v
"""

import math
from pathlib import Path

import pytest
import torch

from rewards.score import Score
from tests.train.conftest import Configure
from tests.train.test_run import completions, rows_of, train
from train.aggregation import NormalizedSum, normalized_sum
from train.reward_adapter import Completion

NAN = math.nan


def advantages(
    rows: list[tuple[float, ...]], weights: tuple[float, ...], group: int, floor: float = 0.05
) -> list[float]:
    found = normalized_sum(torch.tensor(rows), torch.tensor(weights), group, floor)
    values: list[float] = found.tolist()
    return values


def test_a_jitter_of_a_hundredth_does_not_outweigh_right_and_wrong() -> None:
    """Two groups: solver 1, 1, 0, 0 and a judge that is all but constant (TRL: +0.72, -1.61)."""
    rows = [(1.0, 0.50), (1.0, 0.50), (0.0, 0.50), (0.0, 0.51)] * 2
    found = advantages(rows, (1.0, 1.0), 4)
    assert found == pytest.approx([0.935, 0.935, -0.935, -0.935] * 2, abs=5e-4)
    assert advantages(rows, (1.0, 1.0), 4, floor=0.0)[2:4] != pytest.approx([-0.935, -0.935])


def test_each_part_is_normalized_and_then_weighed() -> None:
    """By hand: z of 0, 1 is -+0.7071; with weights 3 and 1 the four sums are +-0.7071 and +-0.3536,
    of spread sqrt((2 * 0.5 + 2 * 0.125) / 3) = 0.6455 over the batch."""
    rows = [(0.0, 0.2), (1.0, 0.6), (0.0, 0.6), (1.0, 0.2)]
    expected = [-0.7071 / 0.6455, 0.7071 / 0.6455, -0.3536 / 0.6455, 0.3536 / 0.6455]
    assert advantages(rows, (3.0, 1.0), 2) == pytest.approx(expected, abs=1e-3)


def test_a_part_that_does_not_apply_takes_nothing_from_the_others() -> None:
    belief, plan = [(0.0, NAN), (1.0, NAN)], [(NAN, 0.0), (NAN, 0.4)]
    found = advantages(belief + plan, (3.0, 1.0), 2)
    assert found == pytest.approx([-0.866, 0.866, -0.866, 0.866], abs=1e-3)


def test_a_row_that_lacks_a_part_or_a_reward_leaves_every_baseline() -> None:
    rows = [(1.0, NAN), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]  # the first: its judge timed out
    three = advantages(rows[1:], (1.0, 1.0), 3)
    found = advantages(rows, (1.0, 1.0), 4)
    assert math.isnan(found[0]) and found[1:] == pytest.approx(three)
    by_name = NormalizedSum({"solver": 1.0, "judge": 1.0}, 4, 0.05)
    counted = [{"solver": one, "judge": two} for one, two in [(1.0, 1.0), *rows[1:]]]
    again = by_name.advantages(counted, torch.tensor([NAN, 1.0, 0.5, 0.0])).tolist()
    assert math.isnan(again[0]) and again[1:] == pytest.approx(three)


def test_groups_without_spread_have_advantages_of_exactly_0() -> None:
    rows = [(0.5, 0.1), (0.5, 0.1), (0.5, NAN), (0.5, NAN), (1.0, 0.0), (0.0, 1.0)]
    assert advantages(rows, (1.0, 1.0), 2)[:4] == [0.0] * 4
    assert advantages(rows[:2], (1.0, 1.0), 2) == [0.0, 0.0]
    lonely = advantages([(1.0, 1.0), (NAN, NAN)], (1.0, 1.0), 2)
    assert lonely[0] == 0.0 and math.isnan(lonely[1])


def lettered(completion: Completion) -> Score:
    """Two parts that a random model earns in different ways, and now and then no reward."""
    text = completion.text
    parts = {
        "entries": sum(one in "aeiou" for one in text) / max(1, len(text)),
        "optimality": float(len(text) % 2),
    }
    value = None if len(text) % 7 == 0 else sum(parts.values()) / 2
    return Score(value, parts, counted=parts)


GDPO = ("sft=null", "curriculum.stages=[{steps: 2}]", "grpo.aggregation=normalize_then_sum")


def test_a_run_trains_on_these_advantages_and_logs_the_composed_reward(
    configure: Configure, tmp_path: Path
) -> None:
    config = configure(*GDPO, "reward={entries: 1.0, optimality: 3.0}", "grpo.std_floor=0.001")
    assert train(config, lettered) == 0
    rows = completions(config)
    metrics = rows_of(config.folder / "metrics.jsonl")
    for step, batch in ((1, rows[:8]), (2, rows[8:])):
        values = [
            [
                NAN if one["reward"] is None else one["parts"][name]
                for name in ("entries", "optimality")
            ]
            for one in batch
        ]
        expected = normalized_sum(torch.tensor(values), torch.tensor([1.0, 3.0]), 4, 0.001)
        found = [one["advantage"] for one in batch]
        assert found == pytest.approx(expected.nan_to_num(nan=0.0).tolist(), abs=1e-5)
        assert any(found)
        known = [one["reward"] for one in batch if one["reward"] is not None]
        assert metrics[step - 1]["reward"] == pytest.approx(sum(known) / len(known), abs=1e-6)
        assert metrics[step - 1]["grad_norm"] > 0


def opposed(completion: Completion) -> Score:
    """Every sum is 1; only the parts differ."""
    odd = float(len(completion.text) % 2)
    parts = {"entries": odd, "optimality": 1.0 - odd}
    return Score(1.0, parts, counted=parts)


def test_a_group_of_equal_sums_and_different_parts_is_not_dead(configure: Configure) -> None:
    weighed = "reward={entries: 1.0, optimality: 3.0}"
    config = configure(*GDPO, weighed)
    assert train(config, opposed) == 0
    alive = rows_of(config.folder / "metrics.jsonl")[0]
    assert alive["dead_group_frac"] < 1 and alive["grad_norm"] > 0
    summed = configure(*GDPO[:2], weighed)
    assert train(summed, opposed) == 0
    dead = rows_of(summed.folder / "metrics.jsonl")[0]
    assert dead["dead_group_frac"] == 1 and dead["grad_norm"] == 0

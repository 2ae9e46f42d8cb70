"""python -m pytest tests/train/test_curriculum.py -v"""

from collections import Counter

import pytest

from configs.errors import UserError
from configs.training import Mix
from train.curriculum import PlanRow, StageSize, check_same, plan

# 12 rows: 4 of each of 2, 5 and 9 turns, half belief and half direct.
ROWS = [
    PlanRow(f"r{number}", turns, condition, "calbench")
    for number, (turns, condition) in enumerate(
        (turns, condition)
        for turns in (2, 5, 9)
        for condition in ("belief", "direct")
        for _ in range(2)
    )
]
EARLY = StageSize(Mix(turns={2: 1.0, 5: 1.0}), 3, "stages.0")
LATE = StageSize(Mix(turns={2: 1.0, 9: 3.0}), 2, "stages.1")


def turns_of(indices: tuple[int, ...]) -> Counter[int]:
    return Counter(ROWS[index].turns for index in indices)


def test_stages_come_in_order_with_the_turns_they_ask_for() -> None:
    made = plan(0, [EARLY, LATE], ROWS, rows_per_batch=4)
    assert made.stages == (1,) * 12 + (2,) * 8
    assert turns_of(made.indices[:12]) == {2: 6, 5: 6}
    assert turns_of(made.indices[12:]) == {2: 2, 9: 6}


def test_the_same_arguments_give_the_same_plan_and_another_seed_another() -> None:
    first = plan(0, [EARLY, LATE], ROWS, rows_per_batch=4)
    assert plan(0, [EARLY, LATE], ROWS, rows_per_batch=4) == first
    assert plan(1, [EARLY, LATE], ROWS, rows_per_batch=4).sha256 != first.sha256


def test_conditions_are_drawn_by_their_weights() -> None:
    stage = StageSize(Mix(conditions={"belief": 3.0, "direct": 1.0}), 2, "stages.0")
    made = plan(0, [stage], ROWS, rows_per_batch=4)
    assert Counter(ROWS[i].condition for i in made.indices) == {"belief": 6, "direct": 2}


def test_a_stage_without_tables_keeps_the_shares_of_the_data() -> None:
    rows = [*ROWS[:4], ROWS[11]]  # four of 2 turns, one of 9
    made = plan(0, [StageSize(Mix(), 2, "stages.0")], rows, rows_per_batch=5)
    assert Counter(rows[i].turns for i in made.indices) == {2: 8, 9: 2}


def test_no_row_comes_again_before_all_of_its_kind_also_across_stages() -> None:
    one_batch = StageSize(Mix(turns={2: 1.0}, conditions={"belief": 1.0}), 1, "stages.0")
    made = plan(0, [one_batch, one_batch], ROWS, rows_per_batch=1)
    assert sorted(made.indices) == [0, 1]


def test_one_pass_takes_every_row_and_pads_from_the_same_stage_and_says_so() -> None:
    rows = ROWS[:7]  # 4 of 2 turns, 3 of 5
    made = plan(0, [StageSize(Mix(turns={2: 1.0, 5: 1.0}), None, "s")], rows, rows_per_batch=2)
    assert len(made.indices) == 8
    assert set(made.indices) == set(range(7))
    assert made.notes == ("stage 1: 7 rows, padded with 1 of them to fill batches of 2",)


def test_repeats_are_said() -> None:
    stage = StageSize(Mix(turns={2: 1.0}), 3, "stages.0")
    assert plan(0, [stage], ROWS, rows_per_batch=4).notes == (
        "stage 1: 4 rows, each up to 3 times",
    )


# The same, and 5 of BASIS at 0, 2 and 9 turns.
MIXED = [
    *ROWS,
    *(PlanRow(f"b{n}", turns, "guided", "basis") for n, turns in enumerate((0, 0, 2, 9, 9))),
]


def drawn(stage: StageSize, rows_per_batch: int) -> Counter[tuple[str, int]]:
    made = plan(0, [stage], MIXED, rows_per_batch)
    return Counter((MIXED[i].task, MIXED[i].turns) for i in made.indices)


def test_tasks_get_their_shares_whatever_the_tables_of_turns_make_of_their_rows() -> None:
    mix = Mix(tasks={"calbench": 1.0, "basis": 3.0}, turns={0: 1.0, 2: 1.0, 9: 4.0})
    counts = drawn(StageSize(mix, 5, "s"), 8)
    assert counts == {
        ("calbench", 2): 2, ("calbench", 9): 8,
        ("basis", 0): 5, ("basis", 2): 5, ("basis", 9): 20,
    }  # fmt: skip


def test_few_rows_are_shared_out_among_tasks_first() -> None:
    counts = drawn(StageSize(Mix(tasks={"calbench": 1.0, "basis": 1.0}), 1, "s"), 4)
    assert sum(n for (task, _), n in counts.items() if task == "basis") == 2


def test_a_condition_of_one_task_leaves_the_other_without_rows_and_is_refused() -> None:
    mix = Mix(tasks={"calbench": 1.0, "basis": 1.0}, conditions={"belief": 1.0})
    with pytest.raises(UserError, match=r"s\.tasks: no basis example has both the turns and"):
        plan(0, [StageSize(mix, 1, "s")], MIXED, 4)
    with pytest.raises(UserError, match=r"s\.tasks: no example has 'basis'; the data has calb"):
        plan(0, [StageSize(mix, 1, "s")], ROWS, 4)


def test_turns_that_no_row_has_are_refused_by_key() -> None:
    stage = StageSize(Mix(turns={7: 1.0}), 1, "curriculum.stages.0")
    with pytest.raises(
        UserError, match=r"curriculum\.stages\.0\.turns: .* 7; the data has 2, 5, 9"
    ):
        plan(0, [stage], ROWS, rows_per_batch=4)


def test_another_plan_is_refused_naming_what_differs() -> None:
    saved = {"num_generations": 8, "world_size": 1, "grpo.sha256": "a", "grpo.rows_per_batch": 4}
    check_same(saved, dict(saved), "plan.json")
    now = {**saved, "world_size": 2, "grpo.sha256": "b"}
    with pytest.raises(UserError, match=r"grpo\.sha256, world_size \(1 saved, 2 now\)"):
        check_same(saved, now, "plan.json")


@pytest.mark.parametrize("resumed_after", [0, 1, 3])
def test_two_processes_see_the_plan_in_order_also_when_resumed(resumed_after: int) -> None:
    """TRL's sampler under accelerate's sharding, as the trainer combines them."""
    from accelerate.data_loader import BatchSamplerShard, SkipBatchSampler
    from torch.utils.data import BatchSampler
    from trl.trainer.utils import RepeatSampler

    positions = list(range(8))  # four steps of two prompts, two completions each
    seen: list[set[int]] = [set() for _ in range(4 - resumed_after)]
    for rank in (0, 1):
        sampler = RepeatSampler(positions, mini_repeat_count=2, batch_size=2, shuffle=False)
        batches = BatchSamplerShard(BatchSampler(sampler, 2, drop_last=True), 2, rank)
        for step, batch in enumerate(SkipBatchSampler(batches, skip_batches=resumed_after)):
            seen[step] |= set(batch)
    assert seen == [{2 * step, 2 * step + 1} for step in range(resumed_after, 4)]

"""python -m pytest tests/train/test_rows.py -v"""

import json
from dataclasses import replace

import pytest

from configs.errors import UserError
from tasks.example import Example, Message
from train.curriculum import Plan
from train.rows import check_columns, fitting, length_table, to_dataset


def example(name: str, turns: int = 2, target: str = "{}") -> Example:
    return Example(
        id=name,
        task="calbench",
        source="task-1",
        source_hash="0",
        story="story-1",
        variant="PRIVATE",
        condition="belief",
        holder="A",
        turns=turns,
        messages=(Message(role="user", content=f"say {name}"),),
        target=target,
        reference_answer="{}",
    )


def plan_of(*indices: int) -> Plan:
    return Plan(0, 1, "", indices, (1,) * len(indices), ())


def test_rows_follow_the_plan_and_carry_their_place() -> None:
    rows = to_dataset([example("a", 2), example("b", 9)], plan_of(1, 0, 1))
    assert rows["example_id"] == ["b", "a", "b"]
    assert rows["plan_pos"] == [0, 1, 2]
    assert rows["turns"] == [9, 2, 9]
    assert rows["prompt"][0] == [{"role": "user", "content": "say b"}]


def test_targets_of_different_shape_are_not_padded_into_each_other() -> None:
    one, other = {"name": "x"}, {"text": [1, {"deep": None}]}
    examples = [example("a", target=json.dumps(one)), example("b", target=json.dumps(other))]
    rows = to_dataset(examples, plan_of(0, 1))
    assert [json.loads(text) for text in rows["target"]] == [one, other]


@pytest.mark.parametrize(
    "name",
    ["prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric",
     "environments", "environment", "image", "images"],
)  # fmt: skip
def test_a_column_that_trl_takes_for_its_own_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"column '{name}'"):
        check_columns({"prompt": 1, name: 2})


EXAMPLES = [example("short"), example("middle"), replace(example("long"), turns=9)]
LENGTHS = [10, 100, 5000]


def test_lengths_are_told_per_number_of_turns_and_long_prompts_by_name() -> None:
    two, nine = length_table(EXAMPLES, LENGTHS, most=4096 - 512)
    assert (two.turns, two.rows, two.shortest, two.longest, two.over) == (2, 2, 10, 100, ())
    assert (nine.turns, nine.rows, nine.longest, nine.over) == (9, 1, 5000, ("long",))


def test_a_prompt_over_the_context_is_dropped_or_refused_never_cut() -> None:
    table = length_table(EXAMPLES, LENGTHS, most=4096 - 512)
    assert [e.id for e in fitting(EXAMPLES, table, 3584, "drop")] == ["short", "middle"]
    with pytest.raises(UserError, match=r"1 prompts are longer than 3584 .* 5000\): long;"):
        fitting(EXAMPLES, table, 3584, "error")

"""Examples -> the rows that TRL reads, and the length table that is checked before training.

A prompt that does not fit the context is named and refused (or dropped by policy), never cut: a cut
prompt loses the rules or the first deliveries and still trains.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from configs.errors import UserError
from tasks.example import Example
from train.curriculum import Plan, PlanRow
from train.models import TemplateKwargs, render_prompts

# TRL overwrites these, or takes them for something else (an `image` column switches to vision).
FORBIDDEN = {
    "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric",
    "environments", "environment", "image", "images",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of the rendered prompts of a task told in ``turns`` turns."""

    task: str
    turns: int
    rows: int
    shortest: int
    longest: int
    over: tuple[str, ...]  # ids of examples that leave no room for a completion


def plan_rows(examples: Sequence[Example]) -> list[PlanRow]:
    return [PlanRow(one.id, one.turns, one.condition, one.task) for one in examples]


def to_dataset(examples: Sequence[Example], plan: Plan) -> Dataset:
    """One row per position of the plan, in order. Nested values travel as JSON text."""
    rows = [
        _row(examples[index], stage, position)
        for position, (index, stage) in enumerate(zip(plan.indices, plan.stages, strict=True))
    ]
    check_columns(rows[0])
    return Dataset.from_list(rows)


def _row(example: Example, stage: int, position: int) -> dict[str, Any]:
    return {
        "prompt": [dict(message) for message in example.messages],
        "target": example.target,
        "example_id": example.id,
        "task": example.task,
        "condition": example.condition,
        "turns": example.turns,
        "stage": stage,
        "plan_pos": position,
    }


def check_columns(row: Mapping[str, object]) -> None:
    """Raises ``UserError`` for a column name that TRL would take for its own."""
    for name in sorted(FORBIDDEN & row.keys()):
        raise UserError(f"column {name!r}: TRL uses this name itself; call it something else")


def prompt_lengths(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    template_kwargs: TemplateKwargs,
) -> list[int]:
    """Tokens of each example's rendered prompt, the opening of the answer included."""
    texts = render_prompts(tokenizer, [example.messages for example in examples], template_kwargs)
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]


def answer_ids(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, end_of_turn: int
) -> list[list[int]]:
    """The tokens of each reference answer, the end of the turn included."""
    texts = [example.reference_answer for example in examples]
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [[*answer, end_of_turn] for answer in ids]


def length_table(examples: Sequence[Example], lengths: Sequence[int], most: int) -> list[Lengths]:
    """Prompt lengths per task and number of turns; ``most``: the longest prompt that still fits."""
    by_turns: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for example, length in zip(examples, lengths, strict=True):
        by_turns[example.task, example.turns].append((length, example.id))
    return [
        Lengths(
            task=task,
            turns=turns,
            rows=len(pairs),
            shortest=min(pairs)[0],
            longest=max(pairs)[0],
            over=tuple(name for length, name in pairs if length > most),
        )
        for (task, turns), pairs in sorted(by_turns.items())
    ]


def fitting(
    examples: Sequence[Example],
    table: Sequence[Lengths],
    most: int,
    policy: Literal["error", "drop"],
) -> list[Example]:
    """The examples whose prompt fits. Raises ``UserError`` under policy ``error``."""
    over = {name for row in table for name in row.over}
    if over and policy == "error":
        first, longest = sorted(over)[0], max(row.longest for row in table)
        raise UserError(
            f"{len(over)} prompts are longer than {most} tokens (the longest has {longest}; first: "
            f"{first}); raise model.context, lower grpo.max_completion_length or set overlong=drop"
        )
    kept = [example for example in examples if example.id not in over]
    if not kept:
        raise UserError(f"no prompt fits {most} tokens; raise model.context")
    return kept

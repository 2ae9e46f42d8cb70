"""All that is decided before a weight is loaded: tokenizer, prompt lengths, and the plan."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from configs.errors import UserError
from configs.training import Stage, Training
from tasks.example import Example
from train.curriculum import Plan, PlanRow, StageSize, plan
from train.held_out import HeldOutPrompts, held_out_prompts
from train.models import load_tokenizer, template_kwargs
from train.pool import chosen, over
from train.rows import Lengths, answer_ids, fitting, length_table, plan_rows, prompt_lengths


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run ready to start: the examples that fit, and the order of both phases.

    ``held_out``: what chooses the best checkpoint, where one is asked for.
    """

    config: Training
    examples: tuple[Example, ...]
    tokenizer: PreTrainedTokenizerBase
    lengths: tuple[Lengths, ...]
    sft: Plan | None
    grpo: Plan
    held_out: HeldOutPrompts | None = None

    @property
    def notes(self) -> list[str]:
        """What the plans had to repeat or pad."""
        warm_start = [f"sft {note}" for note in self.sft.notes] if self.sft else []
        return warm_start + [f"grpo {note}" for note in self.grpo.notes]


def prepare(config: Training, examples: Sequence[Example]) -> Prepared:
    """Tokenizer, length table and plan. Raises ``UserError`` for what does not fit."""
    tokenizer = load_tokenizer(config.model, texts(examples))
    kwargs = template_kwargs(config.model)
    most = config.model.context - config.grpo.max_completion_length
    table = length_table(examples, prompt_lengths(examples, tokenizer, kwargs), most)
    kept = fitting(examples, table, most, config.overlong)
    check_answers_fit(config, kept, tokenizer)
    rows = plan_rows(kept)
    sft = None
    if config.sft is not None:
        size = StageSize(config.sft.mix, config.sft.steps, "sft.mix")
        sft = plan(config.seed, [size], rows, config.sft.batch)
    held_out = held_out_prompts(config, tokenizer)
    return Prepared(
        config, tuple(kept), tokenizer, tuple(table), sft, _grpo_plan(config, rows), held_out
    )


def _grpo_plan(config: Training, rows: Sequence[PlanRow]) -> Plan:
    """The stages' plan, over the rows that the pool leaves."""
    sizes = [_stage_size(config, n, stage) for n, stage in enumerate(config.curriculum.stages)]
    batch, pool = config.grpo.prompts_per_generation, config.curriculum.pool
    if pool is None:
        return plan(config.seed, sizes, rows, batch)
    places, note = chosen([row.id for row in rows], pool)
    return over(plan(config.seed, sizes, [rows[i] for i in places], batch), places, note)


def texts(examples: Sequence[Example]) -> list[str]:
    """What a tokenizer of ours is trained on: every message and every right answer."""
    prompts = [message["content"] for example in examples for message in example.messages]
    return prompts + [example.reference_answer for example in with_right_answer(examples)]


def with_right_answer(examples: Sequence[Example]) -> list[Example]:
    """Those whose reference answer is a right answer in the form asked for.

    That of a BASIS request is a ceiling for its judge, made of the hidden texts: no instance comes
    with a right solution.
    """
    return [example for example in examples if example.task != "basis"]


def _stage_size(config: Training, number: int, stage: Stage) -> StageSize:
    batches = None if stage.steps is None else stage.steps // config.grpo.window
    return StageSize(stage, batches, f"curriculum.stages.{number}")


def check_answers_fit(
    config: Training, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse a completion limit under which a right answer is cut off."""
    known = with_right_answer(examples)
    if not known:
        return
    lengths = [len(ids) for ids in answer_ids(known, tokenizer, end_of_turn=0)]
    limit = config.grpo.max_completion_length
    if max(lengths) > limit:
        name = known[lengths.index(max(lengths))].id
        raise UserError(
            f"grpo.max_completion_length: {limit} tokens are fewer than the {max(lengths)} of a "
            f"right answer ({name}); raise it"
        )

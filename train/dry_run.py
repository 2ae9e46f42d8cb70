"""What a dry run says before anything costs: lengths, the plan, memory, hours, dead groups."""

from collections.abc import Iterator
from pathlib import Path

from train.estimate import hours, memory, shape_of
from train.grpo import total_steps
from train.models import template_kwargs
from train.pool import dead_share, read_rates
from train.prepare import Prepared
from train.rows import Lengths, prompt_lengths

NAMED = 20  # over-long prompts that are named for each number of turns


def describe(prepared: Prepared, peak: float, pilot: Path | None) -> Iterator[str]:
    """Lines to print. ``peak``: operations a second of one device; ``pilot``: its pass rates.

    Raises ``UserError`` when the pilot file is none.
    """
    config = prepared.config
    most = config.model.context - config.grpo.max_completion_length
    yield (
        f"longest prompt that fits: {most} = context {config.model.context} - "
        f"max_completion_length {config.grpo.max_completion_length}"
    )
    for row in prepared.lengths:
        yield from _over(row)
    steps = total_steps(config.grpo, len(prepared.grpo.indices))
    yield f"plan {prepared.grpo.sha256}: {len(prepared.grpo.indices)} prompts, {steps} GRPO steps"
    yield from _needs(prepared, steps, peak)
    if pilot is not None:
        yield _dead(prepared, pilot)


def _over(row: Lengths) -> Iterator[str]:
    """Every prompt that does not fit, by name; none is ever cut."""
    if row.over:
        more = f" and {len(row.over) - NAMED} more" if len(row.over) > NAMED else ""
        yield f"{row.turns} turns, too long and left out: {', '.join(row.over[:NAMED])}{more}"


def _needs(prepared: Prepared, steps: int, peak: float) -> Iterator[str]:
    config = prepared.config
    shape = shape_of(config, len(prepared.tokenizer))
    if shape is None:
        yield f"memory and hours: unknown, {config.model.path!r} has no config at hand"
        return
    used = [prepared.examples[index] for index in sorted(set(prepared.grpo.indices))]
    lengths = prompt_lengths(used, prepared.tokenizer, template_kwargs(config.model))
    yield from memory(config, shape, max(lengths))
    yield hours(config, shape, steps, sum(lengths) / len(lengths), peak)


def _dead(prepared: Prepared, pilot: Path) -> str:
    """The share of groups without spread that the plan's own prompts lead to expect."""
    rates = read_rates(pilot)
    asked = [prepared.examples[index].id for index in prepared.grpo.indices]
    known = [rates[name] for name in asked if name in rates]
    group = prepared.config.grpo.num_generations
    if not known:
        return f"dead groups: {pilot} knows none of the plan's prompts"
    return (
        f"dead groups of {group}: {dead_share(known, group):.1%} expected, from the "
        f"{len(known)} of {len(asked)} prompts of the plan that {pilot} knows"
    )

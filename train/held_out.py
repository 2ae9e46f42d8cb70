"""The requests that choose the best checkpoint of a run: read and drawn before a weight is loaded.

They come from an evaluation's YAML, so that they may be asked of any other model too. Needs no
torch.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.data import CalbenchData
from configs.errors import UserError
from configs.evaluation import EvalConfig, Sampling
from configs.load import load
from configs.training import Best, Training
from eval.in_process import refuse_unsupported
from eval.plan import seed_for
from tasks.catalog import TASKS
from tasks.example import Example
from train.turn_bins import draw

if TYPE_CHECKING:  # --check must not pay for transformers
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Asked:
    """Of ``best.config`` what counts."""

    data: CalbenchData
    sampling: Sampling
    batch_size: int


@dataclass(frozen=True, slots=True)
class HeldOutPrompts:
    """``prompts``: the token ids of each example's; ``seeds``: what its sampling starts from."""

    examples: tuple[Example, ...]
    prompts: tuple[tuple[int, ...], ...]
    seeds: tuple[int, ...]
    sampling: Sampling
    batch_size: int

    def as_text(self) -> str:
        """All that an answer and its reward depend on; not how many are asked together."""
        whole: Mapping[str, Any] = {
            "examples": [asdict(one) for one in self.examples],
            "prompts": self.prompts,
            "sampling": self.sampling.model_dump(mode="json"),
        }
        return json.dumps(whole)


def read_asked(best: Best) -> Asked:
    """Raises ``UserError`` for a YAML that is none, or asks what cannot be asked here."""
    config = load(Path(best.config), EvalConfig, best.overrides)
    if not isinstance(config.data, CalbenchData):
        raise UserError(
            f"best.config: {best.config} has no calendar data; BASIS answers and files of requests "
            "cannot choose a checkpoint here, `python -m eval` on exported ones can"
        )
    if config.data.split != "test":
        raise UserError(
            f"best.config: {best.config} has data.split {config.data.split!r}, which is trained "
            "on; use test, with another generated.seed than that of the test data"
        )
    if config.structured_output:
        raise UserError("best.config: structured_output is a server's; set it to false")
    refuse_unsupported(config.sampling)
    return Asked(config.data, config.sampling, config.transport.batch_size)


def held_out_prompts(
    config: Training, tokenizer: "PreTrainedTokenizerBase"
) -> HeldOutPrompts | None:
    """The slice of ``best``, rendered as training renders. Raises ``UserError`` if one is too long.

    The draw depends on the YAML's seed: runs of every training seed choose by the same requests.
    """
    if config.best is None:
        return None
    asked = read_asked(config.best)
    seed = asked.sampling.seed
    examples = draw(list(TASKS["calbench"](asked.data)), config.best.prompts, seed)
    if len(examples) < config.best.prompts:
        raise UserError(
            f"best.prompts: {config.best.prompts} are more than the {len(examples)} requests of "
            f"{config.best.config}; lower it or raise data.generated.count there"
        )
    prompts = _rendered(config, examples, tokenizer)
    most = config.model.context - asked.sampling.max_tokens
    for example, ids in zip(examples, prompts, strict=True):
        if len(ids) > most:
            raise UserError(
                f"best.config: {example.id!r} has {len(ids)} tokens, more than the {most} that "
                f"sampling.max_tokens leaves of model.context {config.model.context}"
            )
    seeds = tuple(seed_for(seed, example.id, 1) for example in examples)
    return HeldOutPrompts(tuple(examples), prompts, seeds, asked.sampling, asked.batch_size)


def _rendered(
    config: Training, examples: Sequence[Example], tokenizer: "PreTrainedTokenizerBase"
) -> tuple[tuple[int, ...], ...]:
    from train.models import render_prompts, template_kwargs

    messages = [example.messages for example in examples]
    texts = render_prompts(tokenizer, messages, template_kwargs(config.model))
    return tuple(tuple(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"])

"""The one file that knows how TRL hands completions to a reward: columns in, our scores out.

Everything a score means is decided in ``rewards/``; here a completion becomes text, and its
truncation is worked out, because TRL does not say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from configs.rewards import Part, RewardConfig
from rewards.composition import score
from rewards.score import Score
from tasks.calbench.answers import read
from tasks.calbench.reference import parse
from tasks.extraction import Incomplete

PART_NAMES: tuple[str, ...] = get_args(Part)

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote to one prompt. ``prefilled_think``: the prompt ended in ``<think>``."""

    text: str
    target: str
    truncated: bool
    prefilled_think: bool


Scorer = Callable[[Completion], Score]


@dataclass(frozen=True, slots=True)
class Scored:
    """One completion with its score, kept for the metrics and the completions file."""

    completion: Completion
    score: Score


class RewardAdapter:
    """TRL's reward function: one number per completion, None where it cannot be judged.

    ``scored`` holds the last batch, in order. Under ``mask_truncated`` a truncated completion is
    None: TRL takes it out of the loss, and None takes it out of its group's baseline too.
    """

    __name__ = "reward"  # the name TRL logs it under

    def __init__(
        self,
        scorer: Scorer,
        eos_ids: frozenset[int],
        prefilled_think: bool = False,
        mask_truncated: bool = False,
    ) -> None:
        self._scorer = scorer
        self._eos_ids = eos_ids
        self._prefilled_think = prefilled_think
        self._mask_truncated = mask_truncated
        self.scored: list[Scored] = []

    def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[str | Sequence[Message]],
        completion_ids: Sequence[Sequence[int]],
        target: Sequence[str],
        **columns: object,
    ) -> list[float | None]:
        self.scored = []
        for message, ids, wanted in zip(completions, completion_ids, target, strict=True):
            truncated = not ids or ids[-1] not in self._eos_ids
            text, prefilled = completion_text(message, self._prefilled_think)
            completion = Completion(text, wanted, truncated, prefilled)
            self.scored.append(Scored(completion, self._scorer(completion)))
        return [self._value(one) for one in self.scored]

    def _value(self, one: Scored) -> float | None:
        masked = self._mask_truncated and one.completion.truncated
        return None if masked else one.score.value


def completion_text(completion: str | Sequence[Message], prefilled: bool) -> tuple[str, bool]:
    """The text a model wrote, and whether it starts inside a think block that the prompt opened.

    Some tokenizers parse the thinking out into ``reasoning_content``; it is put back in its tags,
    so that one reader serves both shapes. An unclosed one has no content to read an answer from.
    """
    if isinstance(completion, str):
        return completion, prefilled
    message = completion[0]
    reasoning = message.get("reasoning_content")
    if reasoning is None:
        return message["content"], prefilled
    closing = "</think>" if message["content"] else ""
    return f"<think>{reasoning}{closing}{message['content']}", False


def calendar_scorer(config: RewardConfig) -> Scorer:
    """The reward of calendar requests, the same as in evaluation. A truncated answer is none."""

    def score_completion(completion: Completion) -> Score:
        reference = parse(completion.target)
        if completion.truncated:
            return score(reference, Incomplete("truncated"), config)
        answer = read(completion.text, reference, completion.prefilled_think)
        return score(reference, answer, config)

    return score_completion

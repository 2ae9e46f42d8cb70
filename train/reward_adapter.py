"""The one file that knows how TRL hands completions to a reward: columns in, our scores out.

What a score means is decided in ``rewards/``; here a completion becomes text, and its truncation is
worked out, because TRL does not say. All completions of a batch are scored in one call, so that a
judge can be asked about them at the same time.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rewards.score import Score

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote to one prompt. ``prefilled_think``: the prompt ended in ``<think>``."""

    text: str
    task: str
    target: str
    truncated: bool
    prefilled_think: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """The scores of completions, in their order.

    ``costs``: what they cost beyond our own time, as sums of this batch for the log; seconds under
    ``time/``. ``stop``: why training cannot go on, or empty.
    """

    scores: Sequence[Score]
    costs: Mapping[str, float] = field(default_factory=dict)
    stop: str = ""


Scorer = Callable[[Sequence[Completion]], Batch]

JUDGE_TIME = "time/judge_s"
OWN_TIME = "time/reward_s"


@dataclass(frozen=True, slots=True)
class Scored:
    """One completion with its score, kept for the metrics and the completions file."""

    completion: Completion
    score: Score


class RewardAdapter:
    """TRL's reward function: one number per completion, None where it cannot be judged.

    ``scored``, ``costs`` and ``stop`` are those of the last batch, in order. Under
    ``mask_truncated`` a truncated completion is None: TRL takes it out of the loss, and None takes
    it out of its group's baseline too.
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
        self.costs: dict[str, float] = {}
        self.stop = ""

    def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[str | Sequence[Message]],
        completion_ids: Sequence[Sequence[int]],
        task: Sequence[str],
        target: Sequence[str],
        **columns: object,
    ) -> list[float | None]:
        started = time.monotonic()
        rows = zip(completions, completion_ids, task, target, strict=True)
        given = [self._completion(*row) for row in rows]
        batch = self._scorer(given)
        self.scored = [Scored(*pair) for pair in zip(given, batch.scores, strict=True)]
        self.stop = batch.stop
        seconds = time.monotonic() - started - batch.costs.get(JUDGE_TIME, 0.0)
        self.costs = {**batch.costs, OWN_TIME: seconds}
        return [self._value(one) for one in self.scored]

    def _completion(
        self, message: str | Sequence[Message], ids: Sequence[int], task: str, target: str
    ) -> Completion:
        truncated = not ids or ids[-1] not in self._eos_ids
        text, prefilled = completion_text(message, self._prefilled_think)
        return Completion(text, task, target, truncated, prefilled)

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

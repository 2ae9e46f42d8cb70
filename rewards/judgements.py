"""What a judge is given and what it gives back, by dimension of a BASIS rubric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rewards.verdicts import Warning_

PART_OF: Mapping[str, str] = {
    "latent_belief_explanation": "belief",
    "user_profile_modeling": "user_profile",
    "correct_resolution": "solution",
}
"""Dimension, as the rubric and the judge name it -> part of the reward."""


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate: for each dimension that was asked for, its text and its rubric.

    A text that is missing, None or blank is a candidate that said nothing there.
    """

    id: str
    texts: Mapping[str, str | None]
    rubrics: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        for dimension, criteria in self.rubrics.items():
            if not criteria or not all(text.strip() for text in criteria):
                raise ValueError(f"{self.id}: rubric {dimension} has no criteria, or a blank one")
        assert self.rubrics


State = Literal[
    "judged",
    "empty_candidate",  # nothing to judge: every criterion is 0, and no call was made
    "failed",  # the judge gave no usable verdict: no score
]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One dimension of one candidate. ``scores`` is None exactly when ``state`` is failed.

    ``prompt_hash`` is the cache key: model, prompt and sampling. ``reply`` is what the judge
    wrote last, as it wrote it. ``attempts`` counts requests of the call that this came from.
    """

    case: str
    dimension: str
    state: State
    scores: tuple[int, ...] | None
    reason: str = ""
    warnings: tuple[Warning_, ...] = ()
    cached: bool = False
    attempts: int = 0
    reply: str = ""
    error: str = ""
    model: str = ""
    prompt_hash: str = ""

    @property
    def fraction(self) -> float | None:
        """Criteria met / criteria."""
        return None if self.scores is None else sum(self.scores) / len(self.scores)

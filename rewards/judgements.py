"""What a judge is given and what it gives back, by dimension of a BASIS rubric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from configs.errors import UserError
from rewards.verdicts import Warning_
from tasks.basis.instances import Dimension

VERDICT_KEYS: Mapping[Dimension, str] = {
    "belief": "latent_belief_explanation",
    "profile": "user_profile_modeling",
    "solution": "correct_resolution",
}
"""How the release, its rubrics and a judge's reply name the dimensions."""


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate: for each dimension that was asked for, its criteria and its text.

    A text that is missing, None or blank is a candidate that said nothing there.
    """

    id: str
    texts: Mapping[Dimension, str | None]
    criteria: Mapping[Dimension, tuple[str, ...]]

    def __post_init__(self) -> None:
        for dimension, criteria in self.criteria.items():
            if not criteria or not all(text.strip() for text in criteria):
                raise UserError(
                    f"{self.id}: rubric {VERDICT_KEYS[dimension]} has no criterion or a blank one; "
                    "write at least one, each with text"
                )
        assert self.criteria


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
    dimension: Dimension
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

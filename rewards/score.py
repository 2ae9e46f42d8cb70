"""Score: what a reward returns, the same in training and in evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """``value`` is the one number trained on; ``parts`` keep every component under its own name.

    A part that does not apply, or that could not be judged, is ``None``; it never becomes 0.
    ``value`` is ``None`` only when no weighted part applies.
    """

    value: float | None
    parts: Mapping[str, float | None]
    note: str = ""

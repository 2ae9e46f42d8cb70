"""Score: what a reward returns, the same in training and in evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Score:
    """``value`` is the one number trained on; ``parts`` keep every component under its own name.

    A part that does not apply, or that could not be judged, is ``None``; it never becomes 0.
    ``value`` is ``None`` when no weighted part applies, or one could not be judged. ``failures``:
    the parts that could not be judged, each with the reason. ``counted``: the parts as they go
    into ``value``, after gates and deductions and before the weights.
    """

    value: float | None
    parts: Mapping[str, float | None]
    note: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)
    counted: Mapping[str, float | None] = field(default_factory=dict)

"""Which prompts GRPO draws from, by what a pilot found of them."""

from typing import Literal

from pydantic import Field, model_validator

from configs.load import Frozen


class Pool(Frozen):
    """Prompts whose pass rate in ``file`` lies from ``at_least`` to ``at_most``.

    A prompt that the model always or never passes makes a group of equal rewards, which teaches
    nothing. The warm start is not affected.
    """

    file: str
    """JSON lines that `python -m train.pilot` wrote."""
    at_least: float = Field(default=0.0, ge=0, le=1)
    at_most: float = Field(default=1.0, ge=0, le=1)
    dead: Literal["keep", "drop"] = "drop"
    """Prompts whose completions all earned the same reward."""
    unknown: Literal["keep", "drop"] = "keep"
    """Prompts that the pilot did not ask."""

    @model_validator(mode="after")
    def _is_a_range(self) -> "Pool":
        if self.at_least > self.at_most:
            raise ValueError(f"at_least {self.at_least} exceeds at_most {self.at_most}")
        return self

"""Who writes rubrics, who checks them, and what a rubric must pass."""

from pydantic import Field

from configs.judge import ChatEndpoint, JudgeConfig, JudgeSampling
from configs.load import Frozen


class GeneratorConfig(ChatEndpoint):
    """The model that writes criteria."""

    sampling: JudgeSampling = JudgeSampling(temperature=0.7)


class RubricsConfig(Frozen):
    """One run of ``scripts.make_rubrics``."""

    generator: GeneratorConfig
    judge: JudgeConfig
    """Says whether the gold meets the criteria and an empty candidate none; another model than
    the generator notices more."""
    tries: int = Field(default=3, ge=1)
    """Lists asked for until one passes; from the second on the generator is told what was wrong."""
    gold_at_least: float = Field(default=0.9, gt=0, le=1)
    """Share of its criteria that the gold must meet."""
    max_failures_in_row: int = Field(default=20, ge=1)
    """This many rubrics in a row without a usable reply of an endpoint, and the run stops."""

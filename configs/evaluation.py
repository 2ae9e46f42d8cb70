"""What one evaluation is: which requests, how often, sampled, sent and scored how."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from configs.data import CalbenchData, DataConfig
from configs.judge import JudgeConfig
from configs.load import Frozen
from configs.rewards import RewardConfig, RubricReward
from configs.transport import ChatTransport


class Sampling(Frozen):
    """Every field is sent with every request: a server's own defaults must never decide."""

    temperature: float = Field(default=0.7, ge=0)
    top_p: float = Field(default=0.8, gt=0, le=1)
    top_k: int = Field(default=20, ge=-1)
    """-1 or 0: no limit."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    max_tokens: int = Field(default=1024, ge=1)
    stop: tuple[str, ...] = ()
    seed: int = 0
    """Each (request, run) derives its own seed from this one; every system gets the same seeds."""
    enable_thinking: bool = False


class Transport(ChatTransport):
    """How requests travel. None of this changes an answer, so none of it is part of the plan."""

    batch_size: int = Field(default=16, ge=1)
    """Requests generated together by the in-process engine."""
    check_every_s: float = Field(default=60.0, gt=0)
    """How often the server is asked whether it still serves the same model."""


class EvalConfig(Frozen):
    """`python -m eval plan` freezes this, with the requests, into a plan folder."""

    data: DataConfig | None = None
    """Make the requests from this; or read them from ``examples``."""
    examples: Path | None = None
    """JSON lines of `tasks.example.Example`."""
    runs: int = Field(default=5, ge=1)
    prefilled_think: Literal["auto", "yes", "no"] = "auto"
    """Does the chat template end the prompt with <think>? auto: ask the engine."""
    sampling: Sampling = Sampling()
    structured_output: bool = False
    """Send each answer's JSON schema, so that the server can write nothing else; all systems."""
    transport: Transport = Transport()
    reward: RewardConfig = RewardConfig()
    judge: JudgeConfig | None = None
    """Who judges BASIS answers, which need one. `score` may name another."""
    rubric: RubricReward = RubricReward()
    max_judge_failures: float = Field(default=0.01, ge=0, le=1)
    """More judge failures than this share, and the report gives no headline."""

    @field_validator("prefilled_think", mode="before")
    @classmethod
    def _words(cls, given: object) -> object:
        """Bare ``yes`` and ``no`` are true and false to YAML."""
        return ("yes" if given else "no") if isinstance(given, bool) else given

    @model_validator(mode="after")
    def _one_origin(self) -> "EvalConfig":
        if (self.data is None) == (self.examples is None):
            raise ValueError("what to ask is not clear; give data or examples, and not both")
        return self

    @model_validator(mode="after")
    def _no_thinking_in_a_schema(self) -> "EvalConfig":
        if self.structured_output and self.sampling.enable_thinking:
            raise ValueError(
                "structured_output leaves no room for thinking; set sampling.enable_thinking=false"
            )
        return self

    @model_validator(mode="after")
    def _judge_where_needed(self) -> "EvalConfig":
        if isinstance(self.data, CalbenchData) and self.judge is not None:
            raise ValueError("judge has no use for calendar answers; remove it")
        return self


RUBRIC_FIELDS = frozenset({"judge", "rubric", "max_judge_failures"})
"""What only rubric answers need; a plan without them does not name these."""

"""How the parts of a score become the one number trained on."""

from typing import Literal

from pydantic import Field, model_validator

from configs.load import Frozen

Part = Literal["entries", "whole_agent", "perspective", "optimality"]


class Gate(Frozen):
    """``part`` counts as 0 unless ``needs`` reaches ``at_least``; open when ``needs`` is None."""

    part: Part
    needs: Part
    at_least: float = Field(ge=0, le=1)


class RewardConfig(Frozen):
    """Weights of the parts; 0 keeps a part in the logs and takes its influence away.

    The value is the weighted mean over the parts that apply to the request, so belief and plan
    requests both range from 0 to 1.
    """

    entries: float = Field(default=1.0, ge=0)
    whole_agent: float = Field(default=1.0, ge=0)
    perspective: float = Field(default=1.0, ge=0)
    optimality: float = Field(default=1.0, ge=0)
    gates: tuple[Gate, ...] = (Gate(part="entries", needs="perspective", at_least=1.0),)

    @model_validator(mode="after")
    def _rewards_something(self) -> "RewardConfig":
        if not any((self.entries, self.whole_agent, self.perspective, self.optimality)):
            raise ValueError("every weight is 0; give at least one part a weight")
        for gate in self.gates:
            if gate.part == gate.needs:
                raise ValueError(f"gate on {gate.part!r} needs itself; name another part")
        return self

    def weight(self, part: str) -> float:
        """The weight of a part by its name; ``KeyError`` for a name that is none."""
        return {
            "entries": self.entries,
            "whole_agent": self.whole_agent,
            "perspective": self.perspective,
            "optimality": self.optimality,
        }[part]


RubricPart = Literal["belief", "user_profile", "solution"]


class RubricGate(Frozen):
    """``part`` counts as 0 unless ``needs`` reaches ``at_least``; open where ``needs`` was not
    asked for, and unknown where the judge failed on it."""

    part: RubricPart
    needs: RubricPart
    at_least: float = Field(ge=0, le=1)


class RubricReward(Frozen):
    """How the fractions of criteria met become one number for a BASIS answer.

    The value is the weighted mean over the dimensions that were asked for, after the gates. The
    form is a gate of its own: an answer that has not the one asked for earns 0. A weight of 0
    keeps a part in the logs.
    """

    belief: float = Field(default=0.3, ge=0)
    user_profile: float = Field(default=0.2, ge=0)
    solution: float = Field(default=0.5, ge=0)
    max_words: int = Field(default=600, ge=1)
    over_length: float = Field(default=0.1, ge=0, le=1)
    """Taken off an answer of more than ``max_words`` words, down to 0."""
    gates: tuple[RubricGate, ...] = ()

    @model_validator(mode="after")
    def _rewards_something(self) -> "RubricReward":
        if not any((self.belief, self.user_profile, self.solution)):
            raise ValueError("every weight is 0; give at least one part a weight")
        for gate in self.gates:
            if gate.part == gate.needs:
                raise ValueError(f"gate on {gate.part!r} needs itself; name another part")
        return self

    def weight(self, part: str) -> float:
        """The weight of a part by its name; ``KeyError`` for a name that is none."""
        return {
            "belief": self.belief,
            "user_profile": self.user_profile,
            "solution": self.solution,
        }[part]

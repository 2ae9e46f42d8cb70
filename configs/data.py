"""What data a run uses: source tasks, and the stories and requests made from them."""

from typing import Literal

from pydantic import Field, model_validator

from configs.load import Frozen


class TaskShape(Frozen):
    """The size of a generated calendar task. Slots are numbered from 0; every meeting lasts 1."""

    agents: int = Field(default=5, ge=1, le=26)
    slots: int = Field(default=16, ge=1, le=64)
    meetings: int = Field(default=5, ge=1, le=16)
    participants: int = Field(default=3, ge=1, le=26)
    density: float = Field(default=0.8, ge=0, le=1)
    """Share of an agent's slots that hold errands, before room is kept for its meetings."""
    cost_tiers: tuple[int, ...] = Field(default=(1, 100, 1000), min_length=1)
    """Costs of movable errands, dealt in equal shares to each agent's errands."""
    immovable: int = Field(default=0, ge=0)
    """Errands of each agent that cannot move from the start."""

    @model_validator(mode="after")
    def _fits(self) -> "TaskShape":
        if self.participants > self.agents:
            raise ValueError(f"participants {self.participants} exceeds agents {self.agents}")
        if any(cost < 0 for cost in self.cost_tiers):
            raise ValueError("cost_tiers holds a negative cost; costs start at 0")
        return self


class GeneratedTasks(TaskShape):
    """Tasks drawn by the generator, the same for the same shape, seed and split."""

    count: int = Field(ge=1)
    seed: int = 0


class PublicTasks(Frozen):
    """Tasks read from CalBench *.jsonl files, in file and line order."""

    files: tuple[str, ...] = Field(min_length=1)
    select: Literal["pick90", "rest", "all"] = "pick90"
    """pick90: the paper-like test set; rest: every five-agent task that is not in it."""


Condition = Literal["belief", "direct", "textual", "symbolic", "access"]
Variant = Literal["PUBLIC", "PRIVATE"]


class CalbenchData(Frozen):
    """Calendar belief stories. Every holder of every story gets one request per condition."""

    task: Literal["calbench"] = "calbench"
    split: Literal["train", "test"]
    public: PublicTasks | None = None
    generated: GeneratedTasks | None = None
    families: tuple[Literal["lock", "pivotal"], ...] = Field(default=("lock",), min_length=1)
    variants: tuple[Variant, ...] = Field(default=("PUBLIC", "PRIVATE"), min_length=1)
    conditions: tuple[Condition, ...] = Field(default=("belief", "direct"), min_length=1)
    turns: tuple[int, ...] = Field(default=(5,), min_length=1)
    """The numbers of turns, 1 to 10, at which stories are told."""
    lengths_per_story: int | None = Field(default=None, ge=1)
    """How many of ``turns``, drawn for each story, it is told at; null: at every one."""
    story_seed: int = 0

    @model_validator(mode="after")
    def _has_source(self) -> "CalbenchData":
        if self.public is None and self.generated is None:
            raise ValueError("no source tasks: give public or generated (or both)")
        if any(not 1 <= turns <= 10 for turns in self.turns):
            raise ValueError(f"turns {list(self.turns)} leaves the range 1 to 10")
        if self.public and self.split == "train" and self.public.select != "rest":
            raise ValueError(
                f"public.select {self.public.select!r} holds test tasks; training uses 'rest'"
            )
        if self.lengths_per_story is not None and self.lengths_per_story > len(self.turns):
            raise ValueError(
                f"lengths_per_story {self.lengths_per_story} exceeds the {len(self.turns)} turns"
            )
        for name, values in (("turns", self.turns), ("conditions", self.conditions)):
            if len(set(values)) != len(values):
                raise ValueError(f"{name} {list(values)} names a value twice")
        return self


DataConfig = CalbenchData

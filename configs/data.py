"""What data a run uses: source tasks, and the stories and requests made from them."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from configs.load import SECTIONS, Frozen


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
        if any(not 0 <= cost <= 10**9 for cost in self.cost_tiers):
            raise ValueError("cost_tiers holds a cost outside 0 to 1000000000")
        return self


class GeneratedTasks(TaskShape):
    """Tasks drawn by the generator, the same for the same shape, seed and split."""

    count: int = Field(ge=1)
    seed: int = 0


class PublicTasks(Frozen):
    """Tasks read from CalBench *.jsonl files, in file and line order."""

    files: tuple[str, ...] = Field(min_length=1)
    select: Literal["pick90", "rest", "all"] = "pick90"
    """pick90: the paper-like test set; rest: every other task; all: both. Stories need two owners
    and an intermediary, so the last two leave out tasks of fewer than three agents."""


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


Setting = Literal["separate", "guided", "cot", "gt", "belief", "profile", "shuffle", "transfer"]
PickRule = Literal["oracle_best_by_judge", "random", "fixed", "self", "none"]


class Shuffle(Frozen):
    """Whose notes an instance gets under ``shuffle``: another one's of its domain."""

    seed: int = 0
    saved: str | None = None
    """The JSON file of the assignment; drawn and written when it is not there yet."""


class Transfer(Frozen):
    """Whose predicted notes an instance gets under ``transfer``."""

    predictions: tuple[str, ...] = ()
    """JSON lines of `tasks.basis.predictions.Prediction`."""
    pool: tuple[str, ...] = ()
    """The predicting systems; the order breaks ties."""
    pick: PickRule
    """oracle_best_by_judge chooses by scores on the test rubrics: an oracle, not a method."""
    system: str | None = None
    """The one system of ``fixed`` and ``self`` (for self: the name of the one evaluated)."""
    seed: int = 0

    @model_validator(mode="after")
    def _can_pick(self) -> "Transfer":
        if self.pick in ("fixed", "self") and self.system is None:
            raise ValueError(f"pick {self.pick!r} needs system: the name of the predicting system")
        if self.pick in ("oracle_best_by_judge", "random") and not self.pool:
            raise ValueError(f"pick {self.pick!r} needs pool: the names of the predicting systems")
        if self.pick != "none" and not self.predictions:
            raise ValueError(f"pick {self.pick!r} needs predictions: the files that hold them")
        if len(set(self.pool)) != len(self.pool):
            raise ValueError(f"pool {list(self.pool)} names a system twice")
        return self


class BasisData(Frozen):
    """BASIS instances. Each gets the requests of every setting at each of its prefixes."""

    task: Literal["basis"]
    split: Literal["train", "test"]
    files: tuple[str, ...] = Field(min_length=1)
    """Files or folders: the release layout (*-benchmark.json) or one instance a line (*.jsonl)."""
    strict: bool = False
    """Stop at the first faulty instance; else each is left out and named on stderr."""
    settings: dict[Setting, tuple[int, ...]] = Field(min_length=1)
    """For each setting the prefixes k: how many turns, 0 to 10, are shown."""
    prefixes_per_instance: int | None = Field(default=None, ge=1)
    """How many of a setting's prefixes, drawn for each instance, it gets; null: every one."""
    per_domain: int | None = Field(default=None, ge=1)
    """Only the first so many instances of each domain; null: all."""
    guided_format: Literal["json", "tags"] = "json"
    """How guided answers are written: a JSON object (evaluation) or <belief> tags (training)."""
    seed: int = 0
    shuffle: Shuffle = Shuffle()
    transfer: Transfer | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> "BasisData":
        for setting, prefixes in self.settings.items():
            if not prefixes or len(set(prefixes)) != len(prefixes):
                raise ValueError(
                    f"settings.{setting}: {list(prefixes)} must name one prefix or more, each once"
                )
            if any(not 0 <= k <= 10 for k in prefixes):
                raise ValueError(f"settings.{setting}: {list(prefixes)} leaves the range 0 to 10")
            most = self.prefixes_per_instance
            if most is not None and most > len(prefixes):
                raise ValueError(
                    f"prefixes_per_instance {most} exceeds the {len(prefixes)} of {setting}"
                )
        if "transfer" in self.settings and self.transfer is None:
            raise ValueError("settings.transfer needs the key transfer: how notes are picked")
        return self


class BasisFiles(Frozen):
    """BASIS instances that are not asked about, only kept out of training."""

    task: Literal["basis"]
    split: Literal["test"] = "test"
    files: tuple[str, ...] = Field(min_length=1)
    """As in ``BasisData``; rubrics may be absent."""


def _task(data: Any) -> str:
    """The task of a data section; calbench where it names none."""
    if isinstance(data, dict):
        return str(data.get("task", "calbench"))
    return data.task if isinstance(data, (CalbenchData, BasisData, BasisFiles)) else "calbench"


def _task_or_list(data: Any) -> str:
    return SECTIONS if isinstance(data, (list, tuple)) else _task(data)


DataConfig: TypeAlias = Annotated[
    Annotated[CalbenchData, Tag("calbench")] | Annotated[BasisData, Tag("basis")],
    Discriminator(_task),
]
HeldOut: TypeAlias = Annotated[
    Annotated[CalbenchData, Tag("calbench")] | Annotated[BasisFiles, Tag("basis")],
    Discriminator(_task),
]
DataMix: TypeAlias = Annotated[
    Annotated[CalbenchData, Tag("calbench")]
    | Annotated[BasisData, Tag("basis")]
    | Annotated[tuple[DataConfig, ...], Field(min_length=1), Tag(SECTIONS)],
    Discriminator(_task_or_list),
]
"""One data section, or a list of them that are trained on together."""

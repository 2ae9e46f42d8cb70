"""What an ablation is: one training config, changed along axes, each change under several seeds.

Two designs. ``one_at_a_time``: the full cell, and for every further level of every axis the full
cell with that one change. ``product``: every combination of levels.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.load import Frozen
from configs.training import Name

LevelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,32}$")]
Overrides = tuple[str, ...]

CHANGEABLE = ("reward", "rubric", "grpo", "curriculum")
"""The sections of a training config that cells may differ in: all that comes after the warm start,
which the cells of one seed share."""


class HeldOut(Frozen):
    """How every cell is evaluated: one frozen plan, the same requests and seeds for all."""

    config: str
    """A YAML of configs/eval."""
    overrides: Overrides = ()
    engine: Literal["in_process", "server"] = "in_process"
    """server: the commands that serve and ask each checkpoint are printed, not run."""


class Ablation(Frozen):
    """`python -m train.ablate CONFIG`. It writes into ``output/name`` and nowhere else."""

    name: str = Name
    output: str = Field("runs/ablate", min_length=1)
    train: str
    """The YAML of configs/train that every cell starts from."""
    overrides: Overrides = ()
    """Changes of it that all cells share."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(min_length=1)
    """Training seeds: of the warm start, the order of the data and the sampling."""
    design: Literal["one_at_a_time", "product"] = "one_at_a_time"
    axes: Mapping[LevelName, Mapping[LevelName, Overrides]] = Field(min_length=1)
    """Axis -> level -> overrides. The first level of each axis is that of the full cell."""
    launch: Overrides = ()
    """What runs ``-m train``, such as [torchrun, --nproc-per-node, "8"]; empty: this Python."""
    held_out: HeldOut

    @property
    def folder(self) -> Path:
        return Path(self.output) / self.name

    @model_validator(mode="after")
    def _makes_sense(self) -> "Ablation":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} names a seed twice")
        empty = [axis for axis, levels in self.axes.items() if len(levels) < 2]
        if empty:
            raise ValueError(f"axes.{empty[0]} needs two levels or more; the first is the full one")
        for axis, levels in self.axes.items():
            for level, overrides in levels.items():
                _check_keys(f"axes.{axis}.{level}", overrides)
        _check_names([list(levels)[1:] for levels in self.axes.values()])
        _check_apart({axis: _keys(levels) for axis, levels in self.axes.items()})
        return self


def _check_keys(place: str, overrides: Overrides) -> None:
    for override in overrides:
        if key_of(override).partition(".")[0] not in CHANGEABLE:
            raise ValueError(
                f"{place}: {override!r} would change more than GRPO; levels may set "
                f"{', '.join(CHANGEABLE)} (key=value), the rest belongs in overrides"
            )


def _check_names(levels: list[list[str]]) -> None:
    """Levels name cells, so no two may be called alike, and none like the full cell."""
    names = [name for one in levels for name in one]
    twice = [name for name in names if names.count(name) > 1 or name in ("full", "warm")]
    if twice:
        raise ValueError(f"level {twice[0]!r} cannot name a cell; give it a name of its own")


def _check_apart(keys: Mapping[str, set[str]]) -> None:
    """Two axes that set one key would undo each other."""
    for axis, own in keys.items():
        for other, theirs in keys.items():
            if axis < other and (shared := sorted(k for k in own if _touches(k, theirs))):
                raise ValueError(
                    f"axes {axis} and {other} both set {shared[0]}; make them one axis"
                )


def _touches(key: str, others: set[str]) -> bool:
    return any(f"{key}.".startswith(f"{o}.") or f"{o}.".startswith(f"{key}.") for o in others)


def _keys(levels: Mapping[str, Overrides]) -> set[str]:
    return {key_of(override) for overrides in levels.values() for override in overrides}


def key_of(override: str) -> str:
    """The dotted key of ``key=value``."""
    return override.partition("=")[0]

"""Evaluation settings: which requests each makes of an instance, and what each shows and asks.

``separate`` makes three independent requests; every other setting makes one. ``guided`` asks for
all three dimensions at once. ``cot`` and the interventions (``gt``, ``belief``, ``profile``,
``shuffle``, ``transfer``) ask for the solution alone, and their baseline is the solution request
of ``separate`` at the same prefix.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from configs.data import Setting
from tasks.basis.instances import DIMENSIONS, Dimension

# How an answer is written. text: the whole reply; marker: what follows the last marker line;
# json, tags: three named fields.
Form: TypeAlias = Literal["text", "marker", "json", "tags"]

INTERVENTIONS: Final[tuple[Setting, ...]] = ("gt", "belief", "profile", "shuffle", "transfer")


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a setting. ``asks``: the dimensions asked for, which are those judged."""

    setting: Setting
    asks: tuple[Dimension, ...]
    form: Form

    @property
    def name(self) -> str:
        """The one dimension asked for, or ``all``."""
        return self.asks[0] if len(self.asks) == 1 else "all"


@dataclass(frozen=True, slots=True)
class Notes:
    """What an intervention says about the user; None: nothing of that kind."""

    belief: str | None
    profile: str | None


def calls(setting: Setting, guided_form: Literal["json", "tags"]) -> tuple[Call, ...]:
    """The requests that a setting makes of one instance at one prefix."""
    if setting == "separate":
        return tuple(Call(setting, (dimension,), "text") for dimension in DIMENSIONS)
    if setting == "guided":
        return (Call(setting, DIMENSIONS, guided_form),)
    return (Call(setting, ("solution",), "marker" if setting == "cot" else "text"),)

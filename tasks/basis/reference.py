"""Reference: what a BASIS answer is judged against, frozen when the example is built.

It carries the criteria and the gold texts of the dimensions asked for, and every flag of the
instance, so that a score needs no data file and a mean can be given with and without.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from configs.data import Setting
from tasks.basis.instances import Dimension, Domain, Flags, Instance, Leak, Place
from tasks.basis.settings import Call, Form

KIND: Final = "rubric"  # tells a BASIS target from a calendar one


@dataclass(frozen=True, slots=True)
class Notation:
    """Where an intervention's notes come from.

    ``donor``: the instance they were taken from, or "". ``system``: the system that predicted
    them, or "". ``rule``: how that system was picked; ``oracle``: by scores on the test rubrics.
    ``score``: its mean belief and profile score, where the rule looked at it.
    """

    donor: str = ""
    system: str = ""
    rule: str = ""
    oracle: bool = False
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """``criteria`` and ``gold`` hold the dimensions asked for, in their order.

    ``turns``: the prefix shown. ``flags`` are those of the whole instance; see ``shown_leaks``.
    """

    instance: str
    domain: Domain
    subdomain: str
    setting: Setting
    turns: int
    form: Form
    criteria: Mapping[Dimension, tuple[str, ...]]
    gold: Mapping[Dimension, str]
    notes: Notation
    flags: Flags

    @property
    def asks(self) -> tuple[Dimension, ...]:
        """The dimensions asked for and judged."""
        return tuple(self.criteria)

    @property
    def shown_leaks(self) -> tuple[Leak, ...]:
        """The leaks within the turns that this request shows."""
        cut = [
            Leak(leak.kind, tuple(turn for turn in leak.turns if turn <= self.turns))
            for leak in self.flags.leaks
        ]
        return tuple(leak for leak in cut if leak.turns)


def reference(instance: Instance, call: Call, num_turns: int, notes: Notation) -> Reference:
    """What the answer to one request is judged against."""
    gold = gold_texts(instance)
    return Reference(
        instance=instance.id,
        domain=instance.domain,
        subdomain=instance.subdomain,
        setting=call.setting,
        turns=num_turns,
        form=call.form,
        criteria={dimension: instance.rubrics.of(dimension) for dimension in call.asks},
        gold={dimension: gold[dimension] for dimension in call.asks},
        notes=notes,
        flags=instance.flags,
    )


def gold_texts(instance: Instance) -> dict[Dimension, str]:
    """The ceiling candidate, built from the hidden fields. The release has no gold solution."""
    return {
        "belief": instance.belief,
        "profile": instance.profile,
        "solution": (
            f"What is really going on: {instance.true_state}\n"
            f"What the user takes it for: {instance.belief}\n"
            f"How that came about: {instance.root_cause}"
        ),
    }


def dump(reference: Reference) -> str:
    """The reference as compact JSON text, for ``Example.target``."""
    fields = {"kind": KIND, **asdict(reference)}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=65536)
def parse(target: str) -> Reference:
    """The inverse of ``dump``. Cached: a group's completions share one reference."""
    raw: dict[str, Any] = json.loads(target)
    assert raw.pop("kind") == KIND, "not the target of a BASIS request"
    criteria = {dimension: tuple(texts) for dimension, texts in raw.pop("criteria").items()}
    notes, flags = Notation(**raw.pop("notes")), _flags(raw.pop("flags"))
    return Reference(criteria=criteria, notes=notes, flags=flags, **raw)


def _flags(raw: dict[str, Any]) -> Flags:
    return Flags(
        leaks=tuple(Leak(one["kind"], tuple(one["turns"])) for one in raw["leaks"]),
        letter_criteria=_places(raw["letter_criteria"]),
        unanswerable=_places(raw["unanswerable"]),
        term_criteria=_places(raw["term_criteria"]),
        coarse=tuple(raw["coarse"]),
        option_label=raw["option_label"],
        other_domain=raw.get("other_domain", False),  # absent from plans frozen before the flag
    )


def _places(raw: list[tuple[Dimension, int]]) -> tuple[Place, ...]:
    return tuple((dimension, index) for dimension, index in raw)

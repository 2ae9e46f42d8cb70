"""Completion text -> the texts it gives for the dimensions asked for.

Reasoning is removed first. What remains is read by the form that was asked for:

text    all of it.
marker  what follows the last line that begins with "Final answer:".
json    the last readable object with all three fields, else the last with any of them. An object
        that breaks off after it, a field given twice: no answer. Fences and prose do not matter.
tags    <belief>, <profile>, <solution>, each once, in this order, nothing outside.

No structure is ``Incomplete``. A field that is absent, null or blank inside a structure is "" and
counted in ``missing``; it earns 0 without a judge. A field that is not text becomes its JSON text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tasks.basis.instances import DIMENSIONS, Dimension
from tasks.basis.reference import Reference
from tasks.extraction import (
    MAX_CHARACTERS,
    Incomplete,
    Json,
    Object,
    answer_text,
    top_level_objects,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A text for each dimension asked for, "" where it is missing.

    ``warnings``: `coerced <dimension>` for each text that was written as something else.
    """

    texts: Mapping[Dimension, str]
    warnings: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[Dimension, ...]:
        """The dimensions for which nothing was said."""
        return tuple(dimension for dimension, text in self.texts.items() if not text)


def read(text: str, reference: Reference, prefilled_think: bool = False) -> Answer | Incomplete:
    """The answer of a completion to the request behind ``reference``.

    ``prefilled_think``: the prompt ended in an open ``<think>``.
    """
    said = answer_text(text, prefilled_think)
    if isinstance(said, Incomplete):
        return said
    if len(said) > MAX_CHARACTERS:
        return Incomplete("too_long")
    if not said:
        return Incomplete("no_answer")
    if reference.form == "json":
        return _read_json(said)
    if reference.form == "tags":
        return _read_tags(said)
    if reference.form == "marker":
        said = _after_marker(said)
    return Answer({reference.asks[0]: said}) if said else Incomplete("no_answer")


_MARKER: Final = re.compile(r"^[ \t>#*_-]*final answer[ \t*_]*:[ \t*_]*", re.I | re.M)


def _after_marker(said: str) -> str:
    """The text after the last marker, "" if there is none."""
    markers = list(_MARKER.finditer(said))
    return said[markers[-1].end() :].strip() if markers else ""


_TAGGED: Final = re.compile(
    r"\s*".join(["", *(rf"<{name}>(.*)</{name}>" for name in DIMENSIONS), ""]), re.DOTALL
)
_TAG: Final = re.compile(rf"</?(?:{'|'.join(DIMENSIONS)})>")


def _read_tags(said: str) -> Answer | Incomplete:
    tags = _TAG.findall(said)
    if not tags:
        return Incomplete("no_answer")
    match = _TAGGED.fullmatch(said) if len(tags) == 2 * len(DIMENSIONS) else None
    if match is None:
        return Incomplete("wrong_shape")
    texts = zip(DIMENSIONS, match.groups(), strict=True)
    return Answer({name: text.strip() for name, text in texts})


_BROKEN_ANSWER: Final = re.compile(rf'\{{\s*"(?:{"|".join(DIMENSIONS)})"', re.I)


def _read_json(said: str) -> Answer | Incomplete:
    answer: Object | None = None
    broken = False
    for start, pairs in top_level_objects(said):
        if pairs is None:
            broken = broken or _BROKEN_ANSWER.match(said, start) is not None
            continue
        held = _holder(pairs)
        if held and (answer is None or _count(held) >= _count(answer)):
            answer, broken = held, False
    if broken:
        return Incomplete("unparseable")
    if answer is None:
        return Incomplete("no_answer")
    names = [_plain(key) for key, _ in answer]
    if any(names.count(dimension) > 1 for dimension in DIMENSIONS):
        return Incomplete("duplicate_key")
    stated = dict(zip(names, (value for _, value in answer), strict=True))
    texts: dict[Dimension, str] = {name: _text(stated.get(name)) for name in DIMENSIONS}
    coerced = [n for n in DIMENSIONS if texts[n] and not isinstance(stated[n], str)]
    return Answer(texts, tuple(f"coerced {name}" for name in coerced))


def _holder(pairs: Object) -> "Object | None":
    """The object that has fields: this one, or one that it directly wraps; None without any."""
    wrapped: Sequence[Json] = [value for _, value in pairs]
    inside = [pairs, *(value for value in wrapped if isinstance(value, tuple))]
    return next((one for one in inside if _count(one)), None)


def _count(pairs: Object) -> int:
    """How many of the three fields an object has."""
    return len({_plain(key) for key, _ in pairs} & set(DIMENSIONS))


def _plain(key: str) -> str:
    return key.strip().lower()


def _text(value: Json) -> str:
    """The text of a field: "" for null and blank, the JSON text of what is no text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    return json.dumps(_plain_json(value), ensure_ascii=False)


def _plain_json(value: Json) -> object:
    if isinstance(value, tuple):
        return {key: _plain_json(one) for key, one in value}
    return [_plain_json(one) for one in value] if isinstance(value, list) else value

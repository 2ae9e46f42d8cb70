"""Completion text -> the one JSON object in it that answers; the first step of every task's reader.

Thinking is cut off first: what stands before the last ``</think>`` is thinking, an answer there
too. Then the text is searched for top-level JSON objects, and the last readable one that holds
the key asked for is the answer. Prose, fences and brackets around an object carry no content. A
trailing comma is the only repair; an object that breaks or does not close is never completed, and
nothing inside it is taken for an answer. Time is linear in the text.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

MAX_CHARACTERS: Final = 200_000
MAX_DEPTH: Final = 12
_MAX_DIGITS: Final = 18

Reason: TypeAlias = Literal[
    "truncated",  # set by the caller, who knows the token limit: the completion was cut off
    "unterminated_reasoning",  # the completion ends inside a think block
    "too_long",  # the text after the thinking exceeds MAX_CHARACTERS
    "unparseable",  # objects begin, and none with the key asked for is readable
    "no_answer",  # no object holds the key asked for
    "wrong_shape",  # the key is there, the structure under it is not
    "missing_entry",  # the structure is there, and an entry of it is not stated
    "duplicate_key",  # a field of the answer is given twice
]

# A JSON object is a tuple of its (key, value) pairs, so that duplicate keys stay visible; a JSON
# array is a list. NaN and infinities are floats; an integer of more than 18 digits is infinity.
Json: TypeAlias = "bool | int | float | str | list[Json] | Object | None"
Object: TypeAlias = "tuple[tuple[str, Json], ...]"

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Incomplete:
    """No answer of the kind asked for: it counts against coverage and is never scored as wrong."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Found:
    """What the answering object holds under the key: more than one value if the key comes twice,
    in whatever spelling.

    ``repaired``: a trailing comma had to be dropped.
    """

    values: tuple[Json, ...]
    repaired: bool


def answer_text(text: str, prefilled_think: bool = False) -> str | Incomplete:
    """The text after the last ``</think>``, stripped.

    ``prefilled_think``: the prompt already ended in an open ``<think>``, so a completion that
    never closes it is all thinking. A closing tag counts whether or not its opening was seen.
    """
    _, closing, after = text.rpartition("</think>")
    if "<think>" in after or (prefilled_think and not closing):
        return Incomplete("unterminated_reasoning")
    return after.strip()


def opens_thinking(prompt: str) -> bool:
    """Whether a rendered prompt ends in an open think block (``prefilled_think`` of its answer)."""
    return prompt.rstrip().endswith("<think>")


def find_object(text: str, key: str) -> Found | Incomplete:
    """The last readable top-level object of ``text`` that holds ``key``, itself or wrapped once.

    ``key`` is lower case; its spelling in the object may differ in case and outer spaces.
    """
    if len(text) > MAX_CHARACTERS:
        return Incomplete("too_long")
    answer: Found | Incomplete = Incomplete("no_answer")
    for start, whole in _top_level(text):
        if whole is not None:
            values = _held(whole.pairs, key)
            answer = Found(values, whole.repaired) if values else answer
        elif isinstance(answer, Incomplete) and _JSON_OPENING.match(text, start):
            answer = Incomplete("unparseable")
    return answer


def find_answer(text: str, key: str, prefilled_think: bool = False) -> Found | Incomplete:
    """``find_object`` in the ``answer_text`` of a completion."""
    answer = answer_text(text, prefilled_think)
    return answer if isinstance(answer, Incomplete) else find_object(answer, key)


def top_level_objects(text: str) -> "Iterator[tuple[int, Object | None]]":
    """Where each top-level object of ``text`` begins, and its pairs; None for one that breaks."""
    for start, whole in _top_level(text):
        yield start, whole.pairs if whole else None


def _top_level(text: str) -> "Iterator[tuple[int, _Whole | None]]":
    """Where each top-level object begins, and the object; None for one that breaks.

    One that breaks reaches to where its brackets close. If they never do, it hides those after it
    that stand where a value of it would; one that follows prose was written anew.
    """
    shallow = text.count("{") + text.count("[") <= MAX_DEPTH
    position = 0
    unclosed = False
    while opening := _OPENING.search(text, position):
        start = opening.start()
        hidden = unclosed and _stands_as_value(text, start)
        whole: _Whole | None = None
        try:
            whole = _read_object(text, start, shallow)
            position = whole.end
        except _BrokenError as error:
            end = None if unclosed else closing(text, start)  # looked for once: linear time
            unclosed = unclosed or end is None
            position = end or max(error.position, start + 1)
        if not hidden:
            yield start, whole


def _stands_as_value(text: str, start: int) -> bool:
    """Whether the object at ``start`` follows a quoted key, a comma or a bracket, as values do."""
    return _BEFORE_VALUE.search(text, max(0, start - _LOOK_BACK), start) is not None


def _held(pairs: Object, key: str) -> tuple[Json, ...]:
    """Every value under ``key``: in the object itself, else in the objects it directly wraps."""
    own = _values(pairs, key)
    if own:
        return own
    wrapped = [_values(value, key) for _, value in pairs if isinstance(value, tuple)]
    return tuple(value for values in wrapped for value in values)


def _values(pairs: Object, key: str) -> tuple[Json, ...]:
    return tuple([value for name, value in pairs if name == key or name.strip().lower() == key])


_SPACE = re.compile(r"[ \t\n\r]*+")
_JSON_OPENING = re.compile(r'\{[ \t\n\r]*+"')
# An object begins, of JSON or not: a brace and a quote, a bare key, a comma or a comment.
_OPENING = re.compile(r"""\{(?=\s*+(?:["'`\u2018\u201c,/#]|\\"|&quot;|[\w$.-]++\s*+[:=]))""")
_LOOK_BACK: Final = 64
_BEFORE_VALUE = re.compile(r"""(?:[,{\[]|["'`\u2019\u201d]\s{0,9}:)\s{0,50}\Z""")
_STRING = re.compile(
    r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"',
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)")
_WORD = re.compile(r"true|false|null|NaN|-?Infinity")
_WORDS: dict[str, Json] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
_BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)


class _BrokenError(Exception):
    """Not JSON at ``position``; all text before it belongs to the object that broke there."""

    def __init__(self, position: int) -> None:
        self.position = position


def _integer(digits: str) -> int | float:
    """Python refuses to convert thousands of digits; no task has numbers that long."""
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_int=_integer)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A readable object, whether it was repaired, and where it ends."""

    pairs: Object
    repaired: bool
    end: int


def _read_object(text: str, start: int, shallow: bool) -> _Whole:
    """The object at ``start``.

    ``shallow``: the text has too few brackets to exceed the depth guard, so that the fast decoder
    may try first (it recurses without one). Raises ``_BrokenError``.
    """
    if shallow:
        try:
            value, end = _DECODER.raw_decode(text, start)
            return _Whole(value, False, end)
        except json.JSONDecodeError:
            pass
    parser = _Parser(text, start)
    pairs = parser.read_object()
    return _Whole(pairs, parser.repaired, parser.position)


def closing(text: str, start: int) -> int | None:
    """Where the brackets of the object at ``start`` close; None if they never do."""
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text, start):
        bracket = match[0]
        if bracket in "{[":
            depth += 1
        elif bracket in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


@dataclass(slots=True)
class _Parser:
    """JSON with trailing commas allowed and the depth guarded; knows where the text broke."""

    text: str
    position: int
    repaired: bool = False
    depth: int = 0

    def read_object(self) -> Object:
        self.position += 1
        return tuple(self._items("}", self._pair))

    def _items(self, closing: str, read_item: Callable[[], ItemT]) -> list[ItemT]:
        """The items up to ``closing``; the opening bracket has been read."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _BrokenError(self.position)
        items: list[ItemT] = []
        done = self._accept(closing)
        while not done:
            items.append(read_item())
            comma = self._accept(",")
            done = self._accept(closing)
            if comma and done:
                self.repaired = True
            elif not comma and not done:
                raise _BrokenError(self.position)
        self.depth -= 1
        return items

    def _pair(self) -> tuple[str, Json]:
        key = self._string()
        if key is None or not self._accept(":"):
            raise _BrokenError(self.position)
        return key, self._value()

    def _value(self) -> Json:
        if self._accept("["):
            return self._items("]", self._value)
        if self._accept("{"):
            return tuple(self._items("}", self._pair))
        string = self._string()
        return self._scalar() if string is None else string

    def _accept(self, character: str) -> bool:
        """Step over white space, and over ``character`` if it comes next."""
        self._skip_space()
        if not self.text.startswith(character, self.position):
            return False
        self.position += 1
        return True

    def _skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        assert match
        self.position = match.end()

    def _string(self) -> str | None:
        self._skip_space()
        match = _STRING.match(self.text, self.position)
        if not match:
            return None
        self.position = match.end()
        literal = match[0]
        return str(json.loads(literal)) if "\\" in literal else literal[1:-1]

    def _scalar(self) -> Json:
        match = _WORD.match(self.text, self.position)
        if match:
            self.position = match.end()
            return _WORDS[match[0]]
        match = _NUMBER.match(self.text, self.position)
        if not match:
            raise _BrokenError(self.position)
        self.position = match.end()
        return float(match[0]) if match[1] else _integer(match[0])

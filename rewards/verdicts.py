"""A judge's reply -> one 0 or 1 per criterion, or the reason why it holds no usable verdict.

A verdict is a JSON object with each requested dimension as a direct key::

    {"correct_resolution": {"criterion_scores": {"criterion_1": 1, "criterion_2": 0}}}

Nothing is repaired or guessed: an unclear verdict is asked for again, never scored. Totals, maxima
and summaries never count.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tasks.extraction import Incomplete, Json, Object, answer_text, closing

Reason = Literal[
    "empty_output",  # null or blank
    "unterminated_reasoning",  # ends inside a think block
    "no_scores_object",  # no object holds a requested dimension as a direct key
    "malformed_json",  # an object begins with a requested dimension and does not decode
    "duplicate_key",  # a key comes twice in one object
    "non_finite_number",  # NaN or an infinity
    "conflicting_objects",  # several objects, and their scores differ
    "missing_dimension",  # a requested dimension is absent
    "missing_criterion_scores",  # a dimension without a map or list of criterion scores
    "criterion_set_mismatch",  # not exactly criterion_1 ... criterion_n, or a list of n
    "non_binary_score",  # a score that is neither 0 nor 1
    "quoted_candidate",  # the only objects are copies of what the candidate wrote
]
Warning_ = Literal["coerced", "total_mismatch", "max_mismatch"]

_MAX_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Verdict:
    """0 or 1 for every criterion of every requested dimension, in the rubric's order."""

    scores: Mapping[str, tuple[int, ...]]
    warnings: tuple[Warning_, ...] = ()

    @property
    def fractions(self) -> Mapping[str, float]:
        """Criteria met / criteria, by dimension."""
        return {name: sum(met) / len(met) for name, met in self.scores.items()}


@dataclass(frozen=True, slots=True)
class Unusable:
    """No verdict. Never a score of 0."""

    reason: Reason


class _UnusableError(Exception):
    def __init__(self, reason: Reason) -> None:
        self.reason: Reason = reason


def read_verdict(
    reply: str | None, sizes: Mapping[str, int], candidate: str = ""
) -> Verdict | Unusable:
    """Read ``reply`` for the dimensions in ``sizes`` (dimension -> number of criteria, >= 1).

    ``candidate``: the judged text; an object that the judge copied out of it, in whatever
    indentation, is a quotation and no verdict.
    """
    assert sizes and min(sizes.values()) >= 1
    try:
        return _read(reply, sizes, candidate)
    except _UnusableError as error:
        return Unusable(error.reason)


def _read(reply: str | None, sizes: Mapping[str, int], candidate: str) -> Verdict:
    if reply is None or not reply.strip():
        raise _UnusableError("empty_output")
    text = answer_text(reply)
    if isinstance(text, Incomplete):
        raise _UnusableError("unterminated_reasoning")
    found = list(_score_objects(text, sizes))
    if not found:
        raise _UnusableError("no_scores_object")
    written = _squeezed(candidate)
    own = [pairs for pairs, source in found if _squeezed(source) not in written]
    if not own:
        raise _UnusableError("quoted_candidate")
    for pairs in own:
        _refuse_unclear_json(pairs)
    return _agreed([dict(pairs) for pairs in own], sizes)


def _squeezed(text: str) -> str:
    """Without white space: a quotation may be indented otherwise than the text it is from."""
    return "".join(text.split())


def _score_objects(text: str, sizes: Mapping[str, int]) -> Iterator[tuple[Object, str]]:
    """The top-level objects that hold a requested dimension, each with its text."""
    names = "|".join(re.escape(json.dumps(name)) for name in sizes)
    verdict_begins = re.compile(r"\{[ \t\n\r]*(?:" + names + ")")
    end = 0
    while opening := _OPENING.search(text, end):
        position = opening.start()
        try:
            pairs, end = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            end = max(position + 1, error.pos)
            if verdict_begins.search(text, position, end + 1):
                raise _UnusableError("malformed_json") from None
        except RecursionError:  # too deep to decode; no verdict is, so what holds none is skipped
            end = closing(text, position) or len(text)
            if verdict_begins.search(text, position, end):
                raise _UnusableError("malformed_json") from None
        else:
            if any(key in sizes for key, _ in pairs):
                yield pairs, text[position:end]


def _integer(digits: str) -> int | str:
    """Python refuses to convert thousands of digits; such a number is no score, so text will do."""
    return int(digits) if len(digits) <= _MAX_DIGITS else digits


_OPENING = re.compile(r'\{(?=[ \t\n\r]*+["}])')
_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_int=_integer)


def _refuse_unclear_json(pairs: Object) -> None:
    """Duplicate keys first, then numbers that are none, at any depth."""
    values = list(_all_values(pairs))
    if any(_repeats_key(value) for value in values):
        raise _UnusableError("duplicate_key")
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise _UnusableError("non_finite_number")


def _all_values(value: Json) -> Iterator[Json]:
    """``value`` and everything in it."""
    yield value
    if isinstance(value, tuple):
        for _, inner in value:
            yield from _all_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _all_values(inner)


def _repeats_key(value: Json) -> bool:
    return isinstance(value, tuple) and len({key for key, _ in value}) != len(value)


def _agreed(objects: list[dict[str, Json]], sizes: Mapping[str, int]) -> Verdict:
    """The verdict that all objects give. Raises when they differ or are no verdict."""
    first, *others = (_stated(held, sizes) for held in objects)
    if any(other != first for other in others):
        raise _UnusableError("conflicting_objects")
    warnings: set[Warning_] = set()
    for held in objects:
        scores = _all_scores(held, sizes, warnings)
    order: tuple[Warning_, ...] = ("coerced", "total_mismatch", "max_mismatch")
    return Verdict(scores, tuple(warning for warning in order if warning in warnings))


def _stated(held: Mapping[str, Json], sizes: Mapping[str, int]) -> dict[str, object]:
    """The scores as the object states them, right or wrong, in one spelling; for comparison."""
    return {name: _spelled(held[name]) for name in sizes if name in held}


def _spelled(dimension: Json) -> object:
    scores = _fields(dimension).get("criterion_scores")
    if isinstance(scores, list):
        scores = tuple((f"criterion_{i}", value) for i, value in enumerate(scores, 1))
    if not isinstance(scores, tuple):
        return None
    return {key: value if (met := _binary(value)) is None else met for key, value in scores}


def _all_scores(
    held: Mapping[str, Json], sizes: Mapping[str, int], warnings: set[Warning_]
) -> dict[str, tuple[int, ...]]:
    """The scores by dimension; what does not matter but is odd goes to ``warnings``.

    One rule after another over all dimensions, so that the reason does not depend on their order.
    """
    if not sizes.keys() <= held.keys():
        raise _UnusableError("missing_dimension")
    fields = {name: _fields(held[name]) for name in sizes}
    stated = {name: fields[name].get("criterion_scores") for name in sizes}
    if not all(isinstance(scores, (tuple, list)) for scores in stated.values()):
        raise _UnusableError("missing_criterion_scores")
    values = {name: _in_order(stated[name], size) for name, size in sizes.items()}
    scores = {name: _binary_scores(values[name], warnings) for name in sizes}
    for name, size in sizes.items():
        if _disagrees(fields[name].get("total_score"), sum(scores[name])):
            warnings.add("total_mismatch")
        if _disagrees(fields[name].get("max_score"), size):
            warnings.add("max_mismatch")
    return scores


def _fields(dimension: Json) -> dict[str, Json]:
    return dict(dimension) if isinstance(dimension, tuple) else {}


def _in_order(scores: Json, size: int) -> list[Json]:
    """The values of criterion_1 ... criterion_n. Raises unless it is exactly these."""
    if isinstance(scores, tuple):
        by_key, keys = dict(scores), [f"criterion_{number}" for number in range(1, size + 1)]
        values = [by_key[key] for key in keys] if by_key.keys() == set(keys) else []
    else:
        assert isinstance(scores, list)
        values = scores
    if len(values) != size:
        raise _UnusableError("criterion_set_mismatch")
    return values


def _binary_scores(values: list[Json], warnings: set[Warning_]) -> tuple[int, ...]:
    scores = tuple(score for value in values if (score := _binary(value)) is not None)
    if len(scores) < len(values):
        raise _UnusableError("non_binary_score")
    if any(type(value) is not int for value in values):
        warnings.add("coerced")
    return scores


def _binary(value: Json) -> int | None:
    """0 or 1; also written true, 1.0 or "1". Anything else is None."""
    if isinstance(value, str):
        return {"0": 0, "1": 1}.get(value)
    if isinstance(value, (int, float)) and value in (0, 1):
        return int(value)
    return None


def _disagrees(stated: Json, right: int) -> bool:
    return stated is not None and stated != right

"""Anomalies that are kept and flagged: leaks into the turns, and criteria no model can meet.

The wordings were found in the public release. ``COUNTED`` are the kinds its data specification
counts as leaks; ``comments_on_user`` catches the rest, in other words than "the user believes".
"""

import re
from collections.abc import Iterator
from typing import Final

from tasks.basis.instances import (
    DIMENSIONS,
    Dimension,
    Flags,
    Leak,
    LeakKind,
    Place,
    Rubrics,
    Turn,
    plain,
)

COUNTED: Final[tuple[LeakKind, ...]] = (
    "leaks_truth",
    "red_herring_note",
    "author_note",
    "narrates_belief",
    "says_true_state",
)

_SHORTEST_QUOTE: Final = 6  # words of a true state that make its whole text a leak
_LONGEST_LABEL: Final = 8  # words of an exam option

_GENERATOR = re.compile(r"simulate the environment feedback|must reflect true state", re.I)
_RED_HERRING = re.compile(r"\(red[ -]herring\)", re.I)
_NOTE = re.compile(r"[(\[](?:system |author'?s? )?note:", re.I)
_MIND = r"believ|assum|interpret|attribut|conclud|(?:is |remains )?convinced|thinks"
_NARRATED = re.compile(
    rf"\bthe user(?:'s brain)? (?:still |now |here )?(?:{_MIND})|\bthe user's belief|user belief:",
    re.I,
)
_COMMENTED = re.compile(
    rf"\b(?:user|developer|teacher|educator) (?:still |now )?(?:mis)?(?:{_MIND})"
    r"|\buser's (?:incorrect |wrong |false )?belief|\(reality:"
    r"|\bthe (?:user|developer) (?:[a-z']+ ){0,6}(?:assumes|thinks|convinced|unaware|blind to)\b"
    r"|\bthe user (?:\w+ )?(?:ignor|fails to realiz)",
    re.I,
)
_TRUE_STATE = re.compile(r"\btrue (?:latent )?state\b", re.I)

ANSWER_LETTER = re.compile(r"\b(?:option|answer|choice)s? (?-i:([A-H]))(?![\w-])", re.I)
_OTHER_WORDING = re.compile(
    r"\bor (?:\w+ )?['\"(]*(?:option|answer|choice) (?-i:[A-H])\b"
    r"|\b(?:option|answer|choice) (?-i:[A-H])['\")]* or\b",
    re.I,
)
_TERM = re.compile(r"\blatent state\b", re.I)


def find_flags(
    scene: str,
    turns: tuple[Turn, ...],
    belief: str,
    true_state: str,
    rubrics: Rubrics,
    other_domain: bool,
) -> Flags:
    """The flags of an instance. ``scene``: its visible text outside the turns."""
    seen = [text for turn in turns for text in (turn.action, turn.observation or "")]
    letters = _letters(" \n ".join([scene, *seen]))
    hidden = [
        (place, text)
        for place, text in _placed(rubrics)
        if (named := _letters(text)) and not named <= letters
    ]
    return Flags(
        leaks=tuple(_leaks(turns, true_state)),
        letter_criteria=tuple(place for place, _ in hidden),
        unanswerable=tuple(place for place, text in hidden if not _OTHER_WORDING.search(text)),
        term_criteria=tuple(place for place, text in _placed(rubrics) if _TERM.search(text)),
        coarse=tuple(one for one in DIMENSIONS if len(rubrics.of(one)) == 2),
        option_label=_is_label(belief) or _is_label(true_state),
        other_domain=other_domain,
    )


def _placed(rubrics: Rubrics) -> Iterator[tuple[Place, str]]:
    dimension: Dimension
    for dimension in DIMENSIONS:
        for index, text in enumerate(rubrics.of(dimension)):
            yield (dimension, index), text


def _letters(text: str) -> frozenset[str]:
    """The answer letters that a text names, such as B for "Option B"."""
    return frozenset(match[1] for match in ANSWER_LETTER.finditer(text))


def _leaks(turns: tuple[Turn, ...], true_state: str) -> Iterator[Leak]:
    found: dict[LeakKind, list[int]] = {}
    for turn in turns:
        for kind in _kinds(turn, true_state):
            found.setdefault(kind, []).append(turn.number)
    for kind in (*COUNTED, "comments_on_user"):
        if kind in found:
            yield Leak(kind, tuple(found[kind]))


def _kinds(turn: Turn, true_state: str) -> Iterator[LeakKind]:
    seen = turn.observation or ""
    if _GENERATOR.search(seen) or _quotes(seen, true_state):
        yield "leaks_truth"
    if _RED_HERRING.search(turn.action) or _RED_HERRING.search(seen):
        yield "red_herring_note"
    if _NOTE.search(seen):
        yield "author_note"
    if _NARRATED.search(seen):
        yield "narrates_belief"
    elif _COMMENTED.search(seen):
        yield "comments_on_user"
    if _TRUE_STATE.search(seen):
        yield "says_true_state"


def _quotes(seen: str, true_state: str) -> bool:
    words = plain(true_state)
    return words.count(" ") + 1 >= _SHORTEST_QUOTE and words in plain(seen)


def _is_label(text: str) -> bool:
    return len(text.split()) <= _LONGEST_LABEL and text.rstrip("'\")")[-1:] not in {*".!?"}

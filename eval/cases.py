"""Which cases a report shows, and what it says of each: request, answers, what was right.

A case is one planned (request, run). All are counted by outcome; the page holds a sample that
depends on the keys alone, rarest and most telling outcomes first, within a budget of bytes.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eval.metrics import Rows
from eval.records import COMPLETE, Key, Scored, sha256
from tasks.example import Example, Message

MAX_CASES = 1_500
MAX_BYTES = 6_000_000  # of the whole sample, as JSON
MAX_TEXT = 12_000  # characters of one message or answer

ONLY_TRAINED, ONLY_BASE = "only trained right", "only base right"
OUTCOMES = (
    ONLY_TRAINED,
    ONLY_BASE,
    "both wrong",
    "both right",
    "trained incomplete",
    "base incomplete",
    "both incomplete",
)
"""In the order a reader wants them."""

GRADED = {
    ONLY_TRAINED: "trained higher",
    ONLY_BASE: "base higher",
    "both wrong": "same score, not full",
    "both right": "both full score",
}
"""What the outcomes are called where an answer has a score between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one system wrote. ``stated``: its entries as ``Case.lines`` has them, ``marks``: which
    of them are right; both empty where there is no answer in them. ``asked``: what it was asked
    where that is not the case's request, but another setting of it."""

    system: str
    state: str
    verdict: str
    text: str
    stated: tuple[tuple[str, ...], ...] = ()
    marks: tuple[tuple[bool, ...], ...] = ()
    asked: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One request in one run. ``lines``: name and right entries of each line of an answer.

    ``settings``: names both conditions where two settings of a request are compared.
    """

    example: Example
    run: int
    outcome: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    answers: tuple[Answer, ...]
    settings: str = ""


def outcome(base: float | None, trained: float | None) -> str:
    """How the two compare; a value is right when it is 1, and higher is better."""
    if base is None or trained is None:
        if base is None and trained is None:
            return "both incomplete"
        return "base incomplete" if base is None else "trained incomplete"
    if base == trained:
        return "both right" if base == 1.0 else "both wrong"
    return ONLY_TRAINED if trained > base else ONLY_BASE


def outcomes(keys: Iterable[tuple[Key, float | None, float | None]]) -> dict[Key, str]:
    """The outcome of each case, in plan order."""
    return {key: outcome(base, trained) for key, base, trained in keys}


def chosen(found: Mapping[Key, str], rows: Rows, most: int = MAX_CASES) -> list[Key]:
    """Up to ``most`` keys: outcomes and conditions take turns, each in the order of a hash."""
    groups: dict[tuple[int, str], list[Key]] = defaultdict(list)
    for key, name in found.items():
        groups[(OUTCOMES.index(name), rows[key].condition)].append(key)
    queues = [sorted(groups[name], key=_hashed) for name in sorted(groups)]
    taken: list[Key] = []
    turn = 0
    while len(taken) < most and any(turn < len(queue) for queue in queues):
        taken += [queue[turn] for queue in queues if turn < len(queue)]
        turn += 1
    return taken[:most]


def _hashed(key: Key) -> str:
    return sha256(f"{key[0]}\t{key[1]}")


def payload(
    cases: Iterable[Case],
    counts: Mapping[str, int],
    names: Sequence[str],
    graded: bool,
) -> str:
    """The sample as JSON text that may stand in a ``script`` element of type application/json.

    ``cases`` in the order of ``chosen``: those that pass the budget of bytes are left out.
    ``names``: the systems, of which outcomes name the first two; texts that repeat are held once.
    """
    texts: dict[str, int] = {}
    kept: list[tuple[int, str]] = []  # as text: a tree of lists takes ten times the memory
    size = 0
    for case in cases:
        before = len(texts)
        row = _compact(_row(case, texts))
        fresh = list(texts)[before:]
        cost = len(row) + sum(len(json.dumps(text)) for text in fresh)
        if size + cost > MAX_BYTES:
            for text in fresh:
                del texts[text]
            continue
        size += cost
        kept.append((OUTCOMES.index(case.outcome), row))
    kept.sort(key=lambda one: one[0])
    labels = [_named(GRADED.get(one, one) if graded else one, names) for one in OUTCOMES]
    whole = {
        "systems": list(names),
        "outcomes": labels,
        "keys": list(OUTCOMES),
        "counts": [counts.get(name, 0) for name in OUTCOMES],
        "texts": list(texts),
    }
    rows = ",".join(row for _, row in kept)
    return inert(f'{_compact(whole)[:-1]},"cases":[{rows}]}}')


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _named(outcome: str, names: Sequence[str]) -> str:
    """The words of an outcome with the names of the two systems; as they are for two settings of
    one."""
    if len(names) < 2:
        return outcome
    called = {"base": names[0], "trained": names[1]}
    return " ".join(called.get(word, word) for word in outcome.split())


def inert(text: str) -> str:
    """JSON text without a character that could end or open an element, or end a line."""
    found = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    found = found.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return found.encode("utf-8", "backslashreplace").decode()  # lone surrogates as \\udXXX


def _row(case: Case, texts: dict[str, int]) -> dict[str, object]:
    def held(text: str) -> int:
        return texts.setdefault(shortened(text), len(texts))

    one = case.example
    return {
        "id": one.id,
        "run": case.run,
        "outcome": OUTCOMES.index(case.outcome),
        "condition": case.settings or one.condition,
        "variant": one.variant,
        "holder": one.holder,
        "turns": one.turns,
        "source": one.source,
        "messages": [[message["role"], held(message["content"])] for message in one.messages],
        "right": held(one.reference_answer),
        "lines": [[name, list(right)] for name, right in case.lines],
        "answers": [
            {
                "state": answer.state,
                "verdict": answer.verdict,
                "text": held(answer.text),
                "stated": [list(line) for line in answer.stated],
                "marks": [[int(mark) for mark in line] for line in answer.marks],
                "asked": [[one["role"], held(one["content"])] for one in answer.asked],
            }
            for answer in case.answers
        ],
    }


def shortened(text: str) -> str:
    """The beginning and the end of a long text, and how much is left out between."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - MAX_TEXT:,} characters left out ...]\n{text[-half:]}"


def verdict_of(row: Scored, words: Sequence[str]) -> str:
    """State and measures of one row in a few words."""
    shown = [*words]
    if row.reward is not None:
        shown.append(f"reward {row.reward:.2f}")
    if row.state != COMPLETE:
        shown.insert(0, row.state)
    return ", ".join(shown) or row.state

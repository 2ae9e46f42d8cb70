"""Reading free-text answers, by the form each setting asks for."""

from pathlib import Path
from typing import Any

import pytest

from tasks.basis.answers import Answer, read
from tasks.basis.reference import Notation, Reference, reference
from tasks.basis.settings import calls
from tasks.extraction import Incomplete
from tests.tasks.basis.small_instances import instance


def asked(folder: Path, form: str) -> Reference:
    """What the answer to a request of this form is read against."""
    setting: Any = {"text": "gt", "marker": "cot", "json": "guided", "tags": "guided"}[form]
    [call] = calls(setting, "tags" if form == "tags" else "json")
    assert call.form == form
    return reference(instance(folder), call, 0, Notation())


def outcome(answer: Answer | Incomplete) -> object:
    if isinstance(answer, Incomplete):
        return answer.reason
    texts = tuple(answer.texts.values())
    return texts[0] if len(texts) == 1 else texts


ALL = '{"belief": "b", "profile": "p", "solution": "s"}'
JSON: list[tuple[str, object]] = [
    (ALL, ("b", "p", "s")),
    (f"```json\n{ALL}\n```", ("b", "p", "s")),
    (f"I think {{so}}. {ALL} Done.", ("b", "p", "s")),
    (f"<think>{{}}</think>{ALL}", ("b", "p", "s")),
    (f"reasons</think>{ALL}", ("b", "p", "s")),
    ('{"belief":"x","profile":"x","solution":"x"}' + ALL, ("b", "p", "s")),
    (ALL + '{"solution": "y"}', ("b", "p", "s")),
    (ALL + ' {"note": "belief"}', ("b", "p", "s")),
    (ALL + ' {"note": "cut', ("b", "p", "s")),
    ('{"belief": "cut' + ALL.replace('"', "'") + "\n" + ALL, ("b", "p", "s")),
    ('{"answer": ' + ALL + "}", ("b", "p", "s")),
    ('{"Belief": "b", " PROFILE ": "p", "solution": "s"}', ("b", "p", "s")),
    ('{"belief": "b", "solution": "s", "extra": 1}', ("b", "", "s")),
    ('{"belief": " ", "profile": null, "solution": " s\\n"}', ("", "", "s")),
    ('{"solution": "s"}', ("", "", "s")),
    ('{"belief": ["a", "b"], "profile": {"k": 1}, "solution": 3}', ('["a", "b"]', '{"k": 1}', "3")),
    ('{"belief": "b", "profile": "p", "solution": "s",}', ("b", "p", "s")),
    ('{"belief": "b", "belief": "b", "profile": "p", "solution": "s"}', "duplicate_key"),
    ('{"belief": "b", "Belief": "c", "profile": "p", "solution": "s"}', "duplicate_key"),
    ('{"belief": "b", "profile": "p", "solution": "s', "unparseable"),
    (ALL + '\nBetter: {"belief": "b2", "profile": "p2', "unparseable"),
    ('{"belief": "two\nlines", "profile": "p", "solution": "s"}', "unparseable"),
    ("{'belief': 'b', 'profile': 'p', 'solution': 's'}", "no_answer"),
    ('["b", "p", "s"]', "no_answer"),
    ("I cannot help with that.", "no_answer"),
    ("", "no_answer"),
    ("<think>" + ALL, "unterminated_reasoning"),
    ("x" * 200_001, "too_long"),
]


@pytest.mark.parametrize(("text", "expected"), JSON, ids=[text[:60] for text, _ in JSON])
def test_guided_answers_in_json(tmp_path: Path, text: str, expected: object) -> None:
    assert outcome(read(text, asked(tmp_path, "json"))) == expected


def test_missing_and_coerced_fields_are_named(tmp_path: Path) -> None:
    answer = read('{"belief": [1], "solution": "s"}', asked(tmp_path, "json"))
    assert isinstance(answer, Answer)
    assert answer.missing == ("profile",)
    assert answer.warnings == ("coerced belief",)


TAGGED = "<belief>b</belief>\n<profile> p </profile>\n<solution>s</solution>"
TAGS: list[tuple[str, object]] = [
    (TAGGED, ("b", "p", "s")),
    (f"<think>no</think>\n{TAGGED}\n", ("b", "p", "s")),
    (TAGGED.replace("s<", "a < b\n\n{1}<"), ("b", "p", "a < b\n\n{1}")),
    (TAGGED.replace(" p ", " "), ("b", "", "s")),
    ("Sure: " + TAGGED, "wrong_shape"),
    (TAGGED + " Done.", "wrong_shape"),
    (TAGGED + TAGGED, "wrong_shape"),
    (TAGGED.replace("</profile>", ""), "wrong_shape"),
    ("<profile>p</profile><belief>b</belief><solution>s</solution>", "wrong_shape"),
    ("<belief>b</belief><solution>s</solution>", "wrong_shape"),
    (TAGGED.replace("b<", "<belief>b<"), "wrong_shape"),
    (ALL, "no_answer"),
    ("<think>" + TAGGED, "unterminated_reasoning"),
]


@pytest.mark.parametrize(("text", "expected"), TAGS, ids=[text[:60] for text, _ in TAGS])
def test_guided_answers_in_tags(tmp_path: Path, text: str, expected: object) -> None:
    assert outcome(read(text, asked(tmp_path, "tags"))) == expected


MARKED: list[tuple[str, object]] = [
    ("Step 1.\nFinal answer: do it", "do it"),
    ("Step 1.\n\n**Final Answer:** do it\nand that", "do it\nand that"),
    ("### final answer:\n\ndo it", "do it"),
    ("Final answer: draft\nNo.\nFinal answer: do it", "do it"),
    ("<think>Final answer: x</think>Final answer: do it", "do it"),
    ("My final answer: do it", "no_answer"),
    ("do it", "no_answer"),
    ("Final answer:  ", "no_answer"),
]


@pytest.mark.parametrize(("text", "expected"), MARKED)
def test_only_what_follows_the_marker_is_judged(
    tmp_path: Path, text: str, expected: object
) -> None:
    assert outcome(read(text, asked(tmp_path, "marker"))) == expected


@pytest.mark.parametrize(
    ("text", "prefilled", "expected"),
    [
        (" do it \n", False, "do it"),
        ("<think>x</think>\n\ndo it", False, "do it"),
        ("x</think>do it", True, "do it"),
        ("do it", True, "unterminated_reasoning"),
        ("x</think> ", False, "no_answer"),
        (ALL, False, ALL),
    ],
)
def test_plain_answers_are_taken_whole(
    tmp_path: Path, text: str, prefilled: bool, expected: object
) -> None:
    assert outcome(read(text, asked(tmp_path, "text"), prefilled)) == expected

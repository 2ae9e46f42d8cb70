"""Which cases a page holds, and that their texts are inert."""

import json
from dataclasses import replace

import pytest

from eval import cases
from eval.cases import Answer, Case, chosen, inert, outcome, payload, shortened
from tests.eval.stories import some
from tests.eval.test_compare import cell, rows

OUTCOMES = [
    (0.0, 1.0, "only trained right"),
    (1.0, 0.0, "only base right"),
    (0.25, 0.5, "only trained right"),
    (1.0, 1.0, "both right"),
    (0.0, 0.0, "both wrong"),
    (0.5, 0.5, "both wrong"),
    (None, 1.0, "base incomplete"),
    (0.0, None, "trained incomplete"),
    (None, None, "both incomplete"),
]


@pytest.mark.parametrize(("base", "trained", "expected"), OUTCOMES)
def test_outcomes(base: float | None, trained: float | None, expected: str) -> None:
    assert outcome(base, trained) == expected


def test_outcomes_and_conditions_take_turns() -> None:
    held = rows([cell(f"r{n}", 1, 1.0) for n in range(40)])
    found = dict.fromkeys(held, "both right")
    found[("r3", 1)] = found[("r4", 1)] = "only trained right"
    found[("r5", 1)] = "both incomplete"
    first = chosen(found, held, 5)
    assert {("r3", 1), ("r4", 1), ("r5", 1)} < set(first)
    assert chosen(dict(reversed(found.items())), held, 5) == first  # of the keys, not their order
    assert len(chosen(found, held)) == 40


def case(number: int, text: str, name: str = "both right") -> Case:
    example = replace(some(1)[0], id=f"r{number}")
    return Case(example, 1, name, (), (Answer("base", "complete", "right", text),))


def test_texts_that_repeat_are_held_once_and_the_telling_cases_come_first() -> None:
    held = [case(1, "same"), case(2, "same", "only base right")]
    found = json.loads(payload(held, {"both right": 7, "only base right": 1}, ["base"], False))
    assert [one["id"] for one in found["cases"]] == ["r2", "r1"]
    assert found["texts"].count("same") == 1
    assert dict(zip(found["keys"], found["counts"], strict=True))["both right"] == 7
    graded = json.loads(payload(held, {}, ["base"], True))
    assert graded["outcomes"][:2] == ["trained higher", "base higher"]
    named = json.loads(payload(held, {}, ["sft base", "grpo"], True))["outcomes"]
    assert named[:2] == ["grpo higher", "sft base higher"]
    assert named[4:] == ["grpo incomplete", "sft base incomplete", "both incomplete"]


def test_the_sample_keeps_to_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MAX_BYTES", 30_000)
    text = payload([case(n, f"{n} " * 2_500) for n in range(20)], {}, ["base"], False)
    assert len(text) < 32_000
    found = json.loads(text)
    assert 2 <= len(found["cases"]) < 6
    assert len(found["texts"]) == 3 + len(found["cases"])  # two messages, the right answer, answers


def test_inert_text_is_the_same_json() -> None:
    evil = "</script><!--\u2028&\ud800"
    text = inert(json.dumps({"a": evil}, ensure_ascii=False))
    assert "<" not in text and "&" not in text and "\u2028" not in text
    assert json.loads(text) == {"a": evil}
    text.encode("utf-8")


def test_a_long_text_keeps_its_ends() -> None:
    found = shortened("a" * 6_000 + "b" * 4_000 + "c" * 6_000)
    assert found == f"{'a' * 6_000}\n[... 4,000 characters left out ...]\n{'c' * 6_000}"
    assert shortened("short") == "short"

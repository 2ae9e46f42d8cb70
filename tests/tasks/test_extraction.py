"""Where thinking ends, which object answers, what is repaired, and that no text takes long."""

import importlib.util
import math
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.extraction import (
    MAX_CHARACTERS,
    Found,
    Incomplete,
    answer_text,
    find_answer,
    find_object,
    opens_thinking,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", "42"),
        ("", ""),
        (" 42\r\n", "42"),
        ("<think>a 41</think> 42", "42"),
        ("a 41</think>\n42", "42"),
        ("</think> </think> 42", "42"),
        ("<think>a</think> 41 <think>b</think> 42", "42"),
        ("<think>a<think>b</think>c</think>42", "42"),
        ("<think>\n\n</think>\n\n42", "42"),
        ("<think>a 41</think>", ""),
        ("&lt;think&gt;42", "&lt;think&gt;42"),
    ],
)
def test_the_text_after_the_last_closing_tag_answers(text: str, expected: str) -> None:
    assert answer_text(text) == expected


@pytest.mark.parametrize(
    ("text", "prefilled_think"),
    [
        ("<think>a 41", False),
        ("<think>a</think> 41 <think>b", False),
        ("41 <think>b", False),
        ("a 41", True),
        ("", True),
        ("<think>a 41", True),
    ],
)
def test_unfinished_thinking_has_no_answer(text: str, prefilled_think: bool) -> None:
    assert answer_text(text, prefilled_think) == Incomplete("unterminated_reasoning")


def test_a_closing_tag_counts_also_when_the_prompt_opened_the_block() -> None:
    assert answer_text("a 41</think>\n42", prefilled_think=True) == "42"
    assert answer_text("<think>a 41</think>\n42", prefilled_think=True) == "42"


def test_unfinished_thinking_is_told_apart_from_an_unreadable_answer() -> None:
    assert find_answer('<think>{"plan": 1}', "plan") == Incomplete("unterminated_reasoning")
    assert find_answer('{"plan": 1} x', "plan", True) == Incomplete("unterminated_reasoning")
    assert find_answer('<think>a</think>{"plan": ', "plan") == Incomplete("unparseable")


TEMPLATES = {  # (template, enable_thinking) -> whether the prompt ends in an open think block
    ("qwen2_5", None): False,
    ("qwen3", None): False,
    ("qwen3", False): False,
    ("qwen3_instruct_2507", None): False,
    ("qwen3_5_think", None): True,
    ("qwen3_5_think", False): False,
    ("qwen3_5_nothink", None): False,
    ("qwen3_6", None): True,
    ("qwen3_6", False): False,
    ("qwen3_8", None): True,
    ("qwen3_8", False): False,
    ("deepseek_r1_distill", None): True,
}


def render(template: str, enable_thinking: bool | None) -> str:
    """The generation prompt that one of the chat templates bundled with TRL makes."""
    sandbox = pytest.importorskip("jinja2.sandbox", reason="jinja2 comes with the train extra")
    trl = importlib.util.find_spec("trl")
    if trl is None or trl.origin is None:
        pytest.skip("the bundled templates come with trl, in the train extra")
    source = Path(trl.origin).parent / "chat_templates" / f"{template}.jinja"
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    options: dict[str, Any] = (
        {} if enable_thinking is None else {"enable_thinking": enable_thinking}
    )
    messages = [{"role": "user", "content": "Plan."}]
    compiled = environment.from_string(source.read_text(encoding="utf-8"))
    return str(compiled.render(messages=messages, add_generation_prompt=True, **options))


@pytest.mark.parametrize(("template", "enable_thinking"), list(TEMPLATES))
def test_every_bundled_template_gives_the_same_answer(
    template: str, enable_thinking: bool | None
) -> None:
    opened = opens_thinking(render(template, enable_thinking))
    assert opened is TEMPLATES[template, enable_thinking]
    for completion in ('r\n</think>\n{"plan":1}', '<think>r</think>{"plan":1}'):
        assert answer_text(completion, opened) == '{"plan":1}'
    unfinished = answer_text('r {"plan":1}', opened)
    assert isinstance(unfinished, Incomplete) is opened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"plan": 1}', (1,)),
        ('```json\n{"plan":1}\n``` see [1]', (1,)),
        ('```\r\n{\r\n\t"plan" : 1\r\n}\r\n```', (1,)),
        ('\ufeff{"plan": 1}', (1,)),
        ('{"plan":"a ``` b"}', ("a ``` b",)),
        ('{"plan":1}{"plan":2}', (2,)),
        ('{"plan":1} then {"other":2}', (1,)),
        ('{"plan":1} then {"plan":2', (1,)),
        ('{"plan": {"M1":\nno, again: {"plan": 2}', (2,)),
        ('{"plan":1,"plan":2}', (1, 2)),
        ('{"Plan": 1}', (1,)),
        ('{" PLAN ": 1}', (1,)),
        ('{"Plan": "first I look", "plan": 1}', ("first I look", 1)),
        ('{"plan": 1, " PLAN": 2}', (1, 2)),
        ('{"answer": {"plan": 1, "Plan": 2}}', (1, 2)),
        ('{"\\u0070lan": 1}', (1,)),
        ('{"answer": {"plan": 1}}', (1,)),
        ('{"answer": {"plan": 1}, "plan": 2}', (2,)),
        ('{"draft": {"plan": 1}, "final": {"plan": 2}}', (1, 2)),
        ('{"answer": {"plan": 1, "plan": 2}}', (1, 2)),
        ('[{"plan": 1}, {"plan": 2}]', (2,)),
        ('\\boxed{{"plan": 1}}', (1,)),
        ('{note} {"plan": 1} {"', (1,)),
        ('{"plan": oops} no, again: {"plan": 2}', (2,)),
        ('{"plan": {"M1": 3, "M2":\n\n```json\n{"plan": 2}\n```', (2,)),
        ('{"plan": "3}\nCorrection: {"plan": 2}', (2,)),
        ("{'plan': 1} and as JSON {\"plan\": 2}", (2,)),
        ('{a brace that never closes {"plan": 2}', (2,)),
        ('{x : x > 3} {"plan": 2}', (2,)),
        ('{"plan": 1} {"x": oops, "draft": {"plan": 2}}', (1,)),
        ('{"plan": {}}', ((),)),
        (
            '{"plan": {"a": [1, {"b": null}], "a": true}}',
            ((("a", [1, (("b", None),)]), ("a", True)),),
        ),
        ('{"plan": "\\ud83d\\ude00 \\n \\ud800"}', ("\U0001f600 \n \ud800",)),
        ('{"plan": "日本"}', ("日本",)),
    ],
)
def test_the_last_readable_object_with_the_key_answers(text: str, expected: object) -> None:
    assert find_object(text, "plan") == Found(expected, repaired=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_answer"),
        ("M1 goes to 3", "no_answer"),
        ("[" * 100_000, "no_answer"),
        ("{" * 100_000, "no_answer"),
        ('{"belief": 1}', "no_answer"),
        ('{"a": {"b": {"plan": 1}}}', "no_answer"),
        ('{"a": [{"plan": 1}]}', "no_answer"),
        ('"{\\"plan\\": 1}"', "no_answer"),
        ("{'plan': 1}", "no_answer"),
        ("{&quot;plan&quot;: 1}", "no_answer"),
        ("{plan: 1}", "no_answer"),
        ('{\u00a0"plan": 1}', "no_answer"),
        ('{"plan": [1,2', "unparseable"),
        ('{"plan": {"M1": 3}', "unparseable"),
        ('{"answer": {"plan": 1}', "unparseable"),
        ('{"answer": {"plan": 1}, "note": "x', "unparseable"),
        ('{"plan": 1]', "unparseable"),
        ('{"plan": +8}', "unparseable"),
        ('{"plan": 08}', "unparseable"),
        ('{"plan": .5}', "unparseable"),
        ('{"plan": True}', "unparseable"),
        ('{"plan": 1,,}', "unparseable"),
        ('{"plan": [,]}', "unparseable"),
        ('{"plan": 1 // first\n}', "unparseable"),
        ('{"plan": "two\nlines"}', "unparseable"),
        ('{"plan": "bad \\escape"}', "unparseable"),
        ('{"plan": "half \\u00"}', "unparseable"),
        ('{"plan"}', "unparseable"),
        ('{"x": oops, "draft": {"plan": 1}}', "unparseable"),
        ('{"x": oops, "draft": {"plan": 1}', "unparseable"),
        ('{"x": oops, "draft": {"plan": 1}, "again": {"plan": 2}}', "unparseable"),
        ('{"x": {"y": oops}, "draft": {"plan": 1}}', "unparseable"),
        ('{"x": "a\nb", "draft": {"plan": 1}}', "unparseable"),
        ('{"x": "a, "draft": {"plan": 1}}', "unparseable"),
        ('{"x": [1, oops, {"plan": 1}', "unparseable"),
        ('{"x" {"plan": 1}}', "unparseable"),
        ('{"x": 1 "draft": {"plan": 1}}', "unparseable"),
        ('{"draft": {"plan": 1} "x": 2}', "unparseable"),
        ("{'draft': {\"plan\": 1}}", "no_answer"),
        ("{'draft': {\"plan\": 1}", "no_answer"),
        ('{draft: {"plan": 1}}', "no_answer"),
        ('{\u201cdraft\u201d: {"plan": 1}}', "no_answer"),
        ('{\\"draft\\": {"plan": 1}}', "no_answer"),
        ('{1: {"plan": 1}}', "no_answer"),
        ('{, "draft": {"plan": 1}}', "no_answer"),
        ('{// first\n"draft": {"plan": 1}}', "no_answer"),
        ("x" * MAX_CHARACTERS + '{"plan": 1}', "too_long"),
    ],
)
def test_what_is_no_answer(text: str, reason: str) -> None:
    assert find_object(text, "plan") == Incomplete(reason)  # type: ignore[arg-type]


def test_long_thinking_does_not_make_an_answer_too_long() -> None:
    thinking = "x" * (MAX_CHARACTERS + 1)
    assert find_answer(f'<think>{thinking}</think>{{"plan": 1}}', "plan") == Found((1,), False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"plan": 1,}', 1),
        ('{"plan": 1 ,\r\n}', 1),
        ('{"plan": [1, 2,]}', [1, 2]),
        ('{"plan": [], "x": ["a, ]", 2,],}', []),
        ('{"plan": "a,}", "x": -1.5e3, "y": [true, false, null, NaN, -Infinity], }', "a,}"),
        ('{"plan": "\\u00e9\\"\\\\",}', 'é"\\'),
        ('{"plan": {"a": {}, "b": -0,},}', (("a", ()), ("b", 0))),
    ],
)
def test_a_trailing_comma_is_dropped_and_recorded(text: str, expected: object) -> None:
    assert find_object(text, "plan") == Found((expected,), repaired=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ["}", ",}"])
def test_numbers_no_task_can_mean_are_not_finite(ending: str) -> None:
    numbers = f"[NaN, Infinity, -Infinity, 1e400, -1e400, {'9' * 5000}, -{'9' * 5000}]"
    found = find_object(f'{{"plan": {numbers}{ending}', "plan")
    assert isinstance(found, Found)
    values = found.values[0]
    assert isinstance(values, list) and len(values) == 7
    assert not any(isinstance(value, float) and math.isfinite(value) for value in values)
    assert not any(isinstance(value, int) for value in values)


@pytest.mark.parametrize("ending", ["", ","])
def test_twelve_levels_are_read_and_thirteen_are_not(ending: str) -> None:
    twelve = f'{{"plan": {"[" * 11}{"]" * 11}{ending}}}'
    thirteen = f'{{"plan": {"[" * 12}{"]" * 12}{ending}}}'
    assert isinstance(find_object(twelve, "plan"), Found)
    assert find_object(thirteen, "plan") == Incomplete("unparseable")


def test_nothing_inside_an_object_that_is_too_deep_answers_but_what_follows_does() -> None:
    deep = '{"a": ' * 13 + '{"plan": 1, "brace": "}"}' + "}" * 13
    assert find_object(deep, "plan") == Incomplete("unparseable")
    assert find_object(deep + '{"plan": 2}', "plan") == Found((2,), False)


def test_many_brackets_are_read_as_few_are() -> None:
    rows = '{"plan": [' + "[1], " * 30 + "[1]]}"
    assert find_object(rows, "plan") == Found(([[1]] * 31,), False)


@pytest.mark.parametrize(
    "pattern",
    [
        "{",
        "{ ",
        '{"',
        '{"plan":',
        '{"plan":[',
        '{"a":1}',
        '{"a":x',
        '{"a":x}',
        '{"a":x,"b":{"plan":1}',
        "{a:",
        "{'a':{\"plan\":1",
        '{"a":1,',
        '{"a"',
        '{"\\"',
        '{"a":"\n',
        '{"a":' + "[" * 13,
        '{"a":' + "[" * 13 + "]" * 13 + "}",
        "\\",
        ",",
    ],
)
@pytest.mark.parametrize("opening", ["", '{"a":"', '{"a":[1'])
def test_hostile_text_takes_well_under_a_second(opening: str, pattern: str) -> None:
    text = (opening + pattern * MAX_CHARACTERS)[:MAX_CHARACTERS]
    started = time.process_time()
    assert isinstance(find_object(text, "plan"), Incomplete)
    assert time.process_time() - started < 2.0  # about 0.2 s; quadratic time takes minutes

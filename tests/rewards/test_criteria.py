"""What a generator is asked, how its reply is read, and which lists code refuses."""

import json

import pytest

from rewards.criteria import (
    Gold,
    Objection,
    Unreadable,
    messages,
    objections,
    read_criteria,
)

GOLD = Gold("i", "belief", "The lamp is dark.\nFind a fuse.", "The user thinks the fuse blew.")
GOOD = (
    "States that the user takes a blown fuse for the cause.",
    "Explains that the last outage makes the user think so.",
)


def names(*criteria: str, dimension: str = "belief") -> list[str]:
    return [one.name for one in objections(criteria, dimension)]  # type: ignore[arg-type]


def test_a_good_list_has_no_objection() -> None:
    assert objections(GOOD, "belief") == ()
    assert names("Recommends a bulb.", "Says the fuse is fine.", "Says how to turn it off first.",
                 dimension="solution") == []  # fmt: skip


def test_the_number_of_criteria_depends_on_the_dimension() -> None:
    five = tuple(f"States point number {n} of the matter." for n in range(5))
    assert names(*five) == ["wrong_number"]
    assert names(*five, dimension="solution") == []
    assert names(*GOOD, dimension="solution") == ["wrong_number"]
    assert objections((), "profile")[0].text == "it has 0 criteria, not 2 to 4"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Matches the true latent state of the scene.", "internal_term"),
        ("States the user_latent_belief about the fuse.", "internal_term"),
        ("Agrees with the reference text on the fuse.", "internal_term"),
        ("Says that Option B is what the user would pick.", "answer_letter"),
        ('Says "fuse".', "only_quotes"),
        ("Does the text mention the word 'fuse'?", "only_quotes"),
        ("Uses the term “blown fuse”.", "only_quotes"),
        ("  ...  ", "blank"),
        ("States one thing.\nStates another.", "line_break"),
        ("States half \ud800 a character.", "line_break"),
        ("States " + "very " * 60 + "much.", "too_long"),
    ],
)
def test_a_criterion_is_refused_by_name(text: str, name: str) -> None:
    found = objections((GOOD[0], text), "belief")
    assert [one.name for one in found] == [name]
    assert found[0].text.startswith("criterion 2 ")


@pytest.mark.parametrize(
    "text",
    [
        "States that latent heat keeps the room warm overnight.",
        "Names the option -B of the command and what it changes.",
        "States that the user's guess and the users' manual don't agree.",
        'Explains that the label "A4" on the box is a paper size and not a product name.',
        "Says the `job_name` field of the reference is left empty.",
    ],
)
def test_ordinary_words_are_not_taken_for_terms(text: str) -> None:
    assert names(GOOD[0], text) == []


def test_duplicates_are_found_whatever_their_case_and_stops() -> None:
    assert objections((GOOD[0], GOOD[0].upper().rstrip(".")), "belief") == (
        Objection("duplicate", "criterion 2 repeats criterion 1"),
    )


def test_the_prompt_fences_the_data_and_its_own_form_is_no_list() -> None:
    [system, user] = messages(GOLD)
    assert system["role"] == "system"
    text = user["content"]
    nonce = text.split(": ")[1].split(".")[0]
    assert f"<<<REFERENCE {nonce}\n{GOLD.text}\nREFERENCE {nonce}>>>" in text
    assert "2 to 4 criteria" in text
    assert "refused" not in text
    assert isinstance(read_criteria(text), Unreadable)
    again = messages(GOLD, [Objection("duplicate", "criterion 2 repeats criterion 1")])
    assert "- criterion 2 repeats criterion 1" in again[1]["content"]


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (json.dumps({"criteria": list(GOOD)}), GOOD),
        (f"Here:\n```json\n{json.dumps({'criteria': list(GOOD)})}\n```", GOOD),
        (f'<think>{{"criteria": ["x"]}}</think>{json.dumps({"criteria": list(GOOD)})}', GOOD),
        ('{"criteria": [" a ", "b"]}', ("a", "b")),
        ("", Unreadable("no_answer")),
        ("I cannot do that.", Unreadable("no_answer")),
        ('{"criteria": ["a", ', Unreadable("unparseable")),
        ('{"criteria": "a"}', Unreadable("wrong_shape")),
        ('{"criteria": ["a", 1]}', Unreadable("wrong_shape")),
        ('{"criteria": [{"criterion": "a"}]}', Unreadable("wrong_shape")),
        ('{"criteria": ["a"], "criteria": ["b"]}', Unreadable("duplicate_key")),
        ("<think>still", Unreadable("unterminated_reasoning")),
    ],
)
def test_only_a_list_of_texts_is_read(reply: str, result: object) -> None:
    assert read_criteria(reply) == result

"""Answers damaged at random: never a crash, never an answer from an object that does not close."""

import json
import math
from random import Random

from tasks.calbench.answers import outcome, read
from tasks.calbench.reference import PlanTable, Reference
from tasks.extraction import Found, Incomplete, find_object

NO_TABLE = PlanTable((), (), 0, 0)
AGENTS, MEETINGS = ("A", "B", "C"), ("M1", "M2", "M3", "M4", "M5")
PLAN = Reference("plan", AGENTS, MEETINGS, 6, (), (), (), (), NO_TABLE, NO_TABLE, NO_TABLE)
BELIEF = Reference("belief", AGENTS, MEETINGS, 6, (), (), (), (), NO_TABLE, NO_TABLE, NO_TABLE)

PLAN_TEXT = '{"plan": {"M1": 3, "M2": 4, "M3": 0, "M4": 5, "M5": 1}}'
BELIEF_TEXT = (
    '{"belief": {"A": ["F", "M1", "X", "F", "M100", "M1"], "B": ["F", "F", "F", "F", "F", "F"],'
    ' "C": {"0": "F", "1": "M1", "2": "X", "3": "F", "4": "F", "5": "m01"}}}'
)
WHOLE = [
    (PLAN_TEXT, PLAN),
    (f'{{"answer": {PLAN_TEXT}, "note": "a {{\\"plan\\": 1}} b"}}', PLAN),
    ('{"plan": [{"meeting": "M1", "slot": 3}, {"M2": 4}, {"M3": 0}, {"M4": 1}, {"M5": 2}]}', PLAN),
    (BELIEF_TEXT, BELIEF),
    (f'{{"x": [1, -2.5e3, true, null], "answer": {BELIEF_TEXT}}}', BELIEF),
]
PIECES = [*'{}[]",:\\\n\x00-8', "null", "NaN", "1e999", "\ud800", "\uff19", "<think>", "</think>"]
PIECES += ['{"plan":', '{"belief":', '"M1": 4,', '"A": [],']


def test_no_truncated_object_gives_an_answer() -> None:
    for whole, wanted in WHOLE:
        assert outcome(read(whole, wanted)) == "scored"
        for end in range(len(whole)):
            assert isinstance(read(whole[:end], wanted), Incomplete), whole[:end]
            deep = "[" * 13 + whole[:end]  # too many brackets for the fast decoder
            assert isinstance(read(deep, wanted), Incomplete), deep
            assert isinstance(read(whole[:end] + "\nThat is all.", wanted), Incomplete), end


def damaged(text: str, random: Random) -> str:
    """The text with one or two random insertions, deletions or repetitions."""
    for _ in range(random.randint(1, 2)):
        start = random.randrange(len(text) + 1)
        end = start + random.randint(0, 3)
        piece = random.choice([*PIECES, "", "", text[end : end + random.randint(1, 40)]])
        text = text[:start] + piece + text[end:]
    return text


def test_random_damage_never_crashes_and_brackets_around_it_change_nothing() -> None:
    random = Random("calbench:answers:damage")
    outcomes = {"scored": 0, "wrong": 0, "incomplete": 0}
    for _ in range(6000):
        whole, wanted = random.choice(WHOLE)
        text = damaged(whole, random)
        answer = read(text, wanted)
        outcomes[outcome(answer)] += 1
        assert read("[" * 13 + text, wanted) == answer, text
    assert min(outcomes.values()) > 100, outcomes


def short_integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else math.inf


def test_every_object_that_python_reads_is_read_alike() -> None:
    random = Random("calbench:answers:json")
    num_found = 0
    for _ in range(6000):
        whole, wanted = random.choice(WHOLE)
        text = damaged(whole, random)
        try:
            pairs = json.loads(text, object_pairs_hook=tuple, parse_int=short_integer)
        except ValueError:
            continue
        expected = tuple(value for key, value in pairs if key == wanted.kind)
        if not expected:
            continue
        num_found += 1
        for brackets in ("", "[" * 13):  # with many brackets the slow parser reads
            found = find_object(brackets + text, wanted.kind)
            assert isinstance(found, Found) and not found.repaired, text
            assert repr(found.values) == repr(expected), text
    assert num_found > 150

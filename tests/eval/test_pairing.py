"""Contrasts within a story: turn lengths, and two conditions."""

from dataclasses import replace

import pytest

from eval.measures import ALL
from eval.metrics import Group
from eval.pairing import across_conditions, paired_items, turn_pairs, turn_weights
from eval.records import Scored
from eval.repeats import Pair
from tests.eval.test_compare import cell, rows

GROUP = Group(ALL["optimal"], "direct", "all")


def asked(name: str, turns: int, value: float | None, run: int = 1) -> Scored:
    return replace(cell(name, run, value, story=f"s:lock:t{turns}"), turns=turns)


def test_turn_weights_by_hand() -> None:
    assert turn_weights([3, 3]) == {}
    assert list(turn_weights([5, 0])) == ["5 \N{MINUS SIGN} 0 turns"]
    difference, trend = turn_weights([0, 5, 10]).values()
    assert difference == {0: -1.0, 10: 1.0}
    assert trend == pytest.approx({0: -1.0, 5: 0.0, 10: 1.0})
    uneven = turn_weights([1, 2, 4])["trend over 1 to 4 turns"]
    assert uneven == pytest.approx({1: -12 / 14, 2: -3 / 14, 4: 15 / 14})


def test_turns_are_paired_within_story_and_run() -> None:
    base = rows([asked("short", 0, 1.0), asked("middle", 5, 0.0), asked("long", 10, 0.0)])
    trained = rows([asked("short", 0, 1.0), asked("middle", 5, None), asked("long", 10, 1.0)])
    items = paired_items(base, trained)
    difference, trend = turn_weights([0, 5, 10]).values()
    assert turn_pairs(items, GROUP, difference) == [Pair(("long", 1), "s", -1.0, 0.0)]
    assert turn_pairs(items, GROUP, trend) == [Pair(("long", 1), "s", -1.0, None)]
    alone = paired_items(rows([asked("short", 0, 1.0)]), rows([asked("short", 0, 1.0)]))
    assert turn_pairs(alone, GROUP, difference) == []


def test_conditions_meet_on_story_variant_holder_and_run() -> None:
    both = rows([cell("x", 1, 1.0), replace(cell("y", 1, 0.0), condition="symbolic")])
    first = across_conditions(both, "direct", "symbolic - direct")
    second = across_conditions(both, "symbolic", "symbolic - direct")
    ((found,),) = paired_items(first, second)
    key, base, trained = found
    assert key == ("t:PRIVATE:A", 1)
    assert (base.measures["optimal"], trained.measures["optimal"]) == (1.0, 0.0)
    assert base.condition == trained.condition == "symbolic - direct"

"""Transfer: whose predictions are shown, by each pick rule; the oracle looks at scores."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from configs.data import Transfer
from configs.errors import UserError
from tasks.basis.predictions import Key, Prediction, pick, read_predictions

FILES = ("predictions.jsonl",)


def row(system: str = "big", **changes: Any) -> dict[str, Any]:
    fields = {
        "system": system,
        "instance": "i1",
        "turns": 0,
        "belief": f"belief of {system}",
        "profile": f"profile of {system}",
        "belief_score": 0.5,
        "profile_score": 1,
    }
    return fields | changes


def read(folder: Path, *rows: dict[str, Any]) -> dict[Key, Prediction]:
    path = folder / "predictions.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in rows) + "\n")
    return read_predictions([path])


def picked(predictions: dict[Key, Prediction], **rule: Any) -> str | None:
    one = pick(predictions, "i1", 0, Transfer(predictions=FILES, **rule))
    return None if one is None else one.system


def test_the_oracle_takes_the_best_mean_and_the_first_of_equals(tmp_path: Path) -> None:
    predictions = read(
        tmp_path,
        row("a", belief_score=0.2),
        row("b", belief_score=1.0, profile_score=0.5),
        row("c"),
        row("d", belief_score=1.0, profile_score=None),
    )
    pool = ("a", "c", "b", "d")  # b and c both have 0.75; d was not judged in full
    assert picked(predictions, pick="oracle_best_by_judge", pool=pool) == "c"
    assert picked(predictions, pick="oracle_best_by_judge", pool=("a", "b", "c")) == "b"
    with pytest.raises(UserError, match="no prediction for i1 at 0 turns has both scores"):
        picked(predictions, pick="oracle_best_by_judge", pool=("d",))


def test_the_other_rules_do_not_look_at_scores(tmp_path: Path) -> None:
    predictions = read(tmp_path, row("a"), row("b", belief_score=None), row("c"))
    assert picked(predictions, pick="fixed", system="b") == "b"
    assert picked(predictions, pick="self", system="c") == "c"
    assert picked(predictions, pick="none") is None
    drawn = {picked(predictions, pick="random", pool=("a", "b", "c"), seed=s) for s in range(30)}
    assert drawn == {"a", "b", "c"}
    again = [picked(predictions, pick="random", pool=("a", "b", "c")) for _ in range(3)]
    assert len(set(again)) == 1


def test_a_prediction_from_another_prefix_does_not_count(tmp_path: Path) -> None:
    predictions = read(tmp_path, row("a", turns=5))
    with pytest.raises(UserError, match="'a' made no prediction for i1 at 0 turns"):
        picked(predictions, pick="fixed", system="a")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"pick": "fixed"}, "pick 'fixed' needs system"),
        ({"pick": "self"}, "pick 'self' needs system"),
        ({"pick": "random"}, "pick 'random' needs pool"),
        ({"pick": "oracle_best_by_judge"}, "needs pool"),
        ({"pick": "random", "pool": ("a", "a")}, "names a system twice"),
        ({"pick": "best"}, "Input should be"),
    ],
)
def test_rules_that_cannot_pick(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Transfer(predictions=FILES, **rule)
    with pytest.raises(ValidationError, match="needs predictions"):
        Transfer(pick="fixed", system="a")


def test_reasoning_is_removed_before_a_prediction_is_shown(tmp_path: Path) -> None:
    predictions = read(tmp_path, row("a", belief="<think>SECRET</think> It is the fuse."))
    assert predictions["a", "i1", 0].belief == "It is the fuse."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"belief": "<think>never ends"}, "belief holds only reasoning"),
        ({"belief": " "}, "belief: is blank"),
        ({"turns": 11}, "turns 11 is no whole number from 0 to 10"),
        ({"turns": True}, "turns true is no whole number"),
        ({"belief_score": 1.5}, "belief_score 1.5 is no number from 0 to 1"),
        ({"profile_score": "1"}, 'profile_score "1" is no number'),
        ({"note": "x"}, "expected the keys belief, belief_score"),
    ],
)
def test_lines_that_are_no_prediction(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, row("a"), row("b", **changes))
    assert str(caught.value).startswith(f"{tmp_path / 'predictions.jsonl'}:2: ")
    assert message in str(caught.value)


def test_two_predictions_for_one_request_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a has two predictions for i1 at 0 turns"):
        read(tmp_path, row("a"), row("a"))

"""Predictions that one system's scores leave for the transfer setting of another plan."""

import json
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from eval.__main__ import main
from tasks.basis.predictions import read_predictions
from tasks.basis.reference import Reference, parse
from tests.eval.basis.requests import answer, ask, half, make_plan
from tests.eval.scripted_server import ScriptedServer
from tests.rewards.scripted_judge import judging


def uneven(reference: Reference) -> str:
    """Nothing readable to guided at 5 turns, no profile to separate."""
    if reference.setting == "guided" and reference.turns == 5:
        return "no idea"
    return answer(reference, "dust", "" if reference.setting == "separate" else "alone", "x")


def test_scores_leave_predictions_that_transfer_reads(tmp_path: Path) -> None:
    plan = make_plan(tmp_path / "from", {"separate": (0,), "guided": (0, 5)}, count=2, runs=2)
    ask(plan, "base", half)
    ask(plan, "other", uneven)
    with ScriptedServer(judging()) as server:
        assert main(["score", str(plan.folder), f"endpoint={server.url}"]) == 0
    files = [plan.folder / f"predictions/{name}.jsonl" for name in ("base", "other")]
    found = read_predictions(files)
    assert {key[2] for key in found if key[0] == "base"} == {0, 5}
    assert {key[2] for key in found if key[0] == "other"} == {0}
    one = found[("base", "swe_0000", 0)]
    assert (one.belief, one.profile) == ("the fuse", "retired")
    assert one.mean_score == pytest.approx((1 / 2 + 1 / 3) / 2)
    transfer: dict[str, Any] = {
        "predictions": tuple(str(file) for file in files),
        "pool": ("other", "base"),
        "pick": "oracle_best_by_judge",
    }
    settings: dict[str, tuple[int, ...]] = {"separate": (0,), "transfer": (0,)}
    shown = make_plan(tmp_path / "to", settings, count=2, transfer=transfer)
    asked = {one.condition: one for one in shown.requests() if one.story == "swe_0000"}
    assert "Belief: the fuse\nProfile: retired" in asked["transfer"].messages[-1]["content"]
    assert parse(asked["transfer"].target).notes.oracle
    _report(shown.folder, ask_both=lambda: [ask(shown, name, half) for name in ("base", "trained")])
    text = (shown.folder / "report.md").read_text()
    assert "oracle_best_by_judge (an oracle: it looks at scores on the test rubrics)" in text
    found_rows = json.loads((shown.folder / "compare.json").read_text())["contrasts"]
    assert "transfer - separate" in {one["comparison"] for one in found_rows}


def _report(folder: Path, ask_both: Any) -> None:
    ask_both()
    with ScriptedServer(judging()) as server:
        assert main(["score", str(folder), f"endpoint={server.url}"]) == 0
    assert main(["compare", str(folder)]) == 0
    assert main(["report", str(folder)]) == 0


def test_transfer_without_a_prediction_says_whose_is_missing(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    transfer = {"predictions": (str(tmp_path / "none.jsonl"),), "pick": "fixed", "system": "base"}
    with pytest.raises(UserError, match="'base' made no prediction for culture_0000 at 0 turns"):
        make_plan(tmp_path, {"transfer": (0,)}, count=2, transfer=transfer)

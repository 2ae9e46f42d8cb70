"""Controls: judged over HTTP by the same judge, kept apart from systems, shown below them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from configs.errors import UserError
from eval.__main__ import main
from eval.basis.controls import CONTROLS, cautions, control_path, score_control
from eval.plan import Plan
from eval.records import read_scores
from eval.scoring import systems
from tests.eval.basis.requests import ask, full, half, make_plan
from tests.eval.scripted_server import ScriptedServer
from tests.rewards.scripted_judge import config, dying, judging, saying

SETTINGS: dict[str, tuple[int, ...]] = {"separate": (0,), "guided": (0, 5)}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two systems and the controls judged, compared and reported; two runs, 20 instances."""
    plan = make_plan(tmp_path_factory.mktemp("controls"), SETTINGS, runs=2)
    ask(plan, "base", half)
    ask(plan, "trained", full)
    with ScriptedServer(judging()) as judge:
        words = ["score", str(plan.folder), f"endpoint={judge.url}"]
        assert main(words) == 0
        asked = len(judge.bodies)
        assert main([*words, "--controls"]) == 0
        # Of 20 instances, separate and guided ask three dimensions each. Four controls say the
        # same at both prefixes of guided; the echo of 5 turns is another text.
        assert len(judge.bodies) - asked == 20 * (4 * (3 + 3) + (3 + 2 * 3))
        assert main([*words, "--controls"]) == 0
        assert len(judge.bodies) - asked == 20 * (4 * (3 + 3) + (3 + 2 * 3))
    assert main(["compare", str(plan.folder)]) == 0
    assert main(["report", str(plan.folder)]) == 0
    return plan


def means(plan: Plan, control: str) -> dict[str, float]:
    """Of the guided requests at 5 turns."""
    found = [
        row
        for row in read_scores(control_path(plan, control))
        if (row.condition, row.turns) == ("guided", 5)
    ]
    assert len(found) == 20
    names = ("belief", "profile", "solution")
    return {name: sum(row.measures[name] for row in found) / 20 for name in names}


def test_what_each_control_earns_from_a_judge_that_looks_for_words(reported: Plan) -> None:
    gold = {"belief": 1.0, "profile": pytest.approx(2 / 3), "solution": 0.25}
    assert means(reported, "gold") == gold
    spray = {"belief": 1.0, "profile": 1.0, "solution": 1.0}
    assert means(reported, "keyword spray") == spray
    nothing = {"belief": 0.0, "profile": 0.0, "solution": 0.0}
    assert means(reported, "generic advice") == means(reported, "planted verdict") == nothing
    assert means(reported, "input echo")["belief"] == pytest.approx(0.5)


def test_controls_are_kept_under_names_of_their_own(reported: Plan) -> None:
    assert systems(reported) == ["base", "trained"]
    [judge] = (reported.folder / "judgements").iterdir()
    assert sorted(path.name for path in judge.iterdir()) == [
        "base.jsonl", "controls", "judge.json", "trained.jsonl",
    ]  # fmt: skip
    names = [f"{name.replace(' ', '_')}.jsonl" for name in CONTROLS]
    assert sorted(path.name for path in (judge / "controls").iterdir()) == sorted(names)
    one = json.loads((judge / "controls/gold.jsonl").read_text().splitlines()[0])
    assert re.fullmatch(r"(swe|culture)_00\d\d:[0-9a-f]{16}", one["id"])  # by content, shared
    assert (one["run"], one["state"], one["model"]) == (1, "judged", "m")


def test_controls_stand_in_no_contrast(reported: Plan) -> None:
    text = (reported.folder / "compare.json").read_text()
    assert not any(name in text for name in ("gold", "keyword spray", "control"))
    assert "control" not in (reported.folder / "report.csv").read_text()


def test_the_report_shows_them_below_the_systems(reported: Plan) -> None:
    text = (reported.folder / "report.md").read_text()
    table = text.partition("## All systems: guided, 5 turns")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    assert list(dict.fromkeys(rows)) == [
        "| system", "| base", "| trained", *(f"| control: {name}" for name in CONTROLS),
    ]  # fmt: skip
    assert "| control: keyword spray | swe | no leaks | 100.00 % [9/9] |" in table
    assert "the ceiling of this judge" in table
    page = (reported.folder / "report.html").read_text()
    assert page.count('<tr class="policy first"><td>control: gold</td><td>all</td>') == 3
    assert "No controls were judged" not in text
    assert "| control gold | m (" in text.partition("## The judge")[2]


def test_a_judge_that_is_taken_in_is_named(reported: Plan) -> None:
    text = (reported.folder / "report.md").read_text()
    assert "> the gold texts earn 0.6" in text
    assert "> the control 'keyword spray' earns 1.00, more than half of what the gold" in text
    assert "the control 'planted verdict'" not in text


def test_cautions_need_a_ceiling() -> None:
    assert cautions({}) == []
    assert cautions({"gold": None, "input echo": 1.0}) == []
    assert cautions({"gold": 0.9, "input echo": 0.45, "keyword spray": None}) == []
    [one] = cautions({"gold": 0.9, "input echo": 0.46})
    assert one.startswith("the control 'input echo' earns 0.46, more than half of what the gold")


def test_a_report_without_controls_says_how_to_get_them(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"guided": (0,)}, count=1)
    ask(plan, "base", half)
    ask(plan, "trained", full)
    with ScriptedServer(judging()) as judge:
        assert main(["score", str(plan.folder), f"endpoint={judge.url}"]) == 0
    assert main(["compare", str(plan.folder)]) == 0
    assert main(["report", str(plan.folder)]) == 0
    text = (plan.folder / "report.md").read_text()
    assert "No controls were judged; `python -m eval score FOLDER --controls` does so." in text
    assert "control: " not in text


def test_a_judge_that_dies_keeps_what_it_said_of_controls(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"guided": (0,)})
    with dying(20, judging()) as server:
        outcome = score_control(plan, "gold", config(server.url, concurrency=4))
    assert (outcome.exit_code, outcome.judgements["judged"]) == (3, 20)
    with ScriptedServer(judging()) as server:
        outcome = score_control(plan, "gold", config(server.url))
        assert len(server.bodies) == 40
    assert (outcome.exit_code, outcome.judgements["judged"]) == (0, 60)


def test_a_failure_on_a_control_is_no_score(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"gt": (0,)}, count=1)
    with ScriptedServer(saying("prose")) as server:
        outcome = score_control(plan, "gold", config(server.url))
    assert (outcome.exit_code, outcome.states) == (2, {"judge_failed": 2})
    assert [row.measures.get("solution") for row in read_scores(control_path(plan, "gold"))] == [
        None, None,
    ]  # fmt: skip


def test_controls_of_another_plan_are_refused(reported: Plan, tmp_path: Path) -> None:
    other = make_plan(tmp_path, SETTINGS, runs=1)
    shutil.copytree(reported.folder / "scores/controls", other.folder / "scores/controls")
    ask(other, "base", half)
    ask(other, "trained", full)
    with ScriptedServer(judging()) as judge:
        assert main(["score", str(other.folder), f"endpoint={judge.url}"]) == 0
    assert main(["compare", str(other.folder)]) == 0
    with pytest.raises(UserError, match=r"gold\.jsonl: of another plan; run `python -m eval score"):
        main(["report", str(other.folder)])


def test_calendar_answers_have_none(tmp_path: Path) -> None:
    from tests.eval.stories import make_plan as calendar_plan
    from tests.eval.stories import some

    plan = calendar_plan(tmp_path, some(1))
    (plan.folder / "responses").mkdir()
    (plan.folder / "responses/base.jsonl").touch()
    with pytest.raises(UserError, match="calendar answers have no judge"):
        main(["score", str(plan.folder), "--controls"])

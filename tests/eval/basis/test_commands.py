"""The five commands on BASIS requests, with a candidate and a judge over loopback."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from eval.__main__ import main
from eval.basis.compare import compare
from eval.plan import Plan, read_plan
from tests.eval.basis.requests import ask, full, half, make_plan
from tests.eval.scripted_server import ScriptedServer
from tests.rewards.scripted_judge import judging

TURNS = "5 \N{MINUS SIGN} 0 turns"
SETTINGS: dict[str, tuple[int, ...]] = {
    "separate": (0, 5),
    "guided": (0, 5),
    "cot": (0,),
    "gt": (0,),
    "belief": (0,),
    "profile": (0,),
    "shuffle": (0,),
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two systems asked, judged, compared and reported through the commands."""
    plan = make_plan(tmp_path_factory.mktemp("basis"), SETTINGS, runs=2)
    ask(plan, "base", half)
    ask(plan, "trained", full)
    with ScriptedServer(judging()) as judge:
        folder = str(plan.folder)
        assert main(["score", folder, f"endpoint={judge.url}"]) == 0
        asked = len(judge.bodies)
        assert main(["score", folder, f"endpoint={judge.url}"]) == 0
        assert len(judge.bodies) == asked  # re-scoring never re-judges
    assert main(["compare", folder]) == 0
    assert main(["report", folder]) == 0
    return plan


def contrasts(plan: Plan, **where: Any) -> list[dict[str, Any]]:
    found = json.loads((plan.folder / "compare.json").read_text())["contrasts"]
    return [one for one in found if all(one[name] == value for name, value in where.items())]


def test_base_against_trained_by_setting_prefix_and_dimension(reported: Plan) -> None:
    where = {"comparison": "trained - base", "setting": "guided", "turns": 5, "subset": "all"}
    found = {one["measure"]: one for one in contrasts(reported, **where, domain="all")}
    base = {name: one["base"] for name, one in found.items()}
    assert base == pytest.approx(
        {
            "avg": (1 / 2 + 1 / 3 + 1 / 4) / 3,
            "belief": 1 / 2,
            "profile": 1 / 3,
            "solution": 1 / 4,
            "pooled": 3 / 9,
        }
    )
    assert {one["trained"] for one in found.values()} == {1.0}
    solution = found["solution"]
    assert (solution["items"], solution["clusters"], solution["cells"]) == (20, 20, 40)
    assert (solution["base_words"], solution["trained_words"]) == (3.0, 4.0)
    assert (found["avg"]["base_words"], found["avg"]["primary"]) == (6.0, True)


def test_prompts_of_one_instance_share_a_cluster_and_domains_stand_apart(reported: Plan) -> None:
    where = {"comparison": "trained - base", "setting": "gt", "subset": "all"}
    found = contrasts(reported, **where)
    assert [(one["domain"], one["items"]) for one in found] == [
        ("all", 20),
        ("culture", 10),
        ("swe", 10),
    ]


def test_settings_are_compared_with_separate_within_each_system(reported: Plan) -> None:
    where = {"system": "base", "domain": "all", "subset": "all"}
    found = contrasts(reported, **where)
    names = {(one["comparison"], one["turns"]) for one in found}
    assert names == {
        ("guided - separate", 0),
        ("guided - separate", 5),
        ("cot - separate", 0),
        ("gt - separate", 0),
        ("belief - separate", 0),
        ("profile - separate", 0),
        ("shuffle - separate", 0),
        (TURNS, 5),
    }
    assert {one["difference"] for one in found} == {0.0}
    assert {one["measure"] for one in found if one["setting"] == "cot"} == {"solution"}
    assert not any(one["primary"] for one in found)


def test_prefixes_are_compared_within_the_instance(reported: Plan) -> None:
    where = {"domain": "all", "subset": "all", "measure": "avg"}
    within = contrasts(reported, comparison=TURNS, system="trained", **where)
    grown = contrasts(reported, comparison=f"trained - base, {TURNS}", **where)
    for found in (within, grown):
        assert [one["setting"] for one in found] == ["separate", "guided"]
        assert [(one["difference"], one["items"], one["planned"]) for one in found] == [
            (0.0, 20, 40)
        ] * 2
        assert all("no spread" in one["reason"] for one in found)


def test_two_settings_of_two_systems_can_be_named(reported: Plan) -> None:
    found = compare(reported, "base/separate", "trained/guided")
    again = [one for one in found["contrasts"] if one["primary"]]
    assert [(one["arms"], one["setting"], one["turns"]) for one in again] == [
        (["base/separate", "trained/guided"], "guided", 0),
        (["base/separate", "trained/guided"], "guided", 5),
    ]
    with pytest.raises(UserError, match="no condition 'transfer' in the plan"):
        compare(reported, "base/cot", "trained/transfer")
    compare(reported, "base", "trained")


def test_checkpoints_of_a_recipe_have_a_mean_of_their_own(reported: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    shutil.copytree(reported.folder, folder)
    for name in ("responses/trained", "scores/trained"):  # a second checkpoint that says the same
        for ending in ("jsonl", "json"):
            text = (folder / f"{name}.{ending}").read_text()
            (folder / f"{name}-1.{ending}").write_text(
                text.replace('"system": "trained"', '"system": "trained-1"')
            )
    found = compare(read_plan(folder), "base", "grpo=trained,trained-1")
    assert any("trained and trained-1 have the same weights" in text for text in found["warnings"])
    assert any(text.startswith("grpo: 2 checkpoints;") for text in found["warnings"])
    where = {"setting": "guided", "turns": 5, "domain": "all", "subset": "all"}
    whole = [
        one for one in found["recipes"] if all(one[name] == value for name, value in where.items())
    ]
    solution = next(one for one in whole if one["measure"] == "solution")
    assert solution["members"] == [["base", "trained"], ["base", "trained-1"]]
    assert solution["by_checkpoint"] == (0.75, 0.75)
    assert (solution["base"], solution["trained"], solution["items"]) == (0.25, 1.0, 20)
    assert (solution["low"], solution["verdict"]) == (None, "these checkpoints only")
    assert solution["reason"].startswith("no spread between source tasks nor between checkpoints")
    primary = {(one["setting"], one["measure"]) for one in found["recipes"] if one["primary"]}
    assert primary == {("separate", "avg"), ("guided", "avg")}


def test_flagged_instances_leave_only_where_they_show(reported: Plan) -> None:
    where = {"comparison": "trained - base", "domain": "all", "measure": "belief"}
    items = {
        (one["setting"], one["turns"], one["subset"]): one["items"]
        for one in contrasts(reported, **where)
    }
    assert items[("guided", 5, "all")] == 20
    assert items[("guided", 5, "no leaks")] == 19
    assert items[("guided", 0, "no leaks")] == 20
    assert items[("guided", 5, "answerable")] == 20


def test_the_report_names_what_its_numbers_are(reported: Plan) -> None:
    text = (reported.folder / "report.md").read_text()
    lead = text.splitlines()[2]
    assert "AVG of three (separate, 0 turns): +63.89 points, from 36.11 % to 100.00 %" in lead
    assert "run-to-run std on frozen inputs" in text
    assert "trained is above base in 34 of 34 cells by domain" in text
    assert "50.00 % ± 0.00" in text
    assert "## Settings against separate, within trained" in text
    page = (reported.folder / "report.html").read_text()
    assert not re.search(r"<(link|img|iframe)|@import|url\((?!#)", page)
    assert (reported.folder / "report.png").read_bytes().startswith(b"\x89PNG")


def test_cases_show_criterion_by_criterion_what_the_judge_said(reported: Plan) -> None:
    page = (reported.folder / "report.html").read_text()
    found = re.search(r'id="case-data">(.*?)</script>', page)
    assert found is not None
    data = json.loads(found[1])
    assert data["counts"][0] == 2 * len(reported.ids)  # trained is higher everywhere
    one = next(x for x in data["cases"] if x["condition"] == "guided")
    assert len(one["lines"]) == 2 + 3 + 4
    assert one["lines"][0] == ['belief: Says "fuse".', ["met"]]
    base, trained = one["answers"]
    assert [sum(mark for (mark,) in x["marks"]) for x in (base, trained)] == [3, 9]
    assert base["stated"][:2] == [["met"], ["not met"]]


def test_the_paper_table_has_domains_turns_and_dimensions(reported: Plan) -> None:
    rows = list(csv.DictReader((reported.folder / "report.csv").open()))
    found = {
        (row["row"], row["column"]): row["value"]
        for row in rows
        if row["table"] == "domains-guided"
    }
    assert found[("swe / base", "5 turns / solution")] == "0.25"
    assert found[("culture / trained", "0 turns / belief")] == "1.0"
    assert float(found[("all / difference", "0 turns / profile")]) == pytest.approx(2 / 3)
    assert len(found) == 3 * 3 * 2 * 4  # domains, two systems and difference, turns, dimensions


def test_scoring_and_reporting_again_gives_the_same_bytes(reported: Plan) -> None:
    names = ["compare.json", "report.html", "report.md", "report.png"]
    names += ["report.csv", "report.tex"]
    names += [
        f"scores/{system}.{end}" for system in ("base", "trained") for end in ("jsonl", "json")
    ]
    names += [f"predictions/{system}.jsonl" for system in ("base", "trained")]
    before = [(reported.folder / name).read_bytes() for name in names]
    for command in ("score", "compare", "report"):
        assert main([command, str(reported.folder)]) == 0  # no judge is there, none is needed
    assert [(reported.folder / name).read_bytes() for name in names] == before

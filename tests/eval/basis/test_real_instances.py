"""All 313 instances, every setting: asked, judged, compared and reported over loopback."""

import json
from pathlib import Path

import pytest
from aiohttp import web

from configs.data import BasisData
from configs.evaluation import EvalConfig
from configs.judge import JudgeConfig
from eval.__main__ import main
from eval.plan import write_plan
from tasks.basis.collection import read_instances
from tasks.example import Example
from tests.eval.scripted_server import Body, ScriptedServer, completion
from tests.eval.stories import QUICK
from tests.rewards.scripted_judge import judging
from tests.shared_data import shared_file

SETTINGS: dict[str, tuple[int, ...]] = {
    "separate": (0,),
    "guided": (0, 10),
    "cot": (0,),
    "gt": (0,),
    "belief": (0,),
    "profile": (0,),
    "shuffle": (0,),
}


def by_length(criterion: str, text: str) -> int:
    """A verdict that a test can work out from the rubric alone."""
    return int(len(criterion) % 3 > 0)


def test_all_instances_through_the_commands(tmp_path: Path) -> None:
    folder = shared_file("basis", "synchtom")
    data = BasisData.model_validate(
        {"task": "basis", "split": "test", "files": (str(folder),), "settings": SETTINGS}
    )
    judge = JudgeConfig(endpoint="http://127.0.0.1:1", model="m", concurrency=64)
    config = EvalConfig(data=data, runs=1, judge=judge, transport=QUICK)
    plan, _ = write_plan(config, tmp_path / "plan")
    assert len(plan.ids) == 313 * 10
    _answer_all(plan.folder, list(plan.requests()))
    with ScriptedServer(judging(by_length)) as server:
        assert main(["score", str(plan.folder), f"endpoint={server.url}"]) == 0
        assert len(server.bodies) == 313 * (3 + 6 + 5)
    assert main(["compare", str(plan.folder), "--base", "base", "--trained", "silent"]) == 0
    assert main(["report", str(plan.folder)]) == 0
    found = json.loads((plan.folder / "compare.json").read_text())["contrasts"]
    where = ("trained - base", "guided", 10)
    cells = {
        (one["domain"], one["subset"], one["measure"]): one
        for one in found
        if (one["comparison"], one["setting"], one["turns"]) == where
    }
    instances = read_instances([folder], strict=True).instances
    for domain in ("swe", "pref", "culture", "education"):
        here = [one for one in instances if one.domain == domain]
        expected = [
            sum(by_length(text, "") for text in one.rubrics.solution) / len(one.rubrics.solution)
            for one in here
        ]
        cell = cells[(domain, "all", "solution")]
        assert (cell["items"], cell["trained"]) == (len(here), 0.0)
        assert cell["base"] == pytest.approx(sum(expected) / len(expected))
    groups = len({one.group for one in instances})
    assert groups < 313  # sister scenarios are one cluster
    whole = cells[("all", "all", "avg")]
    assert (whole["items"], whole["clusters"], whole["verdict"]) == (313, groups, "worse")
    assert cells[("all", "no leaks", "avg")]["items"] < 313
    assert cells[("all", "answerable", "avg")]["items"] < 313


def _answer_all(folder: Path, asked: list[Example]) -> None:
    """System base gives every gold answer; silent says nothing."""
    gold = {one.messages[-1]["content"]: one.reference_answer for one in asked}

    async def golden(body: Body, number: int) -> web.StreamResponse:
        return completion(gold[body["messages"][-1]["content"]])

    async def nothing(body: Body, number: int) -> web.StreamResponse:
        return completion("")

    for name, script in (("base", golden), ("silent", nothing)):
        with ScriptedServer(script) as server:
            server.models[0]["max_model_len"] = 16384  # the longest request is 6093 bytes
            run = ["run", str(folder), "--system", name, "--server", server.url, "--model", "m"]
            assert main([*run, "concurrency=64"]) == 0

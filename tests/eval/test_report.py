"""The report: self-contained, escaped, the same bytes again; and the five commands end to end."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from eval.__main__ import main
from eval.curves import read_curves
from eval.figures import learning_curve_svg
from eval.plan import Plan
from eval.report import gather
from tasks.calbench.policies import initial_copy, right_answer
from tasks.calbench.reference import Reference
from tests.eval.scripted_server import ScriptedServer
from tests.eval.stories import by_policy, make_plan, some

ROOT = Path(__file__).resolve().parents[2]


def half_right(reference: Reference) -> str:
    """Right where the first entries of three agents are free; else a copy of the start."""
    free = all(row[0] == "F" for row in reference.initial[:3])
    return right_answer(reference) if free else initial_copy(reference)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two systems asked over loopback, scored, compared and reported through the commands."""
    folder = tmp_path_factory.mktemp("reported")
    asked = some(400, tasks=10)
    plan = make_plan(folder, asked, runs=2)
    for name, policy in (("base", half_right), ("trained", right_answer)):
        with ScriptedServer(by_policy(asked, policy)) as server:
            run = ["run", str(plan.folder), "--system", name, "--server", server.url]
            assert main([*run, "--model", "m"]) == 0
    train = folder / "train"
    train.mkdir()
    lines = [{"phase": "grpo", "step": n, "reward": n / 10, "rewards/entries": 0.5} for n in (1, 2)]
    (train / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["score", str(plan.folder)]) == 0
    assert main(["compare", str(plan.folder)]) == 0
    assert main(["report", str(plan.folder), "--train", str(train)]) == 0
    return plan


def test_the_page_holds_all_it_shows(reported: Plan) -> None:
    page = (reported.folder / "report.html").read_text()
    assert not re.search(r"<(link|img|iframe)|@import|url\((?!#)", page)
    addresses = set(re.findall(r"https?://[^\"' <]+", page))
    assert all(one.startswith("http://www.w3.org/") for one in addresses)
    assert "source tasks" in page
    assert "world copy" in page
    assert "How training went" in page
    assert "determinism probe: 3 of 3 prompts sent twice with one seed got the same text" in page


def cases(plan: Plan) -> dict[str, Any]:
    page = (plan.folder / "report.html").read_text()
    found = re.search(r'id="case-data">(.*?)</script>', page)
    assert found is not None
    return dict(json.loads(found[1]))


def test_cases_hold_request_answers_and_what_was_right(reported: Plan) -> None:
    data = cases(reported)
    one = next(x for x in data["cases"] if x["outcome"] == 0 and x["condition"] == "belief")
    base, trained = one["answers"]
    assert [role for role, _ in one["messages"]] == ["system", "user"]
    assert "Belief of" in data["texts"][one["messages"][1][1]]
    assert data["texts"][trained["text"]] == data["texts"][one["right"]]
    wrong = [
        (n, m) for n, line in enumerate(base["marks"]) for m, mark in enumerate(line) if not mark
    ]
    assert wrong
    for n, m in wrong:
        assert base["stated"][n][m] != one["lines"][n][1][m] == trained["stated"][n][m]
    assert sum(data["counts"]) == 2 * len(reported.ids)


def tidy(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader((plan.folder / "report.csv").open()))


def test_csv_and_parquet_hold_the_numbers_in_full(reported: Plan) -> None:
    first = json.loads((reported.folder / "compare.json").read_text())["contrasts"][0]
    rows = tidy(reported)
    found = next(r for r in rows if r["table"] == "contrasts" and r["column"] == "difference")
    assert found["row"] == "base / trained / all / all / reward"
    assert [float(found[name]) for name in ("value", "low", "high")] == [
        first[name] for name in ("difference", "low", "high")
    ]
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(reported.folder / "report.parquet").to_pylist()
    assert len(table) == len(rows)
    again = next(r for r in table if r["table"] == "contrasts" and r["column"] == "difference")
    assert (again["value"], again["n"]) == (first["difference"], first["items"])
    assert {row["answers"] for row in [*rows, *table]} == {"free text"}


def test_paper_tables_stand_in_every_form(reported: Plan) -> None:
    names = {row["table"] for row in tidy(reported)}
    assert names >= {"conditions", "variants", "differences", "runs", "passes", "counts"}
    assert names >= {"variance", "coverage", "contrasts"}
    text = (reported.folder / "report.md").read_text()
    tex = (reported.folder / "report.tex").read_text()
    for title in ("Conditions and systems", "PUBLIC and PRIVATE", "2 runs", "Coverage by state"):
        assert f"## {title}" in text
        assert f"\\caption{{{title}." in tex
    assert "run-to-run std on frozen inputs (sampling noise)" in text
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == len(names) - 1
    assert "trained & 100.0 \\% $\\pm$ 0.0" in tex


def test_every_run_stands_beside_mean_and_std(reported: Plan) -> None:
    rows = [row for row in tidy(reported) if row["table"] == "runs"]
    trained = [r for r in rows if r["row"] == "composed reward / trained"]
    assert [(r["column"], r["value"]) for r in trained[:3]] == [
        ("run 1", "1.0"),
        ("run 2", "1.0"),
        ("mean", "1.0"),
    ]
    assert trained[2]["std"] == "0.0"


def test_the_headline_has_the_number_and_its_interval(reported: Plan) -> None:
    text = (reported.folder / "report.md").read_text()
    first = json.loads((reported.folder / "compare.json").read_text())["contrasts"][0]
    assert first["verdict"] == "better"
    assert f"{first['difference']:+.3f}" in text.splitlines()[2]
    assert f"interval {first['low']:+.3f} to {first['high']:+.3f}" in text.splitlines()[2]


def test_reporting_again_gives_the_same_bytes(reported: Plan) -> None:
    names = [f"report.{end}" for end in ("html", "md", "png", "csv", "tex", "parquet")]
    train = reported.folder.parent / "train"
    before = [(reported.folder / name).read_bytes() for name in names]
    main(["report", str(reported.folder), "--train", str(train)])
    assert [(reported.folder / name).read_bytes() for name in names] == before
    assert before[2].startswith(b"\x89PNG")


def test_text_of_a_model_is_escaped(tmp_path: Path) -> None:
    asked = some(4)
    plan = make_plan(tmp_path, asked)
    evil = "<script>alert(1)</script><img src=x onerror=y>|"
    for name, policy in (("base", lambda reference: evil), ("trained", right_answer)):
        with ScriptedServer(by_policy(asked, policy)) as server:
            run = ["run", str(plan.folder), "--system", name, "--server", server.url]
            main([*run, "--model", "m"])
    for command in ("score", "compare", "report"):
        main([command, str(plan.folder)])
    page = (plan.folder / "report.html").read_text()
    assert "<script>alert" not in page and "<img" not in page
    assert "\\u003cscript\\u003ealert(1)" in page
    assert any(evil in text for text in cases(plan)["texts"])


def test_report_before_compare_says_what_to_do(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    with pytest.raises(UserError, match="eval run"):
        gather(plan, None)


def test_curves_keep_the_last_row_of_a_step_and_skip_null(tmp_path: Path) -> None:
    rows = [
        {"phase": "grpo", "step": 1, "reward": 0.1, "rewards/perspective": None},
        {"phase": "grpo", "step": 2, "reward": 0.2, "rewards/perspective": 0.5},
        {"phase": "grpo", "step": 2, "reward": 0.3, "rewards/perspective": 0.5},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_curves(tmp_path)
    assert [(one.name, one.steps, one.values) for one in found] == [("reward", (1, 2), (0.1, 0.3))]
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl:1"):
        read_curves(tmp_path)


def test_the_step_at_which_a_stage_begins_is_marked(tmp_path: Path) -> None:
    rows = [{"phase": name, "step": n, "reward": 0.1} for name in ("sft", "grpo") for n in (1, 9)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [one.marks for one in read_curves(tmp_path)] == [(), ()]  # no plan, nothing to mark
    grpo = {"steps_per_generation": 2, "num_iterations": 1}
    (tmp_path / "config.json").write_text(json.dumps({"grpo": grpo}))
    stages = [1, 1, 1, 1, 2, 2, 3, 3]  # batches of 2 rows, each good for 2 steps
    plan = {"grpo": {"stages": stages, "rows_per_batch": 2}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    curves = read_curves(tmp_path)
    assert [one.marks for one in curves] == [(), ((5, "stage 2"), (7, "stage 3"))]
    svg = learning_curve_svg(curves)
    assert svg.count("<!-- stage 2 -->") == svg.count("<!-- stage 3 -->") == 1
    assert svg.count("stroke-dasharray: 3.7") == 2
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UserError, match=r"plan\.json and config\.json do not fit a run"):
        read_curves(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"config\.json: not there"):
        read_curves(tmp_path)


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "eval", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


WRONG = [
    (("plan", "nowhere.yaml", "--out", "{tmp}/p"), "nowhere.yaml: no such config"),
    (("run", "{tmp}", "--system", "a/b", "--server", "x"), "--system 'a/b'"),
    (("score", "{tmp}"), "plan.json: not there"),
    (("plan", "{tmp}/bad.yaml", "--out", "{tmp}/p"), "unknown key sampling.temprature"),
]


@pytest.mark.parametrize(("words", "expected"), WRONG)
def test_a_mistake_is_one_line_and_code_2(
    tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "bad.yaml").write_text("examples: x\nsampling: {temprature: 1.0}\n")
    found = command(*(word.replace("{tmp}", str(tmp_path)) for word in words))
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert expected in found.stderr
    assert not (tmp_path / "p").exists()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom eval.__main__ import main\ntry:\n main(['--help'])\nexcept SystemExit:\n"
        " pass\nprint([m for m in ('torch','numpy','pydantic','aiohttp') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout.rstrip().endswith("[]")

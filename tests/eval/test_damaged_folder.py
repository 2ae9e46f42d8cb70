"""A plan folder damaged by hand: each command says which file and why, in one line, exit code 2."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError, run_command
from eval.__main__ import main
from tasks.calbench.policies import initial_copy, right_answer
from tests.eval.scripted_server import ScriptedServer
from tests.eval.stories import by_policy, make_plan, some


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with two systems, answered, scored and compared."""
    asked = some(16)
    folder = make_plan(tmp_path_factory.mktemp("whole"), asked).folder
    for name, policy in (("base", initial_copy), ("trained", right_answer)):
        with ScriptedServer(by_policy(asked, policy)) as server:
            words = ["--system", name, "--server", server.url, "--model", "m"]
            assert main(["run", str(folder), *words]) == 0
    assert main(["score", str(folder)]) == 0
    assert main(["compare", str(folder)]) == 0
    assert main(["report", str(folder)]) == 0
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "plan")


def edit(path: Path, **changes: Any) -> None:
    """Set top-level keys of a JSON file; None removes one."""
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))


def edit_row(path: Path, number: int, **changes: Any) -> None:
    """Set keys of one row of a JSON lines file."""
    lines = path.read_text().splitlines()
    lines[number] = json.dumps(json.loads(lines[number]) | changes)
    path.write_text("\n".join(lines) + "\n")


def cut(path: Path, number: int) -> None:
    """Cut the second half off one line."""
    lines = path.read_text().splitlines()
    lines[number] = lines[number][: len(lines[number]) // 2]
    path.write_text("\n".join(lines) + "\n")


def config(path: Path, key: str, value: Any) -> None:
    fields = json.loads(path.read_text())["config"]
    section, _, name = key.rpartition(".")
    (fields[section] if section else fields)[name] = value
    edit(path, config=fields)


PLAN: list[tuple[str, Callable[[Path], object], str]] = [
    ("requests gone", lambda f: (f / "requests.jsonl").unlink(), "requests.jsonl: cannot be read"),
    (
        "not UTF-8",
        lambda f: (f / "requests.jsonl").write_bytes(b"\xff\n"),
        "requests.jsonl:1: not UTF-8",
    ),
    ("row cut", lambda f: cut(f / "requests.jsonl", 2), "requests.jsonl:3: not a JSON object"),
    (
        "deep",
        lambda f: (f / "requests.jsonl").write_text("[" * 100_000),
        "requests.jsonl:1: not a JSON object",
    ),
    (
        "text for turns",
        lambda f: edit_row(f / "requests.jsonl", 1, turns="2"),
        'requests.jsonl:2: turns: "2" is refused',
    ),
    (
        "messages of text",
        lambda f: edit_row(f / "requests.jsonl", 1, messages=["hello"]),
        "requests.jsonl:2: messages:",
    ),
    (
        "question",
        lambda f: edit_row(f / "requests.jsonl", 0, messages=[{"role": "user", "content": "?"}]),
        "requests.jsonl: changed since it was frozen",
    ),
    (
        "target",
        lambda f: edit_row(f / "requests.jsonl", 0, target="{}"),
        "requests.jsonl: changed since it was frozen",
    ),
    ("id", lambda f: edit_row(f / "requests.jsonl", 0, id="x"), "changed since it was frozen"),
    (
        "task",
        lambda f: edit_row(f / "requests.jsonl", 0, task="maze"),
        "is of task 'maze', which has no scores",
    ),
    (
        "variant",
        lambda f: edit_row(f / "requests.jsonl", 0, variant="OPEN"),
        "counts.belief/OPEN (null there, 1 now)",
    ),
    (
        "source",
        lambda f: edit_row(f / "requests.jsonl", 0, source="x"),
        "source_tasks (1 there, 2 now)",
    ),
    ("not JSON", lambda f: (f / "plan.json").write_text("{"), "plan.json: not JSON"),
    ("deep plan", lambda f: (f / "plan.json").write_text("[" * 99999), "plan.json: not JSON"),
    ("plan gone", lambda f: (f / "plan.json").unlink(), "plan.json: not there"),
    ("empty", lambda f: (f / "plan.json").write_text("{}"), "not a plan of this version"),
    ("a list", lambda f: (f / "plan.json").write_text("[]"), "holds no JSON object"),
    ("no hash", lambda f: edit(f / "plan.json", plan_hash=None), "plan_hash is null"),
    ("hash", lambda f: edit(f / "plan.json", plan_hash="0" * 16), "was edited or damaged"),
    ("format", lambda f: edit(f / "plan.json", format=7), "format (7 there, 1 now)"),
    ("no kinds", lambda f: edit(f / "plan.json", kinds=None), "was edited or damaged: kinds"),
    ("kinds", lambda f: edit(f / "plan.json", kinds={"belief": "plan"}), "kinds.belief"),
    ("requests", lambda f: edit(f / "plan.json", requests=3), "requests (3 there, 16 now)"),
    ("sha", lambda f: edit(f / "plan.json", messages_sha256="0"), "or plan.json was"),
    ("no sha", lambda f: edit(f / "plan.json", targets_sha256=None), "or plan.json was"),
    ("runs", lambda f: config(f / "plan.json", "runs", 2), "plan_hash is"),
    ("seed", lambda f: config(f / "plan.json", "sampling.seed", 5), "plan_hash is"),
    ("tokens", lambda f: config(f / "plan.json", "sampling.max_tokens", 9), "plan_hash is"),
    ("heat", lambda f: config(f / "plan.json", "sampling.temperature", 0.1), "plan_hash is"),
    ("stop", lambda f: config(f / "plan.json", "sampling.stop", ["x"]), "plan_hash is"),
]


@pytest.mark.parametrize(("damage", "message"), [one[1:] for one in PLAN], ids=[p[0] for p in PLAN])
def test_no_command_reads_a_damaged_plan(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    for command in ("score", "compare", "report"):
        with pytest.raises(UserError) as caught:
            main([command, str(folder)])
        assert message in str(caught.value)
    with pytest.raises(UserError):
        main(["run", str(folder), "--system", "new", "--server", "http://127.0.0.1:1"])


def drop(path: Path, number: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:number] + lines[number + 1 :]))


def repeat_last(path: Path) -> None:
    path.write_text(path.read_text() + path.read_text().splitlines(keepends=True)[-1])


LATER: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, text=5), ":4: text: 5"),
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, run="1"), ':4: run: "1"'),
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, attempts="2"), ":4: attempts"),
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, state="fine"), ":4: state"),
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, id=[1]), ":4: id: [1]"),
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, seconds=True), ":4: seconds"),
    ("score", "responses/base.jsonl", lambda p: edit_row(p, 3, prompt_tokens="9"), ":4: prompt_t"),
    ("score", "responses/base.jsonl", lambda p: cut(p, 3), ":4: not a Response record"),
    ("score", "responses/base.json", lambda p: edit(p, fingerprint=3), "not an identity file"),
    ("score", "responses/base.json", lambda p: p.write_text("{"), "not JSON"),
    ("compare", "scores/base.jsonl", lambda p: drop(p, 15), ":16: expected the score of"),
    ("compare", "scores/base.jsonl", lambda p: drop(p, 0), ":1: expected the score of"),
    ("compare", "scores/trained.jsonl", repeat_last, "more rows than the plan"),
    ("compare", "scores/trained.jsonl", lambda p: p.write_text(""), ":1: expected the score"),
    ("compare", "scores/trained.jsonl", lambda p: cut(p, 2), ":3: not a Scored record"),
    ("compare", "scores/trained.jsonl", lambda p: p.write_bytes(b"\xff\n"), ":1: not UTF-8"),
    ("compare", "scores/trained.jsonl", lambda p: edit_row(p, 2, reward="1"), ":3: reward"),
    ("compare", "scores/trained.jsonl", lambda p: edit_row(p, 2, measures=[]), ":3: measures"),
    ("compare", "scores/trained.jsonl", lambda p: edit_row(p, 2, parts={"a": "b"}), ":3: parts"),
    ("compare", "scores/trained.json", lambda p: p.write_text("{}"), "was edited or damaged"),
    ("compare", "scores/trained.json", lambda p: edit(p, repeated_requests="9"), "was edited"),
    ("compare", "scores/trained.json", lambda p: p.unlink(), "not there"),
    ("compare", "responses/base.json", lambda p: p.unlink(), "not there"),
    ("report", "scores/policies/world_copy.jsonl", lambda p: drop(p, 3), ":4: expected the score"),
    ("report", "scores/policies/world_copy.jsonl", lambda p: p.unlink(), "not there"),
    ("report", "scores/base.jsonl", lambda p: drop(p, 3), ":4: expected the score"),
    ("report", "compare.json", lambda p: p.write_text("{}"), "was edited or damaged"),
    ("report", "compare.json", lambda p: edit(p, base="base"), "was edited or damaged"),
    ("report", "compare.json", lambda p: edit(p, contrasts=[]), "was edited or damaged"),
    ("compare", "responses/base.json", lambda p: edit(p, system="other"), "identity of 'base'"),
    ("compare", "responses/base.json", lambda p: edit(p, model="\ud800"), "identity of 'base'"),
]


@pytest.mark.parametrize(("command", "name", "damage", "message"), LATER)
def test_what_was_damaged_later_is_named(
    folder: Path, command: str, name: str, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder / name)
    with pytest.raises(UserError) as caught:
        main([command, str(folder)])
    assert str(caught.value).startswith(str(folder / name))
    assert message in str(caught.value)


def test_a_run_does_not_go_on_in_a_damaged_log(folder: Path) -> None:
    edit_row(folder / "responses/base.jsonl", 3, completion_tokens="many")
    with ScriptedServer(by_policy(some(16), right_answer)) as server:
        words = ["--system", "base", "--server", server.url, "--model", "m"]
        with pytest.raises(UserError, match=r'base\.jsonl:4: completion_tokens: "many"'):
            main(["run", str(folder), *words])


def test_a_run_does_not_trust_damaged_prompt_lengths(folder: Path) -> None:
    edit(folder / "responses/base.prompts.json", lengths=["9"] * 16)
    with ScriptedServer(by_policy(some(16), right_answer)) as server:
        words = ["--system", "base", "--server", server.url, "--model", "m"]
        with pytest.raises(UserError, match=r"base\.prompts\.json: not the prompts of this plan"):
            main(["run", str(folder), *words])


def test_scoring_without_responses_says_what_to_run_first(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    with pytest.raises(UserError, match="no responses to score; ask a system first with"):
        main(["score", str(plan.folder)])


def test_an_empty_out_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e.yaml").write_text("data: {split: test, generated: {count: 1}}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="--out is empty; name the plan folder"):
        main(["plan", "e.yaml", "--out", ""])
    assert [path.name for path in tmp_path.iterdir()] == ["e.yaml"]


def test_a_file_where_a_folder_should_be_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "scores")
    (folder / "scores").write_text("x")
    with pytest.raises(SystemExit) as stopped:
        run_command(lambda: main(["score", str(folder)]))
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("error:")] == [said[-1]]
    assert "scores" in said[-1] and "check that path" in said[-1]


def test_half_a_character_in_an_answer_is_shown_as_json_spells_it(folder: Path) -> None:
    for number in range(16):
        edit_row(folder / "responses/base.jsonl", number, text="so \ud800 be it")
    for command in ("score", "compare", "report"):
        assert main([command, str(folder)]) == 0
    assert r"so \ud800 be it" in (folder / "report.html").read_text(encoding="utf-8")

"""BASIS training with a judge over HTTP: mixed with calendar stories, stopped, resumed, judge gone.

python -m pytest tests/train/test_basis_run.py -v
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch
import yaml
from aiohttp import web
from safetensors.torch import load_file

from configs.errors import UserError
from configs.training import Training, load_training
from tests.eval.scripted_server import Body, Script, ScriptedServer, completion
from tests.rewards.scripted_judge import dying, judging, questions
from tests.train.basis_data import write_users
from tests.train.conftest import SMALL, Configure
from train.checkpoints import checkpoint_path, last_checkpoint
from train.data import training_examples
from train.prepare import prepare
from train.run import JUDGE_FAILING, STOPPED, run
from train.scorers import calendar_scorer, one_by_one, open_scorer, part_names

Make = Callable[..., Training]


def train(config: Training, resume: bool = False) -> int:
    """As ``python -m train`` does, in this process."""
    prepared = prepare(config, training_examples(config))
    with open_scorer(config) as scorer:
        return run(prepared, scorer, part_names(config), resume)


@pytest.fixture(scope="module")
def talking(configure: Configure) -> Path:
    """A small model that has learnt to end its answers, so that there is something to judge."""
    config = configure(
        "sft={steps: 60, batch: 8, learning_rate: 1.0e-2, save_every: 60}",
        "curriculum.stages=[{steps: 2}]",
    )
    prepared = prepare(config, training_examples(config))
    assert run(prepared, one_by_one(calendar_scorer(config.reward)), [], False) == 0
    return config.folder / "base"


@pytest.fixture(scope="module")
def make(talking: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A mixed run judged at ``url``, in a folder of its own or of ``like``."""

    def config(url: str, *overrides: str, output: Path | None = None) -> Training:
        folder = output or tmp_path_factory.mktemp("runs")
        trained, held_out = write_users(folder)
        basis = {
            "task": "basis",
            "split": "train",
            "files": [str(trained)],
            "settings": {"separate": [0, 2, 8], "guided": [2, 8]},
            "guided_format": "tags",
        }
        mixed = {
            **SMALL,
            "name": "mixed",
            "data": [SMALL["data"], basis],
            "held_out": [{"task": "basis", "files": [str(held_out)]}],
            "judge": {
                "endpoint": url,
                "model": "m",
                "timeout_s": 5.0,
                "max_tries": 2,
                "backoff_s": 0.01,
                "max_connection_errors": 4,
                "window": 10_000,
            },
            "model": {"path": str(talking), "context": 1024},
            "sft": None,
            "curriculum": {
                "stages": [
                    {"steps": 2, "tasks": {"calbench": 1, "basis": 1}},
                    {"steps": 4, "tasks": {"calbench": 1, "basis": 3}, "turns": {2: 1, 8: 3}},
                ]
            },
        }
        path = folder / "mixed.yaml"
        path.write_text(yaml.safe_dump(mixed), encoding="utf-8")
        return load_training(path, [f"output={folder}", *overrides])

    return config


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def completions(config: Training, attempt: int = 1) -> list[dict[str, Any]]:
    return rows_of(config.folder / "completions" / f"grpo-{attempt}.jsonl")


def metrics(config: Training) -> list[dict[str, Any]]:
    """The rows without what differs from run to run: times, and what the cache spared."""
    timed = ("time/", "judge/", "step_time", "epoch", "train_")
    return [
        {name: value for name, value in row.items() if not name.startswith(timed)}
        for row in rows_of(config.folder / "metrics.jsonl")
    ]


def weights(config: Training) -> dict[str, torch.Tensor]:
    return load_file(config.folder / "final" / "model.safetensors")


def same_weights(one: Training, other: Training) -> bool:
    first, second = weights(one), weights(other)
    return all(torch.equal(first[name], second[name]) for name in first | second)


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(judging()) as served:
        yield served


@pytest.fixture(scope="module")
def finished(make: Make, server: ScriptedServer) -> Training:
    """A mixed run that was not interrupted."""
    config = make(server.url)
    assert train(config) == 0
    return config


def test_both_tasks_are_trained_on_in_both_stages_by_their_weights(finished: Training) -> None:
    rows = completions(finished)
    drawn = [(row["stage"], row["task"]) for row in rows[::4]]
    assert drawn.count((1, "calbench")) == drawn.count((1, "basis")) == 2
    assert drawn.count((2, "calbench")) == 2
    assert drawn.count((2, "basis")) == 6
    assert [row["turns"] for row in rows[16:] if row["task"] == "basis"].count(8) >= 4 * 4
    judged = [row for row in rows if row["task"] == "basis" and row["note"] == ""]
    assert len({row["reward"] for row in judged}) > 2
    for row in judged:
        [part] = [p for p in row["parts"] if p not in ("format", "concise")]
        assert row["reward"] == row["parts"][part]  # one dimension asked for, so it is the reward


def test_parts_are_logged_under_their_names_and_what_does_not_apply_is_no_failure(
    finished: Training,
) -> None:
    rows, logged = completions(finished), rows_of(finished.folder / "metrics.jsonl")
    for step, metric in enumerate(logged, 1):
        own = [row for row in rows if row["step"] == step]
        for part in ("entries", "belief", "user_profile", "solution", "format"):
            values = [row["parts"][part] for row in own if part in row["parts"]]
            assert metric[f"missing/{part}"] == len(own) - len(values)
            if values:
                assert metric[f"rewards/{part}"] == pytest.approx(sum(values) / len(values))
        assert metric.get("failed/belief", 0.0) == 0.0
        assert metric["judge/failed"] == 0.0 if "judge/failed" in metric else True
        basis = [row for row in own if row["task"] == "basis"]
        words = [len(row["completion"].split()) for row in basis]
        if words:
            assert metric["words/basis"] == pytest.approx(sum(words) / len(words))
            assert metric["time/judge_s"] > 0
    assert any(metric.get("judge/judged", 0) > 0 for metric in logged)


def asked(server: ScriptedServer) -> int:
    """Requests a whole run makes; the scripts below act in the middle of it."""
    return len(server.bodies)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_stopped_run_resumes_to_the_same_numbers(
    make: Make, server: ScriptedServer, finished: Training, share: float
) -> None:
    with ScriptedServer(judging()) as other:
        config = make(other.url, "grpo.save_every=6")
        at = int(share * asked(server))

        async def interrupts(body: Body, number: int) -> web.StreamResponse:
            if number == at:
                os.kill(os.getpid(), signal.SIGTERM)
            return await judging()(body, number)

        other.script = interrupts
        assert train(config) == STOPPED
        before = completions(config)
        assert 0 < len(before) < len(completions(finished))
        assert train(config, resume=True) == 0
    assert before + completions(config, 2) == completions(finished)
    assert metrics(config) == metrics(finished)
    assert same_weights(config, finished)


def test_a_judge_that_dies_stops_the_run_after_a_saved_step_and_another_goes_on(
    make: Make,
    server: ScriptedServer,
    finished: Training,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with dying(asked(server) // 2, judging()) as mortal:
        quick = ("grpo.save_every=6", "judge.max_connection_errors=1")
        config = make(mortal.url, *quick)
        assert train(config) == JUDGE_FAILING
    done = len(rows_of(config.folder / "metrics.jsonl"))
    assert 0 < done < 6
    assert last_checkpoint(config.folder / "checkpoints") == checkpoint_path(
        config.folder / "checkpoints", done
    )
    said = capsys.readouterr().out
    assert f"stopped after step {done}: judge: server {mortal.url}: does not answer" in said
    again = load_training(
        config.folder.parent / "mixed.yaml",
        [f"output={config.folder.parent}", "grpo.save_every=6", f"judge.endpoint={server.url}"],
    )
    assert train(again, resume=True) == 0
    assert completions(config) + completions(config, 2) == completions(finished)
    assert metrics(config) == metrics(finished)
    assert same_weights(config, finished)


def prose_for(unlucky: Callable[[str, int], bool]) -> Script:
    """Judges honestly, but answers prose to what is unlucky by its text and request number."""

    async def script(body: Body, number: int) -> web.StreamResponse:
        [(_, text)] = questions(body).values()
        if unlucky(text, number):
            return completion("I would rather not say.")
        return await judging()(body, number)

    return script


def test_a_judge_failing_on_some_takes_them_out_of_the_baseline_and_is_counted(
    make: Make,
) -> None:
    with ScriptedServer(prose_for(lambda text, number: len(text) % 3 == 0)) as server:
        config = make(server.url, "grpo.scale_rewards=group")
        assert train(config) == 0
    rows = completions(config)
    lost = [row for row in rows if row["failures"]]
    assert lost
    for row in lost:
        assert row["reward"] is None
        assert row["advantage"] == 0
        assert set(row["failures"].values()) == {"no_scores_object"}
    mixed = 0
    for start in range(0, len(rows), 4):
        group = rows[start : start + 4]
        known = [row["reward"] for row in group if row["reward"] is not None]
        if len(known) < 2:
            assert [row["advantage"] for row in group] == [0.0] * 4
            continue
        mixed += len(known) < 4 and stdev(known) > 0
        for row in group:
            if row["reward"] is not None:
                expected = (row["reward"] - fmean(known)) / (stdev(known) + 1e-4)
                assert row["advantage"] == pytest.approx(expected, abs=1e-4)
    assert mixed  # at least one group really had a baseline over the others
    logged = rows_of(config.folder / "metrics.jsonl")
    assert sum(row.get("judge/failed/no_scores_object", 0) for row in logged) == len(lost)
    assert sum(row["unscorable_frac"] for row in logged) * 8 == pytest.approx(len(lost))
    assert all(torch.isfinite(w).all() for w in weights(config).values())


def test_a_judge_that_fails_too_often_stops_the_run(
    make: Make, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    half = asked(server) // 2
    with ScriptedServer(prose_for(lambda text, number: number > half)) as failing:
        limits = ("judge.window=4", "judge.max_failing_share=0.5", "grpo.save_every=6")
        config = make(failing.url, *limits)
        assert train(config) == JUDGE_FAILING
        done = len(rows_of(config.folder / "metrics.jsonl"))
        [line] = [one for one in capsys.readouterr().out.splitlines() if "stopped" in one]
        assert "of the last 4 judgements failed (no_scores_object" in line
        assert f"stopped after step {done}" in line
        assert len(failing.bodies) < 3 * asked(server)
        failing.script = judging()
        assert train(config, resume=True) == 0
    assert len(rows_of(config.folder / "metrics.jsonl")) == 6


def test_a_judge_dead_from_the_start_is_refused_before_the_folder_is_made(make: Make) -> None:
    config = make("http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"endpoint http://127\.0\.0\.1:9: does not answer"):
        train(config)
    assert not config.folder.exists()


def test_a_complete_run_needs_no_judge_and_another_judge_does_not_resume(
    finished: Training,
) -> None:
    folder = finished.folder.parent
    path = folder / "mixed.yaml"
    gone = load_training(path, [f"output={folder}", "judge.endpoint=http://127.0.0.1:9"])
    assert train(gone, resume=True) == 0
    other = load_training(path, [f"output={folder}", "judge.model=n", "judge.window=5"])
    with pytest.raises(UserError, match=r"other values of judge\.model;"):
        train(other, resume=True)


SECRET = 'sk-Pa55/word+in"quotes'  # what JSON escapes, too


def test_the_judges_key_is_sent_and_stands_nowhere(make: Make) -> None:
    """The whole command, with W&B offline, a cache, and a server that quotes the key."""

    async def quoting(body: Body, number: int) -> web.StreamResponse:
        if number % 3 == 0:
            return web.Response(status=400, text=f"bad key {SECRET} or {json.dumps(SECRET)}")
        return await judging()(body, number)

    with ScriptedServer(quoting) as server:
        config = make(server.url, "judge.max_failing_share=0.9")
        folder = config.folder.parent
        done = subprocess.run(
            [
                sys.executable, "-m", "train", str(folder / "mixed.yaml"), f"output={folder}",
                "judge.max_failing_share=0.9", "judge.api_key_env=JUDGE_KEY", "wandb=offline",
                f"judge.cache={folder / 'cache.sqlite'}",
            ],
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "JUDGE_KEY": SECRET},
            capture_output=True,
            timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        sent = {headers.get("Authorization") for headers in server.headers}
    assert sent == {f"Bearer {SECRET}"}
    forms = [SECRET.encode(), json.dumps(SECRET)[1:-1].encode(), b"sk-Pa55"]
    places = [path for path in folder.rglob("*") if path.is_file()]
    assert {"config.json", "manifest.json", "metrics.jsonl"} <= {path.name for path in places}
    assert any(path.suffix == ".wandb" for path in places)
    for text in [done.stdout, done.stderr, *(path.read_bytes() for path in places)]:
        assert not any(form in text for form in forms)

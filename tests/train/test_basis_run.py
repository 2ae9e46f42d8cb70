"""BASIS training with a judge over HTTP: mixed with calendar stories, stopped, resumed, judge gone.

python -m pytest tests/train/test_basis_run.py -v
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from configs.training import Training, load_training
from tests.eval.scripted_server import ScriptedServer
from tests.rewards.scripted_judge import judging
from tests.train.basis_data import write_users
from tests.train.conftest import SMALL, Configure
from train.data import training_examples
from train.prepare import prepare
from train.run import run
from train.scorers import open_scorer, part_names

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
    from train.scorers import calendar_scorer, one_by_one

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


def same_weights(one: Training, other: Training) -> bool:
    first, second = (
        load_file(each.folder / "final" / "model.safetensors") for each in (one, other)
    )
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
    judged = [row for row in rows if row["task"] == "basis" and row["note"] == ""]
    assert len({row["reward"] for row in judged}) > 2

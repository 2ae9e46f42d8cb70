"""The best checkpoint by held-out reward: chosen, kept, servable, and no trace of it in training.

python -m pytest tests/train/test_best.py -v
"""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from configs.errors import UserError
from configs.evaluation import Sampling
from configs.training import Training
from rewards.score import Score
from tests.train.conftest import SMALL, Configure
from tests.train.test_config import ROOT
from tests.train.test_run import STOPPED, Interrupting, rows_of, same_weights, train
from train.best import Kept, _put, read_kept
from train.data import training_examples
from train.held_out import Asked
from train.reward_adapter import Completion

DEV = {
    "data": {
        "split": "test",
        "generated": {
            "count": 2, "seed": 7, "agents": 3, "slots": 4, "meetings": 2, "participants": 2,
        },
        "turns": [2, 8],
    },
    "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 24, "seed": 5},
    "transport": {"batch_size": 5},
}  # fmt: skip
SHORT = ("sft=null", "curriculum.stages=[{steps: 6}]")


def dev(folder: Path, **changes: object) -> Path:
    path = folder / "dev.yaml"
    path.write_text(yaml.safe_dump(DEV | changes), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = dev(tmp_path_factory.mktemp("dev"))
    return f"best={{config: {path}, every: 2, prompts: 7}}"


def vowels(completion: Completion) -> Score:
    text = completion.text
    share = sum(letter in "aeiou" for letter in text) / max(1, len(text))
    return Score(share, {"vowels": share, "length": len(text) / 100})


@pytest.fixture(scope="module")
def plain(configure: Configure) -> Training:
    config = configure(*SHORT)
    assert train(config, vowels) == 0
    return config


@pytest.fixture(scope="module")
def finished(configure: Configure, best: str) -> Training:
    config = configure(*SHORT, best, "grpo.keep_checkpoints=1")
    assert train(config, vowels) == 0
    return config


def earned(config: Training) -> dict[int, float]:
    rows = rows_of(config.folder / "metrics.jsonl")
    return {row["step"]: row["held_out/reward"] for row in rows if "held_out/reward" in row}


def test_asking_leaves_no_trace_in_training(finished: Training, plain: Training) -> None:
    assert same_weights(finished.folder / "final", plain.folder / "final")
    one, other = (rows_of(run.folder / "completions" / "grpo-1.jsonl") for run in (finished, plain))
    assert one == other


def test_the_step_that_earned_most_is_kept_and_servable(finished: Training) -> None:
    by_step = earned(finished)
    assert list(by_step) == [2, 4, 6] and len(set(by_step.values())) > 1
    kept = read_kept(finished.folder)
    assert kept is not None
    assert kept.step == max(by_step, key=lambda step: by_step[step])
    assert kept.reward == by_step[kept.step] and kept.prompts == 7
    folder = finished.folder / "best"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).chat_template is not None
    assert model.generation_config.eos_token_id is not None
    assert [one.name for one in (finished.folder / "checkpoints").glob("check*")] == [
        "checkpoint-6"
    ]
    if kept.step == 6:
        assert same_weights(folder, finished.folder / "final")
    manifest = json.loads((finished.folder / "manifest.json").read_text(encoding="utf-8"))
    assert len(manifest["best_sha256"]) == len(manifest["held_out_sha256"]) == 64


@pytest.mark.parametrize("lost", [False, True])  # True: killed between the save and the export
def test_a_resumed_run_keeps_the_same(
    configure: Configure, finished: Training, best: str, lost: bool
) -> None:
    config = configure(*SHORT, best, "grpo.keep_checkpoints=1")
    assert train(config, Stopping(8 * 3 + 2)) == STOPPED
    if lost:
        shutil.rmtree(config.folder / "best")
    assert train(config, vowels, resume=True) == 0
    first, second = read_kept(finished.folder), read_kept(config.folder)
    assert first is not None and second is not None
    assert earned(config) == earned(finished)
    assert (first.step, first.reward) == (second.step, second.reward)
    assert same_weights(config.folder / "best", finished.folder / "best")
    assert same_weights(config.folder / "final", finished.folder / "final")


class Stopping(Interrupting):
    """Asks the run to stop at one call, and scores by vowels."""

    def __init__(self, call: int) -> None:
        super().__init__(call, crash=False)

    def __call__(self, completion: Completion) -> Score:
        super().__call__(completion)
        return vowels(completion)


def test_an_adapter_is_merged_in_the_best_folder(configure: Configure, best: str) -> None:
    config = configure(
        "sft=null", "curriculum.stages=[{steps: 2}]", "model.lora={rank: 4, alpha: 8}", best
    )
    assert train(config, vowels) == 0
    kept = read_kept(config.folder)
    assert kept is not None and kept.step == 2
    assert same_weights(config.folder / "best", config.folder / "final")


def test_only_more_replaces_it_and_a_half_done_swap_is_mended(
    finished: Training, tmp_path: Path
) -> None:
    assert read_kept(tmp_path) is None
    run = finished.model_copy(update={"output": str(tmp_path)})
    checkpoint = finished.folder / "checkpoints" / "checkpoint-6"
    for step in (2, 4):
        _put(run, checkpoint, str(finished.folder / "base"), Kept(step, 0.5, "dev", 7))
    assert [path.name for path in run.folder.iterdir()] == ["best"]
    (run.folder / "best").rename(run.folder / "best.old")  # killed here
    kept = read_kept(run.folder)
    assert kept is not None and kept.step == 4
    (run.folder / "best" / "best.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"best\.json: damaged; remove"):
        read_kept(run.folder)


def test_other_requests_are_not_resumed_with(configure: Configure, tmp_path: Path) -> None:
    path = dev(tmp_path)
    asked = f"best={{config: {path}, every: 2, prompts: 4}}"
    config = configure(*SHORT, asked)
    assert train(config, Stopping(3)) == STOPPED
    dev(tmp_path, sampling={**DEV["sampling"], "seed": 6})
    with pytest.raises(UserError, match=r"best\.config asks other requests, or otherwise"):
        train(config, vowels, resume=True)


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ("every: 3, prompts: 4", {}, r"best\.every: 3 is no multiple of grpo\.save_every 2"),
        ("every: 2, prompts: 999", {}, r"best\.prompts: 999 are more than the 48 requests"),
        (
            "every: 2, prompts: 4",
            {"data": {**DEV["data"], "split": "train"}},
            r"'train', which is trained on",
        ),
        ("every: 2, prompts: 4", {"structured_output": True}, "structured_output is a server's"),
        ("every: 2, prompts: 4", {"sampling": {"stop": ["x"]}}, "in-process engine has none"),
        (
            "every: 2, prompts: 4",
            {"sampling": {"max_tokens": 500}},
            r"more than the 12 that sampling\.max_tok",
        ),
    ],
)
def test_what_cannot_choose_is_refused_before_the_run(
    configure: Configure, tmp_path: Path, settings: str, changes: dict[str, object], message: str
) -> None:
    path = dev(tmp_path, **changes)
    with pytest.raises(UserError, match=message):
        train(configure(*SHORT, f"best={{config: {path}, {settings}}}"))


def test_test_data_and_training_tasks_do_not_choose(
    configure: Configure, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = yaml.safe_dump(DEV["data"], default_flow_style=True, width=10_000).strip()
    with pytest.raises(UserError, match=r"is in held_out and in best\.config data"):
        training_examples(configure(best, f"held_out=[{tested}]"))
    trained = Asked(configure().sections[0], Sampling(), 1)  # as if a YAML could ask for it
    monkeypatch.setattr("train.data.read_asked", lambda best: trained)
    with pytest.raises(UserError, match=r"is in training and in best\.config data"):
        training_examples(configure(best))


def test_two_processes_choose_as_one_does(tmp_path: Path, best: str) -> None:
    """Each asks its share; both aggregate the parts of all completions, and train on their own."""
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    words = [f"output={tmp_path}", "sft=null", "curriculum.stages=[{steps: 2}]", best]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "train"]
    done = subprocess.run(
        [*launch, str(path), *words, "grpo.aggregation=normalize_then_sum"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    folder = tmp_path / "small"
    asked = rows_of(folder / "metrics.jsonl")[-1]["held_out/reward"]
    assert math.isfinite(asked)
    kept = read_kept(folder)
    assert kept is not None and (kept.step, kept.reward, kept.prompts) == (2, asked, 7)
    rows = rows_of(folder / "completions" / "grpo-1.jsonl")
    assert [row["step"] for row in rows] == [1] * 8 + [2] * 8
    assert sum(row["advantage"] for row in rows[:8]) == pytest.approx(0, abs=1e-4)

"""What a run keeps of itself: times, loggers, hashes of its data; and a disk that is full.

python -m pytest tests/train/test_records.py -v
"""

import hashlib
import importlib.util
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.errors import UserError
from configs.training import Training
from rewards.score import Score
from tests.tasks.basis.small_instances import write_lines
from tests.train.conftest import Configure
from tests.train.test_config import ROOT, errors, run_train
from tests.train.test_run import prepared, rows_of, same_weights, train, vowels
from train.arguments import loggers
from train.checkpoints import last_checkpoint, step_of
from train.folder import _data_files, different_keys, open_run, versions
from train.reward_adapter import Completion

SHORT = ("sft=null", "curriculum.stages=[{steps: 4}]", "grpo.num_iterations=2")
TIMES = ("time/generate_s", "time/log_probs_s", "time/update_s")


@pytest.fixture(scope="module")
def finished(configure: Configure) -> Training:
    config = configure(*SHORT)
    assert train(config) == 0
    return config


def test_a_steps_seconds_are_split_and_add_up(finished: Training) -> None:
    rows = rows_of(finished.folder / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert all(row[name] >= 0 for name in TIMES)
        generates = row["step"] % 2 == 1
        assert (row["time/generate_s"] > 0) == (row["time/log_probs_s"] > 0) == generates
        assert row["time/update_s"] > 0
        spent = sum(row[name] for name in TIMES) + row.get("time/reward_s", 0)
        assert spent > 0.8 * row["step_time"]  # which leaves out the optimizer's own step


def test_truncation_and_distinct_completions_are_logged(finished: Training) -> None:
    first = rows_of(finished.folder / "metrics.jsonl")[0]
    cut = [row["truncated"] for row in rows_of(finished.folder / "completions" / "grpo-1.jsonl")]
    assert first["truncated_frac"] == sum(cut[:8]) / 8
    assert first["truncated_frac"] == first["completions/clipped_ratio"]
    assert 0 < first["distinct_frac"] <= 1


def test_the_manifest_holds_versions_and_hashes(finished: Training) -> None:
    manifest = json.loads((finished.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["versions"] == versions()
    assert manifest["versions"]["python"].startswith("3.") and manifest["versions"]["torch"]
    hashes = [manifest[f"{name}_sha256"] for name in ("config", "plan", "examples", "final")]
    assert all(len(digest) == 64 for digest in hashes)
    assert manifest["data_sha256"] == {}  # its stories are generated
    assert manifest["sft_plan_sha256"] is None


def test_a_run_is_not_resumed_on_other_data(
    configure: Configure, finished: Training, tmp_path: Path
) -> None:
    source = tmp_path / "tasks.jsonl"
    write_lines(source, {"a": 1})
    public = f"{{split: train, public: {{files: [{source}], select: rest}}}}"
    config = configure(f"data={public}", f"output={tmp_path}")
    assert _data_files(config) == [source]
    ready = prepared(finished)  # examples of something; only their hash counts here
    open_run(config, ready.examples, ready.sft, ready.grpo, resume=False)
    saved = json.loads((config.folder / "manifest.json").read_text(encoding="utf-8"))
    assert saved["data_sha256"] == {str(source): hashlib.sha256(source.read_bytes()).hexdigest()}
    open_run(config, ready.examples, ready.sft, ready.grpo, resume=True)
    write_lines(source, {"a": 2})
    with pytest.raises(UserError, match=rf"started with other data \({source}\)"):
        open_run(config, ready.examples[:-1], ready.sft, ready.grpo, resume=True)


def test_loggers_are_chosen_and_may_change_on_resume(configure: Configure) -> None:
    plain, both = configure(), configure("tensorboard=true", "wandb=offline")
    assert (loggers(plain), loggers(both)) == ([], ["wandb", "tensorboard"])
    keys = different_keys(plain.model_dump(mode="json"), both.model_dump(mode="json"))
    assert keys == ["output"]


def test_tensorboard_is_asked_for_before_torch_or_is_written(
    configure: Configure, tmp_path: Path
) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        path = str(ROOT / "configs" / "train" / "tiny_cpu.yaml")
        done = run_train(path, "tensorboard=true", f"output={tmp_path}")
        assert done.returncode == 2
        assert errors(done) == [
            "error: tensorboard: is not installed; pip install -e .[tensorboard]"
        ]
        assert " torch" not in done.stderr
        return
    config = configure("sft=null", "curriculum.stages=[{steps: 2}]", "tensorboard=true")
    assert train(config) == 0
    assert list(config.folder.rglob("events.out.tfevents.*"))


class Filling:
    """Scores like ``vowels``; from one call on the disk takes no file above 60 kB."""

    def __init__(self, call: int) -> None:
        self._left = call

    def __call__(self, completion: Completion) -> Score:
        self._left -= 1
        if self._left == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
        return vowels(completion)


@pytest.fixture
def roomy() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_last_checkpoint_and_the_run_goes_on_the_same(
    configure: Configure, finished: Training, roomy: None
) -> None:
    config = configure(*SHORT)
    with pytest.raises(UserError, match=r"could not be written .* make room and --resume"):
        train(config, Filling(8 + 1))  # within step 3; step 4 is saved next
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert step_of(last_checkpoint(config.folder / "checkpoints")) == 2
    assert train(config, resume=True) == 0
    assert same_weights(config.folder / "final", finished.folder / "final")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real filesystem of 16 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no small filesystem can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)  # weights stay mapped from it


class FillingUp:
    """Scores like ``vowels``; at one call fills the disk but for ``left`` bytes."""

    def __init__(self, disk: Path, call: int, left: int) -> None:
        self._ballast = disk / "ballast"
        self._calls_left = call
        self._left = left

    def __call__(self, completion: Completion) -> Score:
        self._calls_left -= 1
        if self._calls_left == 0:
            room = os.statvfs(self._ballast.parent)
            self._ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - self._left))
        return vowels(completion)

    def empty(self) -> None:
        self._ballast.unlink()


def bytes_of(folder: Path, *names: str) -> int:
    return sum((folder / name).stat().st_size for name in names)


@pytest.mark.parametrize(
    ("fits", "half", "reason"),
    [
        ((), "", "No space left on device"),  # not even a row of completions
        ((), "model.safetensors", "No space left on device"),
        (("model.safetensors", "tokenizer.json"), "optimizer.pt", "inline_container"),
    ],
)
def test_on_a_disk_that_is_full_the_last_checkpoint_is_resumed_from(
    configure: Configure,
    finished: Training,
    small_disk: Path,
    fits: tuple[str, ...],
    half: str,
    reason: str,
) -> None:
    saved = finished.folder / "checkpoints" / "checkpoint-2"
    left = bytes_of(saved, *fits) + (bytes_of(saved, half) // 2 if half else 0)
    config = configure(*SHORT, output=small_disk)
    filling = FillingUp(small_disk, 8 + 1, left)  # within step 3; step 4 is saved next
    with pytest.raises(UserError, match=rf"^{config.folder}: .*{reason}.* make room and --resume$"):
        train(config, filling)
    checkpoints = config.folder / "checkpoints"
    assert step_of(last_checkpoint(checkpoints)) == 2
    assert (checkpoints / "checkpoint-4" / "optimizer.pt").exists() == (half == "optimizer.pt")
    filling.empty()
    assert train(config, resume=True) == 0
    assert same_weights(config.folder / "final", finished.folder / "final")

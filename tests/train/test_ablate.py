"""Ablations: the matrix, shared warm starts, stopping and going on, and the report.

python -m pytest tests/train/test_ablate.py -v
"""

import csv
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from configs.ablate import Ablation
from configs.errors import UserError
from configs.load import load
from tests.train.conftest import SMALL
from train.ablate.__main__ import main
from train.ablate.cells import cells, runs, state

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "configs" / "ablate").glob("*.yaml"))

HELD_OUT = {
    "data": {
        "split": "test",
        "generated": {"count": 8, "agents": 3, "slots": 4, "meetings": 2, "participants": 2},
        "conditions": ["belief"],
        "turns": [2],
    },
    "runs": 1,
    "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 48},
    "transport": {"batch_size": 64},
}

SHORT = [
    "sft.steps=2",
    "sft.save_every=2",
    "grpo.prompts_per_step=1",
    "curriculum.stages=[{steps: 8}]",
]


def write(folder: Path, **changes: object) -> Path:
    """An ablation of three cells and two seeds of the small training config, in ``folder``."""
    (folder / "train.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    (folder / "eval.yaml").write_text(yaml.safe_dump(HELD_OUT), encoding="utf-8")
    ablation = {
        "name": "small",
        "output": str(folder / "out"),
        "train": str(folder / "train.yaml"),
        "overrides": SHORT,
        "seeds": [0, 1],
        "axes": {
            "reward": {"all": [], "no_entries": ["reward.entries=0.0"]},
            "scale": {"group": [], "unscaled": ["grpo.scale_rewards=none"]},
        },
        "held_out": {"config": str(folder / "eval.yaml")},
    } | changes
    path = folder / "ablation.yaml"
    path.write_text(yaml.safe_dump(ablation, sort_keys=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_ablation_makes_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ablation = load(path, Ablation)
    assert ablation.name == path.stem
    assert len(runs(ablation)) >= len(ablation.seeds) * 4


def test_one_change_at_a_time_or_every_combination(tmp_path: Path) -> None:
    one = cells(load(write(tmp_path), Ablation))
    assert [cell.name for cell in one] == ["full", "no_entries", "unscaled"]
    every = cells(load(write(tmp_path, design="product"), Ablation))
    assert [cell.name for cell in every] == [
        "full",
        "no_entries",
        "unscaled",
        "no_entries-unscaled",
    ]
    assert every[3].overrides == ("reward.entries=0.0", "grpo.scale_rewards=none")


def test_a_warm_start_a_seed_is_what_its_cells_start_from(tmp_path: Path) -> None:
    made = runs(load(write(tmp_path), Ablation))
    assert [run.name for run in made] == [
        "warm-seed0", "full-seed0", "no_entries-seed0", "unscaled-seed0",
        "warm-seed1", "full-seed1", "no_entries-seed1", "unscaled-seed1",
    ]  # fmt: skip
    starts = [run.config.model.path for run in made if run.cell]
    base = tmp_path / "out" / "small"
    assert starts == [f"{base}/warm-seed0/base"] * 3 + [f"{base}/warm-seed1/base"] * 3
    assert [run.config.seed for run in made] == [0] * 4 + [1] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {"a": {"x": []}}}, "axes.a needs two levels or more"),
        ({"axes": {"a": {"x": [], "y": ["seed=3"]}}}, "'seed=3' would change more than GRPO"),
        ({"axes": {"a": {"x": [], "y": ["sft.steps=3"]}}}, "would change more than GRPO"),
        (
            {
                "axes": {
                    "a": {"x": [], "y": ["grpo.beta=0.1"]},
                    "b": {"z": [], "w": ["grpo={beta: 0.2}"]},
                }
            },
            "axes a and b both set grpo.beta",
        ),
        (
            {
                "axes": {
                    "a": {"x": [], "y": ["grpo.beta=0.1"]},
                    "b": {"x": [], "y": ["reward.entries=0.0"]},
                }
            },
            "level 'y' cannot name a cell",
        ),
        ({"axes": {"a": {"x": [], "full": ["grpo.beta=0.1"]}}}, "level 'full' cannot name a cell"),
        ({"seeds": [1, 1]}, "names a seed twice"),
        ({"seeds": []}, r"seeds: \[\] is refused"),
        (
            {"axes": {"a": {"x": [], "y": ["reward.entires=0.0"]}}},
            "cell y-seed0: .*unknown key reward.entires .*did you mean entries",
        ),
        (
            {"axes": {"a": {"x": [], "y": ["reward.entries=1.0"]}}},
            "cells full-seed0 and y-seed0 are the same run",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        main([str(write(tmp_path, **changes))])
    assert not (tmp_path / "out").exists()


def test_the_commands_for_a_cluster_are_printed_and_nothing_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = {"config": str(tmp_path / "eval.yaml"), "engine": "server"}
    launch = ["torchrun", "--nproc-per-node", "8"]
    assert main([str(write(tmp_path, held_out=held_out, launch=launch)), "--print"]) == 0
    lines = capsys.readouterr().out.splitlines()
    trained = [line for line in lines if line.startswith("torchrun --nproc-per-node 8 -m train ")]
    assert len(trained) == 8
    assert [line for line in trained if line.endswith("seed=0 --warm-start")] == trained[:1]
    assert sum(line.startswith("bash scripts/serve_vllm.sh") for line in lines) == 8
    assert lines[-1] == f"python -m train.ablate report {tmp_path}/out/small"
    assert [path.name for path in (tmp_path / "out" / "small").iterdir()] == ["ablation.json"]


@dataclass(frozen=True)
class Finished:
    """An ablation that was stopped in its first cell and gone on with. ``said``: until then."""

    config: Path
    folder: Path
    said: str
    code: int


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("ablation")
    axes = {"reward": {"all": [], "no_entries": ["reward.entries=0.0"]}}
    config, out = write(folder, axes=axes), folder / "out" / "small"
    words = [sys.executable, "-m", "train.ablate", str(config)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as ablating:
        deadline = time.monotonic() + 600
        while not (out / "full-seed0" / "metrics.jsonl").exists():
            assert time.monotonic() < deadline, "the first cell does not train"
            time.sleep(0.1)
        ablating.send_signal(signal.SIGTERM)
        said, _ = ablating.communicate(timeout=300)
    assert [state(run) for run in runs(load(config, Ablation))][:2] == ["done", "started"]
    assert main([str(config)]) == 0
    return Finished(config, out, said, ablating.returncode)


def weights(folder: Path) -> dict[str, bytes]:
    return {
        name: tensor.numpy().tobytes()
        for name, tensor in load_file(folder / "model.safetensors").items()
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sigterm_stops_the_run_that_is_on_and_the_next_call_goes_on(finished: Finished) -> None:
    assert finished.code == 143
    assert "ended with code 143" in finished.said and "the same command again" in finished.said
    metrics = (finished.folder / "full-seed0" / "metrics.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["step"] for line in metrics.splitlines()] == list(range(1, 9))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_cells_of_a_seed_start_alike_and_the_full_one_is_the_plain_run(
    finished: Finished, tmp_path: Path
) -> None:
    train = finished.config.with_name("train.yaml")
    words = [str(train), *SHORT, f"output={tmp_path}", "name=plain"]
    subprocess.run([sys.executable, "-m", "train", *words], cwd=ROOT, check=True, timeout=600)
    out = finished.folder
    assert weights(out / "warm-seed0" / "base") == weights(tmp_path / "plain" / "base")
    assert weights(out / "full-seed0" / "final") == weights(tmp_path / "plain" / "final")
    assert weights(out / "full-seed0" / "final") != weights(out / "full-seed1" / "final")
    assert not (out / "full-seed0" / "base").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_report_has_every_cell_with_its_seeds(finished: Finished) -> None:
    with (finished.folder / "report.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    reward = [r for r in rows if (r["measure"], r["condition"]) == ("reward", "all")]
    assert [row["cell"] for row in reward] == ["full", "no_entries", "warm"]
    assert [row["seeds"] for row in reward] == ["2"] * 3
    assert reward[0]["difference"] == "" and reward[1]["difference"] != ""
    assert reward[1]["changes"] == "reward.entries=0.0"
    assert {row["source_tasks"] for row in reward} == {"8"}
    page = (finished.folder / "report.html").read_text(encoding="utf-8")
    assert "no_entries" in page and "<svg" in page
    assert "full-seed0 and no_entries-seed0 have the same weights" in page  # neither earned a thing
    assert "2 training seeds: whether a difference would come again" in page
    assert (finished.folder / "report.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_is_done_is_not_done_again_and_the_report_is_the_same(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    out = finished.folder
    before = {path.name: path.read_bytes() for path in out.glob("report.*")}
    assert main([str(finished.config)]) == 0
    said = capsys.readouterr().out
    assert said.count(": done before") == 6 and "(log:" not in said
    assert {path.name: path.read_bytes() for path in out.glob("report.*")} == before
    assert main(["report", str(out)]) == 0
    assert {path.name: path.read_bytes() for path in out.glob("report.*")} == before


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_another_config_in_a_cells_folder_is_refused(finished: Finished) -> None:
    with pytest.raises(UserError, match=r"full-seed0: holds a run of another config; .*grpo\.beta"):
        main([str(finished.config), "axes.reward.all=[grpo.beta=0.5]"])


def test_a_report_of_a_folder_that_is_no_ablation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name a folder that"):
        main(["report", str(tmp_path)])

"""python -m pytest tests/train/test_config.py -v"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from configs.errors import UserError
from configs.training import load_training
from tests.train.conftest import Configure

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "configs" / "train").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads(path: Path) -> None:
    assert load_training(path).name == path.stem


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["grpo.lerning_rate=1.0"], "unknown key grpo.lerning_rate .*did you mean learning_rate"),
        (["grpo.learning_rate=1e-5"], "grpo.learning_rate: '1e-5' is text to YAML.*write 1"),
        (["grpo.loss_type=ppo"], "grpo.loss_type: 'ppo' is refused"),
        (["grpo.beta=-1.0"], "grpo.beta: -1.0 is refused"),
        (["name=../x"], "name: '../x' is refused"),
        (["model.path=x"], "give either model.path or model.tiny"),
        (["model.tiny.heads=3", "model.tiny.kv_heads=2"], "model.tiny.kv_heads: 2 does not divide"),
        (["grpo.save_every=3", "grpo.num_iterations=2"], "grpo.save_every: 3 .* multiple of 2"),
        (["grpo.steps_per_generation=4", "grpo.save_every=4"], "curriculum.stages.0.steps: 2 "),
        (["grpo.micro_batch=3"], "grpo.micro_batch: 3 on 1 processes does not divide the 8"),
        (["grpo.extra={generation_kwargs: {seed: 1}}"], "generation_kwargs.seed: would make all"),
        (["grpo.extra={shuffle_dataset: true}"], "grpo.extra.shuffle_dataset: is set by this"),
        (["model.lora={target_modules: [lm_head]}"], "target_modules: lm_head"),
        (["model.lora={}", "model.dtype=bfloat16", "grpo.vllm={}"], "bfloat16 under model.lora"),
        (["grpo.max_completion_length=512"], "leaves no room for a prompt"),
        (["sft.mix={turns: {2: -1.0}}"], "sft.mix.turns: .* must be weights"),
        (["curriculum.stages=[]"], "curriculum.stages: 'list' is refused"),
    ],
)
def test_what_cannot_work_is_refused_by_key(
    configure: Configure, overrides: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        configure(*overrides)


def test_numbers_of_turns_may_be_keys(configure: Configure) -> None:
    config = configure("curriculum.stages=[{steps: 2, turns: {8: 1, 10: 0.5}}]")
    assert config.curriculum.stages[0].turns == {8: 1.0, 10: 0.5}


def run_train(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "train", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_reads_the_config_without_torch() -> None:
    started = time.monotonic()
    done = run_train("configs/train/tiny_cpu.yaml", "--check", "seed=3")
    assert done.returncode == 0
    assert "ok; run runs/tiny_cpu" in done.stdout
    assert " torch" not in done.stderr
    assert time.monotonic() - started < 10  # the bar is 2 s; a loaded machine is given more


def test_a_wrong_key_is_one_line_and_code_2() -> None:
    done = run_train("configs/train/tiny_cpu.yaml", "grpo.beta=high")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert done.returncode == 2
    assert lines == [
        "error: configs/train/tiny_cpu.yaml: grpo.beta: 'high' is refused: "
        "Input should be a valid number"
    ]


def test_basis_data_without_a_judge_is_refused(tmp_path: Path) -> None:
    shipped = (ROOT / "configs" / "train" / "tiny_cpu.yaml").read_text(encoding="utf-8")
    start, end = shipped.index("data:"), shipped.index("reward:")
    data = "data: {task: basis, split: train, files: [x], settings: {guided: [0]}}\n"
    path = tmp_path / "basis.yaml"
    path.write_text(shipped[:start] + data + shipped[end:], encoding="utf-8")
    done = run_train(str(path), "--check")
    assert done.returncode == 2
    assert "basis.yaml: judge: BASIS answers are scored by one; add judge.endpoint" in done.stderr


def test_help_shows_examples() -> None:
    done = run_train("--help")
    assert done.returncode == 0
    assert "python -m train CONFIG --resume" in done.stdout

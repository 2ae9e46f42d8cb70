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


def with_data(folder: Path, data: str) -> Path:
    """The shipped tiny config with another data section."""
    shipped = (ROOT / "configs" / "train" / "tiny_cpu.yaml").read_text(encoding="utf-8")
    start, end = shipped.index("data:"), shipped.index("reward:")
    path = folder / "other.yaml"
    path.write_text(shipped[:start] + data + shipped[end:], encoding="utf-8")
    return path


def errors(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line for line in done.stderr.splitlines() if not line.startswith("import time:")]


@pytest.mark.parametrize("section", ["data", "held_out"])
def test_check_reads_the_task_files_and_names_the_line(tmp_path: Path, section: str) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('\n{"task_id": "a", "meetings": []}\n', encoding="utf-8")
    public = f"split: test, public: {{files: [{tasks}], select: all}}"
    if section == "data":
        data = f"data: {{split: train, public: {{files: [{tasks}], select: rest}}}}\n"
    else:
        data = f"data: {{split: train, generated: {{count: 9}}}}\nheld_out: [{{{public}}}]\n"
    done = run_train(str(with_data(tmp_path, data)), "--check")
    assert done.returncode == 2
    assert errors(done) == [f"error: {tasks}:2: key 'calendars' is missing; add it"]
    assert " torch" not in done.stderr


def test_a_file_where_the_run_belongs_is_named(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    for output in (tmp_path / "README.md", tmp_path / "README.md" / "runs" / "deep"):
        done = run_train("configs/train/tiny_cpu.yaml", f"output={output}")
        place = str(tmp_path / "README.md")
        assert errors(done) == [
            f"error: output: {place!r} is a file, so {output}/tiny_cpu cannot be made in it"
        ]
        assert done.returncode == 2
    done = run_train("configs/train/tiny_cpu.yaml", "output=")
    assert done.returncode == 2
    assert len(errors(done)) == 1


def test_a_task_without_a_reward_here_is_refused(tmp_path: Path) -> None:
    shipped = (ROOT / "configs" / "train" / "tiny_cpu.yaml").read_text(encoding="utf-8")
    start, end = shipped.index("data:"), shipped.index("reward:")
    data = "data: {task: basis, split: train, files: [x], settings: {guided: [0]}}\n"
    path = tmp_path / "basis.yaml"
    path.write_text(shipped[:start] + data + shipped[end:], encoding="utf-8")
    done = run_train(str(path), "--check")
    assert done.returncode == 2
    assert "error: data.task: 'basis' has no reward in training yet" in done.stderr


def test_help_shows_examples() -> None:
    done = run_train("--help")
    assert done.returncode == 0
    assert "python -m train CONFIG --resume" in done.stdout

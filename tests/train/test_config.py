"""python -m pytest tests/train/test_config.py -v"""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.errors import UserError
from configs.training import Training, load_training
from tests.tasks.basis.small_instances import write_lines
from tests.train.basis_data import HELD_OUT, user, write_users
from tests.train.conftest import SMALL, Configure
from train.data import check_basis, training_examples

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "configs" / "train").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads(path: Path) -> None:
    assert load_training(path).name == path.stem


def commented_variants() -> list[list[str]]:
    """The overrides that stand as comments under a name in the 0.6B config."""
    text = (ROOT / "configs" / "train" / "qwen3_0.6b.yaml").read_text(encoding="utf-8")
    found: list[list[str]] = []
    for line in text.splitlines():
        if re.match(r"  # (Dr\. GRPO|DAPO|GDPO):", line):
            found.append([])
        elif match := re.fullmatch(r"  #   (\w+): (\S+)", line):
            found[-1].append(f"grpo.{match[1]}={match[2]}")
    return found


def test_the_commented_aggregations_load() -> None:
    dr_grpo, dapo, gdpo = commented_variants()
    path = ROOT / "configs" / "train" / "qwen3_0.6b.yaml"
    first, second = load_training(path, dr_grpo).grpo, load_training(path, dapo).grpo
    assert (first.loss_type, first.scale_rewards) == ("dr_grpo", "none")
    assert (second.loss_type, second.epsilon_high, second.mask_truncated) == ("dapo", 0.28, True)
    third = load_training(path, gdpo).grpo
    assert (third.aggregation, third.std_floor) == ("normalize_then_sum", 0.05)
    assert load_training(path).grpo.aggregation == "sum_then_normalize"


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
        (
            ["grpo.aggregation=normalize_then_sum", "grpo.scale_rewards=none"],
            "grpo.scale_rewards: none has no meaning under grpo.aggregation",
        ),
        (["grpo.micro_batch=3"], "grpo.micro_batch: 3 on 1 processes does not divide the 8"),
        (["grpo.extra={generation_kwargs: {seed: 1}}"], "generation_kwargs.seed: would make all"),
        (["grpo.extra={shuffle_dataset: true}"], "grpo.extra.shuffle_dataset: is set by this"),
        (["model.lora={target_modules: [lm_head]}"], "target_modules: lm_head"),
        (["model.lora={}", "model.dtype=bfloat16", "grpo.vllm={}"], "bfloat16 under model.lora"),
        (["grpo.max_completion_length=512"], "leaves no room for a prompt"),
        (["sft.mix={turns: {2: -1.0}}"], "sft.mix.turns: .* must be weights"),
        (["curriculum.stages=[]"], r"curriculum.stages: \[\] is refused"),
    ],
)
def test_what_cannot_work_is_refused_by_key(
    configure: Configure, overrides: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        configure(*overrides)


def test_numbers_of_turns_may_be_keys(configure: Configure) -> None:
    config = configure("curriculum.stages=[{steps: 2, turns: {8: 1, 2: 0.5}}]")
    assert config.curriculum.stages[0].turns == {8: 1.0, 2: 0.5}


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
    asked = "split: train, conditions: [belief, access, direct]"
    public = f"split: test, public: {{files: [{tasks}], select: all}}"
    if section == "data":
        data = f"data: {{{asked}, public: {{files: [{tasks}], select: rest}}}}\n"
    else:
        data = f"data: {{{asked}, generated: {{count: 9}}}}\nheld_out: [{{{public}}}]\n"
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


BASIS = {"task": "basis", "split": "train", "files": ["x"], "settings": {"guided": [0, 8]}}
JUDGED = {
    "data": [{**SMALL["data"]}, BASIS],  # type: ignore[dict-item]
    "held_out": [{"task": "basis", "files": ["y"]}],
    "judge": {"endpoint": "http://127.0.0.1:9", "model": "m"},
    "sft": None,
}


def mixed(folder: Path, **changes: Any) -> Path:
    """A config of both tasks; its file."""
    path = folder / "mixed.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **JUDGED, **changes}), encoding="utf-8")
    return path


def test_data_may_be_one_section_or_several(tmp_path: Path) -> None:
    both = load_training(mixed(tmp_path), ["data.1.per_domain=3"])
    assert both.tasks == ("calbench", "basis")
    assert [section.task for section in both.sections] == ["calbench", "basis"]
    alone = load_training(mixed(tmp_path, data=BASIS), ["data.per_domain=3"])
    assert alone.tasks == ("basis",)
    assert alone.sections == both.sections[1:]
    again = Training.model_validate_json(both.model_dump_json())
    assert again == both


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judge": None}, "judge: BASIS answers are scored by one; add judge.endpoint"),
        ({"data": SMALL["data"]}, "judge: has no use for calendar answers; remove it"),
        ({"held_out": []}, "held_out: names no BASIS test instances"),
        ({"data": {**BASIS, "split": "test"}}, "data.split: a basis section of a training run"),
        ({"sft": {"steps": 1}}, "sft.mix.tasks: BASIS requests have no reference answers"),
        (
            {"sft": {"steps": 1, "mix": {"tasks": {"basis": 1}}}},
            "sft.mix.tasks: BASIS requests have no reference answers",
        ),
        ({"data": []}, r"data: \[\] is refused: Tuple should have at least 1 item"),
        ({"data": [{**BASIS, "file": "x"}]}, "unknown key data.0.file .*did you mean files"),
        ({"data": [BASIS, {"task": "maze"}]}, "data.1.task: 'maze' is refused: expected one of"),
        (
            {"data": {"task": "maze"}},
            "data.task: 'maze' is refused: expected one of 'calbench', 'b",
        ),
        ({"data": [{**BASIS, "settings": {"guided": [11]}}]}, "data.0: settings.guided"),
        ({"held_out": [{**BASIS}]}, "held_out.0.split: 'train' is refused"),
        ({"rubric": {"belif": 1}}, "unknown key rubric.belif .*did you mean belief"),
        (
            {"rubric": {"gates": [{"part": "format", "needs": "belief", "at_least": 1}]}},
            "rubric.gates.0.part: 'format' is refused",
        ),
        ({"judge": {"endpoint": "h:1", "model": "m"}}, "judge: endpoint 'h:1' is no address"),
        (
            {"curriculum": {"stages": [{"tasks": {"maze": 1}}]}},
            r"curriculum.stages.0.tasks.maze.*: 'maze' is refused: .*'calbench' or 'basis'",
        ),
        (
            {"curriculum": {"stages": [{"tasks": {"basis": 0}}]}},
            "curriculum.stages.0.tasks: .* must be weights",
        ),
    ],
)
def test_what_a_mix_needs_is_said_by_key(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as refused:
        load_training(mixed(tmp_path, **changes))
    assert "\n" not in str(refused.value)


def test_a_key_in_the_config_is_refused_and_not_shown(tmp_path: Path) -> None:
    path = mixed(tmp_path, judge={**JUDGED["judge"], "api_key": "sk-secret"})  # type: ignore[dict-item]
    with pytest.raises(UserError, match="api_key has no place in a config") as refused:
        load_training(path)
    assert "sk-secret" not in str(refused.value)


def test_check_refuses_test_instances_without_torch(tmp_path: Path) -> None:
    trained, held_out = write_users(tmp_path)
    data = {**BASIS, "files": [str(trained)]}
    path = mixed(tmp_path, data=data, held_out=[{"task": "basis", "files": [str(held_out)]}])
    assert run_train(str(path), "--check").returncode == 0
    copy = user("swe_0999", *HELD_OUT["swe_0901"])
    write_lines(trained / "more.jsonl", copy)
    (trained / "more.jsonl").rename(trained / "swe-more.jsonl")
    done = run_train(str(path), "--check")
    assert done.returncode == 2
    assert " torch" not in done.stderr
    [line] = [one for one in done.stderr.splitlines() if one.startswith("error:")]
    assert line == (
        f"error: {trained / 'swe-more.jsonl'}:1: training instance 'swe_0999' is a near-duplicate "
        "(100% of the word trigrams of its scene) of test instance 'swe_0901'; take it out of the "
        "training data"
    )


@pytest.mark.parametrize(
    ("trained", "held_out", "message"),
    [
        (
            "nowhere",
            "test",
            r"^data\.files: '.*nowhere': no such file or folder; set data\.files=\[PATH\] to your "
            r"own training instances, with rubrics: \*\.jsonl \(one a line\) or \*-benchmark\.json "
            r"beside trajectories/$",
        ),
        (
            "train",
            "nowhere",
            r"^held_out\.0\.files: '.*nowhere': no such file or folder; set "
            r"held_out\.0\.files=\[PATH\] to the benchmark's instances, to be kept out: ",
        ),
        ("train", "broken.jsonl", "broken.jsonl:1: "),
    ],
)
def test_files_that_cannot_be_read_are_named(
    tmp_path: Path, trained: str, held_out: str, message: str
) -> None:
    write_users(tmp_path)
    (tmp_path / "broken.jsonl").write_text("{no JSON\n")
    data = {**BASIS, "files": [str(tmp_path / trained)]}
    kept_out = [{"task": "basis", "files": [str(tmp_path / held_out)]}]
    config = load_training(mixed(tmp_path, data=data, held_out=kept_out))
    with pytest.raises(UserError, match=message):
        check_basis(config)


def test_the_same_request_from_two_sections_is_refused(tmp_path: Path) -> None:
    path = mixed(tmp_path, data=[SMALL["data"], SMALL["data"]], judge=None, held_out=[])
    with pytest.raises(UserError, match=r"data: request 'generated-.*' is made by two sections"):
        training_examples(load_training(path))


def test_help_shows_examples() -> None:
    done = run_train("--help")
    assert done.returncode == 0
    assert "python -m train CONFIG --resume" in done.stdout


def test_a_mix_of_what_the_data_cannot_have_is_refused(configure: Configure) -> None:
    with pytest.raises(UserError, match=r"curriculum.stages.0.conditions: 'foo' is none that"):
        configure("curriculum.stages=[{steps: 2, conditions: {foo: 1}}]")
    with pytest.raises(UserError, match=r"curriculum.stages.0.turns: 11 is none that"):
        configure("curriculum.stages=[{steps: 2, turns: {11: 1}}]")


def test_muon_is_refused_where_matrices_are_sharded(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(UserError, match=r"grpo\.muon_learning_rate: 0\.01 needs whole matrices"):
        configure("model={path: somewhere}", "grpo.muon_learning_rate=0.01")

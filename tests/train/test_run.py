"""Whole runs, config to served folder: what they leave, and that a resumed one is the same.

python -m pytest tests/train/test_run.py -v
"""

import json
import math
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from configs.errors import UserError
from configs.training import Training
from rewards.score import Score
from tests.train.conftest import Configure
from train.data import training_examples
from train.folder import write_plan
from train.prepare import Prepared, prepare
from train.reward_adapter import Completion
from train.run import STOPPED, run
from train.scorers import one_by_one

PARTS = ["vowels", "length"]


def vowels(completion: Completion) -> Score:
    """A stand-in that a random model can earn: some completions cannot be judged, some are inf."""
    text = completion.text
    share = sum(letter in "aeiou" for letter in text) / max(1, len(text))
    kind = len(text) % 9
    value = None if kind == 0 else math.inf if kind == 1 else share
    return Score(value, {"vowels": share, "length": len(text) / 100 if kind else None})


class Interrupting:
    """Scores like ``vowels``; at one call does something to the run."""

    def __init__(self, call: int, crash: bool) -> None:
        self._left = call
        self._crash = crash

    def __call__(self, completion: Completion) -> Score:
        self._left -= 1
        if self._left == 0 and self._crash:
            raise RuntimeError("power cut")
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return vowels(completion)


def prepared(config: Training) -> Prepared:
    return prepare(config, training_examples(config))


def train(
    config: Training, score: Callable[[Completion], Score] = vowels, resume: bool = False
) -> int:
    return run(prepared(config), one_by_one(score), PARTS, resume)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def completions(config: Training, attempt: int = 1) -> list[dict[str, Any]]:
    return rows_of(config.folder / "completions" / f"grpo-{attempt}.jsonl")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.fixture(scope="module")
def finished(configure: Configure) -> Training:
    """A run that was not interrupted."""
    config = configure()
    assert train(config) == 0
    return config


def test_a_run_leaves_what_the_module_says(finished: Training) -> None:
    names = {path.name for path in finished.folder.iterdir()}
    assert names == {
        "config.json", "plan.json", "manifest.json", "metrics.jsonl", "completions", "base",
        "sft_checkpoints", "checkpoints", "final",
    }  # fmt: skip
    manifest = json.loads((finished.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["attempts"] == 1
    assert manifest["versions"]["trl"] == "1.16.0"
    assert manifest["final_sha256"] != manifest["base_sha256"]


def test_the_order_of_training_is_the_plan_prompt_by_prompt(finished: Training) -> None:
    rows = completions(finished)
    assert [row["plan_pos"] for row in rows] == [p for p in range(12) for _ in range(4)]
    plan = json.loads((finished.folder / "plan.json").read_text(encoding="utf-8"))["grpo"]
    ids = [prepared(finished).examples[index].id for index in plan["indices"]]
    assert [row["example_id"] for row in rows[::4]] == ids
    assert [row["step"] for row in rows[::8]] == [1, 2, 3, 4, 5, 6]
    assert {row["turns"] for row in rows if row["stage"] == 1} == {2}
    assert [row["turns"] for row in rows if row["stage"] == 2].count(8) == 6 * 4


def test_completions_keep_every_part_and_the_advantage_of_the_scorable(finished: Training) -> None:
    rows = completions(finished)
    assert any(row["reward"] is None for row in rows)
    for start in range(0, len(rows), 4):
        group = rows[start : start + 4]
        for row in group:
            assert row["parts"]["vowels"] is not None
        values = torch.tensor([r["reward"] for r in group if r["reward"] is not None])
        for row in group:
            if row["reward"] is None:
                assert row["advantage"] == 0
            elif len(values) > 1:
                expected = (row["reward"] - values.mean()) / (values.std() + 1e-4)
                assert row["advantage"] == pytest.approx(float(expected), abs=1e-4)


def test_metrics_have_one_row_per_step_and_phase(finished: Training) -> None:
    rows = rows_of(finished.folder / "metrics.jsonl")
    steps = [(row["phase"], row["step"]) for row in rows]
    assert steps == [("sft", n) for n in range(1, 5)] + [("grpo", n) for n in range(1, 7)]
    assert rows[3]["loss"] < rows[0]["loss"]
    for row in rows[4:]:
        assert row["rewards/vowels"] is not None
        assert {"reward", "rewards/length", "missing/length", "dead_group_frac"} <= row.keys()


def test_the_trained_folder_answers_a_prompt(finished: Training) -> None:
    model = AutoModelForCausalLM.from_pretrained(finished.folder / "final")
    tokenizer = AutoTokenizer.from_pretrained(finished.folder / "final")
    chat = [{"role": "user", "content": "Belief of A:"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
    out = model.generate(**ids, max_new_tokens=8, do_sample=False)
    assert out.shape[1] > ids["input_ids"].shape[1]


@pytest.mark.parametrize(
    ("call", "crash", "saved"),
    [(8 * 4 + 1, True, 4), (8 * 2 + 3, False, 3)],  # a crash in step 5, a SIGTERM in step 3
)
def test_grpo_resumed_is_the_uninterrupted_run_to_the_bit(
    configure: Configure, finished: Training, call: int, crash: bool, saved: int
) -> None:
    config = configure()
    if crash:
        with pytest.raises(RuntimeError, match="power cut"):
            train(config, Interrupting(call, crash))
    else:
        assert train(config, Interrupting(call, crash)) == STOPPED
    assert not (config.folder / "final").exists()
    assert train(config, resume=True) == 0
    again = completions(config, attempt=2)
    assert [row["step"] for row in again[::8]] == list(range(saved + 1, 7))
    assert again == completions(finished)[saved * 8 :]
    assert same_weights(config.folder / "final", finished.folder / "final")
    metrics = rows_of(config.folder / "metrics.jsonl")
    whole = rows_of(finished.folder / "metrics.jsonl")
    assert [row.get("reward") for row in metrics] == [row.get("reward") for row in whole]
    assert train(config, resume=True) == 0  # a complete run stays as it is


def test_the_warm_start_resumed_is_the_same(
    configure: Configure, finished: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    import train.run as module

    real = module.run_sft

    def cut_short(config: Training, policy: Any, rows: Any, folder: Path, *rest: Any) -> Any:
        trainer = real(config, policy, rows, folder, *rest)
        if rest[0] is None:  # the first start: as if it had been killed after its first save
            for step in (4,):
                (folder / f"checkpoint-{step}" / "complete").unlink()
            raise RuntimeError("power cut")
        return trainer

    config = configure()
    monkeypatch.setattr(module, "run_sft", cut_short)
    with pytest.raises(RuntimeError, match="power cut"):
        train(config)
    assert train(config, resume=True) == 0
    assert same_weights(config.folder / "base", finished.folder / "base")
    assert same_weights(config.folder / "final", finished.folder / "final")
    steps = [row["step"] for row in rows_of(config.folder / "metrics.jsonl")]
    assert steps == [1, 2, 3, 4, 1, 2, 3, 4, 5, 6]


def test_another_config_or_plan_is_not_resumed(
    configure: Configure, finished: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Path(finished.output)
    with pytest.raises(UserError, match=r"other values of grpo\.beta, seed;"):
        train(configure("grpo.beta=0.5", "seed=1", output=output), resume=True)
    monkeypatch.setattr("train.folder.world_size", lambda: 2)
    with pytest.raises(UserError, match=r"differs in world_size \(1 saved, 2 now\)"):
        train(configure(output=output), resume=True)


def break_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 100)


def set_key(path: Path, key: str, value: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))


DAMAGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("plan.json", Path.unlink, "cannot be read"),
    ("plan.json", lambda path: path.write_text("[]"), "holds no JSON object"),
    ("config.json", Path.unlink, "cannot be read"),
    ("config.json", lambda path: path.write_text("{"), "it is not JSON"),
    ("config.json", lambda path: path.write_bytes(b"\xff"), "it is not JSON"),
    ("manifest.json", lambda path: path.write_text("{}"), "attempts is None"),
    ("metrics.jsonl", lambda path: path.write_text("{}\n"), ":1: damaged, not a row of metrics"),
    ("base/config.json", lambda path: path.write_text("{"), "it is not JSON"),
    ("base/config.json", lambda path: set_key(path, "hidden_size", "32"), "no number for hidd"),
    ("base/config.json", lambda path: set_key(path, "hidden_size", 64), "no model there"),
    ("base/config.json", lambda path: set_key(path, "model_type", "gwen3"), "no model there"),
    ("base/model.safetensors", break_header, "damaged weights"),
    ("checkpoints/checkpoint-6/config.json", lambda path: path.write_text("[1]"), "no JSON object"),
    ("checkpoints/checkpoint-6/trainer_state.json", lambda path: path.write_text("{"), "not JSON"),
    ("checkpoints/checkpoint-6/model.safetensors", break_header, "damaged weights"),
    ("checkpoints/checkpoint-6/optimizer.pt", break_header, "not a file that torch wrote"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_a_damaged_run_is_not_resumed_and_the_file_is_named(
    configure: Configure,
    finished: Training,
    tmp_path: Path,
    name: str,
    damage: Callable[[Path], object],
    message: str,
) -> None:
    config = configure(output=tmp_path)
    shutil.copytree(finished.folder, config.folder)
    shutil.rmtree(config.folder / "final")
    saved = config.folder / "config.json"
    saved.write_text(saved.read_text().replace(finished.output, config.output))
    damage(config.folder / name)
    with pytest.raises(UserError) as caught:
        train(config, resume=True)
    place = "base" if message == "no model there" else name
    assert str(config.folder / place) in str(caught.value)
    assert message in str(caught.value)


def test_a_started_run_is_not_started_again_and_none_is_not_resumed(
    configure: Configure, finished: Training
) -> None:
    with pytest.raises(UserError, match="was started; add --resume"):
        train(configure(output=Path(finished.output)))
    with pytest.raises(UserError, match="nothing to resume"):
        train(configure(), resume=True)


def test_what_is_refused_at_the_start_leaves_no_folder(configure: Configure) -> None:
    for override, message in (
        ("grpo.max_completion_length=3", "fewer than the"),
        ("model={path: ./nowhere}", "no such checkpoint folder"),
        ("grpo.extra={nonsense: 1}", "grpo.extra.nonsense: 1: TRL refuses it"),
        ("model.context=96", "longer than 48 tokens"),
    ):
        config = configure(override)
        with pytest.raises(UserError, match=message):
            train(config)
        assert not config.folder.exists()


def test_a_dry_run_leaves_config_and_plan_and_the_run_may_start(configure: Configure) -> None:
    config = configure()
    ready = prepared(config)
    write_plan(config, ready.sft, ready.grpo)
    assert {path.name for path in config.folder.iterdir()} == {"config.json", "plan.json"}
    saved = json.loads((config.folder / "plan.json").read_text(encoding="utf-8"))
    assert saved["grpo"]["sha256"] == ready.grpo.sha256


def test_windows_and_adapters_train_and_are_merged(configure: Configure) -> None:
    """LoRA, two iterations per generation, two forwards per step, no warm start."""
    config = configure(
        "sft=null", "model.lora={rank: 4, alpha: 8}", "grpo.num_iterations=2", "grpo.micro_batch=4"
    )
    assert train(config) == 0
    rows = completions(config)
    assert [row["step"] for row in rows[::8]] == [1, 3, 5]
    assert len(rows) == 3 * 8
    base, final = weights(config.folder / "base"), weights(config.folder / "final")
    assert base.keys() == final.keys()
    changed = {name for name in base if not torch.equal(base[name], final[name])}
    assert changed == {name for name in base if "_proj" in name}


def test_muon_in_both_phases_resumes_to_the_bit(configure: Configure) -> None:
    muon = ["sft.muon_learning_rate=0.02", "grpo.muon_learning_rate=0.01"]
    whole, cut = configure(*muon), configure(*muon)
    assert train(whole) == 0
    with pytest.raises(RuntimeError, match="power cut"):
        train(cut, Interrupting(8 * 4 + 1, crash=True))
    assert train(cut, resume=True) == 0
    assert same_weights(cut.folder / "final", whole.folder / "final")
    assert not same_weights(whole.folder / "base", whole.folder / "final")
    plain = configure(muon[0])
    assert train(plain) == 0
    assert same_weights(plain.folder / "base", whole.folder / "base")
    assert not same_weights(plain.folder / "final", whole.folder / "final")

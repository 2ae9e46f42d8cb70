"""The check of a card: refused without one; its parts on a small model, here on the CPU.

python -m pytest tests/scripts/test_gpu_check.py -v
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, Qwen3Config

from scripts.gpu_check import CONFIG, drift, make_model, one_run, run_rows, write_config
from tests.train.test_models import model_of

ROOT = Path(__file__).resolve().parents[2]
SMALL = Qwen3Config(
    vocab_size=1500,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
    tie_word_embeddings=True,
)


def check(**variables: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", str(ROOT / "scripts" / "gpu_check.sh")]
    plain = {key: value for key, value in os.environ.items() if key != "WANDB_MODE"}
    environment = plain | variables
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200)


def test_without_a_gpu_it_says_so_in_one_line() -> None:
    done = check(PYTHON=sys.executable, CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    told = "error: no GPU that torch can use; this check is for a machine with one"
    assert done.stderr.splitlines()[-1] == told
    assert done.stderr.count("error:") == 1


def test_without_a_python_too() -> None:
    done = check(PYTHON="/nowhere/python")
    assert done.returncode == 2
    assert done.stderr.startswith("error: /nowhere/python: no such Python")


def test_the_made_model_trains_and_its_steps_make_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIG, "curriculum", {"stages": [{"steps": 2}]})
    small = {"num_generations": 2, "prompts_per_step": 1, "micro_batch": 2, "bf16": False}
    monkeypatch.setitem(CONFIG, "grpo", CONFIG["grpo"] | small | {"max_completion_length": 64})
    make_model(tmp_path, SMALL)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "model")) == 1500
    assert one_run(write_config(tmp_path, "transformers")) == 0
    lines = (tmp_path / "transformers" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    assert [step["step"] for step in steps] == [1, 2]
    whats = [what for what, _ in run_rows(steps, 2)]
    assert whats[0] == "completion tokens a second, generating"
    assert whats[2].startswith("a step of ")


def test_the_table_is_arithmetic() -> None:
    step = {
        "time/generate_s": 2.0,
        "time/reward_s": 0.5,
        "time/log_probs_s": 0.5,
        "time/update_s": 1.0,
        "completions/mean_length": 100.0,
    }
    warm_up = dict.fromkeys(step, 99.0)
    assert run_rows([warm_up, step, step], 32) == [
        ("completion tokens a second, generating", "1,600"),
        ("completion tokens a second, whole step", "800"),
        ("a step of 4.00 s", "generate 50%, reward 12%, log_probs 12%, update 25%"),
    ]


def test_merging_moves_a_bfloat16_base_and_hardly_a_float32_one() -> None:
    largest, _ = drift(model_of(0), 5)
    coarse, share = drift(model_of(0).to(torch.bfloat16), 5)
    assert largest < 1e-7 < 1e-5 < coarse
    assert share > 0.01

"""What no CPU test can show, on one card: a GRPO run by transformers and by vLLM, and LoRA drift.

    bash scripts/gpu_check.sh

Makes a model with the shape of Qwen3-0.6B and random weights, trains it for a few steps on a reward
that random text can earn, once with each generator, and prints one table: tokens a second, where
the seconds of a step go, peak memory, whether new weights reached vLLM, and how far merging an
adapter a hundred times moves the base in float32 and in bfloat16. Ends with code 1 when a run
failed or new weights did not arrive, 2 without a GPU. Not run on a GPU so far.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from configs.errors import UserError, run_command
from configs.training import load_training
from rewards.score import Score
from train.checkpoints import export
from train.data import training_examples
from train.models import END, PAD, train_tokenizer
from train.prepare import prepare, texts
from train.reward_adapter import Completion
from train.run import run
from train.scorers import one_by_one

QWEN3 = Qwen3Config(
    vocab_size=151936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    tie_word_embeddings=True,
)
"""The shape of Qwen3-0.6B, as its config.json has it."""
CONFIG: dict[str, Any] = {
    "name": "check",
    "data": {
        "split": "train",
        "generated": {"count": 6},
        "conditions": ["direct"],
        "turns": [2, 8],
    },
    "reward": {},
    "model": {"path": "MODEL", "context": 4096, "lora": {"rank": 32, "alpha": 64}},
    "grpo": {
        "learning_rate": 1e-4,
        "bf16": True,
        "gradient_checkpointing": True,
        "num_generations": 8,
        "prompts_per_step": 4,
        "micro_batch": 8,
        "max_completion_length": 256,
        "save_every": 100,
    },
    "curriculum": {"stages": [{"steps": 5}]},
}
LIMIT_S = {"transformers": 150, "vllm": 220}
CYCLES = 100
Row = tuple[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)  # one run, as a process
    options = parser.parse_args()
    if options.one is not None:
        return one_run(options.one)
    if not torch.cuda.is_available():
        raise UserError("no GPU that torch can use; this check is for a machine with one")
    print(f"{'what':44} {'measured':>40}")
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), QWEN3)
        for what, measured in [("card", torch.cuda.get_device_name()), *drift_rows()]:
            print(f"{what:44} {measured:>40}", flush=True)
        for generator in ("transformers", "vllm"):
            good, rows = checked(Path(folder), generator)
            ok = ok and good
            for what, measured in rows:
                print(f"{generator + ': ' + what:44} {measured:>40}", flush=True)
    return 0 if ok else 1


def checked(folder: Path, generator: str) -> tuple[bool, list[Row]]:
    """Whether the run with this generator went as it should, and its rows of the table."""
    if generator == "vllm" and importlib.util.find_spec("vllm") is None:
        return True, [("not installed", "skipped")]
    path = write_config(folder, generator)
    words = [sys.executable, "-m", "scripts.gpu_check", "--one", str(path)]
    log = folder / f"{generator}.log"
    with log.open("w") as out:
        try:
            code = subprocess.run(
                words, stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT_S[generator]
            ).returncode
        except subprocess.TimeoutExpired:
            return False, [("run", f"not done in {LIMIT_S[generator]} s")]
    if code:
        print("".join(log.read_text(errors="replace").splitlines(keepends=True)[-15:]))
        return False, [("run", f"ended with code {code}")]
    lines = (folder / generator / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    arrived = generator != "vllm" or steps[-1]["weights_arrived"] == 1
    rows = run_rows(steps, 32)
    if generator == "vllm":
        rows.append(("new weights reached it", "yes" if arrived else "NO"))
    return arrived, rows


def write_config(folder: Path, generator: str) -> Path:
    """The config of the run with this generator; JSON is YAML."""
    config = json.loads(json.dumps(CONFIG)) | {"name": generator, "output": str(folder)}
    config["model"]["path"] = str(folder / "model")
    if generator == "vllm":
        config["grpo"]["vllm"] = {"gpu_memory_utilization": 0.3}
    path = folder / f"{generator}.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def one_run(path: Path) -> int:
    """Train as the config says, on a reward that random text can earn; print the peak memory."""
    config = load_training(path)
    code = run(prepare(config, training_examples(config)), one_by_one(by_length), ["length"])
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 1024**3
        metrics = config.folder / "metrics.jsonl"
        rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
        rows[-1]["peak_gib"] = peak
        metrics.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return code


def by_length(completion: Completion) -> Score:
    """Another number for nearly every random text, so that no group is dead."""
    value = len(completion.text) % 97 / 97
    return Score(value, {"length": value})


def run_rows(steps: Sequence[dict[str, Any]], completions: int) -> list[Row]:
    """Means over all steps but the first, which warms up. ``completions``: of a step."""
    warm = steps[1:]

    def mean(name: str) -> float:
        return fmean(step.get(name) or 0.0 for step in warm)

    names = ("generate", "reward", "log_probs", "update")
    seconds = {name: mean(f"time/{name}_s") for name in names}
    whole = sum(seconds.values())
    tokens = completions * mean("completions/mean_length")
    split = ", ".join(f"{name} {part / whole:.0%}" for name, part in seconds.items())
    rows = [
        ("completion tokens a second, generating", f"{tokens / seconds['generate']:,.0f}"),
        ("completion tokens a second, whole step", f"{tokens / whole:,.0f}"),
        (f"a step of {whole:.2f} s", split),
    ]
    if "peak_gib" in steps[-1]:
        rows.append(("peak memory of torch", f"{steps[-1]['peak_gib']:.1f} GiB"))
    return rows


def make_model(folder: Path, shape: Qwen3Config) -> None:
    """``folder/model``: random weights in bfloat16, and a tokenizer of as many tokens.

    The tokens that the run's own texts do not need are there and stand for nothing.
    """
    made = json.loads(json.dumps(CONFIG))
    path = folder / "texts.yaml"
    path.write_text(json.dumps(made), encoding="utf-8")
    small = train_tokenizer(texts(training_examples(load_training(path))), 1024)
    tokenizer = padded(small, shape.vocab_size)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(shape).bfloat16()  # type: ignore[no-untyped-call]
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    export(model, tokenizer, folder / "model")


def padded(tokenizer: PreTrainedTokenizerFast, size: int) -> PreTrainedTokenizerFast:
    """The same tokenizer with ``size`` tokens."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    for number in range(len(vocabulary), size):
        vocabulary[f"<unused{number}>"] = number
    larger = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    larger.chat_template = tokenizer.chat_template
    return larger


def drift_rows() -> list[Row]:
    """What a hundred merges and unmerges leave of the base, as vLLM's weight pushes do them."""
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        with torch.device("cuda"):
            model = Qwen3ForCausalLM(QWEN3)  # type: ignore[no-untyped-call]
        model = model.bfloat16() if dtype == torch.bfloat16 else model
        largest, share = drift(model, CYCLES)
        name = str(dtype).removeprefix("torch.")
        rows.append(
            (f"LoRA base after {CYCLES} merges, {name}", f"{largest:.1e}, {share:.1%} moved")
        )
        del model
        torch.cuda.empty_cache()
    return rows


def drift(model: PreTrainedModel, cycles: int) -> tuple[float, float]:
    """Largest change of a base weight, and the share of weights that changed.

    Of all layers that the adapter is on; its weights are random, of a trained one's size.
    """
    config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    adapted: PeftModel = get_peft_model(model, config)
    base = {name: one for name, one in adapted.named_parameters() if ".base_layer." in name}
    before = {name: one.detach().clone() for name, one in base.items()}
    torch.manual_seed(0)
    for name, one in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one, std=1e-3)
    for _ in range(cycles):
        adapted.merge_adapter()
        adapted.unmerge_adapter()
    largest = max(float((one - before[name]).abs().max()) for name, one in base.items())
    moved = sum(int((one != before[name]).sum()) for name, one in base.items())
    return largest, moved / sum(one.numel() for one in base.values())


if __name__ == "__main__":
    run_command(main)

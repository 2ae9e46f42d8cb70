"""The GRPO step's rows of ``scripts.bench``: our share of it, and memory, against bare TRL.

    python -m scripts.bench_step --pairs 5     # scripts.bench takes 3

Both sides train one made model on one plan with the same seeds, one thread, a process each. A model
that knows nothing earns one reward everywhere, so no weight moves and both write the same texts.
The step as a whole says how far a measurement can be trusted: its difference is not ours when bare
TRL's own runs lie as far apart.
Our share: CPU seconds, user and system, in the code of this project (scoring, parts, metrics,
completions file), over those of a step of bare TRL. The untrained model writes to the limit of 64
tokens; a trained one stops earlier, and the share grows as the step shrinks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from configs.errors import run_command
from configs.training import Training

if TYPE_CHECKING:  # scripts.bench must not pay for torch
    from transformers import Trainer

Row = tuple[str, str, str, bool]
STEPS = 6
PAIRS = 3
ALIKE = {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
EXACT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""A tensor that is freed goes back at once. glibc else raises these limits as it goes, and what it
keeps depends on the order of small allocations: more than what is measured. It costs time, so times
are taken without."""
CONFIG: dict[str, Any] = {
    "name": "bench",
    "data": {
        "task": "calbench",
        "split": "train",
        "generated": {"count": 100, "agents": 4, "slots": 4, "meetings": 2, "participants": 4},
        "conditions": ["belief", "direct"],
        "turns": [1, 2, 4, 8],
        "lengths_per_story": 1,
    },
    "model": {
        "tiny": {"hidden": 96, "intermediate": 192, "heads": 4, "kv_heads": 4, "head_dim": 32},
        "context": 1024,
    },
    "grpo": {
        "learning_rate": 6.0e-4,
        "num_generations": 8,
        "prompts_per_step": 16,
        "max_completion_length": 64,
        "save_every": STEPS,
    },
    "curriculum": {"stages": [{"steps": STEPS}]},
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N")
    parser.add_argument("--side", choices=["ours", "bare"], help="one process of one side, as JSON")
    options = parser.parse_args()
    if options.side is None:
        for row in step_rows(options.pairs):
            print(*row, sep="  ")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(options.side, Path(folder))))
    return 0


def step_rows(pairs: int = PAIRS) -> list[Row]:
    """Pairs of fresh processes, the sides taking turns to go first; one more pair for memory."""
    timed = [_pair(turn, {}) for turn in range(pairs)]
    ours, bare = [pair["ours"] for pair in timed], [pair["bare"] for pair in timed]
    assert len({one["tokens"] for one in (*ours, *bare)}) == 1, "not all wrote the same texts"
    step = median(one["step_s"] for one in bare)
    shares = [mine["own_s"] / its["step_s"] for mine, its in zip(ours, bare, strict=True)]
    whole = [mine["step_s"] / its["step_s"] - 1 for mine, its in zip(ours, bare, strict=True)]
    again = [one["step_s"] / step - 1 for one in bare]
    memory = _pair(0, EXACT_MEMORY)
    more = memory["ours"]["peak_kib"] / memory["bare"]["peak_kib"] - 1
    share, what = median(shares), f"our share of a bare TRL step of {step:.2f} s"
    return [
        (what, f"{share:.2%}", "2 %", share <= 0.02),
        ("  peak memory while training, over bare TRL's", f"{more:+.2%}", "+2 %", more <= 0.02),
        (f"  whole step over bare TRL's, {_range(whole)}", f"{median(whole):+.1%}", "none", True),
        ("  bare TRL's own runs apart from their median", _range(again), "none", True),
    ]


def _range(values: Sequence[float]) -> str:
    return f"{min(values):+.1%} to {max(values):+.1%}"


def _pair(turn: int, settings: Mapping[str, str]) -> dict[str, dict[str, float]]:
    order = ("ours", "bare") if turn % 2 == 0 else ("bare", "ours")
    return {side: _process(side, settings) for side in order}


def _process(side: str, settings: Mapping[str, str]) -> dict[str, float]:
    words = [sys.executable, "-m", "scripts.bench_step", "--side", side]
    environment = {**os.environ, **ALIKE, **settings}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=True, timeout=900
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(side: str, folder: Path) -> dict[str, float]:
    """CPU seconds a step without the first, those of our own code, tokens seen, peak memory."""
    import torch
    from transformers import TrainerCallback

    torch.set_num_threads(1)
    spent: defaultdict[str, float] = defaultdict(float)
    config = Training.model_validate_json(json.dumps(CONFIG | {"output": str(folder)}))
    trainer = made(side, config, spent)

    class Watch(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 0:  # what making the data took is no part of training
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            if state.global_step == 1:  # the first step warms up
                spent.clear()
            spent["began"] = time.process_time()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            spent["step"] += time.process_time() - spent["began"]

    trainer.add_callback(Watch())
    trainer.train()
    return {
        "step_s": spent["step"] / (STEPS - 1),
        "own_s": spent["own"] / (STEPS - 1),
        "tokens": trainer.state.num_input_tokens_seen,
        "peak_kib": _peak_kib(),
    }


def _peak_kib() -> int:
    """The most memory held since it was last cleared."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)


def made(side: str, config: Training, spent: defaultdict[str, float]) -> "Trainer":
    """The trainer of a side; of ours every entry into our code is timed."""
    from transformers.trainer_callback import PrinterCallback
    from trl.trainer.grpo_trainer import GRPOTrainer

    from train.callbacks import LastStep, MetricsWriter
    from train.clock import StepClock
    from train.data import training_examples
    from train.grpo import BeliefTrainer, CompletionsWriter, grpo_arguments, make_trainer
    from train.models import Policy, eos_ids, load_model
    from train.prepare import prepare
    from train.reward_adapter import RewardAdapter
    from train.rows import to_dataset
    from train.scorers import calendar_scorer, one_by_one, part_names

    ready = prepare(config, training_examples(config))
    model = load_model(config.model, ready.tokenizer, config.seed)
    rows = to_dataset(ready.examples, ready.grpo)
    config.folder.mkdir(parents=True)
    if side == "bare":
        bare: Trainer = GRPOTrainer(
            model,
            reward_funcs=[lambda completions, **columns: [0.0] * len(completions)],
            args=grpo_arguments(config, config.folder),
            train_dataset=rows,
            processing_class=ready.tokenizer,
        )
        bare.remove_callback(PrinterCallback)  # ours has none
        return bare
    entries: list[tuple[type, str]] = [
        (RewardAdapter, "__call__"), (BeliefTrainer, "_recorded"), (MetricsWriter, "on_log"),
        (CompletionsWriter, "on_step_end"), (LastStep, "on_step_end"), (StepClock, "on_step_end"),
    ]  # fmt: skip
    for owner, name in entries:
        setattr(owner, name, _timed(owner.__dict__[name], spent))
    adapter = RewardAdapter(
        one_by_one(calendar_scorer(config.reward)), eos_ids(model, ready.tokenizer)
    )
    trainer = make_trainer(
        config, Policy(model, ready.tokenizer), rows, adapter, part_names(config), config.folder,
        [MetricsWriter("grpo", config.folder / "metrics.jsonl")],
    )  # fmt: skip
    trainer.add_callback(CompletionsWriter(trainer, config.folder / "completions.jsonl"))
    return trainer


def _timed(call: Callable[..., Any], spent: defaultdict[str, float]) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return call(*given, **named)
        finally:
            spent["own"] += time.process_time() - began

    return timed


if __name__ == "__main__":
    run_command(main)

"""The GRPO step's rows of ``scripts.bench``: our share of it, and memory, against bare TRL.

    python -m scripts.bench_step ours     # one side, as JSON; scripts.bench runs both

Both sides train one made model on one plan with the same seeds, one thread, a process each. A model
that knows nothing earns one reward everywhere, so no weight moves and both write the same texts.
Our share: CPU seconds in the code of this project (scoring, parts, metrics, completions file),
over those of a step of bare TRL. The untrained model writes to the limit of 64 tokens; a trained
one stops earlier, and the share grows as the step shrinks.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import run_command
from configs.training import Training

if TYPE_CHECKING:  # scripts.bench must not pay for torch
    from transformers import Trainer

Row = tuple[str, str, str, bool]
STEPS = 6
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
    parser.add_argument("side", choices=["ours", "bare"])
    side: str = parser.parse_args().side
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(side, Path(folder))))
    return 0


def step_rows() -> list[Row]:
    """Both sides, one after the other."""
    ours, bare = (_process(side) for side in ("ours", "bare"))
    assert ours["tokens"] == bare["tokens"], "the two sides did not write the same texts"
    share = ours["own_s"] / bare["step_s"]
    memory = ours["peak_kib"] / bare["peak_kib"] - 1
    whole = ours["step_s"] / bare["step_s"] - 1
    what = f"our share of a bare TRL step of {bare['step_s']:.2f} s"
    return [
        (what, f"{share:.2%}", "2 %", share <= 0.02),
        (
            f"  peak memory over bare TRL's (step: {whole:+.1%})",
            f"{memory:+.2%}",
            "+2 %",
            memory <= 0.02,
        ),
    ]


def _process(side: str) -> dict[str, float]:
    words = [sys.executable, "-m", "scripts.bench_step", side]
    # One arena: with several the allocator's own spread is larger than what is measured.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=True, timeout=600
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
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def made(side: str, config: Training, spent: defaultdict[str, float]) -> "Trainer":
    """The trainer of a side; of ours every entry into our code is timed."""
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

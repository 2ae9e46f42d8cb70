"""One small run for many tests: real stories, a Qwen3 of 30 thousand weights, TRL's own trainer."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from configs.training import Training, load_training

SMALL = {
    "name": "small",
    "data": {
        "split": "train",
        "generated": {"count": 4, "agents": 3, "slots": 4, "meetings": 2, "participants": 2},
        "turns": [2, 8],
    },
    "reward": {},
    "model": {
        "tiny": {
            "layers": 2,
            "hidden": 32,
            "intermediate": 64,
            "heads": 2,
            "kv_heads": 1,
            "head_dim": 16,
            "vocab_size": 600,
        },
        "context": 512,
    },
    "sft": {"steps": 4, "batch": 4, "save_every": 2},
    "grpo": {
        "learning_rate": 1.0e-2,
        "num_generations": 4,
        "prompts_per_step": 2,
        "max_completion_length": 48,
        "save_every": 2,
    },
    "curriculum": {
        "stages": [{"steps": 2, "turns": {2: 1.0}}, {"steps": 4, "turns": {2: 1.0, 8: 3.0}}]
    },
}

Configure = Callable[..., Training]


@pytest.fixture(scope="session")
def configure(tmp_path_factory: pytest.TempPathFactory) -> Configure:
    """A small config in a folder of its own; arguments are overrides such as ``seed=1``."""

    def make(*overrides: str, output: Path | None = None) -> Training:
        folder = output or tmp_path_factory.mktemp("runs")
        path = folder / "small.yaml"
        path.write_text(yaml.safe_dump(SMALL), encoding="utf-8")
        return load_training(path, [f"output={folder}", *overrides])

    return make

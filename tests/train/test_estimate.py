"""The memory that the shipped Qwen3 configs announce is what the formula of a dry run gives.

python -m pytest tests/train/test_estimate.py -v
"""

import re
from pathlib import Path

import pytest
from transformers import PretrainedConfig, Qwen3Config

from configs.training import Training, load_training
from train.estimate import GIB, memory, shape_of

ROOT = Path(__file__).resolve().parents[2]
# hidden, intermediate, layers, heads, tied: the models' own config.json; 8 key-value heads of 128.
SHAPES = {
    "0.6b": (1024, 3072, 28, 16, True),
    "1.7b": (2048, 6144, 28, 16, True),
    "4b": (2560, 9728, 36, 32, True),
    "8b": (4096, 12288, 36, 32, False),
}
LONGEST = 3072 - 768
SHIPPED = [f"qwen3_{size}{kind}" for size in SHAPES for kind in ("", "_full")]


def qwen3(size: str) -> PretrainedConfig:
    hidden, intermediate, layers, heads, tied = SHAPES[size]
    return Qwen3Config(
        vocab_size=151936,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=tied,
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_the_head_of_a_config_says_what_the_formula_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "configs" / "train" / f"{name}.yaml"
    size = name.split("_")[1]
    monkeypatch.setattr("train.estimate._model_config", lambda *_: qwen3(size))
    config = load_training(path)
    shape = shape_of(config, 0)
    assert shape is not None
    first = next(iter(memory(config, shape, LONGEST)))
    total = float(first.split("about ")[1].split(" GiB")[0])
    state = (shape.weights * 4 + shape.trained * 12) / GIB
    text = path.read_text(encoding="utf-8")
    told = [float(number) for number in re.findall(r"([\d.]+) GiB", text)]
    assert told[:2] == [pytest.approx(total, abs=0.06), pytest.approx(state, abs=0.06)]
    assert told[2:] == [pytest.approx(n, abs=0.06) for n in divided(path, config, total, state)]
    assert "Not run on a GPU" in text.splitlines()[0]
    assert f"configs/train/{path.name}" in text


def divided(path: Path, config: Training, total: float, state: float) -> list[float]:
    """On each of 8 and of 16 cards, where the head names an engine that shards."""
    trained = state * 12 / 16  # full weights: gradients and two moments of every one
    text, fixed = path.read_text(encoding="utf-8"), total - state
    if "zero2_8gpu" in text:
        return [fixed + (state - trained) + trained / cards for cards in (8, 16)]
    if "zero3_8gpu" in text:
        return [fixed + state / cards for cards in (8, 16)]
    assert config.model.lora is not None or "Eight cards: as much on each" in text
    return []

"""The sizes that a checkpoint's config.json must state. Standard library only.

A library that reads a config without them takes its own defaults: a model type alone makes
transformers build eight billion random weights.
"""

from collections.abc import Mapping
from typing import Final

SIZES: Final = {
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "vocab_size": ("vocab_size",),
}
"""Each size, and the names it goes by."""


def missing_sizes(config: Mapping[str, object]) -> list[str]:
    """The sizes that neither the config nor its part about text states."""
    inner = config.get("text_config")
    parts = [config, *([inner] if isinstance(inner, dict) else [])]
    return [
        size
        for size, names in SIZES.items()
        if not any(isinstance(part.get(name), int) for part in parts for name in names)
    ]

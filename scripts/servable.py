"""What vLLM needs of a checkpoint, checked before a server is started. Standard library only."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from configs.sizes import missing_sizes

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True)
class Servable:
    """A checkpoint that can be served.

    ``model`` is an absolute folder or a hub id. ``dtype`` and ``max_positions`` are what its
    config says, or None where that is not known before the download.
    """

    model: str
    is_folder: bool
    dtype: str | None
    max_positions: int | None


def find_servable(checkpoint: str) -> Servable:
    """The checkpoint folder, or else the hub model, that ``checkpoint`` names.

    Raises ``UserError`` for a folder that is missing or that lacks a config, weights, a tokenizer
    or a chat template.
    """
    folder = Path(os.path.expanduser(checkpoint))
    if folder.is_dir():
        return _check_folder(folder.resolve())
    if folder.exists():
        raise UserError(f"{checkpoint} is a file; give the checkpoint's folder")
    if HUB_ID.fullmatch(checkpoint) and not _looks_local(checkpoint):
        return Servable(checkpoint, is_folder=False, dtype=None, max_positions=None)
    raise UserError(
        f"no checkpoint folder {checkpoint} (looked for {folder.absolute()}); give a folder that "
        "save_pretrained wrote, or a hub id such as Qwen/Qwen3-0.6B"
    )


def _looks_local(checkpoint: str) -> bool:
    """Whether a path with one slash that does not exist is more likely mistyped than a hub id."""
    first = checkpoint.split("/")[0]
    return first == "runs" or Path(first).exists()


def _check_folder(folder: Path) -> Servable:
    config = _read_config(folder)
    if missing := missing_sizes(config):
        raise UserError(
            f"{folder / 'config.json'} gives no number for {', '.join(missing)}; write the "
            "checkpoint again"
        )
    _check_weights(folder)
    if not any((folder / name).exists() for name in ("tokenizer.json", "vocab.json")):
        raise UserError(
            f"{folder} has no tokenizer (tokenizer.json); save the tokenizer beside the model"
        )
    if not _has_chat_template(folder):
        raise UserError(
            f"{folder} has no chat template (chat_template.jinja, or chat_template in "
            "tokenizer_config.json); save the tokenizer that the model was trained with"
        )
    dtype = config.get("dtype", config.get("torch_dtype"))
    positions = config.get("max_position_embeddings")
    return Servable(
        model=str(folder),
        is_folder=True,
        dtype=dtype if isinstance(dtype, str) else None,
        max_positions=positions if isinstance(positions, int) else None,
    )


def _read_config(folder: Path) -> dict[str, object]:
    path = folder / "config.json"
    if not path.exists() and (folder / "adapter_config.json").exists():
        raise UserError(
            f"{folder} holds a LoRA adapter without its base model; merge it into the base model "
            "and serve the merged folder"
        )
    if not path.exists():
        raise UserError(
            f"{folder} is not a checkpoint: it has no config.json; give a folder that "
            "save_pretrained wrote"
        )
    return _read_object(path)


def _read_object(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); write the checkpoint again") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object; write the checkpoint again")
    return content


def _check_weights(folder: Path) -> None:
    """Raises ``UserError`` when there are no weights, or when one the index names is missing."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = _read_object(index).get("weight_map")
        names = set(map(str, shards.values())) if isinstance(shards, dict) else set()
        missing = sorted(name for name in names if not (folder / name).exists())
        if missing:
            raise UserError(
                f"{folder} lacks {len(missing)} of its {len(names)} weight files (first: "
                f"{missing[0]}); copy the checkpoint again"
            )
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("pytorch_model*.bin")):
        raise UserError(
            f"{folder} has no weights (*.safetensors); give a folder that save_pretrained wrote"
        )


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").exists() or (folder / "chat_template.json").exists():
        return True
    config = folder / "tokenizer_config.json"
    return config.exists() and bool(_read_object(config).get("chat_template"))

"""What a checkpoint folder is, in one short hash: two checkpoints under one name never mix.

And whether its files can be read at all, before a library that would fail deep inside tries.
"""

import hashlib
import json
import zipfile
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open

from configs.errors import UserError
from configs.sizes import missing_sizes

DECIDES = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.txt", "*.model")


def fingerprint(folder: Path) -> str:
    """Hash of the contents of weights, tokenizer, chat template, generation config and adapter.

    Contents, not sizes: two checkpoints of one model have the same sizes. About a second a
    gigabyte. Raises ``UserError`` when ``folder`` is no checkpoint.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such checkpoint folder; train one, or name another")
    if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise UserError(f"{folder}: not a checkpoint; it holds no config.json")
    names = sorted({path.name for pattern in DECIDES for path in folder.glob(pattern)})
    check_weights(folder)
    whole = hashlib.sha256()
    for name in names:
        if name == "trainer_state.json":
            continue
        with (folder / name).open("rb") as content:
            whole.update(f"{name}:{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()[:16]


def check_weights(folder: Path) -> None:
    """Raises ``UserError`` where no file of weights is; a trainer's own .bin files are none."""
    files = list(folder.iterdir())
    old = any(path.suffix == ".bin" and "model" in path.name for path in files)
    if not old and not any(path.suffix == ".safetensors" for path in files):
        raise UserError(f"{folder}: not a checkpoint; it holds no weights (*.safetensors)")


LOAD_FAULTS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
)
"""What transformers raises over a folder whose files are readable and do not fit each other."""


def check_readable(folder: Path) -> None:
    """Refuse a folder with a JSON, weight or state file that was cut short or edited into none,
    or with a config that leaves the model's sizes to a default.

    Raises ``UserError`` naming the file.
    """
    for path in sorted(folder.iterdir()):
        if path.suffix == ".json":
            _check_json(path)
        elif path.suffix == ".safetensors":
            _check_weights(path)
        elif path.suffix in (".bin", ".pt", ".pth") and not zipfile.is_zipfile(path):
            raise UserError(f"{path}: damaged, not a file that torch wrote; {_REMEDY}")


_REMEDY = "restore it, or use another checkpoint"
_HOLDS_OBJECT = ("config.json", "adapter_config.json", "tokenizer.json", "trainer_state.json")


def _check_json(path: Path) -> None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise UserError(f"{path}: damaged, it is not JSON; {_REMEDY}") from None
    if path.name in _HOLDS_OBJECT and not (isinstance(value, dict) and value):
        raise UserError(f"{path}: damaged, it holds no JSON object with keys; {_REMEDY}")
    if path.name == "config.json" and (missing := missing_sizes(value)):
        raise UserError(f"{path}: gives no number for {', '.join(missing)}; {_REMEDY}")
    if path.name == "tokenizer.json" and not isinstance(value.get("model"), dict):
        raise UserError(f"{path}: damaged, it holds no model; {_REMEDY}")


def _check_weights(path: Path) -> None:
    try:
        with safe_open(path, framework="np") as weights:
            weights.keys()
    except SafetensorError as error:
        raise UserError(f"{path}: damaged weights ({error}); {_REMEDY}") from None

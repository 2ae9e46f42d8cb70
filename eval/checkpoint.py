"""What a checkpoint folder is, in one short hash: two checkpoints under one name never mix."""

import hashlib
from pathlib import Path

from configs.errors import UserError

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
    if not any(name.endswith((".safetensors", ".bin")) for name in names):
        raise UserError(f"{folder}: not a checkpoint; it holds no weights (*.safetensors)")
    whole = hashlib.sha256()
    for name in names:
        if name == "trainer_state.json":
            continue
        with (folder / name).open("rb") as content:
            whole.update(f"{name}:{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()[:16]

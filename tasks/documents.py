"""Bytes of a data file -> text and JSON values, strictly.

A file may begin with a byte order mark and end its lines as Windows does. It may not repeat a key,
hold NaN, or have a key that UTF-8 cannot write.
"""

import json
from pathlib import Path
from typing import Any

from configs.errors import UserError


def read_text(path: Path) -> str:
    """The text of a file. Raises ``UserError`` naming the file, and the line of a bad byte."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        byte = error.object[error.start]
        raise UserError(
            f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def parse_json(text: str, where: str) -> Any:
    """The one JSON value of ``text``. Raises ``UserError`` that begins with ``where``."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); repair or remove it") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    broken = next((name for name in fields if not is_whole(name)), None)
    if broken is not None:
        raise UserError(f"key {broken!r} holds half of a surrogate pair; write the whole character")
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"key {twice!r} is given twice; keep one")
    return fields


def _no_constant(text: str) -> None:
    raise UserError(f"value {text} is not a number; write a finite one")


def is_whole(text: str) -> bool:
    """Whether UTF-8 can write ``text``: JSON may spell half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

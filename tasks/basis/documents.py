"""Bytes of a data file -> JSON values, strictly; and the typed fields of a JSON object.

A file may begin with a byte order mark and end its lines as Windows does. It may not repeat a key,
hold NaN, or text that UTF-8 cannot write.
"""

import json
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.basis.faults import Faults


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
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"key {twice!r} is given twice; keep one")
    return fields


def _no_constant(text: str) -> None:
    raise UserError(f"value {text} is not a number; write a finite one")


def text_field(raw: dict[str, Any], key: str, where: str, faults: Faults) -> str:
    """The non-blank text under ``key``, as it stands; "" once a fault is noted."""
    if key not in raw:
        faults.add(where, f"key {key!r} is missing; add it")
        return ""
    value = text_value(raw[key], f"{where}: {key}", faults)
    if isinstance(raw[key], str) and not raw[key].strip():
        faults.add(f"{where}: {key}", "is blank; write its text")
    return value


def text_value(value: Any, where: str, faults: Faults) -> str:
    """Any text, the empty one included; "" once a fault is noted."""
    if not isinstance(value, str):
        faults.add(where, f"holds {shown(value)}, expected text")
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        faults.add(where, "holds half of a surrogate pair; write the whole character")
        return ""
    return value


def shown(value: Any) -> str:
    """A JSON value in few characters, for a message."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

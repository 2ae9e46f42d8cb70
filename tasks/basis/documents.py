"""The typed fields of a JSON object of BASIS; what is wrong with one is noted as a fault."""

import json
from typing import Any

from tasks.basis.faults import Faults
from tasks.documents import is_whole


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
    if not is_whole(value):
        faults.add(where, "holds half of a surrogate pair; write the whole character")
        return ""
    return value


def shown(value: Any) -> str:
    """A JSON value in few characters, for a message."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

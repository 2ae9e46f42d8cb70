"""The append-only log of rubrics that were made, one a line; the last row of a rubric counts.

A row carries the hash of the gold it was made from; a row of another gold is not taken.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from configs.errors import UserError
from eval.row_log import LineLog
from rewards.criteria import Gold
from rewards.rubric_maker import Made

Key = tuple[str, str]
"""(instance, dimension)"""
_LISTS = {"criteria": str, "objections": str, "gold": int, "nothing": int}


def key(one: Gold | Made) -> Key:
    """What a rubric is known by."""
    return one.instance, one.dimension


def read_log(path: Path, golds: Iterable[Gold]) -> dict[Key, Made]:
    """The rows that count for ``golds``. A torn last line is ignored.

    Raises ``UserError`` naming file and line.
    """
    hashes = {key(gold): gold_hash(gold) for gold in golds}
    found: dict[Key, Made] = {}
    if not path.exists():
        return found
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if raw.endswith(b"\n"):
                made, made_from = _decode(raw, f"{path}:{number}")
                if hashes.get(key(made)) == made_from:
                    found[key(made)] = made
    return found


def append(log: LineLog, made: Made, gold: Gold) -> None:
    """Write one row through to the operating system."""
    row = {**asdict(made), "gold_hash": gold_hash(gold)}
    log.append_line(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")


def gold_hash(gold: Gold) -> str:
    """Of all that the generator saw."""
    text = json.dumps([gold.scene, gold.text])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _decode(raw: bytes, place: str) -> tuple[Made, str]:
    names = {item.name for item in fields(Made)} | {"gold_hash"}
    try:
        row: Any = json.loads(raw)
    except (ValueError, RecursionError):
        row = {}
    if not isinstance(row, dict) or row.keys() != names:
        raise UserError(f"{place}: not a row of this log; remove that line, run again")
    wrong = next((name for name in names if not _fits(name, row[name])), None)
    if wrong is not None:
        raise UserError(
            f"{place}: {wrong}: {json.dumps(row[wrong])[:40]} is not what this log holds there; "
            "remove that line, run again"
        )
    made_from = row.pop("gold_hash")
    for name in _LISTS:
        row[name] = tuple(row[name])
    return Made(**row), made_from


def _fits(name: str, value: Any) -> bool:
    if name in _LISTS:
        return isinstance(value, list) and all(type(one) is _LISTS[name] for one in value)
    if name == "state":
        return value in ("accepted", "rejected", "failed")
    return type(value) is (int if name == "tries" else str)

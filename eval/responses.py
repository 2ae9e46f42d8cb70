"""What the log of one system's responses holds, and what it still owes.

The index keeps a byte offset per (request, run), not the texts, so memory stays flat.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from configs.errors import UserError
from eval.records import FINAL, Key, Response, decode


@dataclass(slots=True)
class Index:
    """Where each key's row that counts begins, and what was seen on the way."""

    offsets: dict[Key, int] = field(default_factory=dict)
    final: set[Key] = field(default_factory=set)
    digests: dict[Key, bytes] = field(default_factory=dict)
    duplicates: int = 0
    superseded: int = 0
    attempts: int = 0

    def add(self, response: Response, offset: int, place: str) -> None:
        """Note one row. Two different final rows for one key raise ``UserError``."""
        key = (response.id, response.run)
        self.attempts += response.attempts
        if response.state not in FINAL:
            self.superseded += key in self.offsets
            if response.state == "server_changed" or key not in self.final:
                self.offsets[key] = offset
                self.final.discard(key)
            return
        digest = _digest(response)
        if key in self.final:
            if self.digests[key] != digest:
                raise UserError(
                    f"{place}: request {key[0]!r} run {key[1]} has two different answers; "
                    "delete one of its rows"
                )
            self.duplicates += 1
            return
        self.superseded += key in self.offsets
        self.offsets[key] = offset
        self.final.add(key)
        self.digests[key] = digest


def _digest(response: Response) -> bytes:
    content = f"{response.state}\0{response.text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=8).digest()


def read_index(path: Path, known: Callable[[Key], bool]) -> Index:
    """Index a log; rows of unknown keys raise ``UserError``. A torn last line is ignored."""
    index = Index()
    if not path.exists():
        return index
    offset = 0
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if raw.endswith(b"\n"):
                place = f"{path}:{number}"
                response = decode(raw, Response, place)
                if not known((response.id, response.run)):
                    raise UserError(f"{place}: {response.id!r} run {response.run} is not planned")
                index.add(response, offset, place)
            offset += len(raw)
    return index


def read_at(log: BinaryIO, offset: int) -> Response:
    """The row that begins at ``offset``."""
    log.seek(offset)
    return decode(log.readline(), Response, f"{log.name} byte {offset}")

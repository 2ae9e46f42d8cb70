"""The append-only log of one system's responses: what it holds, what it still owes.

A log survives SIGKILL: rows are flushed one by one, a torn last row is dropped and owed again.
The index keeps a byte offset per (request, run), not the texts, so memory stays flat.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from configs.errors import UserError
from eval.records import FINAL, Key, Response, from_line, to_line


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
                response = _decode(raw, place)
                if not known((response.id, response.run)):
                    raise UserError(f"{place}: {response.id!r} run {response.run} is not planned")
                index.add(response, offset, place)
            offset += len(raw)
    return index


def read_at(log: BinaryIO, offset: int) -> Response:
    """The row that begins at ``offset``."""
    log.seek(offset)
    return _decode(log.readline(), f"{log.name} byte {offset}")


def _decode(raw: bytes, place: str) -> Response:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{place}: not UTF-8; remove that line, run again") from None
    return from_line(line, Response, place)


class LineLog:
    """Appends lines; one process at a time, each line flushed before the next is awaited."""

    def __init__(self, path: Path, writer: str) -> None:
        """``writer``: the command that writes this file, for the message to a second one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UserError(f"{path}: another `{writer}` is writing it; wait or stop it") from None
        _drop_torn_line(path, self._file)

    def append_line(self, line: str) -> None:
        """Write one line, its newline included, through to the operating system."""
        self._file.write(line.encode("utf-8"))
        self._file.flush()

    def close(self) -> None:
        """Release the file and its lock."""
        self._file.close()


class ResponseLog(LineLog):
    """Appends the responses of one system."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "eval run")

    def append(self, response: Response) -> None:
        """Write one row."""
        self.append_line(to_line(response))


def _drop_torn_line(path: Path, log: BinaryIO) -> None:
    """Cut whatever follows the last newline: a row that a killed process left half written."""
    size = os.fstat(log.fileno()).st_size
    keep = size
    with path.open("rb") as reader:
        while keep > 0:
            start = max(0, keep - 65536)
            reader.seek(start)
            newline = reader.read(keep - start).rfind(b"\n")
            keep = start + newline + 1
            if newline >= 0:
                break
    if keep < size:
        log.truncate(keep)

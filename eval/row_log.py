"""Append-only logs of JSON rows: responses of a system, judgements of a judge.

A log survives SIGKILL: rows are flushed one by one, a torn last row is dropped and owed again.
"""

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from configs.errors import UserError
from eval.records import Record, to_line


class LineLog:
    """Appends lines; one process at a time, each line flushed before the next is awaited.

    ``command``: who writes such a log, for the message when another process holds it.
    """

    def __init__(self, path: Path, command: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UserError(f"{path}: another `{command}` is writing it; wait or stop it") from None
        _drop_torn_line(path, self._file)

    def append_line(self, line: str) -> None:
        """Write one line, its newline included, through to the operating system."""
        self._file.write(line.encode("utf-8"))
        self._file.flush()

    def sync(self) -> None:
        """Have the disk hold what was written: it then outlives the machine, not only us."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the file and its lock."""
        self._file.close()


class RowLog(LineLog):
    """Appends records, one a line."""

    def append(self, record: Record) -> None:
        """Write one row."""
        self.append_line(to_line(record))


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

"""Usable verdicts on disk, for any number of processes: a stopped run never asks twice.

One SQLite file in WAL mode. The first verdict of a key stays, so every process reads the same
one. Failures are not kept: they are asked for again. WAL needs a local disk, not NFS.
"""

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError

_VERSION = 1
_BUSY_S = 30.0
_OPEN_TRIES = 100


@dataclass(frozen=True, slots=True)
class Kept:
    """One verdict as the judge wrote it, with what it cost."""

    reply: str
    attempts: int
    prompt_tokens: int
    completion_tokens: int


class JudgeCache:
    """``get`` and ``put`` by key. Opened on first use, in the thread that uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None

    def get(self, key: str) -> Kept | None:
        """The verdict under ``key``, if any. Raises ``UserError`` if the file is no cache."""
        row = self._connection().execute(
            "SELECT reply, attempts, prompt_tokens, completion_tokens FROM verdicts WHERE key = ?",
            (key,),
        )
        found = row.fetchone()
        return Kept(*found) if found else None

    def put(self, key: str, model: str, kept: Kept) -> None:
        """Keep a verdict; one that is there already stays. Durable before this returns."""
        reply = kept.reply.encode("utf-8", "replace").decode()  # a lone surrogate cannot be stored
        self._connection().execute(
            "INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?, ?, ?)",
            (key, model, reply, kept.attempts, kept.prompt_tokens, kept.completion_tokens),
        )

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._opened = _open(self._path)
            except (sqlite3.DatabaseError, OSError) as error:
                raise UserError(
                    f"judge cache {self._path}: cannot be used ({error}); name another file"
                ) from None
        return self._opened


def _open(path: Path) -> sqlite3.Connection:
    """Connect and set up; another process may be doing the same at this moment."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    for attempt in range(_OPEN_TRIES):
        try:
            _set_up(connection)
            return connection
        except sqlite3.OperationalError as error:
            # Switching to WAL does not wait for a lock, whatever the timeout says.
            if "locked" not in str(error) or attempt == _OPEN_TRIES - 1:
                connection.close()
                raise
            time.sleep(0.02)
    raise AssertionError


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, model TEXT NOT NULL, "
        "reply TEXT NOT NULL, attempts INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, "
        "completion_tokens INTEGER NOT NULL) WITHOUT ROWID"
    )
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif version != _VERSION:
        raise sqlite3.DatabaseError(f"of version {version}, not {_VERSION}")

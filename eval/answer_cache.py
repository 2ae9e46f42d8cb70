"""Answers on disk that plans may share: what was asked of these weights before is not asked again.

The key is everything that decides an answer: the canonical body of the request (its messages,
every sampling field, seed, schema), the fingerprint of the weights, and the run. Two checkpoints
under one served name, or five runs, never share an answer. Only whole replies are kept, and only
after the server has proved to be the same that it was.

One SQLite file in WAL mode, for any number of processes. WAL needs a local disk, not NFS.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from configs.errors import UserError
from eval.records import Key, Response, canonical, from_line, sha256, to_line

KEPT: Final = frozenset({"ok", "truncated"})
VERSION: Final = 1


class AnswerCache:
    """The answers of one fingerprint in ``path``. Raises ``UserError`` if it cannot be used."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        if fingerprint.startswith("card:"):
            raise UserError("--cache needs to know the weights; give --checkpoint FOLDER too")
        self._path = path
        self._fingerprint = fingerprint
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=30.0, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, row TEXT NOT NULL) "
                "WITHOUT ROWID"
            )
        except (sqlite3.Error, OSError) as error:
            raise UserError(f"--cache {path}: cannot be used ({error}); name another") from None

    def key(self, body: Mapping[str, Any], run: int) -> str:
        """Of one request as it is sent, but for the model's name, which the fingerprint replaces.

        Dict order does not matter; addresses, timeouts and keys are no part of a body.
        """
        return sha256(canonical([VERSION, self._fingerprint, run, body]))

    def get(self, key: str, asked: Key) -> Response | None:
        """The answer under ``key`` as a row for ``asked``; no attempt was made for it."""
        found = self._file.execute("SELECT row FROM answers WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        row = from_line(found[0], Response, str(self._path))
        return replace(row, id=asked[0], run=asked[1], attempts=0)

    def put(self, answers: Iterable[tuple[str, Response]]) -> None:
        """Keep whole replies; one that is there already stays. Durable before this returns."""
        rows = [(key, to_line(one)) for key, one in answers if one.state in KEPT]
        self._file.execute("BEGIN")
        self._file.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", rows)
        self._file.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

"""The records evaluation passes from file to file, and their JSON lines form.

Files of one plan folder::

    plan.json               what is asked, frozen               (plan)
    requests.jsonl          one `Example` a line                (plan)
    responses/SYSTEM.json   who answered: `Identity`            (run)
    responses/SYSTEM.prompts.json  hash and length of each prompt as rendered  (run)
    responses/SYSTEM.jsonl  one `Response` a line, append-only  (run)
    judgements/JUDGE/SYSTEM.jsonl  one `KeptJudgement` a line, append-only  (score, BASIS only)
    scores/SYSTEM.jsonl     one `Scored` a line, in plan order  (score)
    compare.json            paired comparison                   (compare)
    report.html, .md, .png                                      (report)
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from configs.errors import UserError

Key = tuple[str, int]  # (request id, run from 1)

ResponseState = Literal[
    "ok",
    "truncated",
    "unknown_finish",
    "context_overflow",
    "http_error",
    "timeout",
    "server_changed",
]
FINAL: frozenset[str] = frozenset({"ok", "truncated", "unknown_finish", "context_overflow"})
"""States that another try would not mend; every other one is owed again on resume."""

COMPLETE = "ok"
"""Score state of a reply that holds an answer, right or wrong; every other one is coverage."""

STATES: tuple[str, ...] = (
    COMPLETE,
    "truncated",
    "unterminated_reasoning",
    "unparseable",
    "context_overflow",
    "http_error",
    "timeout",
    "server_changed",
    "missing",
    "judge_failed",
)
"""The score states there are: each planned (request, run) has exactly one. The ``note`` of a row
keeps the finer reason: what an unparseable answer lacks, or that a reply ended in an unknown way,
which counts as truncated."""

UNDELIVERED: frozenset[str] = frozenset(
    {"context_overflow", "http_error", "timeout", "server_changed", "missing"}
)
"""Score states in which the model did not reply: not even the composed reward applies."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers as one system. A run resumes only under an equal identity."""

    system: str
    plan_hash: str
    engine: str
    model: str
    fingerprint: str
    """Of the weights, tokenizer and chat template; of the server's model card if no folder."""
    prefilled_think: bool
    prompts_hash: str
    """Of the rendered token ids of the probe prompts; empty where the server cannot tell."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back for one (request, run)."""

    id: str
    run: int
    state: ResponseState
    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    attempts: int = 1
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Scored:
    """One (request, run) of one system, judged. ``source`` is the statistical cluster.

    ``state``: one of ``STATES``. ``reward`` and ``parts``: the score training would give; empty
    where nothing was delivered. ``measures``: what is reported; empty unless complete.
    """

    id: str
    run: int
    source: str
    story: str
    variant: str
    condition: str
    holder: str
    turns: int
    state: str
    note: str
    reward: float | None
    parts: Mapping[str, float | None] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class KeptJudgement:
    """What the judge said of one dimension of one answer.

    ``digest``: of the text and criteria judged. ``scores``: 0 or 1 a criterion; None: the judge
    failed, for ``reason``. The other fields are those of ``rewards.judgements.Judgement``.
    """

    id: str
    run: int
    dimension: Literal["belief", "profile", "solution"]
    digest: str
    state: Literal["judged", "empty_candidate", "failed"]
    scores: Sequence[int] | None
    reason: str = ""
    warnings: Sequence[str] = ()
    cached: bool = False
    attempts: int = 0
    reply: str = ""
    error: str = ""
    model: str = ""
    prompt_hash: str = ""


REPEATED = ("id", "source", "story", "variant", "condition", "holder", "state", "note")
Record = Response | Scored | KeptJudgement
RecordT = TypeVar("RecordT", Response, Scored, KeptJudgement)


def canonical(value: object) -> str:
    """JSON text that does not depend on dict order, for hashing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(text: str) -> str:
    """Hex digest of the UTF-8 bytes of ``text``."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def to_line(record: Record) -> str:
    """One record as one JSON line, keys in field order."""
    row = {name: getattr(record, name) for name in record.__slots__}
    return json.dumps(row, separators=(",", ":")) + "\n"


def from_line(line: str, record_type: type[RecordT], place: str) -> RecordT:
    """The inverse of ``to_line``. Raises ``UserError`` naming ``place``."""
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    names = {item.name for item in fields(record_type)}
    if not isinstance(row, dict) or set(row) != names:
        raise UserError(
            f"{place}: not a {record_type.__name__} record; remove that line, run again"
        )
    return record_type(**row)


def write_atomically(path: Path, lines: Iterable[str]) -> None:
    """Write all lines or nothing: a stopped command leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as out:
        out.writelines(lines)
    os.replace(part, path)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Indented JSON, written atomically."""
    write_atomically(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"])


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """A JSON object from ``path``. Raises ``UserError`` with ``remedy`` when there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {remedy}") from None
    except ValueError:
        raise UserError(f"{path}: not JSON; {remedy}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no JSON object; {remedy}")
    return value


def read_identity(path: Path) -> Identity:
    """The identity file of one system. Raises ``UserError`` when it is not one."""
    raw = read_json(path, "`python -m eval run` writes it")
    if set(raw) != {item.name for item in fields(Identity)}:
        raise UserError(f"{path}: not an identity file; move it and its .jsonl away, run again")
    return Identity(**raw)


def write_identity(path: Path, identity: Identity) -> None:
    """The identity as indented JSON."""
    write_json(path, asdict(identity))


def read_scores(path: Path) -> Iterator[Scored]:
    """Stream the scores of one system."""
    if not path.exists():
        raise UserError(f"{path}: not there; `python -m eval score` writes it")
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            row = from_line(line, Scored, f"{path}:{number}")
            if row.state not in STATES:
                raise UserError(
                    f"{path}:{number}: state {row.state!r} is none of this version; "
                    "run `python -m eval score` again"
                )
            yield _shared(row)


def _shared(row: Scored) -> Scored:
    """The same row with one copy of each repeated text: tables hold tens of thousands of rows."""
    texts = {name: sys.intern(str(getattr(row, name))) for name in REPEATED}
    parts = {sys.intern(name): found for name, found in row.parts.items()}
    measures = {sys.intern(name): found for name, found in row.measures.items()}
    return replace(row, **texts, parts=parts, measures=measures)  # type: ignore[arg-type]

"""The records evaluation passes from file to file, and their JSON lines form.

Files of one plan folder::

    plan.json               what is asked, frozen               (plan)
    requests.jsonl          one `Example` a line                (plan)
    responses/SYSTEM.json   who answered: `Identity`            (run)
    responses/SYSTEM.prompts.json  hash and length of each prompt as rendered  (run)
    responses/SYSTEM.probe.json    whether repeated prompts got the same text  (run)
    responses/SYSTEM.jsonl  one `Response` a line, append-only  (run)
    judgements/JUDGE/SYSTEM.jsonl  one `KeptJudgement` a line, append-only  (score, BASIS only)
    judgements/JUDGE/controls/CONTROL.jsonl  the same of the controls    (score --controls)
    scores/SYSTEM.jsonl     one `Scored` a line, in plan order  (score)
    scores/controls/CONTROL.jsonl  the same of the controls              (score --controls)
    compare.json            paired comparison                   (compare)
    report.html, .md, .csv, .parquet, .tex, .png                (report)
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from configs.errors import UserError
from tasks.documents import is_whole

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

# The declared type of each field of each record.
_KINDS: dict[str, dict[str, Any]] = {
    record.__name__: {item.name: item.type for item in fields(record)}
    for record in (Identity, Response, Scored, KeptJudgement)
}


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
    except (ValueError, RecursionError):
        row = None
    kinds = _KINDS[record_type.__name__]
    if not isinstance(row, dict) or set(row) != set(kinds):
        raise UserError(
            f"{place}: not a {record_type.__name__} record; remove that line, run again"
        )
    wrong = next((name for name, kind in kinds.items() if not _fits(row[name], kind)), None)
    if wrong is not None:
        raise UserError(
            f"{place}: {wrong}: {json.dumps(row[wrong])[:40]} is not what a {record_type.__name__} "
            "record holds there; remove that line, run again"
        )
    return record_type(**row)


def decode(raw: bytes, record_type: type[RecordT], place: str) -> RecordT:
    """The record of one line. Raises ``UserError`` naming ``place``."""
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{place}: not UTF-8; remove that line, run again") from None
    return from_line(line, record_type, place)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value read from JSON is of a declared type; a whole number is a float too."""
    if kind is str or kind is bool:
        return isinstance(value, kind)
    if kind is int or kind is float:
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if kind is NoneType:
        return value is None
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    assert origin is Sequence, f"records hold no {kind}"
    return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)


def write_atomically(path: Path, lines: Iterable[str]) -> None:
    """Write all lines or nothing: a stopped command leaves the old file.

    Half of a surrogate pair, which a model's text may hold, is written as JSON spells it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8", errors="backslashreplace") as out:
        out.writelines(lines)
    os.replace(part, path)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Indented JSON, written atomically."""
    write_atomically(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"])


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """JSON that only a command writes and another reads, with a hash over itself."""
    write_json(path, {**value, "sha256": _seal(value)})


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """What ``write_sealed`` wrote. Raises ``UserError`` when it was edited or damaged since."""
    value = read_json(path, remedy)
    if value.pop("sha256", None) != _seal(value):
        raise UserError(f"{path}: was edited or damaged since it was written; {remedy}")
    return value


def _seal(value: Mapping[str, Any]) -> str:
    return sha256(canonical(json.loads(json.dumps(value))))


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """A JSON object from ``path``. Raises ``UserError`` with ``remedy`` when there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; {remedy}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON; {remedy}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no JSON object; {remedy}")
    return value


def read_identity(path: Path) -> Identity:
    """The identity file of one system. Raises ``UserError`` when it is not one."""
    raw = read_json(path, "`python -m eval run` writes it")
    kinds = _KINDS["Identity"]
    if set(raw) != set(kinds) or not all(_fits(raw[name], kind) for name, kind in kinds.items()):
        raise UserError(f"{path}: not an identity file; move it and its .jsonl away, run again")
    identity = Identity(**raw)
    if identity.system != path.stem or not all(is_whole(str(text)) for text in raw.values()):
        raise UserError(f"{path}: not the identity of {path.stem!r}; restore it")
    return identity


def write_identity(path: Path, identity: Identity) -> None:
    """The identity as indented JSON."""
    write_json(path, asdict(identity))


def read_scores(path: Path) -> Iterator[Scored]:
    """Stream the scores of one system."""
    if not path.exists():
        raise UserError(f"{path}: not there; `python -m eval score` writes it")
    held: Held = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{path}:{number}"
            yield _shared(_checked(decode(line, Scored, place), place), held)


def _checked(row: Scored, place: str) -> Scored:
    """The row, if its state is one there is and every score in it a finite number.

    Raises ``UserError`` naming ``place``.
    """
    if row.state not in STATES:
        raise UserError(
            f"{place}: state {row.state!r} is none of this version; "
            "run `python -m eval score` again"
        )
    for name, found in [*row.measures.items(), ("reward", row.reward)]:
        if found is not None and not abs(found) <= sys.float_info.max:  # true of NaN too
            raise UserError(f"{place}: {name} is {found!r}, not a finite number; score again")
    return row


Held = dict[tuple[str | float | None, ...], Mapping[str, Any]]


def _shared(row: Scored, held: Held) -> Scored:
    """The same row with one copy of each text and of each set of numbers that repeat in a file:
    tables hold tens of thousands of rows."""
    texts = {name: sys.intern(str(getattr(row, name))) for name in REPEATED}
    parts, measures = (
        held.setdefault((*found, *found.values()), found) for found in (row.parts, row.measures)
    )
    return replace(row, **texts, parts=parts, measures=measures)  # type: ignore[arg-type]

"""Answers that another harness collected -> responses of a system, for ``score`` and ``compare``.

Read are a samples file of lm-evaluation-harness (``--log_samples``, JSON lines) and an eval log of
Inspect in its JSON form (``inspect log dump``, or ``log convert --to json``). An item matches a
request by its id (``doc["id"]``, ``doc["info"]["id"]`` in rows of ``tasks.export``, sample ``id``),
and must have asked the same: the messages are compared. What the log does not say stays unknown,
and is said: it has no seeds of ours and no rendered prompts.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from configs.errors import UserError
from eval.plan import Plan
from eval.records import Identity, Response, ResponseState, write_identity
from eval.row_log import RowLog

STOPS: Final[Mapping[str, ResponseState]] = {
    "stop": "ok",
    "max_tokens": "truncated",
    "model_length": "truncated",
}
"""Inspect's stop reasons; any other is an unknown end."""


@dataclass(frozen=True, slots=True)
class ForeignAnswer:
    """One answer of a log. ``texts``: the contents of the messages asked, as far as recorded.

    ``finish``: how the reply ended; empty where the harness does not record it.
    """

    id: str
    run: int
    texts: tuple[str, ...]
    text: str
    finish: str
    state: ResponseState
    tokens: tuple[int | None, int | None] = (None, None)
    error: str = ""


@dataclass(slots=True)
class Imported:
    """What an import found. ``unknown``: answers to what is not planned."""

    taken: int = 0
    unknown: int = 0
    states: Counter[str] = field(default_factory=Counter)


def import_log(plan: Plan, system: str, path: Path, assume_finished: bool = False) -> Imported:
    """Write the answers of ``path`` as the responses of ``system``.

    ``assume_finished``: take replies of unknown end for whole ones. Raises ``UserError`` when the
    file is neither format, nothing matches, an item asked something else, or the system exists.
    """
    log_path = plan.folder / "responses" / f"{system}.jsonl"
    if log_path.exists():
        raise UserError(f"{log_path}: there already; choose another --system name")
    answers, engine, model = read_log(path, assume_finished)
    _refuse_unknown_ends(path, answers)
    found = Imported()
    rows = list(_matched(plan, answers, path, found))
    if not rows:
        raise UserError(
            f"{path}: none of its {len(answers)} answers is to a request of this plan; its items "
            "must carry the ids of requests.jsonl"
        )
    log = RowLog(log_path, "eval import")
    try:
        for row in rows:
            log.append(row)
    finally:
        log.close()
    fingerprint = "file:" + hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    identity = Identity(system, plan.hash, engine, model, fingerprint, False, "")
    write_identity(log_path.with_suffix(".json"), identity)
    return found


def read_log(path: Path, assume_finished: bool) -> tuple[list[ForeignAnswer], str, str]:
    """The answers of a log, which harness wrote it, and the model it names."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"{path}: not a text file that can be read; convert an .eval file with `inspect log "
            "dump FILE > log.json`"
        ) from None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    try:
        if isinstance(whole, dict) and "samples" in whole:
            model = str(whole.get("eval", {}).get("model", "unknown"))
            return [_from_inspect(one) for one in whole["samples"] or []], "inspect", model
        return list(_from_lm_eval(text, assume_finished)), "lm_eval", "unknown"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise UserError(
            f"{path}: neither a samples file of lm-evaluation-harness nor an Inspect log in JSON; "
            "convert an .eval file with `inspect log dump FILE > log.json`"
        ) from None


def _from_lm_eval(text: str, assume_finished: bool) -> Iterator[ForeignAnswer]:
    """One line an item and filter; repeats are further replies of the one request."""
    state: ResponseState = "ok" if assume_finished else "unknown_finish"
    seen: set[str] = set()
    for line in text.splitlines():
        row = json.loads(line)
        doc = row["doc"]
        name = str(doc["id"] if "id" in doc else doc["info"]["id"])
        if name in seen:  # the same replies under another filter
            continue
        seen.add(name)
        asked = _lm_eval_texts(row["arguments"])
        for run, reply in enumerate(row["resps"][0], 1):
            yield ForeignAnswer(name, run, asked, str(reply), "", state)


def _lm_eval_texts(arguments: Any) -> tuple[str, ...]:
    """The prompt, taken apart into messages where it is a chat."""
    prompt = arguments["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]
    prompt = prompt[0] if isinstance(prompt, list) else prompt
    try:
        messages = json.loads(prompt)
        return tuple(_content(message["content"]) for message in messages)
    except (ValueError, TypeError, KeyError):
        return (str(prompt),)


def _from_inspect(sample: Mapping[str, Any]) -> ForeignAnswer:
    """An error of the harness is a request that was never answered."""
    asked: list[str] = []
    for message in sample.get("messages", []):
        if message["role"] == "assistant":
            break
        asked.append(_content(message["content"]))
    name, run = str(sample["id"]), int(sample["epoch"])
    choices = (sample.get("output") or {}).get("choices") or []
    if sample.get("error") or not choices:
        why = str((sample.get("error") or {}).get("message", "no output"))[:300]
        return ForeignAnswer(name, run, tuple(asked), "", "", "http_error", error=why)
    stop = str(choices[0].get("stop_reason"))
    usage = sample["output"].get("usage") or {}
    return ForeignAnswer(
        id=name,
        run=run,
        texts=tuple(asked),
        text=_content(choices[0]["message"]["content"]),
        finish=stop,
        state=STOPS.get(stop, "unknown_finish"),
        tokens=(usage.get("input_tokens"), usage.get("output_tokens")),
    )


def _content(content: Any) -> str:
    """Text, or parts of text and reasoning, as the model wrote them."""
    if isinstance(content, str):
        return content
    pieces = []
    for part in content:
        if part["type"] == "reasoning":
            pieces.append(f"<think>{part['reasoning']}</think>")
        elif part["type"] == "text":
            pieces.append(part["text"])
    return "".join(pieces)


def _refuse_unknown_ends(path: Path, answers: Sequence[ForeignAnswer]) -> None:
    unsaid = sum(one.state == "unknown_finish" and not one.finish for one in answers)
    if unsaid:
        raise UserError(
            f"{path}: does not say of {unsaid} replies whether they were cut off at the token "
            "limit; if you know that none was, say --assume-finished"
        )


def _matched(
    plan: Plan, answers: Sequence[ForeignAnswer], path: Path, found: Imported
) -> Iterator[Response]:
    wanted = {one.id for one in answers}
    texts = {
        example.id: tuple(message["content"] for message in example.messages)
        for example in plan.requests()
        if example.id in wanted
    }
    for one in answers:
        if not plan.holds((one.id, one.run)):
            found.unknown += 1
            continue
        if not _asks_the_same(texts[one.id], one.texts):
            raise UserError(
                f"{path}: item {one.id!r} was asked something else than request {one.id!r} of "
                "the plan; answers to other questions do not compare"
            )
        found.taken += 1
        found.states[one.state] += 1
        yield Response(
            id=one.id,
            run=one.run,
            state=one.state,
            text=one.text,
            finish_reason=one.finish,
            prompt_tokens=one.tokens[0],
            completion_tokens=one.tokens[1],
            error=one.error,
        )


def _asks_the_same(planned: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """Message by message; or, in one rendered text, all of them in their order."""
    if len(asked) == len(planned):
        pairs = zip(planned, asked, strict=True)
        return all(ours.strip() == theirs.strip() for ours, theirs in pairs)
    if len(asked) != 1:
        return False
    position = 0
    for text in planned:
        start = asked[0].find(text.strip(), position)
        if start < 0:
            return False
        position = start + len(text.strip())
    return True

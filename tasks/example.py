"""Example: the one record every task yields, and its JSON lines form."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypedDict

from configs.errors import UserError
from tasks.documents import is_whole


class Message(TypedDict):
    """One chat message. ``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Example:
    """One request to a model, and all that scoring its answer needs.

    ``source`` is the statistical cluster: every story, variant, condition and holder made from
    one source task shares it; ``source_hash`` tells equal sources under different ids.
    ``target`` is JSON text (its shape belongs to the task), because nested columns are padded
    with None by `datasets`. ``reference_answer`` is a right completion.
    """

    id: str
    task: str
    source: str
    source_hash: str
    story: str
    variant: str
    condition: str
    holder: str
    turns: int
    messages: tuple[Message, ...]
    target: str
    reference_answer: str


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """One JSON object a line, keys in field order: same examples, same bytes."""
    with path.open("w", encoding="utf-8") as out:
        for example in examples:
            out.write(json.dumps(asdict(example), ensure_ascii=False) + "\n")


def read_examples(path: Path) -> Iterator[Example]:
    """Stream the examples of a file written by ``write_examples``.

    Raises ``UserError`` naming file and line when a line is not one.
    """
    try:
        lines = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); make it again") from None
    with lines:
        for number, line in enumerate(lines, 1):
            place = f"{path}:{number}"
            try:
                row = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError:
                raise UserError(f"{place}: not UTF-8; make the file again") from None
            except (ValueError, RecursionError):
                raise UserError(f"{place}: not a JSON object; make the file again") from None
            yield _example(row, place)


_NAMES = {field.name for field in fields(Example)}


def _example(row: Any, place: str) -> Example:
    if not isinstance(row, dict) or set(row) != _NAMES:
        raise UserError(f"{place}: not an example; expected {sorted(_NAMES)}")
    for name, value in row.items():
        if name == "messages":
            fits = isinstance(value, list) and all(map(_is_message, value))
        elif name == "turns":
            fits = isinstance(value, int) and not isinstance(value, bool)
        else:
            fits = isinstance(value, str) and is_whole(value)
        if not fits:
            raise UserError(
                f"{place}: {name}: {json.dumps(value)[:40]} is refused; make the file again"
            )
    row["messages"] = tuple(row["messages"])
    return Example(**row)


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"role", "content"}
        and all(isinstance(text, str) and is_whole(text) for text in value.values())
    )

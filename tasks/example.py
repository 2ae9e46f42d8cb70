"""Example: the one record every task yields, and its JSON lines form."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypedDict

from configs.errors import UserError


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
    names = {field.name for field in fields(Example)}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError:
                raise UserError(
                    f"{path}:{number}: not a JSON object; make the file again"
                ) from None
            if not isinstance(row, dict) or set(row) != names:
                raise UserError(f"{path}:{number}: not an example; expected {sorted(names)}")
            row["messages"] = tuple(row["messages"])
            yield Example(**row)

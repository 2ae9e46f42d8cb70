"""How a request reads: named blocks, so that compared arms differ by exactly one of them.

Every request of an instance has the same system message and the same ``sees`` and ``wants``.
A prefix adds ``history``, an intervention adds ``notes``, cot adds ``steps``; separate and guided
differ in ``ask``. The solution request of separate mentions neither beliefs nor profiles.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from configs.errors import UserError
from tasks.basis.instances import Dimension, Instance, Turn
from tasks.basis.settings import Call, Form, Notes
from tasks.example import Message

BlockName: TypeAlias = Literal["sees", "wants", "history", "notes", "ask", "steps"]

SYSTEM: Final = "You are given the situation of one user, as far as it is known."
MARKER: Final = "Final answer:"

ASKS: Final[dict[Dimension, str]] = {
    "belief": (
        "What does the user believe is going on? Describe that belief, what it rests on and how it "
        "explains what the user asks and does. Write the description only."
    ),
    "profile": (
        "Who is this user? Describe the background, experience, preferences and habits of thought "
        "that made the user see things this way. Write the description only."
    ),
    "solution": ("Help the user: say what is going on, and what the user should do about it."),
}

GUIDED: Final = (
    "Work in this order. belief: what the user believes is going on, what that rests on and how it "
    "explains what the user asks and does. profile: the user's background, experience, preferences "
    "and habits of thought that made the user see things this way. solution: built on both, help "
    "the user: say what is going on, and what the user should do about it."
)

FORMS: Final[dict[Form, str]] = {
    "json": 'Answer with one JSON object only: {"belief":"...","profile":"...","solution":"..."}',
    "tags": (
        "Answer in these tags only, each once: "
        "<belief>...</belief><profile>...</profile><solution>...</solution>"
    ),
}

STEPS: Final = (
    "Think step by step first. Then write a line that begins with "
    f'"{MARKER}" and, from there on, your answer to the user.'
)


@dataclass(frozen=True, slots=True)
class Block:
    """A named paragraph of the user message."""

    name: BlockName
    text: str


def messages(
    instance: Instance, call: Call, num_turns: int, notes: Notes | None
) -> tuple[Message, ...]:
    """The chat messages of one request. ``num_turns``: the prefix k that is shown."""
    text = "\n\n".join(block.text for block in blocks(instance, call, num_turns, notes))
    return (Message(role="system", content=SYSTEM), Message(role="user", content=text))


def blocks(
    instance: Instance, call: Call, num_turns: int, notes: Notes | None
) -> tuple[Block, ...]:
    """The paragraphs of the user message, in order.

    Raises ``UserError`` for a prefix that the instance does not have.
    """
    if not 0 <= num_turns <= len(instance.turns):
        raise UserError(
            f"{instance.id}: a prefix of {num_turns} turns is asked for, there are "
            f"{len(instance.turns)}; choose 0 to {len(instance.turns)}"
        )
    made = [
        Block("sees", f"What the user sees:\n{instance.observation}"),
        Block("wants", f"What the user asks for:\n{instance.instruction}"),
    ]
    if num_turns:
        made.append(Block("history", _history(instance.turns[:num_turns])))
    if notes is not None:
        made.append(Block("notes", _notes(notes)))
    made.append(Block("ask", _ask(call)))
    if call.form == "marker":
        made.append(Block("steps", STEPS))
    return tuple(made)


def _history(turns: Sequence[Turn]) -> str:
    """One JSON object a turn: exact white space, and no observation is not an empty one."""
    lines = ["What the user did and then saw (without observation: none was recorded):"]
    for turn in turns:
        fields: dict[str, int | str] = {"turn": turn.number, "action": turn.action}
        if turn.observation is not None:
            fields["observation"] = turn.observation
        lines.append(json.dumps(fields, ensure_ascii=False))
    return "\n".join(lines)


def _notes(notes: Notes) -> str:
    """The same heading in every arm, with no hint whether the notes are right."""
    lines = ["Notes about the user:"]
    if notes.belief is not None:
        lines.append(f"Belief: {notes.belief}")
    if notes.profile is not None:
        lines.append(f"Profile: {notes.profile}")
    return "\n".join(lines)


def _ask(call: Call) -> str:
    if call.setting == "guided":
        return f"{GUIDED}\n{FORMS[call.form]}"
    return ASKS[call.asks[0]]

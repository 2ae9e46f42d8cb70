"""Completion text -> the plan or the belief it states, for requests about calendars.

What is missing makes an answer ``Incomplete``; what is stated and wrong stays in the answer, as
None or as a ``fault``, and is scored. null and empty text state nothing, wherever they stand.
Inside the answered structure the world is closed: an agent, meeting or slot that does not exist
is a fault. The same thing stated twice must be stated alike.

A plan is ``{"plan": {"M1": 3, ...}}``; equivalent are ``{"M1": {"slot": 3}}`` for a value and a
list of ``{"meeting": "M1", "slot": 3}`` or ``{"M1": 3}`` for the mapping. A belief is
``{"belief": {"A": ["F", "M1", "X", ...], ...}}``; equivalent is ``{"0": "F", ...}`` for a row.
Names and numbers may be spelled otherwise where nothing is lost: ``agent_a``, ``Meeting 1``,
``"8"``, ``8.0``, ``slot 8``, ``m001``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from tasks.calbench.reference import Reference
from tasks.extraction import Incomplete, Json, Object, find_answer

Row: TypeAlias = tuple[str | None, ...]

_NOTHING: Final = ""  # among canonical tokens: the entry states nothing
_CACHED_LENGTH: Final = 16
_NAME_KEYS: Final = ("meeting", "id", "name")
_SLOT_KEY: Final = "slot"


@dataclass(frozen=True, slots=True)
class Plan:
    """A slot per meeting, in the order of ``Reference.meetings``.

    None: something was stated that is no slot. ``fault``: what else is wrong with the whole.
    """

    slots: tuple[int | None, ...]
    fault: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class Belief:
    """A row of tokens per agent, in the order of ``Reference.agents``: ``F``, ``X``, ``M<cost>``.

    None: something was stated that is no token. ``fault``: what else is wrong with the whole.
    """

    entries: tuple[Row, ...]
    fault: str
    repaired: bool


def read(
    text: str, reference: Reference, prefilled_think: bool = False
) -> Plan | Belief | Incomplete:
    """The answer of the kind that ``reference.kind`` asks for.

    ``prefilled_think``: the prompt ended in an open ``<think>``.
    """
    found = find_answer(text, reference.kind, prefilled_think)
    if isinstance(found, Incomplete):
        return found
    read_value = _read_belief if reference.kind == "belief" else _read_plan
    answers = [read_value(value, reference, found.repaired) for value in found.values]
    if all(answer == answers[0] for answer in answers):
        return answers[0]
    if all(isinstance(answer, Incomplete) for answer in answers):
        return answers[-1]
    return _contradiction(reference, found.repaired)


def outcome(answer: Plan | Belief | Incomplete) -> Literal["scored", "wrong", "incomplete"]:
    """``scored``: go on and compare; ``wrong``: the whole is wrong whatever the reference says."""
    if isinstance(answer, Incomplete):
        return "incomplete"
    if isinstance(answer, Plan):
        spoiled = None in answer.slots
    else:
        spoiled = any(None in row for row in answer.entries)
    return "wrong" if answer.fault or spoiled else "scored"


def _contradiction(reference: Reference, repaired: bool) -> Plan | Belief:
    """Two different answers in one object: none of it counts."""
    fault = f"{reference.kind} is given twice, differently"
    if reference.kind == "plan":
        return Plan((None,) * len(reference.meetings), fault, repaired)
    return Belief(((None,) * reference.num_slots,) * len(reference.agents), fault, repaired)


# Plans


def _read_plan(value: Json, reference: Reference, repaired: bool) -> Plan | Incomplete:
    names = _spellings("meeting", reference.meetings)
    pairs = _meeting_pairs(value, names)
    if pairs is None:
        return Incomplete("wrong_shape")
    stated: list[list[Json]] = [[] for _ in reference.meetings]
    fault = ""
    for name, slot in pairs:
        meeting = _find(names, name)
        if meeting is not None:
            stated[meeting].append(slot)
        elif not _states_nothing(slot):
            fault = f"unknown meeting {_short(name)}"
    if any(all(map(_states_nothing, values)) for values in stated):
        return Incomplete("missing_entry")
    slots = []
    for meeting_name, values in zip(reference.meetings, stated, strict=True):
        choices = {_slot_or_nothing(one, reference.num_slots) for one in values}
        if len(choices) > 1:
            fault = f"{meeting_name} is given twice, differently"
            choices = {None}
        slots.append(choices.pop())
    return Plan(tuple(slots), fault, repaired)


def _meeting_pairs(value: Json, names: dict[str, int]) -> list[tuple[str, Json]] | None:
    """The (meeting, slot) statements of any listed shape; None if it is none of them."""
    if isinstance(value, tuple):
        return [pair for name, slot in value for pair in _flat(name, slot)]
    if not isinstance(value, list):
        return None
    pairs: list[tuple[str, Json]] = []
    for item in value:
        named = _item_pairs(item, names) if isinstance(item, tuple) else None
        if named is None:
            return None
        pairs += named
    return pairs


def _item_pairs(item: Object, names: dict[str, int]) -> list[tuple[str, Json]] | None:
    """``{"meeting": "M1", "slot": 3}`` or ``{"M1": 3}`` as (meeting, slot) statements.

    An item that names two meetings states a slot of neither.
    """
    keys = [key.strip().lower() for key, _ in item]
    name_key = next((key for key in _NAME_KEYS if key in keys), None)
    if name_key is None:
        return list(_flat(*item[0])) if len(item) == 1 else None
    both = zip(keys, item, strict=True)
    named = [_meeting_name(value) for key, (_, value) in both if key == name_key]
    if len({_find(names, name) for name in named}) > 1:
        return [(name, item) for name in named]
    rest = tuple([pair for key, pair in zip(keys, item, strict=True) if key != name_key])
    silent = all(_states_nothing(value) for _, value in rest)
    return [(name, slot) for name in named for slot in ([None] if silent else _slot_values(rest))]


def _meeting_name(value: Json) -> str:
    """1 and "1", given as the name of a meeting, mean Meeting 1."""
    name = str(value)
    return f"meeting {name}" if name.isascii() and name.isdigit() else name


def _flat(name: str, slot: Json) -> Iterator[tuple[str, Json]]:
    for value in _slot_values(slot) if isinstance(slot, tuple) else [slot]:
        yield name, value


def _slot_values(item: Object) -> list[Json]:
    """What an object states under ``slot``; without that key the object itself, which is no slot
    even when there is nothing in it."""
    return [value for key, value in item if key.strip().lower() == _SLOT_KEY] or [item]


def _slot_or_nothing(value: Json, num_slots: int) -> int | None:
    """Like ``_slot``, with -1 for null and empty text, which differ from any statement."""
    return -1 if _states_nothing(value) else _slot(value, num_slots)


def _states_nothing(value: Json) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


_SLOT_TEXT = re.compile(r"(?:slot[\s_]*)?([0-9]+)(?:\.0+)?", re.ASCII | re.IGNORECASE)


def _slot(value: Json, num_slots: int) -> int | None:
    """The slot in 0..num_slots-1 that ``value`` spells, None if it spells none."""
    if isinstance(value, str):
        match = _SLOT_TEXT.fullmatch(value.strip())
        digits = match[1].lstrip("0") if match else "?"
        number = int(digits or "0") if match and len(digits) < 10 else -1
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
        return None
    else:
        number = int(value)
    return number if 0 <= number < num_slots else None


# Beliefs


def _read_belief(value: Json, reference: Reference, repaired: bool) -> Belief | Incomplete:
    if not isinstance(value, tuple):
        return Incomplete("wrong_shape")
    names = _spellings("agent", reference.agents)
    stated: list[list[Row]] = [[] for _ in reference.agents]
    faults = []
    for name, row in value:
        agent = _find(names, name)
        if agent is None:
            faults += [] if _states_nothing(row) else [f"unknown agent {_short(name)}"]
            continue
        tokens, fault = _read_row(row, reference.num_slots)
        stated[agent].append(tokens)
        faults += [fault] if fault else []
    if not all(any(_NOTHING not in row for row in rows) for rows in stated):
        return Incomplete("missing_entry")
    entries = []
    for agent_name, rows in zip(reference.agents, stated, strict=True):
        if rows.count(rows[0]) != len(rows):
            faults.append(f"agent {agent_name} is given twice, differently")
            rows = [(None,) * reference.num_slots]
        entries.append(rows[0])
    return Belief(tuple(entries), faults[-1] if faults else "", repaired)


def _read_row(row: Json, num_slots: int) -> tuple[Row, str]:
    """The row as ``num_slots`` canonical tokens, and its fault or ""."""
    if isinstance(row, tuple):
        return _read_mapping(row, num_slots)
    if not isinstance(row, list):
        return (_NOTHING,) * num_slots, ""
    tokens = tuple([_token(entry) for entry in row])
    if len(tokens) == num_slots:
        return tokens, ""
    missing = num_slots - len(tokens)
    extra = any(token != _NOTHING for token in tokens[num_slots:])
    fault = f"{len(tokens)} entries in a row of {num_slots}" if extra else ""
    return tokens[:num_slots] + (_NOTHING,) * missing, fault


def _read_mapping(row: Object, num_slots: int) -> tuple[Row, str]:
    """The row ``{"0": "F", ...}`` in the order of slots, and its fault or ""."""
    tokens: dict[int, str | None] = {}
    fault = ""
    for key, entry in row:
        token = _token(entry)
        slot = _slot(key, num_slots)
        if slot is None:
            fault = fault if token == _NOTHING else f"unknown slot {_short(key)}"
        elif tokens.setdefault(slot, token) != token:
            fault = f"slot {slot} is given twice, differently"
            tokens[slot] = None
    return tuple([tokens.get(slot, _NOTHING) for slot in range(num_slots)]), fault


def _token(value: Json) -> str | None:
    """The canonical token, None for anything else, ``_NOTHING`` for null and empty text."""
    if isinstance(value, str):
        return _short_token(value) if len(value) <= _CACHED_LENGTH else _spelled_token(value)
    return _NOTHING if value is None else None


_TOKEN_TEXT = re.compile(r"([FX])|M\s*([0-9]+)", re.ASCII | re.IGNORECASE)


def _spelled_token(text: str) -> str | None:
    spelled = text.strip()
    if not spelled:
        return _NOTHING
    match = _TOKEN_TEXT.fullmatch(spelled)
    if not match:
        return None
    plain: str | None = match[1]
    return plain.upper() if plain else "M" + (match[2].lstrip("0") or "0")


_short_token = lru_cache(maxsize=4096)(_spelled_token)


# Names


@lru_cache(maxsize=1024)
def _spellings(noun: str, names: tuple[str, ...]) -> dict[str, int]:
    """Every accepted plain spelling of each name -> its index; names as given come first.

    ``M1`` is also ``meeting1`` and ``meetingm1``; ``A`` is also ``agenta``. A spelling that fits
    two names is none.
    """
    found: dict[str, set[int]] = {}
    for index, name in enumerate(names):
        plain = _plain(name)
        number = plain.removeprefix(noun[0])
        forms = {plain, noun + plain} | ({noun + number} if number.isdigit() else set())
        for form in forms:
            found.setdefault(form, set()).add(index)
    unique = {form: indices.pop() for form, indices in found.items() if len(indices) == 1}
    return unique | {name: index for index, name in enumerate(names)}


def _find(spellings: dict[str, int], name: str) -> int | None:
    index = spellings.get(name)
    return spellings.get(_plain(name)) if index is None else index


_SEPARATOR = re.compile(r"[\s_-]+", re.ASCII)
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")


def _plain(name: str) -> str:
    """Without case, separators and leading zeros. Look-alikes beyond ASCII stay themselves."""
    if not name.isascii():
        return name
    return _LEADING_ZEROS.sub("", _SEPARATOR.sub("", name).lower())


def _short(name: str) -> str:
    return repr(name[:40])

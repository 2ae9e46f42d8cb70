"""Turns as a model may see them: the three known keys are copied, every other key is dropped.

The dropped keys hold what the author knew (`thought`, `interpretation`, which clue is which), so
they are counted by name and never copied. Texts keep their white space: indentation is code, and
a trailing space can be the finding itself. A think block inside a text is dropped too, so that
every chat template shows the same history.
"""

import re
from collections import Counter
from typing import Any, Final

from tasks.basis.documents import shown, text_field, text_value
from tasks.basis.faults import Faults
from tasks.basis.instances import NUM_TURNS, Turn

TURN_KEYS: Final = frozenset({"turn", "action", "observation"})
THINKING: Final = "<think>"  # the name under which dropped think blocks are counted

_THINK_BLOCK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def read_turns(raw: Any, where: str, dropped: Counter[str], faults: Faults) -> tuple[Turn, ...]:
    """The ten turns of an instance; fewer once a fault is noted."""
    if not isinstance(raw, list):
        faults.add(where, f"holds {shown(raw)}, expected a list of {NUM_TURNS} turns")
        return ()
    if len(raw) != NUM_TURNS:
        faults.add(where, f"has {len(raw)} turns, expected {NUM_TURNS}; repair or remove it")
    turns = (read_turn(one, n, where, dropped, faults) for n, one in enumerate(raw, 1))
    return tuple(turn for turn in turns if turn is not None)


def read_turn(
    raw: Any, number: int, where: str, dropped: Counter[str], faults: Faults
) -> Turn | None:
    """The turn that stands at place ``number``, from 1; None once its shape is a fault."""
    here = f"{where}: turn {number}"
    if not isinstance(raw, dict):
        faults.add(here, f"holds {shown(raw)}, expected an object")
        return None
    stated = raw.get("turn")
    if type(stated) is not int or stated != number:
        faults.add(here, f"key 'turn' is {shown(stated)}, expected {number}: turns stand in order")
    dropped.update(sorted(raw.keys() - TURN_KEYS))
    action = _without_thinking(text_field(raw, "action", here, faults), dropped)
    if "observation" not in raw:
        return Turn(number, action, None)
    seen = text_value(raw["observation"], f"{here}: observation", faults)
    return Turn(number, action, _without_thinking(seen, dropped))


def _without_thinking(text: str, dropped: Counter[str]) -> str:
    """``text`` without think blocks; one that never closes goes on to the end."""
    kept, blocks = _THINK_BLOCK.subn("", text)
    _, closing, after = kept.rpartition("</think>")  # its opening stood in a prompt
    if blocks or closing:
        dropped[THINKING] += blocks + bool(closing)
    return after if closing else kept

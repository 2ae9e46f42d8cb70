"""The JSON schema of a calendar answer, for servers that hold a completion to one.

It states the shape that the prompt asks for and nothing of the right answer: every agent with one
entry a slot, drawn from the tokens of the start calendars (which the prompt shows), ``F`` and
``X``; or a slot for every meeting.
"""

import json
from functools import lru_cache
from typing import Any


def answer_schema(target: str) -> dict[str, Any]:
    """The schema for the request with this target (see ``reference.dump``)."""
    raw: dict[str, Any] = json.loads(target)
    if raw["kind"] == "plan":
        return _plan_schema(tuple(raw["meetings"]), raw["num_slots"])
    tokens = {token for row in raw["initial"] for token in row} | {"F", "X"}
    return _belief_schema(tuple(raw["agents"]), raw["num_slots"], frozenset(tokens))


@lru_cache(maxsize=256)
def _plan_schema(meetings: tuple[str, ...], num_slots: int) -> dict[str, Any]:
    slot = {"enum": list(range(num_slots))}
    return closed_object({"plan": closed_object(dict.fromkeys(meetings, slot))})


@lru_cache(maxsize=256)
def _belief_schema(
    agents: tuple[str, ...], num_slots: int, tokens: frozenset[str]
) -> dict[str, Any]:
    row = {
        "type": "array",
        "items": {"enum": sorted(tokens, key=lambda token: (token[0], len(token), token))},
        "minItems": num_slots,
        "maxItems": num_slots,
    }
    return closed_object({"belief": closed_object(dict.fromkeys(agents, row))})


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties, all required, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

"""The JSON schema of a BASIS answer, for servers that hold a completion to one.

Only the ``json`` form has a structure to hold it to: three texts. A reply that is an answer as it
stands (``text``, ``marker``) has none, and ``tags`` are no JSON.
"""

from typing import Any, Final

from tasks.basis.instances import DIMENSIONS
from tasks.basis.reference import parse

_TEXTS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {dimension: {"type": "string", "minLength": 1} for dimension in DIMENSIONS},
    "required": list(DIMENSIONS),
    "additionalProperties": False,
}


def answer_schema(target: str) -> dict[str, Any] | None:
    """The schema for the request with this target; None where the form is free text."""
    return _TEXTS if parse(target).form == "json" else None

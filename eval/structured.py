"""Structured output: the JSON schema of each answer, sent with its request.

A plan declares it, for all its systems alike. The server then cannot write anything else: coverage
stops depending on whether a small model keeps a long structure up, and the comparison is of
answers to another question than free text asks, so tables name it.
Sent as ``response_format`` (OpenAI), which vLLM turns into a grammar.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tasks.basis.schema import answer_schema as basis_schema
from tasks.calbench.schema import answer_schema as calbench_schema
from tasks.example import Example

SCHEMAS: Final = 1
"""Version of how schemas are derived. Part of the hash of a plan that declares them."""

SCHEMA_OF: Final[dict[str, Callable[[str], dict[str, Any] | None]]] = {
    "calbench": calbench_schema,
    "basis": basis_schema,
}


def response_format(example: Example) -> Mapping[str, Any] | None:
    """The ``response_format`` field of the request; None where its answer is free text."""
    schema = SCHEMA_OF[example.task](example.target)
    if schema is None:
        return None
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }

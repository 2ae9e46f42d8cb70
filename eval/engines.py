"""What the runner asks of an engine, and the replies it gets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from configs.evaluation import Sampling
from rewards.chat_server import Reply
from tasks.example import Message


@dataclass(frozen=True, slots=True)
class Call:
    """One generation: the messages, how to sample, and the seed of this (request, run).

    ``response_format``: the schema the answer is held to; None: free text.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    response_format: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What an engine says it is, before any request."""

    engine: str
    model: str
    fingerprint: str
    prefilled_think: bool | None
    """Does the chat template end the prompt with <think>? None: the engine cannot tell."""
    prompts_hash: str
    max_model_len: int | None = None
    """Tokens of prompt and answer together; None: not known."""


class Engine(Protocol):
    """Generates for a batch of calls. ``lanes``: servers with the same model.

    In each lane ``workers`` batches are asked for at the same time.
    """

    batch_size: int
    lanes: int
    workers: int

    def allowed(self, lane: int) -> int:
        """Batches in flight that the lane has shown it can take: ``workers``, or fewer by now."""
        ...

    async def describe(self, probes: Sequence[Call]) -> Served:
        """What is served; ``probes`` are rendered, not generated.

        Raises ``UserError`` on a plan it cannot carry out, else as ``model_card``.
        """
        ...

    async def model_card(self, lane: int = 0) -> Mapping[str, str]:
        """Facts that stay equal while the same model is served.

        Raises ``ServerUnreachable``, ``ServerChanged``.
        """
        ...

    async def render(self, calls: Sequence[Call]) -> list[list[int]] | None:
        """Token ids of the prompts; None where the engine cannot tell."""
        ...

    async def complete(
        self,
        calls: Sequence[Call],
        lane: int = 0,
        failed: Callable[[int, Reply], None] | None = None,
    ) -> list[Reply]:
        """One reply per call, in order. Raises ``ServerUnreachable``, ``ServerChanged``.

        ``failed`` is told, with the call's place, of every attempt that another one follows.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...

"""Requests and tokens in any stretch of a minute, kept under what a server allows.

A sliding window, not a bucket: a bucket lets up to twice the limit through in some minute.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Ticket:
    """One admitted request. ``tokens`` is an estimate until it is settled."""

    at: float
    tokens: int


class RateLimits:
    """``requests`` and ``tokens`` in any ``window_s`` seconds; None is no limit.

    Requests are admitted in the order they ask. One that is larger than the whole limit on
    tokens is admitted alone.
    """

    def __init__(self, requests: int | None, tokens: int | None, window_s: float = 60.0) -> None:
        self._requests = requests
        self._tokens = tokens
        self._window_s = window_s
        self._admitted: deque[Ticket] = deque()
        self._spent = 0  # tokens of the admitted
        self._queue = asyncio.Lock()

    async def admit(self, tokens: int) -> Ticket:
        """Wait until a request of ``tokens`` fits."""
        if self._requests is None and self._tokens is None:
            return Ticket(0.0, 0)
        async with self._queue:
            while not self._fits(tokens, time.monotonic()):
                oldest = self._admitted[0].at + self._window_s - time.monotonic()
                # Settling may free tokens earlier than the oldest ticket's end.
                await asyncio.sleep(min(max(oldest, 0.001), self._window_s / 60))
            ticket = Ticket(time.monotonic(), tokens)
            self._admitted.append(ticket)
            self._spent += tokens
            return ticket

    def settle(self, ticket: Ticket, tokens: int) -> None:
        """The request cost this many tokens after all."""
        if self._admitted and ticket.at >= self._admitted[0].at:
            self._spent += tokens - ticket.tokens
            ticket.tokens = tokens

    def _fits(self, tokens: int, now: float) -> bool:
        while self._admitted and self._admitted[0].at <= now - self._window_s:
            self._spent -= self._admitted.popleft().tokens
        if not self._admitted:
            return True
        few = self._requests is None or len(self._admitted) < self._requests
        return few and (self._tokens is None or self._spent + tokens <= self._tokens)

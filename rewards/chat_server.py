"""Chat completions from an OpenAI-compatible server such as vLLM, over aiohttp.

The transport shared by evaluation and by the judge: tries, waits, limits, and what came back.
One connection per request in flight; no client library between us and the socket, because its
cost per request is larger than all of ours. Only what another try may mend is tried again.
A key travels in one header and is taken out of everything that comes back.
"""

import asyncio
import email.utils
import json
import os
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import aiohttp

from configs.errors import UserError
from configs.transport import ChatTransport
from rewards.rate_limits import RateLimits

RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
OVERLOADED_STATUS = frozenset({429, 503})
TRANSPORT_ERRORS = (aiohttp.ClientError, OSError)

CHECK_TIMEOUT_S = 5.0
"""A look at what is served may take this long, however short the timeout of an attempt is."""

# A reply that took more than this share of the timeout is late; this many of the last so many
# are too many: the server holds more than it can serve in time.
LATE_SHARE, LATE_MANY, LATE_OF = 0.8, 3, 50

ReplyState = Literal[
    "ok", "truncated", "unknown_finish", "context_overflow", "http_error", "timeout"
]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. ``text`` keeps thinking where it stood; ``error`` explains other states.

    ``status``: the HTTP status of the last attempt; 0 when none arrived.
    """

    state: ReplyState
    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    attempts: int = 1
    seconds: float = 0.0
    error: str = ""
    status: int = 0


class ServerUnreachable(Exception):
    """Too many connection errors in a row; what has been written stays."""


class ServerChanged(Exception):
    """The server no longer serves the model that this run began with."""


class ChatServer:
    """``base_url`` with or without ``/v1``; ``model`` is the served name.

    ``silence_counts``: an attempt that times out counts towards ``max_connection_errors``, so
    that a server which hangs is given up as one that is gone.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        transport: ChatTransport,
        api_key: str = "",
        limits: RateLimits | None = None,
        silence_counts: bool = False,
    ) -> None:
        root = base_url.rstrip("/")
        self.root = root[: -len("/v1")] if root.endswith("/v1") else root
        if not self.root.startswith(("http://", "https://")):
            raise UserError(f"server {base_url!r}: write it as http://HOST:PORT")
        self.model = model
        self._transport = transport
        self._key = api_key
        self._limits = limits or RateLimits(None, None)
        self._silence_counts = silence_counts
        self._opened: aiohttp.ClientSession | None = None
        self.attempts = 0
        """Requests for a completion sent so far, retries included."""
        self._failures_in_row = 0
        self._not_before = 0.0  # monotonic time; set by Retry-After, shared by all requests
        self.allowed = transport.concurrency
        """Requests in flight that this server has shown it can take; it only ever falls."""
        self._lowered_at = 0.0
        self._late: deque[bool] = deque(maxlen=LATE_OF)

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def forgive(self) -> None:
        """A new batch: a server that was given up is tried again."""
        self._failures_in_row = 0

    async def get_json(self, path: str) -> tuple[int, Any]:
        """Status and JSON body. Raises ``TRANSPORT_ERRORS``, ``TimeoutError``, ``ValueError``."""
        patience = aiohttp.ClientTimeout(total=max(self._transport.timeout_s, CHECK_TIMEOUT_S))
        async with self._session().get(
            self.root + path, allow_redirects=False, timeout=patience
        ) as response:
            return response.status, json.loads(self._clean(await response.read()))

    async def post_json(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """As ``get_json``, for a POST."""
        url = self.root + path
        async with self._session().post(url, json=body, allow_redirects=False) as response:
            return response.status, json.loads(self._clean(await response.read()))

    async def complete(
        self,
        body: Mapping[str, Any],
        tokens: int = 0,
        failed: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """One completion, after at most ``max_tries`` attempts.

        ``tokens``: what the request may cost, for the limit on tokens; corrected by the reply's
        own count. ``failed`` is told of every attempt that another one follows; ``attempts`` of
        the reply counts all. Raises ``ServerUnreachable``, ``ServerChanged``.
        """
        payload = json.dumps({"model": self.model, **body}).encode()
        started = time.monotonic()
        for attempt in range(1, self._transport.max_tries + 1):
            reply, retry_after = await self._admitted(payload, tokens)
            reply = replace(reply, attempts=attempt, seconds=round(time.monotonic() - started, 3))
            if retry_after is None or attempt == self._transport.max_tries:
                break
            if failed is not None:
                failed(reply)
            await self._wait(attempt, retry_after)
        return reply

    def _watch_load(self, sent_at: float, late: bool, pushed_back: bool) -> None:
        """Lower ``allowed`` by a quarter when the server pushes back or replies near the timeout.

        Once for each burst: what was sent before the last cut says nothing about the new level.
        """
        self._late.append(late)
        if sent_at <= self._lowered_at:
            return
        if pushed_back or sum(self._late) >= LATE_MANY:
            self.allowed = max(1, self.allowed * 3 // 4)
            self._lowered_at = time.monotonic()
            self._late.clear()

    def _session(self) -> aiohttp.ClientSession:
        """Opened inside the event loop that uses it."""
        if self._opened is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._transport.concurrency + 1),  # a watch
                timeout=aiohttp.ClientTimeout(total=self._transport.timeout_s),
                headers=headers,
            )
        return self._opened

    async def _wait(self, attempt: int, retry_after: float) -> None:
        """Backoff or Retry-After, whichever is longer, plus jitter so that retries spread out."""
        backoff = self._transport.backoff_s * 2 ** (attempt - 1)
        await asyncio.sleep(max(backoff, retry_after) + random.uniform(0, backoff))

    async def _admitted(self, payload: bytes, tokens: int) -> tuple[Reply, float | None]:
        """One attempt, when the limits and the server's own wish to wait allow it."""
        self._give_up_if_gone()
        while (pause := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(pause + random.uniform(0, self._transport.backoff_s))
        ticket = await self._limits.admit(tokens)
        reply, retry_after = await self._attempt(payload)
        if reply.prompt_tokens is not None and reply.completion_tokens is not None:
            self._limits.settle(ticket, reply.prompt_tokens + reply.completion_tokens)
        return reply, retry_after

    async def _attempt(self, payload: bytes) -> tuple[Reply, float | None]:
        """One try. The second value: None, final; otherwise seconds the server asks to wait."""
        self._give_up_if_gone()
        self.attempts += 1
        url = f"{self.root}/v1/chat/completions"
        headers = {"Content-Type": "application/json"}
        sent_at = time.monotonic()
        try:
            async with self._session().post(
                url, data=payload, headers=headers, allow_redirects=False
            ) as response:
                raw = self._clean(await response.read())
                status, asked = response.status, response.headers.get("Retry-After", "")
        except TimeoutError:
            self._watch_load(sent_at, late=True, pushed_back=False)
            if self._silence_counts:
                self._failures_in_row += 1
            error = f"no reply within {self._transport.timeout_s:g} s"
            return Reply("timeout", error=error), 0.0
        except TRANSPORT_ERRORS as error:
            # Not the exception itself: one of aiohttp's may carry the request's headers.
            self._failures_in_row += 1
            self._give_up_if_gone()
            return Reply("http_error", error=f"connection: {type(error).__name__}"), 0.0
        self._failures_in_row = 0
        late = time.monotonic() - sent_at > LATE_SHARE * self._transport.timeout_s
        self._watch_load(sent_at, late, status in OVERLOADED_STATUS)
        if status == 200:
            return read_completion(raw)
        return self._refused(status, raw, retry_after_seconds(asked, time.time()))

    def _give_up_if_gone(self) -> None:
        if self._failures_in_row >= self._transport.max_connection_errors:
            raise ServerUnreachable(f"server {self.root}: does not answer any more")

    def _refused(self, status: int, raw: bytes, wait_s: float) -> tuple[Reply, float | None]:
        message = raw[:2000].decode("utf-8", "replace")
        reply = Reply("http_error", error=f"HTTP {status}: {message[:300]}", status=status)
        if status in RETRIED_STATUS:
            if wait_s > self._transport.max_wait_s:
                return reply, None
            self._not_before = max(self._not_before, time.monotonic() + wait_s)
            return reply, wait_s
        if status == 400 and _is_overflow(message):
            return Reply("context_overflow", error=message[:300], status=status), None
        if status == 404 and "model" in message.lower():
            raise ServerChanged(f"server {self.root} no longer serves {self.model!r}")
        return reply, None

    def _clean(self, raw: bytes) -> bytes:
        """A server may quote the key back, plain or as JSON escapes it."""
        if not self._key:
            return raw
        for form in (self._key, json.dumps(self._key)[1:-1], self._key.replace("/", "\\/")):
            raw = raw.replace(form.encode(), b"[key]")
        return raw


def read_api_key(variable: str | None) -> str:
    """The key in an environment variable; no variable, no key. Its value is never shown."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"api_key_env: environment variable {variable} is not set; export it")
    if not (key.isascii() and key.isprintable()):
        raise UserError(f"api_key_env: {variable} holds characters that no header can carry")
    return key


async def check_served(server: ChatServer, who: str, api_key_env: str | None) -> None:
    """Raise ``UserError`` when the endpoint is not there, refuses the key or lacks the model.

    ``who`` names it in the message. A server without /v1/models is taken at its word.
    """
    try:
        status, body = await server.get_json("/v1/models")
    except ValueError:
        return
    except (*TRANSPORT_ERRORS, TimeoutError):
        raise UserError(f"{who} endpoint {server.root}: does not answer; start it first") from None
    if status in (401, 403):
        name = api_key_env or "api_key_env, which is not set"
        raise UserError(
            f"{who} endpoint {server.root}: refuses the key (HTTP {status}); see {name}"
        )
    cards = body.get("data") if status == 200 and isinstance(body, dict) else None
    if isinstance(cards, list):
        served = sorted(str(card.get("id")) for card in cards if isinstance(card, dict))
        if server.model not in served:
            raise UserError(
                f"{who} endpoint {server.root}: serves {', '.join(served) or 'nothing'}, not "
                f"{server.model!r}; set model to one of those"
            )


def read_completion(raw: bytes) -> tuple[Reply, float | None]:
    """Read the body of a 200. A body that is not a chat completion counts as a server fault."""
    try:
        body = json.loads(raw)
        choice = body["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        usage = body.get("usage") or {}
        text = _whole_text(message)
        tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        shown = raw[:200].decode("utf-8", "replace")
        return Reply("http_error", error=f"not a chat completion: {shown}", status=200), 0.0
    states: dict[object, ReplyState] = {"stop": "ok", "length": "truncated"}
    reply = Reply(
        state=states.get(finish, "unknown_finish") if isinstance(finish, str) else "unknown_finish",
        text=text,
        finish_reason=str(finish or ""),
        prompt_tokens=_count(tokens[0]),
        completion_tokens=_count(tokens[1]),
        status=200,
    )
    return reply, None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _whole_text(message: Mapping[str, Any]) -> str:
    """The text as the model wrote it: reasoning that a server took apart is put back."""
    content = message.get("content") or ""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if not reasoning:
        return str(content)
    return f"<think>{reasoning}</think>{content}" if content else f"<think>{reasoning}"


def retry_after_seconds(value: str, now: float) -> float:
    """Seconds asked for by a Retry-After header: a number or an HTTP date; unreadable is 0."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError):
        return 0.0


def _is_overflow(message: str) -> bool:
    lowered = message.lower()
    return "maximum context length" in lowered or "context_length_exceeded" in lowered

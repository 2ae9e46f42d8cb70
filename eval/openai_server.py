"""The engine for an OpenAI-compatible chat server such as vLLM, over aiohttp.

One connection per request in flight; no client library between us and the socket, because its
cost per request is larger than all of ours. Only what another try may mend is tried again.
"""

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import aiohttp

from configs.errors import UserError
from configs.evaluation import Transport
from eval.engines import Call, Reply, Served, ServerChanged, ServerUnreachable
from eval.plan import request_body
from eval.records import canonical, sha256

RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
CONNECTION_ERRORS = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)


class OpenAIServer:
    """``base_url`` with or without ``/v1``; ``model`` is the served name, and must be served."""

    batch_size = 1

    def __init__(
        self, base_url: str, model: str, transport: Transport, fingerprint: str = ""
    ) -> None:
        root = base_url.rstrip("/")
        self._root = root[: -len("/v1")] if root.endswith("/v1") else root
        if not self._root.startswith(("http://", "https://")):
            raise UserError(f"server {base_url!r}: write it as http://HOST:PORT")
        self._model = model
        self._fingerprint = fingerprint
        self._transport = transport
        self.workers = transport.concurrency
        self._opened: aiohttp.ClientSession | None = None
        self._failures_in_row = 0
        self._not_before = 0.0  # monotonic time; set by Retry-After, shared by all requests

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._transport.concurrency + 1),  # the watch
                timeout=aiohttp.ClientTimeout(total=self._transport.timeout_s),
            )
        return self._opened

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def __aenter__(self) -> "OpenAIServer":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def model_card(self) -> Mapping[str, str]:
        """Name, path and length limit of the served model. None served: ``ServerChanged``."""
        url = f"{self._root}/v1/models"
        try:
            async with self._session().get(url) as response:
                status, body = response.status, await response.json(content_type=None)
        except (*CONNECTION_ERRORS, TimeoutError):
            raise ServerUnreachable(
                f"server {self._root}: does not answer; start it with scripts/serve_vllm.sh"
            ) from None
        except ValueError:
            raise ServerChanged(
                f"{url}: does not answer in JSON; is it an OpenAI server?"
            ) from None
        cards = body.get("data") if status == 200 and isinstance(body, dict) else None
        if not isinstance(cards, list):
            raise ServerChanged(f"{url}: HTTP {status}, no list of models; is it an OpenAI server?")
        served = {str(card.get("id")): card for card in cards if isinstance(card, dict)}
        if self._model not in served:
            raise ServerChanged(
                f"server {self._root}: serves {', '.join(sorted(served)) or 'nothing'}, "
                f"not {self._model!r}; give --model one of those"
            )
        card = served[self._model]
        return {name: str(card.get(name, "")) for name in ("id", "root", "max_model_len")}

    async def describe(self, probes: Sequence[Call]) -> Served:
        """Render the probes with the server's own template, where it offers /tokenize."""
        card = await self.model_card()
        rendered = [await self._tokenize(probe) for probe in probes]
        known = [tokens for tokens in rendered if tokens is not None]
        for probe, (ids, _) in zip(probes, known, strict=False):
            _refuse_overflow(len(ids), probe.sampling.max_tokens, card["max_model_len"])
        complete = len(known) == len(rendered) and bool(known)
        return Served(
            engine="openai_server",
            model=self._model,
            fingerprint=self._fingerprint or "card:" + sha256(canonical(card))[:16],
            prefilled_think=_ends_with_think(known[0][1]) if complete else None,
            prompts_hash=sha256(canonical([ids for ids, _ in known]))[:16] if complete else "",
        )

    async def _tokenize(self, call: Call) -> tuple[list[int], str] | None:
        """Token ids of the rendered prompt and the text of its end; None without /tokenize."""
        body = {
            "model": self._model,
            "messages": list(call.messages),
            "add_generation_prompt": True,
            "return_token_strs": True,
            "chat_template_kwargs": {"enable_thinking": call.sampling.enable_thinking},
        }
        try:
            async with self._session().post(f"{self._root}/tokenize", json=body) as response:
                if response.status != 200:
                    return None
                answer = await response.json(content_type=None)
        except (*CONNECTION_ERRORS, TimeoutError, ValueError):
            return None
        if not isinstance(answer, dict) or not isinstance(answer.get("tokens"), list):
            return None
        tail = "".join(str(piece) for piece in (answer.get("token_strs") or [])[-8:])
        return answer["tokens"], tail

    async def complete(self, calls: Sequence[Call]) -> list[Reply]:
        """One reply per call; a call is tried at most ``max_tries`` times."""
        return [await self._complete(call) for call in calls]

    async def _complete(self, call: Call) -> Reply:
        body = request_body(call.sampling, call.messages, call.seed)
        payload = json.dumps({"model": self._model, **body}).encode("utf-8", "surrogatepass")
        started = time.monotonic()
        for attempt in range(1, self._transport.max_tries + 1):
            reply, retry_after = await self._attempt(payload)
            reply = _with(reply, attempt, time.monotonic() - started)
            if retry_after is None or attempt == self._transport.max_tries:
                break
            await self._wait(attempt, retry_after)
        return reply

    async def _wait(self, attempt: int, retry_after: float) -> None:
        """Backoff or Retry-After, whichever is longer, plus jitter so that retries spread out."""
        backoff = self._transport.backoff_s * 2 ** (attempt - 1)
        await asyncio.sleep(max(backoff, retry_after) + random.uniform(0, backoff))

    async def _attempt(self, payload: bytes) -> tuple[Reply, float | None]:
        """One try. The second value: None, final; otherwise seconds the server asks to wait."""
        if self._failures_in_row >= self._transport.max_connection_errors:
            raise ServerUnreachable(f"server {self._root}: does not answer any more")
        while (pause := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(pause + random.uniform(0, self._transport.backoff_s))
        url = f"{self._root}/v1/chat/completions"
        headers = {"Content-Type": "application/json"}
        try:
            async with self._session().post(url, data=payload, headers=headers) as response:
                raw = await response.read()
                status, asked = response.status, response.headers.get("Retry-After", "")
        except TimeoutError:
            error = f"no reply within {self._transport.timeout_s:g} s"
            return Reply("timeout", error=error), 0.0
        except CONNECTION_ERRORS as error:
            return self._connection_failed(error), 0.0
        self._failures_in_row = 0
        if status == 200:
            return read_completion(raw)
        return self._refused(status, raw, retry_after_seconds(asked, time.time()))

    def _connection_failed(self, error: Exception) -> Reply:
        self._failures_in_row += 1
        if self._failures_in_row >= self._transport.max_connection_errors:
            raise ServerUnreachable(f"server {self._root}: {type(error).__name__}") from error
        return Reply("http_error", error=f"{type(error).__name__}: {error}"[:300])

    def _refused(self, status: int, raw: bytes, wait_s: float) -> tuple[Reply, float | None]:
        message = raw[:2000].decode("utf-8", "replace")
        reply = Reply("http_error", error=f"HTTP {status}: {message[:300]}")
        if status in RETRIED_STATUS:
            self._not_before = max(self._not_before, time.monotonic() + wait_s)
            return reply, wait_s
        if status == 400 and _is_overflow(message):
            return Reply("context_overflow", error=message[:300]), None
        if status == 404 and "model" in message.lower():
            raise ServerChanged(f"server {self._root} no longer serves {self._model!r}")
        return reply, None


def read_completion(raw: bytes) -> tuple[Reply, float | None]:
    """Read the body of a 200. A body that is not a chat completion counts as a server fault."""
    try:
        body = json.loads(raw)
        choice = body["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        usage = body.get("usage") or {}
        text = _whole_text(message)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        shown = raw[:200].decode("utf-8", "replace")
        return Reply("http_error", error=f"not a chat completion: {shown}"), 0.0
    reply = Reply(
        state={"stop": "ok", "length": "truncated"}.get(str(finish), "unknown_finish"),  # type: ignore[arg-type]
        text=text,
        finish_reason=str(finish or ""),
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
    )
    return reply, None


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
        return min(max(0.0, float(value)), 600.0)
    except ValueError:
        pass
    try:
        return min(max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now), 600.0)
    except (TypeError, ValueError):
        return 0.0


def _is_overflow(message: str) -> bool:
    lowered = message.lower()
    return "maximum context length" in lowered or "context_length_exceeded" in lowered


def _refuse_overflow(prompt: int, answer: int, limit: str) -> None:
    """A plan whose first requests cannot fit is not worth starting; never cut a prompt."""
    if limit.isdigit() and prompt + answer > int(limit):
        raise UserError(
            f"a prompt of {prompt} tokens and max_tokens {answer} exceed the server's limit "
            f"{limit}; plan with less sampling.max_tokens, or serve with more --max-model-len"
        )


def _ends_with_think(tail: str) -> bool:
    """Token strings spell spaces and newlines in their own way, so look at what stands last."""
    return "<think>" in tail and "</think>" not in tail.rpartition("<think>")[2]


def _with(reply: Reply, attempts: int, seconds: float) -> Reply:
    return Reply(
        reply.state,
        reply.text,
        reply.finish_reason,
        reply.prompt_tokens,
        reply.completion_tokens,
        attempts,
        round(seconds, 3),
        reply.error,
    )

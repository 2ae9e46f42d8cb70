"""The engine for OpenAI-compatible chat servers such as vLLM: one, or several with one model.

The transport is ``rewards.chat_server``, one for each address, so that one server's wish to wait
or its death concerns no other. Here is what an evaluation asks before it begins: which model is
served, how its chat template renders the prompts, and whether they fit.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType

from configs.errors import UserError
from configs.evaluation import Transport
from eval.engines import Call, Served
from eval.plan import request_body
from eval.records import canonical, sha256
from rewards.chat_server import (
    TRANSPORT_ERRORS,
    ChatServer,
    Reply,
    ServerChanged,
    ServerUnreachable,
)

RENDERED_AT_ONCE = 32


class OpenAIServer:
    """``base_urls`` with or without ``/v1``; ``model`` is the served name, and must be served.

    Each address is a lane with ``transport.concurrency`` requests in flight.
    """

    batch_size = 1

    def __init__(
        self, base_urls: Sequence[str], model: str, transport: Transport, fingerprint: str = ""
    ) -> None:
        self._servers = [ChatServer(url, model, transport) for url in base_urls]
        roots = [server.root for server in self._servers]
        if len(set(roots)) < len(roots):
            raise UserError(f"--server {', '.join(roots)}: the same address twice; give it once")
        self._model = model
        self._fingerprint = fingerprint
        self.lanes = len(self._servers)
        self.workers = transport.concurrency

    async def close(self) -> None:
        """Close the connections."""
        for server in self._servers:
            await server.close()

    async def __aenter__(self) -> "OpenAIServer":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def allowed(self, lane: int) -> int:
        """Requests in flight that this server has shown it can take."""
        return self._servers[lane].allowed

    async def model_card(self, lane: int = 0) -> Mapping[str, str]:
        """Name, path and length limit of the served model. None served: ``ServerChanged``."""
        server = self._servers[lane]
        url = f"{server.root}/v1/models"
        try:
            status, body = await server.get_json("/v1/models")
        except (*TRANSPORT_ERRORS, TimeoutError):
            raise ServerUnreachable(
                f"server {server.root}: does not answer; start it with scripts/serve_vllm.sh"
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
                f"server {server.root}: serves {', '.join(sorted(served)) or 'nothing'}, "
                f"not {self._model!r}; give --model one of those"
            )
        card = served[self._model]
        return {name: str(card.get(name, "")) for name in ("id", "root", "max_model_len")}

    async def describe(self, probes: Sequence[Call]) -> Served:
        """Render the probes with the servers' own template, where they offer /tokenize."""
        found = [await self._describe(lane, probes) for lane in range(self.lanes)]
        for server, one in zip(self._servers, found, strict=True):
            if one != found[0]:
                raise UserError(
                    f"servers {self._servers[0].root} and {server.root} serve different models "
                    f"({found[0]} and {one}); serve one checkpoint with the same settings"
                )
        return found[0]

    async def _describe(self, lane: int, probes: Sequence[Call]) -> Served:
        card = await self.model_card(lane)
        rendered = [await self._tokenize(lane, probe) for probe in probes]
        known = [tokens for tokens in rendered if tokens is not None]
        complete = len(known) == len(rendered) and bool(known)
        limit = card["max_model_len"]
        return Served(
            engine="openai_server",
            model=self._model,
            fingerprint=self._fingerprint or "card:" + sha256(canonical(card))[:16],
            prefilled_think=_ends_with_think(known[0][1]) if complete else None,
            prompts_hash=sha256(canonical([ids for ids, _ in known]))[:16] if complete else "",
            max_model_len=int(limit) if limit.isdigit() else None,
        )

    async def render(self, calls: Sequence[Call]) -> list[list[int]] | None:
        """Token ids of the prompts; None without /tokenize."""
        room = asyncio.Semaphore(RENDERED_AT_ONCE)

        async def one(number: int, call: Call) -> tuple[list[int], str] | None:
            async with room:
                return await self._tokenize(number % self.lanes, call)

        found = await asyncio.gather(*(one(number, call) for number, call in enumerate(calls)))
        whole = [tokens[0] for tokens in found if tokens is not None]
        return whole if len(whole) == len(calls) else None

    async def _tokenize(self, lane: int, call: Call) -> tuple[list[int], str] | None:
        """Token ids of the rendered prompt and the text of its end; None without /tokenize."""
        body = {
            "model": self._model,
            "messages": list(call.messages),
            "add_generation_prompt": True,
            "return_token_strs": True,
            "chat_template_kwargs": {"enable_thinking": call.sampling.enable_thinking},
        }
        try:
            status, answer = await self._servers[lane].post_json("/tokenize", body)
        except (*TRANSPORT_ERRORS, TimeoutError, ValueError):
            return None
        if (
            status != 200
            or not isinstance(answer, dict)
            or not isinstance(answer.get("tokens"), list)
        ):
            return None
        tail = "".join(str(piece) for piece in (answer.get("token_strs") or [])[-8:])
        return answer["tokens"], tail

    async def complete(
        self,
        calls: Sequence[Call],
        lane: int = 0,
        failed: Callable[[int, Reply], None] | None = None,
    ) -> list[Reply]:
        """One reply per call; a call is tried at most ``max_tries`` times."""
        replies = []
        for place, call in enumerate(calls):
            body = request_body(call.sampling, call.messages, call.seed, call.response_format)
            note = None if failed is None else partial(failed, place)
            replies.append(await self._servers[lane].complete(body, failed=note))
        return replies


def _ends_with_think(tail: str) -> bool:
    """Token strings spell spaces and newlines in their own way, so look at what stands last."""
    return "<think>" in tail and "</think>" not in tail.rpartition("<think>")[2]

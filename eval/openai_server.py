"""The engine for an OpenAI-compatible chat server such as vLLM.

The transport is ``rewards.chat_server``; here is what an evaluation asks before it begins: which
model is served, how its chat template renders the prompts, and whether they fit.
"""

from collections.abc import Mapping, Sequence
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


class OpenAIServer:
    """``base_url`` with or without ``/v1``; ``model`` is the served name, and must be served."""

    batch_size = 1

    def __init__(
        self, base_url: str, model: str, transport: Transport, fingerprint: str = ""
    ) -> None:
        self._server = ChatServer(base_url, model, transport)
        self._root = self._server.root
        self._model = model
        self._fingerprint = fingerprint
        self.workers = transport.concurrency

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

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
            status, body = await self._server.get_json("/v1/models")
        except (*TRANSPORT_ERRORS, TimeoutError):
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
            status, answer = await self._server.post_json("/tokenize", body)
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

    async def complete(self, calls: Sequence[Call]) -> list[Reply]:
        """One reply per call; a call is tried at most ``max_tries`` times."""
        return [
            await self._server.complete(
                request_body(call.sampling, call.messages, call.seed, call.response_format)
            )
            for call in calls
        ]


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

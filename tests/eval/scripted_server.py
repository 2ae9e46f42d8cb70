"""A real OpenAI-compatible server on loopback whose replies a test scripts.

Runs in a thread with an event loop of its own, so blocking tests and subprocesses can use it.
"""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Body = dict[str, Any]
Script = Callable[[Body, int], Awaitable[web.StreamResponse]]


def completion(text: str | None, finish: str | None = "stop", **message: Any) -> web.Response:
    """A well-formed chat completion."""
    return web.json_response(
        {
            "choices": [
                {"message": {"content": text, **message}, "finish_reason": finish, "index": 0}
            ],
            "usage": {"prompt_tokens": 11, "completion_tokens": 5},
        }
    )


async def constant(body: Body, number: int) -> web.StreamResponse:
    """The default script."""
    return completion("{}")


class HangUp(Exception):
    """Raised by a script: the connection is cut without a reply."""


class ScriptedServer:
    """``with ScriptedServer(script) as server``: ``script(body, n)`` answers the n-th request."""

    def __init__(self, script: Script = constant, model: str = "m", port: int = 0) -> None:
        self.script = script
        self.models = [{"id": model, "root": model, "max_model_len": 4096}]
        self.template_tail: list[str] | None = ["assistant", "\\n"]
        self.rendered_tail = ""
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.check_status = 200
        self.arrivals: list[float] = []
        self.model_checks = 0
        self.in_flight = self.peak = 0
        self.busy_seconds = 0.0
        self.port = port
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "ScriptedServer":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the socket and every connection at once."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(10)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._stopped = asyncio.Event()
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        runner = web.AppRunner(app, shutdown_timeout=0.05, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._stopped.wait()
        server = runner.server
        assert server is not None
        await runner.cleanup()
        await asyncio.sleep(0.02)  # connections that were being accepted while it closed:
        for connection in list(server.connections):  # left open, their clients wait in vain
            connection.force_close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.arrivals.append(time.monotonic())
        started = time.monotonic()
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            body = json.loads(await request.read())
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            return await self.script(body, len(self.bodies))
        except HangUp:
            assert request.transport
            request.transport.abort()
            return web.Response()
        finally:
            self.in_flight -= 1
            self.busy_seconds += time.monotonic() - started

    async def _models(self, request: web.Request) -> web.Response:
        self.model_checks += 1
        listed = {"object": "list", "data": self.models}
        return web.json_response(listed, status=self.check_status)

    async def _tokenize(self, request: web.Request) -> web.Response:
        if self.template_tail is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        body = json.loads(await request.read())
        text = "".join(message["content"] for message in body["messages"]) + self.rendered_tail
        return web.json_response(
            {"tokens": list(text.encode()), "token_strs": [*text.split(), *self.template_tail]}
        )

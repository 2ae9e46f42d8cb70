"""Headless Chromium driven over its DevTools socket: open a page, run expressions, hear errors."""

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no chromium on this machine")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")


class Page:
    """One open page. ``errors``: what the console and the page complained of."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._number = 0

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command; events that come before its answer are noted."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            event = await self._socket.receive_json(timeout=240)
            if event.get("id") == self._number:
                return dict(event["result"])
            self._note(event)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(params["args"]))
            case "Log.entryAdded":
                self.errors.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    async def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def open(self, path: Path) -> None:
        """Load a file and wait until it has run."""
        for domain in ("Runtime", "Log", "Network", "Page"):
            await self.send(f"{domain}.enable")
        await self.send("Page.navigate", url=path.resolve().as_uri())
        for _ in range(200):
            if await self.run("document.readyState") == "complete":
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{path} did not load")


@asynccontextmanager
async def page(width: int = 1300, height: int = 900) -> AsyncIterator[Page]:
    """A page of a browser of its own, which ends with it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}")
        browser = subprocess.Popen(
            [CHROMIUM, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
                    targets = await reply.json()
                url = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            browser.terminate()
            browser.wait(timeout=20)


async def _port(path: Path) -> int:
    for _ in range(1_200):
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) > 1:
            return int(lines[0])
        await asyncio.sleep(0.05)
    raise AssertionError("chromium did not start")

"""A chat server that costs almost nothing, to measure what asks it. One process, standard library.

    python -m scripts.mock_server --latency 1.0     # prints its port

Endpoints: /v1/models, /tokenize, /v1/chat/completions (the same reply to all after ``latency``
seconds), and /stats: how many were asked, how many at once at most, and the mean number in flight
from the first request to the last reply.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

REPLY = json.dumps(
    {
        "id": "reply",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": '{"plan":{"M1":1,"M2":2}} ' + "x " * 50,
                },
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 300, "completion_tokens": 60, "total_tokens": 360},
    }
).encode()
MODELS = b'{"data":[{"id":"m","root":"m","max_model_len":100000}]}'
TOKENS = b'{"tokens":[1,2,3],"token_strs":["a"]}'


class Stats:
    """Requests in flight over time."""

    def __init__(self) -> None:
        self.asked = self.in_flight = self.peak = 0
        self.area = 0.0
        self.first = self.last = 0.0

    def change(self, by: int) -> None:
        """One more or one fewer in flight, now."""
        now = time.monotonic()
        if not self.asked:
            self.first = self.last = now
        self.area += self.in_flight * (now - self.last)
        self.last = now
        self.in_flight += by
        self.asked += by > 0
        self.peak = max(self.peak, self.in_flight)

    def json(self) -> bytes:
        window = self.last - self.first
        mean = self.area / window if window else 0.0
        return json.dumps({"asked": self.asked, "peak": self.peak, "mean": mean}).encode()


class Connection(asyncio.Protocol):
    """HTTP/1.1 with kept-alive connections and one request at a time on each."""

    def __init__(self, latency: float, stats: Stats) -> None:
        self._latency, self._stats = latency, stats
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        _, named, after = head.lower().partition(b"content-length:")
        length = int(after.split(b"\r\n")[0]) if named else 0
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._answer(head.split(b" ", 2)[1])

    def _answer(self, path: bytes) -> None:
        if path != b"/v1/chat/completions":
            fixed = {b"/v1/models": MODELS, b"/tokenize": TOKENS, b"/stats": self._stats.json()}
            self._send(fixed[path])
            return
        self._stats.change(1)
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._reply)
        else:
            self._reply()

    def _reply(self) -> None:
        self._stats.change(-1)
        self._send(REPLY)

    def _send(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


async def serve(latency: float) -> None:
    """Print the port and serve until killed."""
    stats = Stats()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(latency, stats), "127.0.0.1", 0, backlog=2048
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def mock_server(latency: float) -> Iterator[str]:
    """The address of a mock server in a process of its own that lives as long as the block."""
    command = [sys.executable, "-m", "scripts.mock_server", "--latency", str(latency)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def cpu_seconds_of(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> float:
    """User and system time of a command. Raises ``CalledProcessError``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    asyncio.run(serve(parser.parse_args().latency))

"""The evaluation runner's rows of ``scripts.bench``: what it costs, and how full it keeps a server.

The real command against a mock server in a process of its own. Cost is the marginal CPU time of a
sample between a small and a large run, so that imports do not count, beside a bare aiohttp loop
that sends bodies of the same size. Fullness is the mock's own mean of requests in flight at one
second a reply, from the first request to the last reply: even a client that takes no time gives
less than 1.00, since the last replies leave nothing to ask.

    python -m scripts.bench_runner      # these rows alone

lm-evaluation-harness and Inspect are measured beside it in the same run where a Python that has
them is named, LM_EVAL_PYTHON=... INSPECT_PYTHON=..., or where they are installed beside us.
"""

import argparse
import asyncio
import json
import resource
import statistics
import sys
import tempfile
import urllib.request
from pathlib import Path

import aiohttp

from configs.data import CalbenchData, GeneratedTasks
from configs.evaluation import EvalConfig, Sampling, Transport
from eval.plan import request_body, write_plan
from scripts.bench_judge import Row
from scripts.bench_others import other_rows
from scripts.mock_server import ROOT, cpu_seconds_of, mock_server
from tasks.calbench.examples import examples
from tasks.example import Example, write_examples

RUNS = 5
SMALL, LARGE = 100, 400  # requests; times RUNS samples
REPEATS = 3
IN_FLIGHT, WAVES = 256, 8


def runner_rows() -> list[Row]:
    """CPU a sample, and requests in flight of 256 at one second a reply; then those of others."""
    asked = bench_examples()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = [cost_row(asked, folder), flight_row(asked, folder)]
        others, absent = other_rows(asked, folder, RUNS, IN_FLIGHT)
    for line in absent:
        print(line)
    return [*ours, *others]


def bench_examples() -> list[Example]:
    """Requests of the public size, as many as the largest run needs."""
    tasks = GeneratedTasks(agents=5, slots=16, meetings=5, participants=3, count=30)
    data = CalbenchData(split="test", generated=tasks, conditions=("belief", "direct"), turns=(5,))
    made = list(examples(data))[: IN_FLIGHT * WAVES // RUNS]
    assert len(made) >= LARGE
    return made


def cost_row(asked: list[Example], folder: Path) -> Row:
    """Marginal CPU milliseconds a sample at no latency, 64 in flight; median of a few pairs."""
    margins = []
    with mock_server(0.0) as url:
        for repeat in range(REPEATS):
            seconds = []
            for count in (SMALL, LARGE):
                place = folder / f"cost{count}-{repeat}"
                make_plan(asked[:count], place, 64)
                seconds.append(run_cpu_seconds(place, url))
            margins.append((seconds[1] - seconds[0]) / ((LARGE - SMALL) * RUNS) * 1e3)
        bare = asyncio.run(bare_client(asked[0], url, 2_000)) * 1e3
    ours = statistics.median(margins)
    what = f"runner, CPU a sample, all in (a bare client: {bare:.2f} ms)"
    return what, f"{ours:.2f} ms", "1.00 ms", ours <= 1.0


def flight_row(asked: list[Example], folder: Path) -> Row:
    """Mean in flight as a share of 256."""
    make_plan(asked, folder / "flight", IN_FLIGHT)
    with mock_server(1.0) as url:
        run_cpu_seconds(folder / "flight", url)
        with urllib.request.urlopen(f"{url}/stats") as reply:
            stats = json.load(reply)
    share = stats["mean"] / IN_FLIGHT
    what = f"runner, in flight of {IN_FLIGHT} at 1 s latency (peak {stats['peak']})"
    return what, f"{share:.2f}", "0.90", share >= 0.90


def make_plan(asked: list[Example], folder: Path, concurrency: int) -> None:
    """Freeze these requests, five runs each."""
    folder.mkdir()
    write_examples(folder / "examples.jsonl", asked)
    config = EvalConfig(
        examples=folder / "examples.jsonl",
        runs=RUNS,
        sampling=Sampling(max_tokens=256),
        transport=Transport(concurrency=concurrency),
    )
    write_plan(config, folder)


def run_cpu_seconds(folder: Path, url: str) -> float:
    """User and system time of one whole ``python -m eval run``."""
    command = [sys.executable, "-m", "eval", "run", str(folder), "--system", "base"]
    command += ["--server", url, "--model", "m", "--no-probe"]
    return cpu_seconds_of(command, ROOT)


async def bare_client(example: Example, url: str, count: int) -> float:
    """CPU seconds a request of a loop that sends and reads and does nothing else."""
    body = json.dumps({"model": "m", **request_body(Sampling(), example.messages, 1)}).encode()
    left = iter(range(count))

    async def worker(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(f"{url}/v1/chat/completions", data=body) as reply:
                await reply.read()

    before = resource.getrusage(resource.RUSAGE_SELF)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        await asyncio.gather(*(worker(session) for _ in range(64)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / count


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m scripts.bench_runner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    for what, figure, bar, _ in runner_rows():
        print(f"{what:66} {figure:>10} {bar:>10}")

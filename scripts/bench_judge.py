"""The judge's rows of ``scripts.bench``: reading replies, a warm cache, calls in flight."""

import asyncio
import json
import tempfile
import time
from pathlib import Path

from aiohttp import web

from configs.judge import JudgeConfig
from rewards.judge import Judge
from rewards.judgements import VERDICT_KEYS, Case
from rewards.verdicts import Verdict, read_verdict

Row = tuple[str, str, str, bool]

SIZES = {"latent_belief_explanation": 3, "user_profile_modeling": 3, "correct_resolution": 5}
FEEDBACK = "The candidate names the belief and where it comes from, and leaves out how it spreads."
LATENCY_S = 0.1


def judge_rows() -> list[Row]:
    """Verdicts read, judgements from a warm cache, and 32 completions at 0.1 s a call."""
    return [reading_row(), *asyncio.run(client_rows())]


def reading_row() -> Row:
    """Joint replies of 11 criteria with feedback, after a line of prose, in a fence."""
    reply = "Weighed.\n```json\n" + json.dumps({key: scores(n) for key, n in SIZES.items()}) + "```"
    assert isinstance(read_verdict(reply, SIZES), Verdict)
    started = time.process_time()
    for _ in range(5_000):
        read_verdict(reply, SIZES)
    rate = 5_000 / (time.process_time() - started)
    return "judge replies read a second", f"{rate:,.0f}", "5,000", rate >= 5_000


def scores(size: int) -> dict[str, object]:
    met = {f"criterion_{number}": number % 2 for number in range(1, size + 1)}
    return {"criterion_scores": met, "total_score": sum(met.values()), "feedback": FEEDBACK}


async def client_rows() -> list[Row]:
    """Against a loopback server that says the same after ``LATENCY_S``."""
    reply = json.dumps({VERDICT_KEYS["solution"]: scores(5)})
    in_flight = peak = 0

    async def chat(request: web.Request) -> web.Response:
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        await asyncio.sleep(LATENCY_S)
        in_flight -= 1
        message = {"message": {"content": reply}, "finish_reason": "stop"}
        return web.json_response({"choices": [message]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        seconds = await judge_seconds(JudgeConfig(endpoint=url, model="m"), 32)
        flight = f"{seconds:.2f} s, {peak} in flight"
        in_time = seconds < 1.0 and peak == 16
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "verdicts.sqlite"
            warm = JudgeConfig(endpoint=url, model="m", cache=cache, concurrency=256)
            await judge_seconds(warm, 2_000)
            rate = 2_000 / await judge_seconds(warm, 2_000)
    finally:
        await runner.cleanup()
    return [
        ("32 completions judged at 0.1 s a call, concurrency 16", flight, "< 1 s, 16", in_time),
        ("judgements from a warm cache a second", f"{rate:,.0f}", "2,000", rate >= 2_000),
    ]


async def judge_seconds(config: JudgeConfig, count: int) -> float:
    """Wall seconds to judge ``count`` different solutions of 60 words."""
    criteria = tuple(f"Says what step {n} of the repair is." for n in range(5))
    cases = [
        Case(
            str(number),
            {"solution": f"Answer {number}: " + "take the next step " * 15},
            {"solution": criteria},
        )
        for number in range(count)
    ]
    async with Judge(config) as judge:
        started = time.perf_counter()
        judged = await judge.judge(cases)
        seconds = time.perf_counter() - started
    assert all(one["solution"].scores == (1, 0, 1, 0, 1) for one in judged)
    return seconds

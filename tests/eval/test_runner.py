"""The runner against a real loopback server: resume, faults of transport, faults of servers."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from configs.errors import UserError
from configs.evaluation import Transport
from eval.__main__ import main
from eval.openai_server import OpenAIServer
from eval.plan import Plan, write_plan
from eval.records import Key, Response, to_line
from eval.responses import read_index
from eval.runner import Outcome, log_path, run_system
from tests.eval.scripted_server import Body, ScriptedServer, completion
from tests.eval.stories import QUICK, make_plan, some

ROOT = Path(__file__).resolve().parents[2]


def ask(plan: Plan, server: ScriptedServer, system: str = "base", fingerprint: str = "") -> Outcome:
    async def go() -> Outcome:
        async with OpenAIServer([server.url], "m", plan.config.transport, fingerprint) as engine:
            return await run_system(plan, system, engine, progress=False)

    return asyncio.run(go())


def rows(plan: Plan, system: str = "base") -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path(plan, system).read_text().splitlines()]


def keys(plan: Plan, system: str = "base") -> set[Key]:
    return {(row["id"], row["run"]) for row in rows(plan, system)}


async def counter(body: Body, number: int) -> web.StreamResponse:
    return completion(f"answer {number}")


def test_five_runs_are_five_answers_and_a_second_invocation_asks_nothing(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(1), runs=5)
    with ScriptedServer(counter) as server:
        assert ask(plan, server).exit_code == 0
        before = log_path(plan, "base").read_bytes()
        again = ask(plan, server)
        assert len(server.bodies) == 5
    assert len({row["text"] for row in rows(plan)}) == 5
    assert [row["run"] for row in sorted(rows(plan), key=lambda r: r["run"])] == [1, 2, 3, 4, 5]
    assert (again.exit_code, again.owed) == (0, 0)
    assert log_path(plan, "base").read_bytes() == before


@pytest.mark.parametrize("name", ["x.prompts", "a.PROMPTS", "x.json", "x.jsonl", "x.part"])
def test_a_system_may_not_be_named_like_a_file_of_the_folder(tmp_path: Path, name: str) -> None:
    plan = make_plan(tmp_path, some(1))
    words = ["run", str(plan.folder), "--system", name, "--server", "http://127.0.0.1:9"]
    with pytest.raises(UserError, match="ends like a file of a plan folder; choose another"):
        main([*words, "--model", "m"])
    taken = ["import", str(plan.folder), "--system", name, "--log", "x.jsonl"]
    with pytest.raises(UserError, match="ends like a file of a plan folder; choose another"):
        main(taken)
    assert not (plan.folder / "responses").exists()


def test_every_body_carries_every_sampling_field_and_its_own_seed(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(3), runs=2, temperature=0.3, top_k=5)
    with ScriptedServer() as server:
        ask(plan, server)
        ask(plan, server, system="trained", fingerprint="other")
        first, second = server.bodies[:6], server.bodies[6:]
    assert all(body["model"] == "m" and body["temperature"] == 0.3 for body in first)
    assert len({body["seed"] for body in first}) == 6
    assert {body["seed"] for body in first} == {body["seed"] for body in second}


def test_failures_are_not_kept_as_answers(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(1))

    async def three_500s(body: Body, number: int) -> web.StreamResponse:
        return web.Response(status=500) if number <= 3 else completion("good")

    with ScriptedServer(three_500s) as server:
        first = ask(plan, server)
        assert (first.exit_code, first.owed, first.states["http_error"]) == (1, 1, 1)
        second = ask(plan, server)
        assert len(server.bodies) == 4
    assert (second.exit_code, second.owed) == (0, 0)
    assert [row["state"] for row in rows(plan)] == ["http_error"] * 3 + ["ok"]
    assert [row["attempts"] for row in rows(plan)] == [1, 1, 1, 1]
    assert read_index(log_path(plan, "base"), plan.holds).attempts == 4


@pytest.mark.parametrize(("status", "expected"), [(503, 3), (400, 1), (401, 1), (404, 1), (422, 1)])
def test_retries_end_and_refusals_are_not_retried(
    tmp_path: Path, status: int, expected: int
) -> None:
    plan = make_plan(tmp_path, some(1))

    async def refuse(body: Body, number: int) -> web.StreamResponse:
        return web.Response(status=status, text="no")

    with ScriptedServer(refuse) as server:
        started = time.monotonic()
        outcome = ask(plan, server)
        assert time.monotonic() - started < 2
        assert len(server.bodies) == expected
    assert outcome.exit_code == 1
    assert rows(plan)[0]["error"].startswith(f"HTTP {status}")


def test_retry_after_holds_everybody_back_and_retries_spread(tmp_path: Path) -> None:
    transport = QUICK.model_copy(update={"concurrency": 32, "backoff_s": 0.2})
    plan = make_plan(tmp_path, some(32), transport=transport)

    async def first_429(body: Body, number: int) -> web.StreamResponse:
        if number <= 32:
            await asyncio.sleep(0.05)
            return web.Response(status=429, headers={"Retry-After": "0.3"})
        return completion("{}")

    with ScriptedServer(first_429) as server:
        assert ask(plan, server).exit_code == 0
        assert len(server.arrivals) == 64
        assert server.peak <= 32
        second = sorted(server.arrivals)[32:]
        assert second[0] - max(sorted(server.arrivals)[:32]) >= 0.3
        assert second[-1] - second[0] >= 0.05


def test_one_timeout_loses_one_row(tmp_path: Path) -> None:
    transport = QUICK.model_copy(update={"timeout_s": 0.4, "max_tries": 2, "concurrency": 16})
    asked = some(50)
    plan = make_plan(tmp_path, asked, transport=transport)
    slow = asked[7].messages[-1]["content"]

    async def script(body: Body, number: int) -> web.StreamResponse:
        if body["messages"][-1]["content"] == slow:
            await asyncio.sleep(5)
        return completion("{}")

    with ScriptedServer(script) as server:
        outcome = ask(plan, server)
    assert (outcome.exit_code, outcome.owed) == (1, 1)
    states = {row["id"]: row["state"] for row in rows(plan)}
    assert states.pop(asked[7].id) == "timeout"
    assert set(states.values()) == {"ok"}


def test_a_server_that_dies_stops_the_run_and_the_rest_is_asked_later(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(100, tasks=16))
    dying = ScriptedServer()

    async def die_after_20(body: Body, number: int) -> web.StreamResponse:
        if number > 20:
            dying._loop.call_soon(dying._stopped.set)
            await asyncio.sleep(10)
        return completion("{}")

    dying.script = die_after_20
    with dying:
        outcome = ask(plan, dying)
        attempts = len(dying.arrivals)
    assert (outcome.exit_code, outcome.stopped) == (3, "server_unreachable")
    states = sorted(row["state"] for row in rows(plan))
    # The fourth lost connection in a row stops the run; each before it is a row.
    lost = len(states) - 20
    assert lost < QUICK.max_connection_errors
    assert states == ["http_error"] * lost + ["ok"] * 20
    assert 20 < attempts <= 20 + QUICK.concurrency  # each worker waits for one answer at most
    with ScriptedServer() as server:
        assert ask(plan, server).exit_code == 0
        assert len(server.bodies) == 80
    assert len(keys(plan)) == 100


def test_256_requests_are_in_flight(tmp_path: Path) -> None:
    transport = QUICK.model_copy(update={"concurrency": 256, "timeout_s": 20.0})
    plan = make_plan(tmp_path, some(128, tasks=16), runs=6, transport=transport)

    async def one_second(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(1)
        return completion("{}")

    with ScriptedServer(one_second) as server:
        assert ask(plan, server).exit_code == 0
        window = server.arrivals[-1] - server.arrivals[0] + 1
        assert server.peak == 256
        assert server.busy_seconds / window / 256 >= 0.6  # a loose bound; shared machines stall


def test_answers_belong_to_their_requests_in_whatever_order_they_arrive(tmp_path: Path) -> None:
    asked = some(30)
    plan = make_plan(tmp_path, asked)
    names = {one.messages[-1]["content"] + one.messages[0]["content"]: one.id for one in asked}

    async def later_first(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.3 / number)
        messages = body["messages"]
        return completion(names[messages[-1]["content"] + messages[0]["content"]])

    with ScriptedServer(later_first) as server:
        ask(plan, server)
    assert all(row["text"] == row["id"] for row in rows(plan))
    assert [row["id"] for row in rows(plan)] != [one.id for one in asked]


FINISHES = [
    (completion, ("x", "stop"), {}, "ok", "x"),
    (completion, ("x", "length"), {}, "truncated", "x"),
    (completion, ("x", None), {}, "unknown_finish", "x"),
    (completion, (None, "stop"), {"reasoning_content": "hm"}, "ok", "<think>hm"),
    (completion, ("x", "stop"), {"reasoning": "hm"}, "ok", "<think>hm</think>x"),
    (completion, (None, "stop"), {}, "ok", ""),
    (web.Response, (), {"text": "not json"}, "http_error", ""),
    (web.json_response, ({"choices": []},), {}, "http_error", ""),
    (web.json_response, ([1],), {}, "http_error", ""),
]


@pytest.mark.parametrize(("make", "arguments", "named", "state", "text"), FINISHES)
def test_states_of_replies(
    tmp_path: Path, make: Any, arguments: Any, named: Any, state: str, text: str
) -> None:
    plan = make_plan(tmp_path, some(1))

    async def script(body: Body, number: int) -> web.StreamResponse:
        reply: web.StreamResponse = make(*arguments, **named)
        return reply

    with ScriptedServer(script) as server:
        ask(plan, server)
    assert (rows(plan)[-1]["state"], rows(plan)[-1]["text"]) == (state, text)


def test_context_overflow_is_asked_once_and_is_final(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(1))

    async def overflow(body: Body, number: int) -> web.StreamResponse:
        message = "This model's maximum context length is 4096 tokens."
        return web.json_response({"message": message}, status=400)

    with ScriptedServer(overflow) as server:
        assert ask(plan, server).exit_code == 0
        assert ask(plan, server).exit_code == 0
        assert len(server.bodies) == 1
    assert rows(plan)[0]["state"] == "context_overflow"


def test_requests_that_cannot_fit_are_refused_before_the_first(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2), max_tokens=4000)
    with ScriptedServer() as server:
        with pytest.raises(UserError, match=r"2 of 2 prompts and max_tokens 4000 exceed"):
            ask(plan, server)
        assert server.bodies == []
    assert not (plan.folder / "responses").exists()


def test_the_longest_request_decides_whether_a_plan_fits(tmp_path: Path) -> None:
    asked = some(6)
    length = max(sum(len(m["content"].encode()) for m in one.messages) for one in asked)
    long = {"role": "user", "content": "x" * (length + 100)}
    for number, variant in ((3, asked[3].variant), (5, "RARE")):
        changed = list(asked)
        changed[number] = replace(asked[number], messages=(long,), variant=variant)
        with ScriptedServer() as server:
            limit = length + 99 + 64
            server.models[0]["max_model_len"] = limit
            assert ask(make_plan(tmp_path / f"short{number}", asked), server).exit_code == 0
            asked_before = len(server.bodies)
            with pytest.raises(
                UserError,
                match=f"1 of 6 prompts and max_tokens 64 exceed .* has {length + 100} tokens",
            ):
                ask(make_plan(tmp_path / f"long{number}", changed), server)
            assert len(server.bodies) == asked_before


def test_a_model_that_changes_under_the_run_voids_its_rows(tmp_path: Path) -> None:
    transport = QUICK.model_copy(update={"check_every_s": 0.1, "concurrency": 1})
    plan = make_plan(tmp_path, some(40), transport=transport)
    server = ScriptedServer()

    async def swap_after_20(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        if number == 20:
            server.models = [{"id": "m", "root": "other", "max_model_len": 4096}]
        return completion("{}")

    server.script = swap_after_20
    with server:
        outcome = ask(plan, server)
    assert (outcome.exit_code, outcome.stopped) == (3, "server_changed")
    index = read_index(log_path(plan, "base"), plan.holds)
    asked_after = len(server.bodies) - 20
    assert asked_after < 20
    assert len(index.final) <= 20
    assert len(index.final) + outcome.states["server_changed"] == outcome.states["ok"]
    with ScriptedServer() as other:
        other.models = [{"id": "m", "root": "other", "max_model_len": 4096}]
        with pytest.raises(UserError, match="fingerprint"):
            ask(plan, other)


def test_resume_under_other_weights_is_refused_naming_the_field(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    with ScriptedServer() as server:
        ask(plan, server, fingerprint="F1")
        with pytest.raises(UserError, match=r'fingerprint \("F1" there, "F2" now\)'):
            ask(plan, server, fingerprint="F2")
        ask(plan, server, system="other", fingerprint="F2")
        assert len(server.bodies) == 4


def test_resume_under_another_plan_is_refused(tmp_path: Path) -> None:
    old = make_plan(tmp_path / "old", some(2))
    new = make_plan(tmp_path / "new", some(2), temperature=0.1)
    with ScriptedServer() as server:
        ask(old, server)
        (old.folder / "responses").rename(new.folder / "responses")
        with pytest.raises(UserError, match="plan_hash"):
            ask(new, server)


def test_a_server_that_is_not_there_or_serves_another_model(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    with ScriptedServer(model="llama") as server, pytest.raises(UserError, match="serves llama"):
        ask(plan, server)
    gone = ScriptedServer(port=server.port)
    with pytest.raises(UserError, match=r"127\.0\.0\.1.*does not answer"):
        ask(plan, gone)
    assert not (plan.folder / "responses").exists()


def test_whether_the_template_opens_think_is_asked_of_the_server(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    with ScriptedServer() as server:
        server.template_tail = ["<think>", "\n"]
        ask(plan, server, "open")
        server.template_tail = ["<think>", "\n\n", "</think>", "\n\n"]
        ask(plan, server, "closed")
        server.template_tail = None
        with pytest.raises(UserError, match="prefilled_think=yes"):
            ask(plan, server, "unknown")
    found = {
        name: json.loads((plan.folder / f"responses/{name}.json").read_text())["prefilled_think"]
        for name in ("open", "closed")
    }
    assert found == {"open": True, "closed": False}


def test_a_torn_last_line_is_owed_again(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(5))
    with ScriptedServer(counter) as server:
        ask(plan, server)
        whole = log_path(plan, "base").read_bytes()
        torn = whole[: len(whole) - 30]
        log_path(plan, "base").write_bytes(torn)
        assert ask(plan, server).exit_code == 0
        assert len(server.bodies) == 6
    assert len(keys(plan)) == len(rows(plan)) == 5


def test_error_then_answer_counts_once_and_two_answers_are_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(1))
    name = some(1)[0].id
    path = tmp_path / "log.jsonl"
    failed, good = Response(name, 1, "timeout"), Response(name, 1, "ok", "a")
    path.write_text(to_line(failed) + to_line(good) + to_line(good))
    index = read_index(path, plan.holds)
    assert (len(index.final), index.superseded, index.duplicates) == (1, 1, 1)
    path.write_text(to_line(good) + to_line(Response(name, 1, "ok", "b")))
    with pytest.raises(UserError, match="has two different answers"):
        read_index(path, plan.holds)


def test_two_runs_of_one_system_at_once_are_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))

    async def slow(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return completion("{}")

    async def both(server: ScriptedServer) -> list[Outcome | BaseException]:
        engines = [OpenAIServer([server.url], "m", plan.config.transport) for _ in range(2)]
        found = await asyncio.gather(
            *(run_system(plan, "base", engine, progress=False) for engine in engines),
            return_exceptions=True,
        )
        for engine in engines:
            await engine.close()
        return list(found)

    with ScriptedServer(slow) as server:
        found = asyncio.run(both(server))
    assert sorted(type(one).__name__ for one in found) == ["Outcome", "UserError"]


def start(plan: Plan, server: ScriptedServer) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "eval", "run", str(plan.folder), "--system", "base"]
    command += ["--server", server.url, "--model", "m", "--no-probe", "concurrency=16"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_until(server: ScriptedServer, requests: int) -> None:
    deadline = time.monotonic() + 30
    while len(server.bodies) < requests:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_half_way_and_resumed(tmp_path: Path, number: signal.Signals) -> None:
    plan = make_plan(tmp_path, some(100, tasks=16), runs=4)

    async def script(body: Body, count: int) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        return completion(f"{body['seed']}")

    with ScriptedServer(script) as server:
        process = start(plan, server)
        wait_until(server, 200)
        os.kill(process.pid, number)
        code = process.wait(20)
        kept = len(keys(plan))
        assert code == (-9 if number == signal.SIGKILL else 130)
        assert 100 < kept < 400
        assert start(plan, server).wait(60) == 0
        assert len(server.bodies) <= 400 + 16
    assert len(keys(plan)) == len(rows(plan)) == 400
    assert len({row["text"] for row in rows(plan)}) == 400


def test_transport_defaults_reach_the_connector() -> None:
    assert OpenAIServer(["http://127.0.0.1:1/v1/"], "m", Transport(concurrency=300)).workers == 300


def test_structured_output_sends_each_answers_schema(tmp_path: Path) -> None:
    asked = some(16)
    free = make_plan(tmp_path, asked)
    config = free.config.model_copy(update={"structured_output": True})
    held = write_plan(config, tmp_path / "held")[0]
    with ScriptedServer() as server:
        ask(free, server)
        ask(held, server)
        plain, with_schema = server.bodies[:16], server.bodies[16:]
    assert not any("response_format" in body for body in plain)
    kinds = [
        next(iter(body["response_format"]["json_schema"]["schema"]["properties"]))
        for body in with_schema
    ]
    assert kinds.count("belief") == kinds.count("plan") == 8
    assert {body["response_format"]["type"] for body in with_schema} == {"json_schema"}

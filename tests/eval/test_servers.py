"""Several servers for one system, overload, prompts of two systems, and the shared cache."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from configs.errors import UserError
from configs.evaluation import Transport
from eval.answer_cache import AnswerCache
from eval.openai_server import OpenAIServer
from eval.plan import Plan
from eval.prompts import read_prompts
from eval.runner import Outcome, log_path, run_system
from tests.eval.scripted_server import Body, HangUp, ScriptedServer, completion
from tests.eval.stories import QUICK, make_plan, some


def ask(plan: Plan, *servers: ScriptedServer, system: str = "base", **named: Any) -> Outcome:
    """``named``: what ``run_system`` takes besides."""
    fingerprint = named.pop("fingerprint", "")

    async def go() -> Outcome:
        urls = [server.url for server in servers]
        async with OpenAIServer(urls, "m", plan.config.transport, fingerprint) as engine:
            return await run_system(plan, system, engine, progress=False, **named)

    return asyncio.run(go())


def answered(plan: Plan, system: str = "base") -> list[tuple[str, int]]:
    rows = [json.loads(line) for line in log_path(plan, system).read_text().splitlines()]
    return sorted((row["id"], row["run"]) for row in rows if row["state"] == "ok")


async def soon(body: Body, number: int) -> web.StreamResponse:
    await asyncio.sleep(0.02)
    return completion("{}")


def test_two_servers_share_the_work_and_one_source_stays_with_one(tmp_path: Path) -> None:
    asked = some(64, tasks=4)
    plan = make_plan(tmp_path, asked, runs=2)
    with ScriptedServer(soon) as first, ScriptedServer(soon) as second:
        assert ask(plan, first, second).exit_code == 0
        shares = [len(first.bodies), len(second.bodies)]
        sources = [{one["seed"] for one in server.bodies} for server in (first, second)]
    assert sum(shares) == 128
    assert min(shares) >= 32
    assert not sources[0] & sources[1]
    assert len(answered(plan)) == 128


def test_the_calls_of_a_server_that_dies_go_to_the_other(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(64, tasks=4))

    async def dies(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        if number > 4:
            raise HangUp
        return completion("{}")

    with ScriptedServer(dies) as first, ScriptedServer(soon) as second:
        outcome = ask(plan, first, second)
        assert len(second.bodies) == 60
    assert (outcome.exit_code, outcome.owed) == (0, 0)
    assert any("does not answer any more" in text for text in outcome.notes)
    assert len(set(answered(plan))) == 64


def test_one_servers_wish_to_wait_concerns_no_other(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(64, tasks=4))

    async def busy(body: Body, number: int) -> web.StreamResponse:
        if number <= 8:
            return web.Response(status=429, headers={"Retry-After": "1.5"})
        return completion("{}")

    with ScriptedServer(busy) as first, ScriptedServer(soon) as second:
        assert ask(plan, first, second).exit_code == 0
        begun = min(first.arrivals)
        waited = sorted(first.arrivals)[8:]
        meanwhile = [at for at in second.arrivals if at - begun < 1.5]
    assert len(first.bodies) + len(second.bodies) == 64 + 8
    assert all(at - begun >= 1.5 for at in waited)
    assert len(meanwhile) >= 32


def test_servers_with_different_models_or_one_address_twice_are_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    with ScriptedServer() as first, ScriptedServer() as second:
        second.models = [{"id": "m", "root": "other", "max_model_len": 4096}]
        with pytest.raises(UserError, match="serve different models"):
            ask(plan, first, second)
        with pytest.raises(UserError, match="the same address twice"):
            ask(plan, first, first)
        assert first.bodies == second.bodies == []


def test_concurrency_falls_once_for_a_burst_of_overload_and_never_rises(tmp_path: Path) -> None:
    transport = QUICK.model_copy(update={"concurrency": 16, "max_tries": 4})
    plan = make_plan(tmp_path, some(96, tasks=8), transport=transport)

    async def overloaded_at_first(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response(status=503) if number <= 16 else completion("{}")

    with ScriptedServer(overloaded_at_first) as server:
        outcome = ask(plan, server)
        assert len(server.bodies) == 96 + 16
    assert outcome.exit_code == 0
    assert "server 1 was overloaded: concurrency fell from 16 to 12" in outcome.notes


def test_prompts_that_read_otherwise_are_refused_unless_told_why(tmp_path: Path) -> None:
    asked = some(6)
    plan = make_plan(tmp_path, asked)
    with ScriptedServer() as server:
        ask(plan, server, fingerprint="F1")
        server.rendered_tail = " "
        with pytest.raises(UserError, match=r"differ from those of 'base' on 6 of 6 requests"):
            ask(plan, server, system="trained", fingerprint="F2")
        assert len(server.bodies) == 6
        why = "its template ends in a space"
        ask(plan, server, system="trained", fingerprint="F2", different_prompts=why)
        assert len(server.bodies) == 12
    kept = read_prompts(plan, "trained")
    assert kept is not None
    assert kept.because == why
    text = "".join(message["content"] for message in asked[0].messages)
    assert kept.lengths[0] == len(text.encode()) + 1


def test_one_prompt_among_many_that_does_not_fit_is_found_before_the_first(tmp_path: Path) -> None:
    asked = some(5)
    long = replace(asked[3], messages=({"role": "user", "content": "x" * 4040},))
    plan = make_plan(tmp_path, [*asked[:3], long, *asked[4:]])
    with ScriptedServer() as server:
        with pytest.raises(UserError, match=f"1 of 5 prompts.*{long.id!r}, has 4040 tokens"):
            ask(plan, server)
        assert server.bodies == []


def test_a_server_that_cannot_render_is_said_so(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    config = plan.config.model_copy(update={"prefilled_think": "no"})
    with ScriptedServer() as server:
        server.template_tail = None
        outcome = ask(replace(plan, config=config), server)
    assert any("no /tokenize" in text for text in outcome.notes)
    assert read_prompts(plan, "base") is None


async def counted(body: Body, number: int) -> web.StreamResponse:
    return completion(f"answer {number}")


def test_another_plan_takes_from_the_cache_what_was_asked_of_these_weights(tmp_path: Path) -> None:
    cache = tmp_path / "answers.sqlite"
    few = make_plan(tmp_path / "few", some(4), runs=2)
    more = make_plan(tmp_path / "more", some(6), runs=2)
    with ScriptedServer(counted) as server:
        ask(few, server, fingerprint="F1", cache=cache)
        assert len(server.bodies) == 8
        outcome = ask(more, server, fingerprint="F1", cache=cache)
        assert (len(server.bodies), outcome.reused, outcome.owed) == (8 + 4, 8, 0)
        ask(more, server, system="other", fingerprint="F2", cache=cache)
        assert len(server.bodies) == 12 + 12
    texts = [json.loads(line)["text"] for line in log_path(more, "base").read_text().splitlines()]
    assert len(set(texts)) == 12


def test_failures_and_answers_of_a_changed_model_are_not_cached(tmp_path: Path) -> None:
    transport = QUICK.model_copy(update={"check_every_s": 0.1, "concurrency": 1})
    plan = make_plan(tmp_path / "one", some(20), transport=transport)
    again = make_plan(tmp_path / "two", some(20), transport=transport)
    cache = tmp_path / "answers.sqlite"
    server = ScriptedServer()

    async def swap_after_5(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(0.03)
        if number == 5:
            server.models = [{"id": "m", "root": "other", "max_model_len": 4096}]
        return completion("{}")

    server.script = swap_after_5
    with server:
        stopped = ask(plan, server, fingerprint="F1", cache=cache)
        sure = 20 - stopped.owed
        asked = len(server.bodies)
        assert stopped.stopped == "server_changed"
        outcome = ask(again, server, fingerprint="F1", cache=cache)
        assert outcome.reused == sure
        assert len(server.bodies) - asked == 20 - sure


def test_a_key_is_everything_that_decides_an_answer(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite", "F1")
    body: Body = {"messages": [], "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.0}
    body |= {"max_tokens": 64, "stop": [], "seed": 1, "n": 1, "repetition_penalty": 1.0}
    body |= {"chat_template_kwargs": {"enable_thinking": False}, "response_format": None}
    changed = [{**body, name: "other"} for name in body if name != "messages"]
    assert len({cache.key(one, 1) for one in [body, *changed]}) == 12
    assert cache.key(dict(reversed(body.items())), 1) == cache.key(body, 1)
    assert cache.key(body, 2) != cache.key(body, 1)
    assert AnswerCache(tmp_path / "answers.sqlite", "F2").key(body, 1) != cache.key(body, 1)
    with pytest.raises(UserError, match="give --checkpoint"):
        AnswerCache(tmp_path / "answers.sqlite", "card:1")
    (tmp_path / "text").write_text("not a database, but long enough to be read as a header" * 9)
    with pytest.raises(UserError, match="cannot be used"):
        AnswerCache(tmp_path / "text", "F1")


def test_concurrency_is_per_server() -> None:
    engine = OpenAIServer(["http://a:1", "http://b:1/v1"], "m", Transport(concurrency=300))
    assert (engine.lanes, engine.workers, engine.allowed(1)) == (2, 300, 300)

"""Whether texts come again: three prompts twice after a run, and what is said of it."""

from pathlib import Path

import pytest
from aiohttp import web

from eval.__main__ import main
from eval.determinism import Determinism, probe_path, probed
from eval.plan import Plan
from tests.eval.scripted_server import Body, ScriptedServer, completion
from tests.eval.stories import make_plan, some


def run(plan: Plan, server: ScriptedServer, *words: str) -> int:
    where = ["--system", "base", "--server", server.url, "--model", "m"]
    return main(["run", str(plan.folder), *where, *words])


async def by_seed(body: Body, number: int) -> web.StreamResponse:
    return completion(f"{body['seed']}")


def test_a_server_that_reproduces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = make_plan(tmp_path, some(5), runs=2)
    with ScriptedServer(by_seed) as server:
        assert run(plan, server) == 0
        assert len(server.bodies) == 10 + 6
        assert server.bodies[10:13] == server.bodies[13:16]
        assert all(body in server.bodies[:10] for body in server.bodies[10:13])
        assert run(plan, server) == 0
        assert len(server.bodies) == 16  # what is done is not probed again
    said = (
        "determinism probe: 3 of 3 prompts sent twice with one seed got the same text, 3 the text "
        "of the run as well"
    )
    assert probed(plan, "base") == said
    assert f"note: {said}" in capsys.readouterr().err


def test_a_server_that_does_not(tmp_path: Path) -> None:
    """The first prompt gets one text in the run and another one twice, the others never again."""
    plan = make_plan(tmp_path, some(4))
    first = list(some(1)[0].messages)

    async def script(body: Body, number: int) -> web.StreamResponse:
        again = len(server.bodies) > 4
        return completion("again" if again and body["messages"] == first else str(number))

    with ScriptedServer(script) as server:
        assert run(plan, server, "concurrency=1") == 0
    assert probed(plan, "base").startswith("determinism probe: 1 of 3 prompts")
    assert probed(plan, "base").endswith("got the same text, 0 the text of the run as well")


def test_without_a_probe_nothing_is_sent_nor_said(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(4))
    with ScriptedServer(by_seed) as server:
        assert run(plan, server, "--no-probe") == 0
        assert len(server.bodies) == 4
    assert not probe_path(plan, "base").exists()
    assert probed(plan, "base") == ""
    assert Determinism(0, 0, 0).words == "determinism probe: no prompt was answered twice"

"""python -m scripts.make_rubrics against an endpoint that writes and judges, or misbehaves."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from configs.errors import UserError
from configs.load import load
from configs.rubrics import RubricsConfig
from rewards.rubric_maker import NOTHING
from scripts.make_rubrics import Run, golds_of, make_rubrics, summary, write_instances
from tasks.basis.collection import read_instances
from tasks.basis.instances import DOMAINS, Instance
from tasks.basis.oneline import to_record
from tests.eval.scripted_server import Body, HangUp, ScriptedServer, completion
from tests.rewards.scripted_judge import questions, verdict_text
from tests.shared_data import shared_file
from tests.tasks.basis.small_instances import instances, record, turns, without, write_lines

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = RubricsConfig
NUMBERS = {"what the user believes": 2, "who the user is": 3, "how the user's problem": 4}
Write = Callable[[str, int], list[str]]
"""(dimension as the prompt says it, size) -> criteria."""


def config(url: str, **changes: Any) -> RubricsConfig:
    quick = {"endpoint": url, "model": "m", "timeout_s": 5.0, "max_tries": 2, "backoff_s": 0.01,
             "max_connection_errors": 3, "concurrency": 2}  # fmt: skip
    generator = {**quick, **changes.pop("generator", {})}
    judge = {**quick, **changes.pop("judge", {})}
    return RubricsConfig.model_validate({"generator": generator, "judge": judge, **changes})


def good(about: str, size: int) -> list[str]:
    return [f"States point {n} about {about} in full." for n in range(1, size + 1)]


def says_something(criterion: str, text: str) -> int:
    return int(text != NOTHING)


def is_judging(body: Body) -> bool:
    return bool(questions(body))


def writing(body: Body, write: Write = good) -> web.Response:
    text = body["messages"][-1]["content"]
    [(about, size)] = [(about, size) for about, size in NUMBERS.items() if about in text]
    return completion(json.dumps({"criteria": write(about, size)}))


def endpoint(write: Write = good, decide: Any = says_something, latency_s: float = 0.0) -> Any:
    async def script(body: Body, number: int) -> web.StreamResponse:
        await asyncio.sleep(latency_s)
        if is_judging(body):
            return completion(verdict_text(body, decide))
        return writing(body, write)

    return script


def generator_only(reply: Any) -> Any:
    """A script that judges well and gives ``reply(body, number)`` as the generator."""

    async def script(body: Body, number: int) -> web.StreamResponse:
        if is_judging(body):
            return completion(verdict_text(body, says_something))
        answer: web.StreamResponse = reply(body, number)
        return answer

    return script


def made(server: ScriptedServer, folder: Path, *names: str, **changes: Any) -> Run:
    some = instances(folder, *[record(name) for name in names or ("swe_0001",)])
    return asyncio.run(make_rubrics(config(server.url, **changes), some, folder / "out", False))


def test_three_rubrics_an_instance_written_and_checked(tmp_path: Path) -> None:
    with ScriptedServer(endpoint()) as server:
        run = made(server, tmp_path, "swe_0001", "swe_0002")
    assert {one.state for one in run.made.values()} == {"accepted"}
    assert run.requests == 6 * 3  # a list, the gold, the text that says nothing
    assert sum(is_judging(body) for body in server.bodies) == 12
    judged = [text for body in server.bodies for _, text in questions(body).values()]
    assert judged.count(NOTHING) == 6
    belief = run.made["swe_0001", "belief"]
    assert (belief.gold, belief.nothing, belief.tries) == ((1, 1), (0, 0), 1)
    assert belief.criteria == tuple(good("what the user believes", 2))
    assert next(summary(run)).startswith("6 rubrics: accepted 6, rejected 0, failed 0")


def test_the_written_instances_are_read_back_with_their_rubrics(tmp_path: Path) -> None:
    odd = turns(t2={"observation": ""}, t3={"observation": " edge "})
    del odd[9]["observation"]
    bare = without(record("swe_0001", trajectory_inline=odd, group="g"), "rubrics")
    path = write_lines(tmp_path / "swe.jsonl", bare, record("swe_0002"))
    assert "rubrics" in read_instances([path]).faults[0]
    given = read_instances([path], with_rubrics=False).instances
    assert len(given) == 2
    with ScriptedServer(endpoint()) as server:
        run = asyncio.run(make_rubrics(config(server.url), given, tmp_path / "out", False))
    [(file, count)] = write_instances(run, given, tmp_path / "out")
    assert (file.name, count) == ("swe.jsonl", 2)
    back = read_instances([tmp_path / "out" / "instances"], strict=True).instances
    assert back[0].turns == given[0].turns
    assert (back[0].group, back[0].true_state) == ("g", given[0].true_state)
    assert back[0].rubrics.solution == tuple(good("how the user's problem", 4))


def test_a_list_that_code_refuses_is_asked_for_again_with_the_reason(tmp_path: Path) -> None:
    def write(about: str, size: int) -> list[str]:
        lists.append(about)
        return ['Says "fuse".'] * size if lists.count(about) == 1 else good(about, size)

    lists: list[str] = []
    with ScriptedServer(endpoint(write)) as server:
        run = made(server, tmp_path)
    assert {(one.state, one.tries) for one in run.made.values()} == {("accepted", 2)}
    asked = [b for b in server.bodies if not is_judging(b)]
    again = [b for b in asked if "Your last list was refused" in b["messages"][-1]["content"]]
    assert (len(asked), len(again)) == (6, 3)
    assert {body["seed"] for body in again} == {1}
    assert "criterion 2 repeats criterion 1" in again[0]["messages"][-1]["content"]


def test_a_gold_that_fails_its_own_criterion_rejects_the_rubric(tmp_path: Path) -> None:
    def decide(criterion: str, text: str) -> int:
        return int(text != NOTHING and "point 2 about who" not in criterion)

    with ScriptedServer(endpoint(decide=decide)) as server:
        run = made(server, tmp_path)
        profile = run.made["swe_0001", "profile"]
        assert (profile.state, profile.reason, profile.gold) == (
            "rejected",
            "gold_fails",
            (1, 0, 1),
        )
        assert profile.objections == ("the reference itself does not meet criterion 2",)
        assert profile.tries == 3
        asked = len(server.bodies)
        again = made(server, tmp_path)
        assert len(server.bodies) == asked  # a rejected rubric is not asked for again
    assert "rejected: gold_fails: 1: swe_0001 profile" in list(summary(again))
    assert list(write_instances(again, [], tmp_path / "out")) == []


def test_a_lower_limit_lets_a_gold_miss_one(tmp_path: Path) -> None:
    def decide(criterion: str, text: str) -> int:
        return int(text != NOTHING and "point 2 about who" not in criterion)

    with ScriptedServer(endpoint(decide=decide)) as server:
        run = made(server, tmp_path, gold_at_least=0.6)
    assert run.made["swe_0001", "profile"].state == "accepted"


def test_a_criterion_that_an_empty_text_meets_rejects_the_rubric(tmp_path: Path) -> None:
    def write(about: str, size: int) -> list[str]:
        return [*good(about, size - 1), "Does not blame the user for the dark lamp at all."]

    def decide(criterion: str, text: str) -> int:
        return int(text != NOTHING or criterion.startswith("Does not"))

    with ScriptedServer(endpoint(write, decide)) as server:
        run = made(server, tmp_path)
    assert {(one.state, one.reason) for one in run.made.values()} == {("rejected", "empty_passes")}
    assert run.made["swe_0001", "belief"].nothing == (0, 1)


@pytest.mark.parametrize(
    ("reply", "reason", "requests"),
    [
        (lambda b, n: completion("I would rather not."), "generator_no_answer", 9),
        (lambda b, n: completion(None), "generator_no_answer", 9),
        (lambda b, n: completion('{"criteria": ["a"'), "generator_unparseable", 9),
        (lambda b, n: completion("{}", "length"), "generator_truncated", 9),
        (lambda b, n: web.json_response({"choices": []}), "generator_http_error_200", 6),
        (lambda b, n: web.Response(status=500, text="no"), "generator_http_error_500", 6),
        (lambda b, n: web.Response(status=400, text="no"), "generator_http_error_400", 3),
    ],
)
def test_a_generator_without_a_list_fails_by_name(
    tmp_path: Path, reply: Any, reason: str, requests: int
) -> None:
    with ScriptedServer(generator_only(reply)) as server:
        run = made(server, tmp_path)
        assert {(one.state, one.reason) for one in run.made.values()} == {("failed", reason)}
        assert len(server.bodies) == requests
        assert len(run.owed) == 3
        server.script = endpoint()
        assert made(server, tmp_path).owed == []  # a failed one is owed again
    lines = list(summary(run))
    assert f"failed: {reason}: 3: swe_0001 belief, swe_0001 profile, swe_0001 solution" in lines


def test_a_generator_of_nothing_but_prose_is_given_up(tmp_path: Path) -> None:
    names = [f"swe_{number:04d}" for number in range(1, 21)]
    with ScriptedServer(generator_only(lambda b, n: completion("no"))) as server:
        run = made(server, tmp_path, *names, max_failures_in_row=5)
    assert "5 rubrics in a row without a usable reply, the last for generator_no_a" in run.stopped
    assert len(run.made) == 5
    # Three lists for each; of the other worker's rubric none, some or all when it is stopped.
    assert 3 * 5 <= len(server.bodies) <= 3 * 6


async def _hangs_up() -> web.StreamResponse:
    raise HangUp


async def _hangs() -> web.StreamResponse:
    await asyncio.sleep(1)
    return completion("late")


@pytest.mark.parametrize("misbehave", [_hangs_up, _hangs])
@pytest.mark.parametrize("whom", ["generator", "judge"])
def test_an_endpoint_that_goes_silent_stops_the_run_and_loses_nothing(
    tmp_path: Path, misbehave: Any, whom: str
) -> None:
    names = [f"swe_{number:04d}" for number in range(1, 11)]

    async def script(body: Body, number: int) -> web.StreamResponse:
        if number > 12 and is_judging(body) == (whom == "judge"):
            return await misbehave()  # type: ignore[no-any-return]
        return await endpoint()(body, number)  # type: ignore[no-any-return]

    quick = {"timeout_s": 0.2}
    started = time.monotonic()
    with ScriptedServer(script) as server:
        run = made(server, tmp_path, *names, generator=quick, judge=quick)
        assert time.monotonic() - started < 8
        assert run.stopped.startswith(f"{whom}: ")
        accepted = {name for name, one in run.made.items() if one.state == "accepted"}
        assert accepted
        logged = (tmp_path / "out" / "rubrics.jsonl").read_text().splitlines()
        assert len(logged) == len(run.made)
    with ScriptedServer(endpoint()) as other:  # a request given up may still reach the first
        again = made(other, tmp_path, *names)
        assert again.owed == []
        asked = sum(not is_judging(body) for body in other.bodies)
    unjudged = sum(one.reason.startswith("judge_") for one in run.made.values())
    owed = 30 - len(accepted) - unjudged  # lists that only lacked a judge are kept
    assert asked == owed
    assert (unjudged > 0) == (whom == "judge")


def test_a_judge_without_a_verdict_fails_and_never_rejects(tmp_path: Path) -> None:
    async def script(body: Body, number: int) -> web.StreamResponse:
        return completion("Looks fine to me.") if is_judging(body) else writing(body)

    with ScriptedServer(script) as server:
        run = made(server, tmp_path)
    found = {(one.state, one.reason, one.tries) for one in run.made.values()}
    assert found == {("failed", "judge_no_scores_object", 1)}


def test_a_torn_last_line_is_owed_again_and_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "out" / "rubrics.jsonl"
    with ScriptedServer(endpoint()) as server:
        made(server, tmp_path, "swe_0001", "swe_0002")
        whole = log.read_bytes()
        log.write_bytes(whole[:-20])
        asked = len(server.bodies)
        run = made(server, tmp_path, "swe_0001", "swe_0002")
        assert len(server.bodies) == asked + 3
        assert sorted(log.read_bytes().splitlines()) == sorted(whole.splitlines())
        log.write_bytes(whole + b"{}\n")
        with pytest.raises(UserError, match=r"rubrics.jsonl:7: not a row of this log; remove"):
            made(server, tmp_path, "swe_0001", "swe_0002")
    assert len(run.made) == 6


def test_a_changed_gold_is_asked_for_again(tmp_path: Path) -> None:
    with ScriptedServer(endpoint()) as server:
        made(server, tmp_path)
        asked = sum(not is_judging(body) for body in server.bodies)
        changed = instances(tmp_path, record(user_profile="Someone else."))
        asyncio.run(make_rubrics(config(server.url), changed, tmp_path / "out", False))
        assert sum(not is_judging(body) for body in server.bodies) == asked + 1


def test_another_config_needs_another_folder(tmp_path: Path) -> None:
    with ScriptedServer(endpoint()) as server:
        made(server, tmp_path)
        made(server, tmp_path, generator={"concurrency": 9, "timeout_s": 1.0})
        with pytest.raises(UserError, match=r"made otherwise: tries \(3 there, 5 now\)"):
            made(server, tmp_path, tries=5)
        with pytest.raises(UserError, match=r"generator\.sampling\.temperature"):
            made(server, tmp_path, generator={"sampling": {"temperature": 0.0}})


def test_an_endpoint_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with (
        ScriptedServer(endpoint(), model="other") as server,
        pytest.raises(UserError, match=r"generator endpoint .* serves other, not 'm'"),
    ):
        made(server, tmp_path)
    with pytest.raises(UserError, match=r"generator endpoint .* does not answer; start it first"):
        made(server, tmp_path)


def test_the_gold_is_what_the_audit_takes_for_it(tmp_path: Path) -> None:
    some: Instance = instances(tmp_path, record())[0]
    golds = {gold.dimension: gold for gold in golds_of(some)}
    assert golds["belief"].text == some.belief
    assert golds["profile"].text == some.profile
    assert some.true_state in golds["solution"].text
    assert golds["belief"].scene == f"{some.observation}\n{some.instruction}"


def test_shipped_configs_load_and_hold_no_key(tmp_path: Path) -> None:
    found = sorted((ROOT / "configs" / "rubrics").glob("*.yaml"))
    assert [path.name for path in found] == ["vllm.yaml"]
    loaded = load(found[0], SCHEMA, ["generator.model=w", "tries=2"])
    assert (loaded.generator.model, loaded.tries) == ("w", 2)
    assert loaded.generator.sampling.temperature == 0.7
    with pytest.raises(UserError, match="generator: api_key has no place in a config") as error:
        load(found[0], SCHEMA, ["generator.api_key=sk-secret"])
    assert "sk-secret" not in str(error.value)


def start(folder: Path, url: str, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "scripts.make_rubrics", "configs/rubrics/vllm.yaml",
               "--data", str(folder / "swe.jsonl"), "--out", str(folder / "out"),
               f"generator.endpoint={url}", "generator.model=m", f"judge.endpoint={url}",
               "judge.model=m", f"judge.cache={folder / 'verdicts.sqlite'}",
               "generator.concurrency=2", *more]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_the_command_is_stopped_and_resumed(tmp_path: Path, sent: int, code: int) -> None:
    write_lines(tmp_path / "swe.jsonl", *[record(f"swe_{n:04d}") for n in range(1, 6)])
    log = tmp_path / "out" / "rubrics.jsonl"
    with ScriptedServer(endpoint(latency_s=0.05)) as server:
        first = start(tmp_path, server.url)
        while not log.exists() or len(log.read_bytes().splitlines()) < 4:
            assert first.poll() is None, first.communicate()
            time.sleep(0.02)
        os.kill(first.pid, sent)
        first.communicate(timeout=20)
        assert first.returncode == code
        second = start(tmp_path, server.url)
        out, err = second.communicate(timeout=60)
        assert second.returncode == 0, err
        lists = sum(not is_judging(body) for body in server.bodies)
    assert "15 rubrics: accepted 15, rejected 0, failed 0, not asked 0" in out
    assert f"{tmp_path}/out/instances/swe.jsonl: 5 instances" in out
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert len({(row["instance"], row["dimension"]) for row in rows}) == len(rows) == 15
    assert 15 <= lists <= 15 + 2  # no more than were in flight


def test_the_command_says_what_to_correct(tmp_path: Path) -> None:
    write_lines(tmp_path / "swe.jsonl", record())
    done = start(tmp_path, "http://127.0.0.1:9", "tries=0")
    _, err = done.communicate(timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(r"error: configs/rubrics/vllm.yaml: tries: 0 is refused: .*\n", err)
    (tmp_path / "out").write_text("")
    _, err = start(tmp_path, "http://127.0.0.1:9").communicate(timeout=60)
    assert err == f"error: --out {tmp_path}/out: is a file; name a folder\n"
    help_ = subprocess.run([sys.executable, "-m", "scripts.make_rubrics", "--help"],
                           capture_output=True, text=True, cwd=ROOT)  # fmt: skip
    assert "instances/DOMAIN.jsonl" in help_.stdout


def test_real_instances_are_written_as_they_were_read(tmp_path: Path) -> None:
    given = read_instances([shared_file("basis", "synchtom")], strict=True).instances
    for domain in DOMAINS:
        some = [to_record(one) for one in given if one.domain == domain]
        write_lines(tmp_path / f"{domain}.jsonl", *some)
    back = {one.id: one for one in read_instances([tmp_path], strict=True).instances}
    assert len(back) == 313
    assert all(replace(back[one.id], place=one.place) == one for one in given)

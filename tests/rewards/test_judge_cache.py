"""The cache on disk: with real processes, and behind a judge's client."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from rewards.judge_cache import JudgeCache, Kept
from tests.eval.scripted_server import ScriptedServer
from tests.rewards.scripted_judge import (
    cached,
    case,
    config,
    full_case,
    judging,
    run,
    saying,
    solution,
)

ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import sys
from pathlib import Path
from rewards.judge_cache import JudgeCache, Kept
name, cache = sys.argv[1], JudgeCache(Path(sys.argv[2]))
for number in range(500):
    cache.put(f"shared {number}", "m", Kept(name, 1, 2, 3))
    cache.put(f"{name} {number}", "m", Kept(f"{name} {number}", 1, 2, 3))
    assert cache.get(f"{name} {number}").reply == f"{name} {number}"
"""


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "new" / "verdicts.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, name, str(path)], cwd=ROOT)
        for name in ("one", "two", "three")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    cache = JudgeCache(path)
    for number in range(500):
        kept = cache.get(f"shared {number}")
        assert kept and kept.reply in ("one", "two", "three")
        for name in ("one", "two", "three"):
            assert cache.get(f"{name} {number}") == Kept(f"{name} {number}", 1, 2, 3)


def test_a_killed_process_leaves_a_cache_that_works(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    code = WRITER.replace("range(500)", "range(10**9)").replace("assert", "print(number);assert")
    writer = subprocess.Popen(
        [sys.executable, "-uc", code, "one", str(path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert writer.stdout
    said = [int(writer.stdout.readline()) for _ in range(50)]
    writer.kill()
    writer.wait(10)
    writer.stdout.close()
    cache = JudgeCache(path)
    assert all(cache.get(f"one {number}") for number in said)
    cache.put("after", "m", Kept("yes", 1, 0, 0))
    assert cache.get("after") == Kept("yes", 1, 0, 0)


def test_the_first_verdict_stays(tmp_path: Path) -> None:
    cache = JudgeCache(tmp_path / "verdicts.sqlite")
    assert cache.get("a") is None
    cache.put("a", "m", Kept("first", 1, 2, 3))
    cache.put("a", "m", Kept("second", 1, 2, 3))
    cache.close()
    assert JudgeCache(tmp_path / "verdicts.sqlite").get("a") == Kept("first", 1, 2, 3)


def test_any_text_can_be_kept(tmp_path: Path) -> None:
    cache = JudgeCache(tmp_path / "verdicts.sqlite")
    for key, text in (("a", "nul \x00 and 完了 🙂"), ("b", "lone \ud800 half")):
        cache.put(key, "m", Kept(text, 1, 2, 3))
    assert cache.get("a") == Kept("nul \x00 and 完了 🙂", 1, 2, 3)
    assert cache.get("b") == Kept("lone ? half", 1, 2, 3)


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, " * 100)
    with pytest.raises(UserError, match=r"notes\.txt: cannot be used .*name another file"):
        JudgeCache(path).get("a")
    assert path.read_text().startswith("these are my notes")
    with pytest.raises(UserError, match="cannot be used"):
        JudgeCache(tmp_path).get("a")


def test_a_warm_cache_asks_nothing_and_is_fast(tmp_path: Path) -> None:
    cases = [full_case(f"c{n}", f"stale {n}", f"junior {n}", f"reset {n}") for n in range(300)]
    with ScriptedServer(judging()) as server:
        cold, _ = run(cached(server.url, tmp_path, concurrency=64), cases)
        asked = len(server.bodies)
        started = time.process_time()
        warm, counts = run(cached(server.url, tmp_path), cases)
        seconds = time.process_time() - started
        assert len(server.bodies) == asked == 900
    assert (counts.cached, counts.requests) == (900, 0)
    assert [{n: j.scores for n, j in one.items()} for one in warm] == [
        {n: j.scores for n, j in one.items()} for one in cold
    ]
    assert 900 / seconds >= 1000  # the bar of the benchmark is 2,000; tests may share a machine


def test_equal_candidates_share_a_call_only_with_a_cache(tmp_path: Path) -> None:
    same = [case(f"c{number}", "Reset it.") for number in range(8)]
    with ScriptedServer(judging()) as server:
        judged, counts = run(cached(server.url, tmp_path), same)
        assert len(server.bodies) == 1
        assert (counts.judged, counts.cached) == (1, 7)
        assert [one["solution"].case for one in judged] == [f"c{number}" for number in range(8)]
        run(config(server.url), same)
        assert len(server.bodies) == 9


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"revision": "step 200"},
        {"sampling": {"temperature": 0.5}},
        {"sampling": {"top_p": 0.5}},
        {"sampling": {"max_tokens": 100}},
        {"sampling": {"seed": 3}},
        {"sampling": {"enable_thinking": True}},
        {"sampling": {"extra": {}}},
    ],
)
def test_the_cache_key_holds_what_decides_a_verdict(tmp_path: Path, change: Any) -> None:
    with ScriptedServer(judging()) as server:
        server.models = [{"id": "m"}, {"id": "other"}]
        solution(cached(server.url, tmp_path))
        solution(cached(server.url, tmp_path, timeout_s=4.0, concurrency=3, rpm=1000))
        assert len(server.bodies) == 1
        solution(cached(server.url, tmp_path, **change))
        assert len(server.bodies) == 2
        solution(cached(server.url, tmp_path), "Reset it!")
        assert len(server.bodies) == 3


def test_failures_are_not_cached(tmp_path: Path) -> None:
    with ScriptedServer(saying("no")) as server:
        assert solution(cached(server.url, tmp_path)).scores is None
        server.script = judging()
        assert solution(cached(server.url, tmp_path)).scores == (1, 0)
        assert len(server.bodies) == 3

"""What a dry run says, and that it asks and writes nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.estimate import Estimate, estimate
from tests.eval.scripted_server import ScriptedServer
from tests.eval.stories import make_plan, some


def test_tokens_time_and_cost() -> None:
    example = replace(
        some(1)[0], messages=({"role": "user", "content": "x" * 200},), reference_answer="y" * 40
    )
    by_length = estimate([(example, 5, None), (example, 0, None)], max_tokens=64)
    assert by_length == Estimate(1, 5, 500, False, (100, 320))
    assert estimate([(example, 5, 90)], max_tokens=16) == Estimate(1, 5, 450, True, (80, 80))
    assert by_length.lines(tokens_per_second=2.0, price_per_hour=36.0) == [
        "1 requests, 5 answers to ask for",
        "prompts: about 500 tokens",
        "answers: about 100 tokens if they are right ones, at most 320",
        "time at 2 answer tokens a second: 50 s to 3 min",
        "cost at 36 an hour: 0.50 to 1.60",
    ]


def test_a_dry_run_asks_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(tmp_path, some(3), runs=2)
    config = tmp_path / "eval.yaml"
    config.write_text(f"examples: {tmp_path / 'examples.jsonl'}\nruns: 2\n")
    assert main(["plan", str(config), "--out", str(tmp_path / "none"), "--dry-run"]) == 0
    assert "3 requests, 6 answers to ask for" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    with ScriptedServer() as server:
        words = ["run", str(plan.folder), "--system", "base", "--dry-run"]
        assert main([*words, "--server", server.url, "--model", "m"]) == 0
        assert server.bodies == []
    counted = sum(len(m["content"].encode()) for one in some(3) for m in one.messages)
    assert f"prompts: {2 * counted:,} tokens" in capsys.readouterr().out
    assert not (plan.folder / "responses").exists()

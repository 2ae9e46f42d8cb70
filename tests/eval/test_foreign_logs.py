"""Answers of lm-evaluation-harness and Inspect as systems: matched, scored, or refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from eval.__main__ import main
from eval.foreign_logs import import_log
from eval.plan import Plan
from eval.records import read_scores
from eval.scoring import score_path, score_system
from tasks.example import Example, Message
from tests.eval.stories import make_plan, some


def lm_eval_row(example: Example, *replies: str, filter_name: str = "none") -> dict[str, Any]:
    return {
        "doc_id": 0,
        "doc": {"id": example.id, "target": example.target},
        "target": example.reference_answer,
        "arguments": {"gen_args_0": {"arg_0": json.dumps(example.messages), "arg_1": {}}},
        "resps": [list(replies)],
        "filtered_resps": list(replies[:1]),
        "filter": filter_name,
    }


def inspect_sample(example: Example, epoch: int, text: Any, stop: str = "stop") -> dict[str, Any]:
    answer = {"role": "assistant", "content": text}
    return {
        "id": example.id,
        "epoch": epoch,
        "input": example.messages[-1]["content"],
        "messages": [*example.messages, answer],
        "output": {
            "choices": [{"message": answer, "stop_reason": stop}],
            "usage": {"input_tokens": 11, "output_tokens": 5},
        },
    }


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_inspect(path: Path, samples: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"version": 2, "eval": {"model": "vllm/m"}, "samples": samples}))
    return path


def states(plan: Plan, system: str) -> list[str]:
    score_system(plan, system)
    return [row.state for row in read_scores(score_path(plan, system))]


def test_repeats_are_runs_and_filters_are_not(tmp_path: Path) -> None:
    first, second, third = some(3)
    plan = make_plan(tmp_path, [first, second, third], runs=2)
    rows = [lm_eval_row(one, one.reference_answer, "no idea") for one in (first, second)]
    rows += [lm_eval_row(first, "again", "again", filter_name="strict")]
    path = write_lines(tmp_path / "samples.jsonl", rows)
    with pytest.raises(UserError, match=r"4 replies.*say --assume-finished"):
        import_log(plan, "theirs", path)
    words = ["import", str(plan.folder), "--system", "theirs", "--log", str(path)]
    assert main([*words, "--assume-finished"]) == 0
    assert states(plan, "theirs") == ["ok", "unparseable"] * 2 + ["missing", "missing"]
    with pytest.raises(UserError, match="there already; choose another --system"):
        import_log(plan, "theirs", path, assume_finished=True)


REAL = Path(__file__).with_name("foreign")
"""Logs of lm-eval 0.4.13 and Inspect 0.3.285 on a row of ``tasks.export``, asked of the mock server
of ``scripts``; the target, events and paths are taken out, the error is of another run."""


def short_plan(folder: Path) -> Plan:
    asked: tuple[Message, ...] = (
        {"role": "system", "content": "Answer with JSON only."},
        {"role": "user", "content": "Plan of A:"},
    )
    direct = next(one for one in some(16) if one.condition == "direct")
    return make_plan(folder, [replace(direct, id="short:direct:A", messages=asked)], runs=2)


def test_real_samples_of_lm_eval(tmp_path: Path) -> None:
    plan = short_plan(tmp_path)
    found = import_log(plan, "theirs", REAL / "lm_eval.jsonl", assume_finished=True)
    assert (found.taken, found.unknown, dict(found.states)) == (2, 0, {"ok": 2})
    rows = (plan.folder / "responses/theirs.jsonl").read_text().splitlines()
    assert [json.loads(row)["run"] for row in rows] == [1, 2]
    assert json.loads(rows[0])["text"].startswith('{"plan":{"M1":1,"M2":2}} x x')


def test_a_real_log_of_inspect(tmp_path: Path) -> None:
    plan = short_plan(tmp_path)
    found = import_log(plan, "theirs", REAL / "inspect.json")
    assert (found.taken, dict(found.states)) == (2, {"ok": 1, "http_error": 1})
    first, second = map(
        json.loads, (plan.folder / "responses/theirs.jsonl").read_text().splitlines()
    )
    assert (first["prompt_tokens"], first["completion_tokens"]) == (300, 60)
    assert (first["finish_reason"], first["text"][:24]) == ("stop", '{"plan":{"M1":1,"M2":2}}')
    assert second["error"].startswith("1 validation error for ModelUsage")


def test_epochs_are_runs_and_stop_reasons_are_states(tmp_path: Path) -> None:
    first, second, third = some(3)
    plan = make_plan(tmp_path, [first, second, third], runs=2)
    thought = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": first.reference_answer},
    ]
    failed = {**inspect_sample(second, 2, ""), "error": {"message": "boom"}}
    samples = [
        inspect_sample(first, 1, thought),
        inspect_sample(first, 2, first.reference_answer, "max_tokens"),
        inspect_sample(second, 1, second.reference_answer, "content_filter"),
        failed,
        inspect_sample(third, 3, "a run that is not planned"),
    ]
    found = import_log(plan, "theirs", write_inspect(tmp_path / "log.json", samples))
    assert (found.taken, found.unknown) == (4, 1)
    expected = ["ok", "truncated", "truncated", "http_error", "missing", "missing"]
    assert states(plan, "theirs") == expected


def test_what_was_asked_otherwise_or_is_no_log_is_refused_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    one, other = some(2)
    plan = make_plan(tmp_path, [one])
    asked = inspect_sample(one, 1, "x")
    asked["messages"][1] = {"role": "user", "content": "What is 2 + 2?"}
    cases = {
        "was asked something else": write_inspect(tmp_path / "a", [asked]),
        "none of its 1 answers": write_inspect(tmp_path / "b", [inspect_sample(other, 1, "x")]),
        "neither a samples file": write_lines(tmp_path / "c", [{"id": 1}]),
    }
    for message, path in cases.items():
        with pytest.raises(UserError, match=message):
            import_log(plan, "theirs", path)
    assert not (plan.folder / "responses").exists()


def test_a_rendered_prompt_must_hold_every_message(tmp_path: Path) -> None:
    one = some(1)[0]
    plan = make_plan(tmp_path, [one])
    row = lm_eval_row(one, one.reference_answer)
    rendered = "<|im_start|>" + "<|im_end|>".join(m["content"] for m in one.messages)
    row["arguments"]["gen_args_0"]["arg_0"] = rendered
    import_log(plan, "whole", write_lines(tmp_path / "a", [row]), assume_finished=True)
    row["arguments"]["gen_args_0"]["arg_0"] = rendered[len(rendered) // 3 :]
    with pytest.raises(UserError, match="something else"):
        import_log(plan, "part", write_lines(tmp_path / "b", [row]), assume_finished=True)

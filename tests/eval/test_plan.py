"""What a plan freezes, what its hash covers, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from configs.errors import UserError
from configs.evaluation import EvalConfig, Sampling, Transport
from configs.load import load
from configs.rewards import RewardConfig
from eval.plan import read_plan, request_body, seed_for, write_plan
from tasks.example import write_examples
from tests.eval.stories import make_plan, some


def test_planning_the_same_again_changes_no_byte(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(6), runs=2)
    before = {p.name: p.read_bytes() for p in plan.folder.iterdir()}
    _, new = write_plan(plan.config, plan.folder)
    assert not new
    assert {p.name: p.read_bytes() for p in plan.folder.iterdir()} == before
    assert sorted(before) == ["plan.json", "requests.jsonl"]


def test_another_plan_into_the_folder_is_refused_naming_the_fields(tmp_path: Path) -> None:
    make_plan(tmp_path, some(6))
    with pytest.raises(UserError, match=r"config\.sampling\.temperature \(0\.7 there, 0\.2 now\)"):
        make_plan(tmp_path, some(6), temperature=0.2)
    with pytest.raises(UserError, match=r"messages_sha256 .*requests \(6 there, 7 now\)"):
        make_plan(tmp_path, some(7))


CHANGES: list[dict[str, object]] = [
    {"temperature": 0.1},
    {"top_p": 0.5},
    {"top_k": 7},
    {"min_p": 0.1},
    {"repetition_penalty": 1.1},
    {"presence_penalty": 0.5},
    {"frequency_penalty": 0.5},
    {"max_tokens": 65},
    {"stop": ("x",)},
    {"seed": 1},
    {"enable_thinking": True},
]


def test_every_sampling_field_and_the_runs_change_the_hash(tmp_path: Path) -> None:
    asked = some(2)
    hashes = [make_plan(tmp_path / "base", asked).hash]
    hashes += [make_plan(tmp_path / str(n), asked, **c).hash for n, c in enumerate(CHANGES)]
    hashes.append(make_plan(tmp_path / "runs", asked, runs=2).hash)
    assert len(set(hashes)) == len(CHANGES) + 2


def test_what_is_not_sent_does_not_change_the_hash(tmp_path: Path) -> None:
    asked = some(2)
    plan = make_plan(tmp_path / "a", asked)
    other = make_plan(tmp_path / "b", asked, transport=Transport(concurrency=3, timeout_s=9.0))
    config = plan.config.model_copy(update={"reward": RewardConfig(entries=0.5)})
    third = write_plan(config, tmp_path / "c")[0]
    assert plan.hash == other.hash == third.hash


def test_seeds_differ_by_request_and_run_and_are_equal_for_every_system() -> None:
    seeds = {seed_for(0, f"r{i}", run) for i in range(500) for run in range(1, 6)}
    assert len(seeds) == 2500
    assert max(seeds) < 2**53
    assert seed_for(0, "r1", 2) == 7326712305702079


def test_runs_of_one_request_differ_in_the_seed_alone(tmp_path: Path) -> None:
    example = some(1)[0]
    bodies = [
        request_body(Sampling(), example.messages, seed_for(0, example.id, run))
        for run in range(1, 6)
    ]
    assert len({body["seed"] for body in bodies}) == 5
    assert len({json.dumps({**body, "seed": 0}) for body in bodies}) == 1


def test_every_sampling_field_is_sent() -> None:
    body = request_body(Sampling(top_k=0), some(1)[0].messages, 5)
    assert set(body) >= {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "max_tokens",
        "stop",
        "seed",
        "n",
    }
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["top_k"] == -1  # 0 means no limit too, and servers want -1


def test_duplicate_ids_and_empty_files_are_refused_and_leave_no_plan(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is there twice"):
        make_plan(tmp_path / "twice", some(1) * 2)
    with pytest.raises(UserError, match="no examples"):
        make_plan(tmp_path / "none", [])
    assert not (tmp_path / "twice/plan/plan.json").exists()
    assert not (tmp_path / "none/plan/plan.json").exists()


def test_requests_changed_after_freezing_are_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(3))
    requests = plan.folder / "requests.jsonl"
    requests.write_text(requests.read_text().replace("calendar", "Calendar", 1))
    with pytest.raises(UserError, match="changed since it was frozen"):
        read_plan(plan.folder)


def test_transport_overrides_are_checked(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    assert plan.with_transport(["concurrency=256"]).config.transport.concurrency == 256
    with pytest.raises(UserError, match="keys here: concurrency"):
        plan.with_transport(["temperature=1"])
    with pytest.raises(UserError, match="concurrency: '0' is refused"):
        plan.with_transport(["concurrency=0"])


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).resolve().parents[2] / "configs/eval").glob("*.yaml")),
    ids=lambda p: p.stem,
)
def test_every_shipped_config_loads(path: Path) -> None:
    assert load(path, EvalConfig).runs == 5


def test_tasks_without_scores_and_mixed_tasks_are_refused(tmp_path: Path) -> None:
    first, second = some(2)
    for name, tasks in (("other", [replace(first, task="maze")]), ("both", [first, second])):
        if name == "both":
            tasks[1] = replace(second, task="basis")
        write_examples(tmp_path / name, tasks)
    with pytest.raises(UserError, match="is of task 'maze', which has no scores"):
        write_plan(EvalConfig(examples=tmp_path / "other"), tmp_path / "plan")
    with pytest.raises(UserError, match="'basis', others are not; make one plan for each task"):
        write_plan(EvalConfig(examples=tmp_path / "both"), tmp_path / "plan")
    assert not (tmp_path / "plan/plan.json").exists()


def test_basis_needs_a_judge_and_calendars_have_none(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples", [replace(some(1)[0], task="basis")])
    with pytest.raises(UserError, match="judge is missing; BASIS answers need one"):
        write_plan(EvalConfig(examples=tmp_path / "examples"), tmp_path / "plan")
    calendar = "data: {split: test, generated: {count: 1}}\n"
    (tmp_path / "eval.yaml").write_text(calendar + "judge: {endpoint: 'http://h', model: m}\n")
    with pytest.raises(UserError, match="judge has no use for calendar"):
        load(tmp_path / "eval.yaml", EvalConfig)


def test_a_calendar_plan_says_nothing_of_judges(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, some(2))
    config = json.loads((plan.folder / "plan.json").read_text())["config"]
    assert list(config)[-1] == "reward"
    assert plan.task == "calbench"


def test_structured_output_is_part_of_the_plan_and_its_hash(tmp_path: Path) -> None:
    free = make_plan(tmp_path / "free", some(2))
    config = free.config.model_copy(update={"structured_output": True})
    held = write_plan(config, tmp_path / "held")[0]
    assert held.hash != free.hash
    assert (free.answer_form, held.answer_form) == ("free text", "structured output (JSON schema)")
    assert read_plan(held.folder).config.structured_output
    with pytest.raises(UserError, match=r"config\.structured_output \(null there, true now\)"):
        write_plan(config, free.folder)


def test_thinking_and_a_schema_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="leaves no room for thinking"):
        EvalConfig(
            examples=Path("x"), structured_output=True, sampling=Sampling(enable_thinking=True)
        )

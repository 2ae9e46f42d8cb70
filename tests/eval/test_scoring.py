"""Responses -> scores: what is complete, what is coverage, and what copying is worth."""

import json
from pathlib import Path

import pytest

from configs.data import CalbenchData, PublicTasks
from configs.errors import UserError
from configs.evaluation import EvalConfig
from eval.measures import ALL, ANSWERED, REWARD
from eval.metrics import Group, summarize
from eval.plan import Plan, write_plan
from eval.records import (
    STATES,
    Identity,
    Response,
    Scored,
    read_scores,
    to_line,
    write_identity,
)
from eval.scoring import judge, policy_path, score_path, score_policies, score_system, systems
from tasks.calbench.policies import right_answer, world_copy
from tasks.calbench.reference import parse
from tasks.example import Example
from tests.eval.stories import make_plan, some

DATA = Path(__file__).resolve().parents[2] / ".." / "shared/data/calbench"


def identity(plan: Plan, system: str = "base") -> Identity:
    return Identity(system, plan.hash, "openai_server", "m", system, False, "")


def store(plan: Plan, responses: list[Response], system: str = "base") -> None:
    path = plan.folder / "responses" / f"{system}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(map(to_line, responses)))
    write_identity(path.with_suffix(".json"), identity(plan, system))


def scored(plan: Plan, system: str = "base") -> list[Scored]:
    return list(read_scores(score_path(plan, system)))


def plans_asked(count: int) -> list[Example]:
    return [one for one in some(200) if one.condition == "direct"][:count]


def test_failed_requests_are_coverage_and_widen_the_bounds(tmp_path: Path) -> None:
    asked = plans_asked(4)
    plan = make_plan(tmp_path, asked)
    failed = [Response(one.id, 1, "http_error") for one in asked[1:]]
    store(plan, [Response(asked[0].id, 1, "ok", right_answer(parse(asked[0].target))), *failed])
    assert score_system(plan, "base").states == {"ok": 1, "http_error": 3}
    rows = {(row.id, row.run): row for row in scored(plan)}
    found = summarize(rows, Group(ALL["optimal"], "direct", "all"))
    assert (found.mean, found.cells, found.planned, found.coverage) == (1.0, 1, 4, 0.25)
    assert found.bounds == (0.25, 1.0)
    assert summarize(rows, Group(REWARD, "all", "all")).cells == 1


def test_what_was_never_asked_is_missing(tmp_path: Path) -> None:
    asked = plans_asked(2)
    plan = make_plan(tmp_path, asked, runs=2)
    store(plan, [Response(asked[1].id, 2, "ok", right_answer(parse(asked[1].target)))])
    score_system(plan, "base")
    assert [row.state for row in scored(plan)] == ["missing", "missing", "missing", "ok"]


def test_scores_are_in_plan_order_and_the_same_bytes_again(tmp_path: Path) -> None:
    asked = plans_asked(5)
    plan = make_plan(tmp_path, asked)
    store(plan, [Response(one.id, 1, "ok", one.reference_answer) for one in reversed(asked)])
    score_system(plan, "base")
    before = score_path(plan, "base").read_bytes()
    score_system(plan, "base")
    assert [row.id for row in scored(plan)] == [one.id for one in asked]
    assert score_path(plan, "base").read_bytes() == before


READ = [
    ("ok", "{answer}", False, "ok"),
    ("ok", "<think>{wrong}</think>{answer}", False, "ok"),
    ("ok", "a draft {wrong}</think>\n{answer}", True, "ok"),
    ("ok", "{answer}", True, "unterminated_reasoning"),
    ("ok", "<think>{answer}", False, "unterminated_reasoning"),
    ("ok", "", False, "unparseable"),
    ("truncated", "{answer}", False, "truncated"),
    ("unknown_finish", "{answer}", False, "truncated"),
    ("context_overflow", "", False, "context_overflow"),
    ("timeout", "", False, "timeout"),
]


@pytest.mark.parametrize(("state", "template", "prefilled", "expected"), READ)
def test_states_of_scores(
    tmp_path: Path, state: str, template: str, prefilled: bool, expected: str
) -> None:
    asked = plans_asked(1)
    plan = make_plan(tmp_path, asked)
    reference = parse(asked[0].target)
    text = template.replace("{answer}", right_answer(reference)).replace("{wrong}", '{"plan":{}}')
    row = judge(plan, asked[0], Response(asked[0].id, 1, state, text), prefilled)  # type: ignore[arg-type]
    assert row.state == expected
    delivered = expected not in ("context_overflow", "timeout")
    assert row.reward == ((1.0 if expected == "ok" else 0.0) if delivered else None)
    assert bool(row.measures) == (expected == "ok")


def test_every_reason_is_one_of_the_closed_set_and_the_note_keeps_the_finer_one(
    tmp_path: Path,
) -> None:
    asked = plans_asked(1)
    plan = make_plan(tmp_path, asked)
    texts = {"": "no_answer", "{": "no_answer", '{"plan": 3}': "wrong_shape", "<think>": "u"}
    texts |= {'{"plan": {}}': "missing_entry", '{"plan": {"M1": 1': "unparseable"}
    for text, reason in texts.items():
        row = judge(plan, asked[0], Response(asked[0].id, 1, "ok", text))
        assert row.state in STATES[2:4]
        assert reason in row.note
    cut = Response(asked[0].id, 1, "unknown_finish", asked[0].reference_answer, "tool_calls")
    row = judge(plan, asked[0], cut)
    assert (row.state, row.measures) == ("truncated", {})
    assert row.note.startswith("unknown finish reason 'tool_calls'")
    assert len(STATES) == len(set(STATES)) == 10


def test_scores_of_an_earlier_version_are_refused_with_the_remedy(tmp_path: Path) -> None:
    asked = plans_asked(1)
    plan = make_plan(tmp_path, asked)
    store(plan, [Response(asked[0].id, 1, "ok", asked[0].reference_answer)])
    score_system(plan, "base")
    path = score_path(plan, "base")
    path.write_text(path.read_text().replace('"state":"ok"', '"state":"complete"'))
    with pytest.raises(UserError, match=r"state 'complete' is none of this version.*score` again"):
        list(read_scores(path))


def test_a_right_answer_has_full_reward_in_every_condition(tmp_path: Path) -> None:
    asked = some(40)
    plan = make_plan(tmp_path, asked)
    for one in asked:
        row = judge(plan, one, Response(one.id, 1, "ok", one.reference_answer))
        assert (row.state, row.reward) == ("ok", 1.0)


def test_stale_and_leaked_entries_are_told_apart(tmp_path: Path) -> None:
    asked = [one for one in some(200) if one.condition == "belief"]
    plan = make_plan(tmp_path, asked)
    for one in asked:
        reference = parse(one.target)
        rows = (reference.initial, reference.belief, reference.world)
        known = sum(
            i != b for a, c, _ in zip(*rows, strict=True) for i, b in zip(a, c, strict=True)
        )
        unknown = sum(
            b != w for _, a, c in zip(*rows, strict=True) for b, w in zip(a, c, strict=True)
        )
        copied = judge(plan, one, Response(one.id, 1, "ok", world_copy(reference))).measures
        assert (copied["stale_entries"], copied["leaked_entries"]) == (0, unknown)
        start = world_copy(
            parse(
                one.target.replace('"world"', '"x"')
                .replace('"initial"', '"world"')
                .replace('"x"', '"initial"')
            )
        )
        stale = judge(plan, one, Response(one.id, 1, "ok", start)).measures
        assert (stale["stale_entries"], stale["leaked_entries"]) == (known, 0)


def test_responses_of_another_plan_are_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path / "a", plans_asked(1))
    other = make_plan(tmp_path / "b", plans_asked(1), temperature=0.0)
    store(plan, [Response(plans_asked(1)[0].id, 1, "ok", "x")])
    (plan.folder / "responses").rename(other.folder / "responses")
    assert systems(other) == ["base"]
    with pytest.raises(UserError, match=r"base\.jsonl: answers plan"):
        score_system(other, "base")


def test_same_text_in_every_run_is_counted(tmp_path: Path) -> None:
    asked = plans_asked(2)
    plan = make_plan(tmp_path, asked, runs=2)
    texts = {(asked[0].id, 1): "a", (asked[0].id, 2): "a", (asked[1].id, 1): "a"}
    store(plan, [Response(*key, "ok", text) for key, text in texts.items()])
    score_system(plan, "base")
    tally = json.loads(score_path(plan, "base").with_suffix(".json").read_text())
    assert (tally["repeated_requests"], tally["identical_requests"]) == (1, 1)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the public CalBench files are not at {DATA}")
def test_copying_the_world_on_the_paper_like_test_set(tmp_path: Path) -> None:
    """180 stories, 72 000 entries: copying the world is right about nearly all of them."""
    files = tuple(str(DATA / f"{name}_full.jsonl") for name in ("uniform", "varied"))
    config = EvalConfig(
        data=CalbenchData(
            split="test", public=PublicTasks(files=files), conditions=("belief", "direct")
        )
    )
    plan, _ = write_plan(config, tmp_path / "plan")
    score_policies(plan)
    rows = {(row.id, row.run): row for row in read_scores(policy_path(plan, "world copy"))}
    entries = summarize(rows, Group(ALL["entries"], "belief", "all"))
    assert (entries.items, entries.mean) == (900, pytest.approx(0.9925, abs=1e-12))
    assert summarize(rows, Group(ALL["whole_agent"], "belief", "all")).total == 540
    private = summarize(rows, Group(ALL["whole_agent"], "belief", "PRIVATE"))
    assert (private.total, private.cells) == (90, 450)
    assert summarize(rows, Group(ALL["world_feasible"], "direct", "all")).total == 900
    assert summarize(rows, Group(ANSWERED, "all", "all")).coverage == 1.0

"""Judging a system's answers: what is kept, what is owed, what a bad judge cannot do."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from configs.judge import JudgeConfig
from eval.__main__ import main
from eval.basis.compare import compare
from eval.basis.judgements import log_path, open_log
from eval.basis.scoring import Outcome, score_system
from eval.plan import Plan
from eval.records import Scored, read_scores
from eval.scoring import score_path
from tasks.basis.reference import Reference
from tests.eval.basis.requests import answer, ask, full, half, make_plan
from tests.eval.scripted_server import Script, ScriptedServer, completion
from tests.rewards.scripted_judge import config, dying, failing, hanging, judging, saying

ROOT = Path(__file__).resolve().parents[3]
GUIDED: dict[str, tuple[int, ...]] = {"guided": (0,)}


def rows(plan: Plan, system: str = "base") -> list[Scored]:
    return list(read_scores(score_path(plan, system)))


def kept(plan: Plan, judge: JudgeConfig, system: str = "base") -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path(plan, judge, system).read_text().splitlines()]


def scored_by(plan: Plan, script: Script, **changes: Any) -> tuple[Outcome, int]:
    """The outcome under a scripted judge, and how many requests reached it."""
    with ScriptedServer(script) as server:
        outcome = score_system(plan, "base", config(server.url, **changes))
        return outcome, len(server.bodies)


def test_every_judgement_is_kept_with_its_criteria_and_reply(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=1)
    ask(plan, "base", half)
    with ScriptedServer(judging()) as server:
        judge = config(server.url)
        assert score_system(plan, "base", judge).exit_code == 0
    found = {(one["id"], one["dimension"]): one for one in kept(plan, judge)}
    assert len(found) == 6
    belief = found[("swe_0000:guided:all:k0", "belief")]
    assert (belief["scores"], belief["model"], belief["state"]) == ([1, 0], "m", "judged")
    assert belief["reply"].startswith("I weighed them.")
    assert len(belief["prompt_hash"]) == 64
    [row, _] = rows(plan)
    assert row.measures == {
        "belief": 0.5,
        "profile": pytest.approx(1 / 3),
        "solution": 0.25,
        "belief_words": 2,
        "profile_words": 1,
        "solution_words": 3,
    }
    assert row.parts["user_profile"] == pytest.approx(1 / 3)
    assert row.reward == pytest.approx(0.3 / 2 + 0.2 / 3 + 0.5 / 4)


def test_an_empty_text_scores_zero_without_a_call(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"guided": (0,), "separate": (0,)}, count=1)

    def silent(reference: Reference) -> str:
        return answer(reference, " ", "", "") if reference.form == "json" else ""

    ask(plan, "base", silent)
    judge = config("http://127.0.0.1:9")  # nobody is there
    outcome = score_system(plan, "base", judge)
    assert (outcome.exit_code, outcome.judgements["empty_candidate"]) == (0, 6)
    assert outcome.states == {"ok": 2, "unparseable": 6}
    assert {share for row in rows(plan) for share in row.measures.values()} == {0.0}
    assert [row.reward for row in rows(plan)] == [0.0] * 8


def test_cut_off_answers_are_coverage_and_formless_ones_score_zero(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=1)
    log = plan.folder / "responses/base.jsonl"
    ask(plan, "base", lambda reference: "I cannot say.")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines.sort(key=lambda one: str(one["id"]))
    lines[1] |= {"state": "truncated"}
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    score_system(plan, "base", config("http://127.0.0.1:9"))
    found = {row.state: row for row in rows(plan)}
    assert found["unparseable"].measures == {"belief": 0.0, "profile": 0.0, "solution": 0.0}
    assert (found["truncated"].measures, found["truncated"].reward) == ({}, 0.0)


def test_a_judge_failure_is_no_score_and_final_once_it_replied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(tmp_path, GUIDED, count=2)
    ask(plan, "base", full)
    outcome, asked = scored_by(plan, saying("no idea"))
    assert outcome.exit_code == 2  # something to correct: a judge that never gives a verdict
    assert outcome.judgements["failed"] == {"no_scores_object": 12}
    assert (outcome.judgements["failing_share"], outcome.judgements["owed"]) == (1.0, 0)
    assert asked == 24  # each asked twice
    assert {row.state for row in rows(plan)} == {"judge_failed"}
    assert {row.reward for row in rows(plan)} == {None}
    assert rows(plan)[0].parts["belief"] is None
    assert "judge belief: no_scores_object" in rows(plan)[0].note
    again, asked = scored_by(plan, judging())
    assert (asked, again.judgements) == (0, outcome.judgements)
    capsys.readouterr()
    assert main(["score", str(plan.folder)]) == 2
    assert capsys.readouterr().err == (
        "base: none of the judge's replies is a verdict, 12 times; ask for these again with "
        "--retry-unusable, or name another judge (model=NAME endpoint=URL)\n"
    )
    with ScriptedServer(judging()) as server:
        assert main(["score", str(plan.folder), f"endpoint={server.url}", "--retry-unusable"]) == 0
        assert len(server.bodies) == 12
    assert {row.reward for row in rows(plan)} == {1.0}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (failing(10_000, judging(), 500), "http_500"),
        (failing(10_000, judging(), 429, Retry_After="0.01"), "http_429"),
        (failing(10_000, judging(), 429, Retry_After="3600"), "http_429"),
    ],
    ids=["500", "429", "429 for an hour"],
)
def test_a_judge_that_refuses_ends_soon_and_is_asked_again_later(
    tmp_path: Path, script: Script, reason: str
) -> None:
    plan = make_plan(tmp_path, GUIDED, count=2)
    ask(plan, "base", full)
    started = time.monotonic()
    outcome, _ = scored_by(plan, script)
    assert time.monotonic() - started < 5
    assert (outcome.exit_code, outcome.judgements["failed"]) == (1, {reason: 12})
    outcome, asked = scored_by(plan, judging())
    assert (outcome.exit_code, asked) == (0, 12)
    assert {row.reward for row in rows(plan)} == {1.0}


def test_a_judge_that_hangs_is_given_up(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=10)
    ask(plan, "base", full)
    started = time.monotonic()
    outcome, _ = scored_by(plan, hanging(), timeout_s=0.2, concurrency=4)
    assert time.monotonic() - started < 5
    assert outcome.exit_code == 3
    assert "does not answer" in outcome.session.stopped
    assert outcome.judgements["owed"] == 60


def test_a_judge_that_dies_half_way_keeps_all_it_said_and_resumes(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=10)
    ask(plan, "base", full)
    started = time.monotonic()
    with dying(25, judging()) as server:
        judge = config(server.url, concurrency=4)
        outcome = score_system(plan, "base", judge)
    assert time.monotonic() - started < 10
    assert outcome.exit_code == 3
    said = outcome.judgements
    assert (said["judged"], said["owed"]) == (25, 35)
    assert sum(one["state"] == "judged" for one in kept(plan, judge)) == 25
    assert "unreachable" in said["failed"]
    outcome, asked = scored_by(plan, judging())
    assert (asked, outcome.exit_code, outcome.judgements["judged"]) == (35, 0, 60)


def test_too_many_failures_stop_the_rest_and_say_so(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=10)
    ask(plan, "base", full)
    outcome, asked = scored_by(plan, saying("prose"), window=10, concurrency=2)
    assert outcome.exit_code == 3
    assert "10 of the last 10 judgements failed (no_scores_object 10)" in outcome.session.stopped
    assert asked < 40
    assert outcome.judgements["failed"]["not_asked"] == outcome.judgements["owed"]


def test_no_judge_at_the_start_is_one_line(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=1)
    ask(plan, "base", full)
    with pytest.raises(UserError, match="does not answer; start it first"):
        main(["score", str(plan.folder)])
    with pytest.raises(UserError, match="api_key has no place in a config") as error:
        main(["score", str(plan.folder), "api_key=sk-very-secret"])
    assert "sk-very-secret" not in str(error.value)
    with pytest.raises(UserError, match="unknown key modle"):
        main(["score", str(plan.folder), "modle=x"])


def test_another_judge_writes_beside_and_is_not_mixed_in_a_comparison(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=2)
    ask(plan, "base", half)
    ask(plan, "trained", full)
    with ScriptedServer(judging()) as server:
        first, second = config(server.url), config(server.url, mode="joint")
        score_system(plan, "base", first)
        score_system(plan, "trained", first)
        assert len(server.bodies) == 24
        assert score_system(plan, "base", second).judgements["judged"] == 12
        assert len(server.bodies) == 28  # joint: one call an answer
        with pytest.raises(UserError, match="different judges"):
            main(["compare", str(plan.folder)])
        score_system(plan, "base", first)
        assert len(server.bodies) == 28
    assert main(["compare", str(plan.folder)]) == 0
    assert log_path(plan, first, "base") != log_path(plan, second, "base")


def test_a_changed_answer_is_judged_anew(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"gt": (0,)}, count=1)
    ask(plan, "base", half)
    assert scored_by(plan, judging())[1] == 2
    log = plan.folder / "responses/base.jsonl"
    log.write_text(log.read_text().replace("a new bulb", "a bulb that is fine", 1))
    assert scored_by(plan, judging())[1] == 1
    assert sorted(row.measures["solution"] for row in rows(plan)) == [0.25, 0.5]


def test_too_many_failures_take_the_headline_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan(tmp_path, GUIDED, count=10)
    ask(plan, "base", half)
    ask(plan, "trained", full)
    honest = judging()

    async def sometimes(body: Any, number: int) -> Any:
        lost = "blown" in body["messages"][-1]["content"].partition("CANDIDATE")[2]
        return completion("prose") if lost else await honest(body, number)

    with ScriptedServer(sometimes) as server:
        words = [str(plan.folder), f"endpoint={server.url}", "max_failing_share=0.9"]
        assert main(["score", *words]) == 0
    assert (
        "trained: no verdict, 20 times; ask for these again with --ret" in capsys.readouterr().err
    )
    assert main(["compare", str(plan.folder)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["report", str(plan.folder)]) == 0
    text = (plan.folder / "report.md").read_text()
    assert "no headline, because the judge failed on 33.3% for trained" in text.splitlines()[2]
    found = json.loads((plan.folder / "compare.json").read_text())["contrasts"]
    belief = next(one for one in found if one["measure"] == "belief")
    assert (belief["difference"], belief["cells"], belief["planned"]) == (None, 0, 20)
    assert (belief["bound_low"], belief["bound_high"]) == (-0.5, 0.5)
    assert "| trained | all | all | n/a [0/20; 0.00 to 100.00] | n/a [0/20; 0.00 to 100.00]" in text


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_stopped_while_judging_loses_at_most_what_was_in_flight(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    plan = make_plan(tmp_path, GUIDED, count=10)
    ask(plan, "base", full)
    with ScriptedServer(judging(latency_s=0.05)) as server:
        words = ["score", str(plan.folder), f"endpoint={server.url}", "concurrency=4"]
        process = subprocess.Popen([sys.executable, "-m", "eval", *words], cwd=ROOT)
        while len(server.bodies) < 20:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(sent)
        assert process.wait(10) == code
        judge = config(server.url, concurrency=4)
        outcome = score_system(plan, "base", judge)
        assert len(server.bodies) <= 60 + 4
    assert outcome.judgements["judged"] == 60
    places = [(one["id"], one["dimension"]) for one in kept(plan, judge)]
    assert len(places) == len(set(places)) == 60


def test_what_was_never_asked_is_missing_and_lowers_coverage_alone(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"separate": (0,), "guided": (0,)}, count=1, runs=2)
    ask(plan, "base", full)
    log = plan.folder / "responses/base.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    left = [one for one in lines if one["id"] != "swe_0000:separate:belief:k0" or one["run"] == 1]
    log.write_text("".join(json.dumps(one) + "\n" for one in left))
    outcome, _ = scored_by(plan, judging())
    assert outcome.states == {"ok": 15, "missing": 1}
    [lost] = [row for row in rows(plan) if row.state == "missing"]
    assert (lost.id, lost.run) == ("swe_0000:separate:belief:k0", 2)
    assert (lost.reward, lost.measures, lost.parts) == (None, {}, {})


def test_a_second_process_may_not_judge_the_same_system(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, GUIDED, count=1)
    ask(plan, "base", full)
    judge = config("http://127.0.0.1:9")
    log = open_log(plan, judge, "base")
    with pytest.raises(UserError, match="another `eval score` is writing it"):
        score_system(plan, "base", judge)
    log.close()


def test_prefixes_drawn_apart_are_compared_where_both_arms_have_them(tmp_path: Path) -> None:
    settings = {"separate": (0, 5, 10), "guided": (0, 5, 10), "gt": (0, 5)}
    plan = make_plan(tmp_path, settings, prefixes_per_instance=1)
    ask(plan, "base", half)
    ask(plan, "trained", full)
    with ScriptedServer(judging()) as server:
        assert main(["score", str(plan.folder), f"endpoint={server.url}"]) == 0
    found = compare(plan, "base", "trained")["contrasts"]
    where = {"comparison": "gt - separate", "system": "base", "domain": "all", "subset": "all"}
    cells = [one for one in found if all(one[name] == wanted for name, wanted in where.items())]
    both = {(one.story, one.turns) for one in plan.requests() if one.condition == "separate"}
    both &= {(one.story, one.turns) for one in plan.requests() if one.condition == "gt"}
    assert 0 < len(both) < 20
    assert sum(one["items"] for one in cells) == len(both)

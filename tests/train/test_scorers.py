"""What scores a batch, with a judge over HTTP.

python -m pytest tests/train/test_scorers.py -v
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.data import BasisData
from configs.rewards import RubricReward
from rewards.blocking_judge import BlockingJudge
from rewards.score import Score
from tasks.basis.examples import examples
from tasks.example import Example
from tests.eval.scripted_server import ScriptedServer
from tests.rewards.scripted_judge import config, hanging, judging, saying
from tests.train.basis_data import write_users
from train.reward_adapter import Batch, Completion, RewardAdapter
from train.scorers import RubricScorer, by_task, one_by_one


@pytest.fixture
def requests(tmp_path: Path) -> dict[str, Example]:
    """One user's requests, by dimension asked for."""
    trained, _ = write_users(tmp_path)
    data = BasisData(
        task="basis",
        split="train",
        files=(str(trained / "pref.jsonl"),),
        settings={"separate": (2,), "guided": (2,)},
        guided_format="tags",
    )
    return {one.holder: one for one in examples(data)}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(judging()) as served:
        yield served


def said(request: Example, text: str, truncated: bool = False) -> Completion:
    return Completion(text, "basis", request.target, truncated, False)


def scored(url: str, *completions: Completion, reward: RubricReward | None = None) -> Batch:
    with BlockingJudge(config(url, max_tries=1, timeout_s=0.3)) as judge:
        return RubricScorer(judge, reward or RubricReward())(completions)


def tagged(belief: str, profile: str, solution: str) -> str:
    return f"<belief>{belief}</belief><profile>{profile}</profile><solution>{solution}</solution>"


def test_a_guided_answer_earns_the_weighted_mean_of_criteria_met(
    requests: dict[str, Example], server: ScriptedServer
) -> None:
    [score] = scored(server.url, said(requests["all"], tagged("1 b", "D", "3 C"))).scores
    assert score.parts == pytest.approx(
        {"belief": 2 / 3, "user_profile": 1 / 3, "solution": 2 / 4, "format": 1, "concise": 1}
    )
    assert score.value == pytest.approx(0.3 * 2 / 3 + 0.2 * 1 / 3 + 0.5 * 2 / 4)
    assert score.failures == {}
    assert len(server.bodies) == 3


def test_what_was_not_asked_for_is_no_part_and_no_failure(
    requests: dict[str, Example], server: ScriptedServer
) -> None:
    [score] = scored(server.url, said(requests["belief"], "1 b")).scores
    assert set(score.parts) == {"belief", "format", "concise"}
    assert score.value == pytest.approx(2 / 3)


def test_without_the_form_or_cut_off_an_answer_earns_0_and_no_judge_is_asked(
    requests: dict[str, Example], server: ScriptedServer
) -> None:
    whole = tagged("1", "2", "3")
    batch = scored(
        server.url,
        said(requests["all"], "1 2 3"),
        said(requests["all"], f"Here: {whole}"),
        said(requests["all"], whole, truncated=True),
        said(requests["belief"], "<think>1 b M"),
    )
    assert [score.value for score in batch.scores] == [0.0] * 4
    assert [score.parts["format"] for score in batch.scores] == [0.0] * 4
    assert [score.note for score in batch.scores] == [
        "no_answer", "wrong_shape", "truncated", "unterminated_reasoning",
    ]  # fmt: skip
    assert not server.bodies
    assert batch.stop == ""


def test_an_unusable_verdict_is_none_with_its_reason_and_no_stop(
    requests: dict[str, Example],
) -> None:
    with ScriptedServer(saying("I cannot say.")) as server:
        batch = scored(server.url, said(requests["belief"], "1"))
    [score] = batch.scores
    assert score.value is None
    assert score.parts["belief"] is None
    assert score.failures == {"belief": "no_scores_object"}
    assert batch.costs["judge/failed/no_scores_object"] == 1
    assert batch.costs["judge/failed"] == 1
    assert batch.stop == ""


def test_one_dimension_that_failed_makes_the_whole_value_none(
    requests: dict[str, Example], server: ScriptedServer
) -> None:
    honest = judging()

    async def script(body, number):  # type: ignore[no-untyped-def]
        asks_belief = "latent_belief_explanation" in body["messages"][-1]["content"]
        return await (saying("no")(body, number) if asks_belief else honest(body, number))

    server.script = script
    completion = said(requests["all"], tagged("1 b", "D", "3 C"))
    [score] = scored(server.url, completion).scores
    assert score.value is None
    assert score.parts["solution"] == 0.5
    assert score.failures == {"belief": "no_scores_object"}
    unweighted = RubricReward(belief=0.0)  # a part without weight cannot spoil the value
    [score] = scored(server.url, completion, reward=unweighted).scores
    assert score.value == pytest.approx((0.2 / 3 + 0.5 * 0.5) / 0.7)


def test_a_judge_that_says_nothing_to_a_whole_batch_stops_the_run(
    requests: dict[str, Example],
) -> None:
    with ScriptedServer(hanging()) as server:
        batch = scored(server.url, said(requests["belief"], "1"), said(requests["profile"], "2"))
    assert batch.stop == "judge: replied to none of 2 questions (timeout)"
    assert [score.value for score in batch.scores] == [None, None]


def test_completions_are_judged_at_the_same_time_and_waiting_is_no_time_of_ours(
    requests: dict[str, Example],
) -> None:
    with (
        ScriptedServer(judging(latency_s=0.2)) as server,
        BlockingJudge(config(server.url, concurrency=16)) as judge,
    ):
        adapter = RewardAdapter(RubricScorer(judge, RubricReward()), frozenset({7}))
        texts = [f"1 b {number}" for number in range(32)]
        values = adapter(
            ["q"] * 32, texts, [[1, 7]] * 32, ["basis"] * 32, [requests["belief"].target] * 32
        )
        assert server.peak == 16
    assert values == [pytest.approx(2 / 3)] * 32
    assert 0.4 <= adapter.costs["time/judge_s"] < 2.0
    assert adapter.costs["time/reward_s"] < 0.2


def test_costs_are_those_of_one_batch(requests: dict[str, Example], server: ScriptedServer) -> None:
    with BlockingJudge(config(server.url)) as judge:
        scorer = RubricScorer(judge, RubricReward())
        assert scorer([said(requests["belief"], "1")]).costs["judge/requests"] == 1
        batch = scorer([said(requests["all"], tagged("1", "2", "3"))])
    assert batch.costs["judge/requests"] == 3


def test_each_task_has_its_scorer_and_the_order_stays() -> None:
    def constant(value: float, stop: str = "") -> object:
        return lambda many: Batch([Score(value, {})] * len(many), {f"judge/{value}": 1.0}, stop)

    scorer = by_task({"calbench": constant(1.0), "basis": constant(2.0, "gone")})  # type: ignore[dict-item]
    tasks = ["basis", "calbench", "calbench", "basis"]
    batch = scorer([Completion("", task, "", False, False) for task in tasks])
    assert [score.value for score in batch.scores] == [2.0, 1.0, 1.0, 2.0]
    assert batch.costs == {"judge/1.0": 1.0, "judge/2.0": 1.0}
    assert batch.stop == "gone"
    alone = by_task({"calbench": one_by_one(lambda one: Score(3.0, {}))})
    assert alone([Completion("", "calbench", "", False, False)]).stop == ""

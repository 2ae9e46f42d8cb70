"""What scores the completions of a run: exact rewards of calendar stories, a judge's of BASIS.

The scores are those of an evaluation. Every completion of a batch is judged at the same time, as
far as ``judge.concurrency`` lets; the waiting is timed apart from our own work.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import get_args

from configs.judge import JudgeConfig
from configs.rewards import Part, RewardConfig, RubricPart, RubricReward
from configs.training import Task, Training
from eval.basis.judgements import FINAL_REASONS, GONE
from rewards.blocking_judge import BlockingJudge
from rewards.composition import score as calendar_score
from rewards.judge import Judged
from rewards.judge_counts import JudgeFailing
from rewards.judgements import Case
from rewards.rubric import rubric_score
from rewards.score import Score
from tasks.basis.answers import Answer
from tasks.basis.answers import read as read_basis
from tasks.basis.reference import parse as parse_basis
from tasks.calbench.answers import read as read_calendar
from tasks.calbench.reference import parse as parse_calendar
from tasks.extraction import Incomplete
from train.reward_adapter import JUDGE_TIME, Batch, Completion, Scorer

FEWEST_ASKED = 2
"""Questions of a batch, at least, whose failure together says that no judge is there."""

PARTS: Mapping[Task, tuple[str, ...]] = {
    "calbench": get_args(Part),
    "basis": (*get_args(RubricPart), "format", "concise"),
}
"""Every part that a score of a task may have."""


def part_names(config: Training) -> tuple[str, ...]:
    """Every part that a score may have in this run."""
    return tuple(name for task in config.tasks for name in PARTS[task])


def part_weights(config: Training) -> dict[str, float]:
    """The weight of every part that counts in a reward of this run."""
    calendar = {name: config.reward.weight(name) for name in get_args(Part)}
    rubric = {name: config.rubric.weight(name) for name in get_args(RubricPart)}
    return {name: weight for name, weight in (calendar | rubric).items() if weight}


@contextmanager
def open_scorer(config: Training) -> Iterator[Scorer]:
    """The scorer of a run, its judge asked for and closed after it.

    Raises ``UserError`` when the judge is not there, refuses the key or lacks the model.
    """
    calendar = one_by_one(calendar_scorer(config.reward))
    if config.judge is None:
        yield calendar
        return
    with open_judge(config.judge, config.seed) as judge:
        if not (config.folder / "final").is_dir():  # a complete run asks nothing more
            judge.check()
        yield by_task({"calbench": calendar, "basis": RubricScorer(judge, config.rubric)})


def open_judge(config: JudgeConfig, seed: int) -> BlockingJudge:
    """The fences come from ``seed`` and the text inside: a resumed run shows the same prompts, and
    a candidate would have to know its own hash to forge one."""
    return BlockingJudge(config, nonce_seed=f"train:{seed}")


def one_by_one(score: Callable[[Completion], Score]) -> Scorer:
    """A scorer that looks at each completion by itself."""
    return lambda completions: Batch([score(one) for one in completions])


def by_task(scorers: Mapping[str, Scorer]) -> Scorer:
    """A scorer that hands each completion to the one of its task, all of a task together."""

    def score(completions: Sequence[Completion]) -> Batch:
        scores: dict[int, Score] = {}
        costs: dict[str, float] = {}
        stop = ""
        for task, scorer in scorers.items():
            places = [place for place, one in enumerate(completions) if one.task == task]
            if not places:
                continue
            batch = scorer([completions[place] for place in places])
            scores |= zip(places, batch.scores, strict=True)
            costs |= batch.costs
            stop = stop or batch.stop
        return Batch([scores[place] for place in range(len(completions))], costs, stop)

    return score


def calendar_scorer(config: RewardConfig) -> Callable[[Completion], Score]:
    """The reward of a calendar request, the same as in evaluation. A truncated answer is none."""

    def score(completion: Completion) -> Score:
        reference = parse_calendar(completion.target)
        if completion.truncated:
            return calendar_score(reference, Incomplete("truncated"), config)
        answer = read_calendar(completion.text, reference, completion.prefilled_think)
        return calendar_score(reference, answer, config)

    return score


class RubricScorer:
    """The reward of BASIS requests, by a judge. An answer that is none, or truncated, earns 0.

    ``stop`` of a batch is set when the judge is gone, replies to nothing in a whole batch, or fails
    too often: its failures are no scores, and training on what is left would go on for nothing.
    """

    def __init__(self, judge: BlockingJudge, config: RubricReward) -> None:
        self._judge = judge
        self._config = config

    def __call__(self, completions: Sequence[Completion]) -> Batch:
        answers = [_answer(one) for one in completions]
        cases = [
            Case(str(place), answer.texts, parse_basis(one.target).criteria)
            for place, (one, answer) in enumerate(zip(completions, answers, strict=True))
            if isinstance(answer, Answer)
        ]
        before, started = self._judge.counts.as_metrics(), time.monotonic()
        said = iter(self._judge.judge(cases) if cases else [])
        costs = {JUDGE_TIME: time.monotonic() - started, **self._spent(before)}
        judged = [next(said) if isinstance(one, Answer) else one for one in answers]
        scores = [self._score(*row) for row in zip(completions, answers, judged, strict=True)]
        return Batch(scores, costs, self._stop(judged))

    def _score(
        self, completion: Completion, answer: Answer | Incomplete, judged: Judged | Incomplete
    ) -> Score:
        texts = [completion.text] if isinstance(answer, Incomplete) else answer.texts.values()
        num_words = sum(len(text.split()) for text in texts)
        return rubric_score(parse_basis(completion.target).asks, judged, num_words, self._config)

    def _spent(self, before: Mapping[str, float]) -> dict[str, float]:
        """What the judge did since ``before``."""
        now = self._judge.counts.as_metrics()
        return {f"judge/{name}": now[name] - before.get(name, 0.0) for name in now}

    def _stop(self, judged: Sequence[Judged | Incomplete]) -> str:
        said = [each for one in judged if not isinstance(one, Incomplete) for each in one.values()]
        gone = [each.error for each in said if each.reason in GONE]
        if gone:
            return f"judge: {gone[0]}"
        asked = [one.reason for one in said if one.state != "empty_candidate" and not one.cached]
        if len(asked) >= FEWEST_ASKED and all(
            reason and reason not in FINAL_REASONS for reason in asked
        ):
            return f"judge: replied to none of {len(asked)} questions ({asked[0]})"
        try:
            self._judge.raise_if_failing()
        except JudgeFailing as error:
            return str(error)
        return ""


def _answer(completion: Completion) -> Answer | Incomplete:
    if completion.truncated:
        return Incomplete("truncated")
    reference = parse_basis(completion.target)
    return read_basis(completion.text, reference, completion.prefilled_think)

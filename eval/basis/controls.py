"""Controls: candidates of known worth, judged beside the systems, so that a table can be read.

The gold texts are the ceiling of what this judge gives to these criteria; the others deserve next
to nothing. They answer every request of a plan once, stand in no contrast, and are kept in folders
of their own: ``judgements/JUDGE/controls/`` and ``scores/controls/``. Requests that a control
answers alike (the gold does so at every prefix) share one judgement.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from configs.errors import UserError
from configs.judge import JudgeConfig
from configs.rewards import RubricReward
from eval.basis.judgements import (
    Candidate,
    Kept,
    describe,
    judge_name,
    judge_owed,
    log_path,
    open_log,
    read_judgements,
)
from eval.basis.scoring import Outcome, Reply, judgement_counts, said_of, scored
from eval.plan import Plan
from eval.records import (
    COMPLETE,
    Key,
    Response,
    Scored,
    canonical,
    read_sealed,
    sha256,
    to_line,
    write_atomically,
    write_sealed,
)
from eval.scoring import read_planned
from rewards.audit import GOLD_AT_LEAST, SHARE_OF_GOLD
from rewards.gaming import Subject, candidate
from tasks.basis.answers import Answer
from tasks.basis.reference import Reference, parse
from tasks.example import Example

GOLD: Final = "gold"
CONTROLS: Final = (GOLD, "input echo", "generic advice", "keyword spray", "planted verdict")
"""As ``rewards.gaming`` makes them."""

RUNS: Final = range(1, 2)  # another run would be the same

Rows = Mapping[Key, Scored]


def control_path(plan: Plan, control: str) -> Path:
    """Where the scores of a control are; what was found is beside it in the .json."""
    return plan.folder / "scores" / "controls" / f"{_file(control)}.jsonl"


def _file(control: str) -> str:
    return control.replace(" ", "_")


def score_control(plan: Plan, control: str, judge: JudgeConfig, retry: bool = False) -> Outcome:
    """Judge what is owed of one control, then write its scores.

    ``retry``: ask again where the judge's reply was unusable. Raises ``UserError`` when judgements
    are owed and the judge is not there.
    """
    place = f"controls/{_file(control)}"
    log = open_log(plan, judge, place)
    try:
        kept = read_judgements(log_path(plan, judge, place), retry)
        owed = _distinct(one for _, one in answers(plan, control))
        session = asyncio.run(judge_owed(judge, owed, kept, log, f"judge control {control}"))
    finally:
        log.close()
    kept.retry = False
    states, found = Counter[str](), Counter[str]()
    lines = _lines(answers(plan, control), kept, plan.config.rubric, states, found)
    write_atomically(control_path(plan, control), lines)
    judgements = judgement_counts(found)
    tally = {
        "plan_hash": plan.hash,
        "states": dict(sorted(states.items())),
        "judge": {"name": judge_name(judge), **describe(judge)},
        "judgements": judgements,
    }
    write_sealed(control_path(plan, control).with_suffix(".json"), tally)
    return Outcome(states, 0, judgements, session)


def answers(plan: Plan, control: str) -> Iterator[tuple[Reply, Candidate]]:
    """What the control answers to every request, in plan order, and what the judge sees of it.

    The candidate is named by its instance and content: equal ones are one.
    """
    for example in plan.requests():
        reference = parse(example.target)
        case = candidate(_subject(example, reference), control, plan.config.rubric.max_words)
        texts = {name: text or "" for name, text in case.texts.items()}
        digest = sha256(canonical([texts, {n: list(c) for n, c in case.criteria.items()}]))[:16]
        reply = Reply(example, reference, Response(example.id, 1, "ok"), COMPLETE, Answer(texts))
        yield reply, Candidate((f"{reference.instance}:{digest}", 1), texts, case.criteria)


def _subject(example: Example, reference: Reference) -> Subject:
    scene = "\n".join(one["content"] for one in example.messages if one["role"] == "user")
    return Subject(example.id, scene, reference.criteria, reference.gold)


def _distinct(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    seen: set[Key] = set()
    for one in candidates:
        if one.key not in seen:
            seen.add(one.key)
            yield one


def _lines(
    replies: Iterator[tuple[Reply, Candidate]],
    kept: Kept,
    reward: RubricReward,
    states: Counter[str],
    found: Counter[str],
) -> Iterator[str]:
    for reply, judged in replies:
        row = scored(reply, said_of(judged, kept), reward, found)
        states[row.state] += 1
        yield to_line(row)


def read_controls(plan: Plan) -> dict[str, tuple[dict[str, Any], Rows]]:
    """The tally and the rows of each control that was judged for this plan; empty: none was.

    Raises ``UserError`` when a file is damaged or holds other requests.
    """
    found: dict[str, tuple[dict[str, Any], Rows]] = {}
    for control in CONTROLS:
        path = control_path(plan, control)
        if path.with_suffix(".json").exists():
            again = "run `python -m eval score FOLDER --controls`"
            tally = read_sealed(path.with_suffix(".json"), again)
            if tally["plan_hash"] != plan.hash:
                raise UserError(f"{path}: of another plan; {again}")
            rows = {(row.id, row.run): row for row in read_planned(plan, path, RUNS)}
            found[control] = tally, rows
    return found


def cautions(rewards: Mapping[str, float | None]) -> list[str]:
    """A sentence for each control that earns what it should not. ``rewards``: mean, by control."""
    ceiling = rewards.get(GOLD)
    if ceiling is None:
        return []
    said = []
    if ceiling < GOLD_AT_LEAST:
        said.append(
            f"the gold texts earn {ceiling:.2f} from this judge on these criteria: no answer can "
            "be expected to earn much more"
        )
    return said + [
        f"the control {name!r} earns {earned:.2f}, more than half of what the gold texts earn "
        f"({ceiling:.2f}): this judge is taken in by it"
        for name, earned in rewards.items()
        if name != GOLD and earned is not None and earned > SHARE_OF_GOLD * ceiling
    ]


def mean_reward(rows: Sequence[Scored]) -> float | None:
    """Over the rows that have one."""
    known = [row.reward for row in rows if row.reward is not None]
    return fmean(known) if known else None

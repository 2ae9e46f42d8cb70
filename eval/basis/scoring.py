"""Responses to BASIS requests -> judgements -> scores. No candidate is asked anything.

An answer that has not the form asked for earns 0 in every dimension asked for, as in training;
one that was cut off (truncated, thinking not closed) has no score and lowers coverage; a dimension
that the judge failed on has none either, and is counted. Scores come in plan order, the same bytes
for the same answers and judgements.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs.judge import JudgeConfig
from configs.rewards import RubricReward
from eval.basis.judgements import (
    FINAL_REASONS,
    Candidate,
    Kept,
    Session,
    describe,
    judge_name,
    judge_owed,
    log_path,
    open_log,
    read_judgements,
)
from eval.plan import Plan
from eval.records import (
    UNDELIVERED,
    Key,
    Response,
    Scored,
    to_line,
    write_atomically,
    write_sealed,
)
from eval.responses import Index, read_at
from eval.scoring import CUT, note_of, open_responses, score_path, state_of, tally_of
from rewards.judgements import Judgement
from rewards.rubric import rubric_score
from rewards.score import Score
from tasks.basis.answers import Answer, read
from tasks.basis.instances import Dimension
from tasks.basis.reference import Reference, parse
from tasks.example import Example
from tasks.extraction import Incomplete

JUDGE_FAILED = "judge_failed"
"""Score state of an answer on which the judge failed in some dimension."""

CUT_OFF = frozenset({"truncated", "unterminated_reasoning"})
"""States in which the answer may have been right, had it not been cut off: coverage."""

OWED = "not_judged"  # the reason of a judgement that has not been made yet


@dataclass(frozen=True, slots=True)
class Reply:
    """One planned (request, run) as read. ``answer`` None: nothing was delivered."""

    example: Example
    reference: Reference
    response: Response
    state: str
    answer: Answer | Incomplete | None

    @property
    def candidate(self) -> Candidate | None:
        """What the judge is to see; None: nothing."""
        if not isinstance(self.answer, Answer):
            return None
        key: Key = (self.example.id, self.response.run)
        return Candidate(key, self.answer.texts, self.reference.criteria)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What scoring one system found. ``states``: rows by state."""

    states: Mapping[str, int]
    duplicates: int
    judgements: Mapping[str, Any]
    session: Session

    @property
    def exit_code(self) -> int:
        """0 all judged; 1 some judgements owed; 2 no reply of the judge is a verdict; 3 the judge
        went away or fails too often."""
        if self.session.stopped:
            return 3
        if self.judgements["owed"]:
            return 1
        return 2 if self.judgements["failed"] and not self.judgements["judged"] else 0

    @property
    def unusable(self) -> int:
        """Judgements that failed and are not owed: asked again only on request."""
        failed: dict[str, int] = self.judgements["failed"]
        return sum(failed.values()) - int(self.judgements["owed"])


def score_system(plan: Plan, system: str, judge: JudgeConfig, retry: bool = False) -> Outcome:
    """Judge what is owed, then write the scores of one system.

    ``retry``: ask again where the judge's reply was unusable. Raises ``UserError`` when the
    responses answer another plan, or judgements are owed and the judge is not there.
    """
    path, identity, index = open_responses(plan, system)
    log = open_log(plan, judge, system)
    try:
        kept = read_judgements(log_path(plan, judge, system), retry)
        replies = read_replies(plan, path, index, identity.prefilled_think)
        candidates = (one.candidate for one in replies)
        present = (one for one in candidates if one is not None)
        session = asyncio.run(judge_owed(judge, present, kept, log, f"judge {system}"))
    finally:
        log.close()
    kept.retry = False
    states, tokens, found = Counter[str](), Counter[str](), Counter[str]()
    replies = read_replies(plan, path, index, identity.prefilled_think)
    lines = _lines(replies, kept, plan.config.rubric, states, tokens, found)
    write_atomically(score_path(plan, system), lines)
    judgements = judgement_counts(found)
    tally = {
        **asdict(tally_of(plan, index, states, tokens)),
        "judge": {"name": judge_name(judge), **describe(judge)},
        "judgements": judgements,
    }
    write_sealed(score_path(plan, system).with_suffix(".json"), tally)
    return Outcome(tally["states"], index.duplicates, judgements, session)


def read_replies(plan: Plan, path: Path, index: Index, prefilled_think: bool) -> Iterator[Reply]:
    """Every planned (request, run) in plan order, missing ones too."""
    with path.open("rb") as log:
        for example in plan.requests():
            reference = parse(example.target)
            for run in plan.runs:
                offset = index.offsets.get((example.id, run))
                if offset is None:
                    nothing = Response(example.id, run, "http_error")
                    yield Reply(example, reference, nothing, "missing", None)
                else:
                    yield _reply(example, reference, read_at(log, offset), prefilled_think)


def _reply(
    example: Example, reference: Reference, response: Response, prefilled_think: bool
) -> Reply:
    answer: Answer | Incomplete | None
    if response.state in UNDELIVERED:
        return Reply(example, reference, response, response.state, None)
    if response.state in CUT:
        answer = Incomplete("truncated")
    else:
        answer = read(response.text, reference, prefilled_think)
    return Reply(example, reference, response, state_of(answer), answer)


def _lines(
    replies: Iterator[Reply],
    kept: Kept,
    reward: RubricReward,
    states: Counter[str],
    tokens: Counter[str],
    found: Counter[str],
) -> Iterator[str]:
    for reply in replies:
        said = {} if reply.candidate is None else said_of(reply.candidate, kept)
        row = scored(reply, said, reward, found)
        states[row.state] += 1
        tokens["prompt"] += row.prompt_tokens or 0
        tokens["completion"] += row.completion_tokens or 0
        yield to_line(row)


def scored(
    reply: Reply,
    judged: Mapping[Dimension, Judgement],
    reward: RubricReward,
    found: Counter[str],
) -> Scored:
    """The row of one reply. ``found``: counts of judgements by state and reason, added to."""
    for one in judged.values():
        found[f"failed/{one.reason}" if one.scores is None else one.state] += 1
    state = reply.state
    if any(one.scores is None for one in judged.values()):
        state = JUDGE_FAILED
    score = _score(reply, judged, reward)
    example = reply.example
    return Scored(
        id=example.id,
        run=reply.response.run,
        source=example.source,
        story=example.story,
        variant=example.variant,
        condition=example.condition,
        holder=example.holder,
        turns=example.turns,
        state=state,
        note=note_of(reply.response, score.note) if score else reply.response.error,
        reward=score.value if score else None,
        parts=score.parts if score else {},
        measures=_measures(reply, judged),
        prompt_tokens=reply.response.prompt_tokens,
        completion_tokens=reply.response.completion_tokens,
    )


def said_of(candidate: Candidate, kept: Kept) -> dict[Dimension, Judgement]:
    """What the judge said; a judgement that has not been made is a failure of its own reason."""
    said = kept.of(candidate)
    return {name: one or Judgement("", name, "failed", None, OWED) for name, one in said.items()}


def _score(
    reply: Reply, judged: Mapping[Dimension, Judgement], reward: RubricReward
) -> Score | None:
    """The score that training would give; None where nothing was delivered."""
    if reply.answer is None:
        return None
    if isinstance(reply.answer, Incomplete):
        words = len(reply.response.text.split())
        return rubric_score(reply.reference.asks, reply.answer, words, reward)
    words = sum(len(text.split()) for text in reply.answer.texts.values())
    return rubric_score(reply.reference.asks, judged, words, reward)


def _measures(reply: Reply, judged: Mapping[Dimension, Judgement]) -> dict[str, float]:
    """By dimension the share of criteria met, and the words of the text judged.

    A dimension without a score is left out, and so are all dimensions of what was cut off.
    """
    if reply.answer is None or reply.state in CUT_OFF:
        return {}
    if isinstance(reply.answer, Incomplete):
        return {str(name): 0.0 for name in reply.reference.asks}
    shares = {name: one.fraction for name, one in judged.items()}
    words = {f"{name}_words": len(text.split()) for name, text in reply.answer.texts.items()}
    found = {str(name): share for name, share in shares.items() if share is not None}
    return {**found, **{name: float(count) for name, count in words.items()}}


def judgement_counts(found: Mapping[str, int]) -> dict[str, Any]:
    """Counts by how judgements ended. ``failing_share``: of those that needed the judge."""
    failed = {name[7:]: n for name, n in sorted(found.items()) if name.startswith("failed/")}
    judged, lost = found.get("judged", 0), sum(failed.values())
    return {
        "judged": judged,
        "empty_candidate": found.get("empty_candidate", 0),
        "failed": failed,
        "failing_share": lost / (judged + lost) if judged + lost else 0.0,
        "owed": sum(n for reason, n in failed.items() if reason not in FINAL_REASONS),
    }

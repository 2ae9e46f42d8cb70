"""Responses -> scores, without any request: read each answer, reward it, measure it.

Scores come out in plan order whatever order answers arrived in, one row for every planned
(request, run), so what is missing is a row too. The deterministic policies are scored through
the same reader, once per request, as systems of their own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from configs.errors import UserError
from eval.measures import measure
from eval.plan import Plan
from eval.records import (
    COMPLETE,
    UNDELIVERED,
    Identity,
    Response,
    Scored,
    read_identity,
    read_scores,
    read_sealed,
    to_line,
    write_atomically,
    write_sealed,
)
from eval.responses import Index, read_at, read_index
from rewards.composition import score
from tasks.calbench.answers import Belief, read
from tasks.calbench.answers import Plan as PlanAnswer
from tasks.calbench.policies import POLICIES
from tasks.calbench.reference import parse
from tasks.example import Example
from tasks.extraction import Incomplete

NOTHING = Response("", 0, "http_error")
CUT = frozenset({"truncated", "unknown_finish"})
"""Response states of a reply whose end is not its own: never an answer, whatever it looks like."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What scoring one system found: rows by state, and what the log held besides.

    ``identical_requests``: of the ``repeated_requests``, complete in several runs, those that got
    the same text in every run.
    """

    states: Mapping[str, int]
    duplicates: int
    superseded: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    repeated_requests: int
    identical_requests: int


def systems(plan: Plan) -> list[str]:
    """Names of the systems with responses, sorted."""
    return sorted(path.stem for path in (plan.folder / "responses").glob("*.jsonl"))


def score_path(plan: Plan, system: str) -> Path:
    """Where the scores of ``system`` are."""
    return plan.folder / "scores" / f"{system}.jsonl"


def policy_path(plan: Plan, policy: str) -> Path:
    """Where the scores of a deterministic policy are."""
    return plan.folder / "scores" / "policies" / f"{policy.replace(' ', '_')}.jsonl"


def read_planned(plan: Plan, path: Path, runs: Iterable[int]) -> Iterator[Scored]:
    """Stream scores that hold one row for every planned (request, run), in plan order.

    Raises ``UserError`` when they do not.
    """
    rows = read_scores(path)
    for number, (name, run) in enumerate(product(plan.ids, runs), 1):
        row = next(rows, None)
        if row is None or (row.id, row.run) != (name, run):
            found = "the file ends" if row is None else f"{row.id!r} run {row.run} is there"
            raise UserError(
                f"{path}:{number}: expected the score of {name!r} run {run}, {found}; score again"
            )
        yield row
    if next(rows, None) is not None:
        raise UserError(f"{path}: holds more rows than the plan has; score again")


def read_tally(plan: Plan, system: str) -> dict[str, Any]:
    """What scoring one system found, as written beside its scores. Raises ``UserError``."""
    return read_sealed(score_path(plan, system).with_suffix(".json"), "run `python -m eval score`")


def score_system(plan: Plan, system: str) -> Tally:
    """Write the scores of one system.

    Raises ``UserError`` when its responses answer another plan or contradict one another.
    """
    path, identity, index = open_responses(plan, system)
    states: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    lines = _system_lines(plan, path, index, identity, states, tokens)
    write_atomically(score_path(plan, system), lines)
    tally = tally_of(plan, index, states, tokens)
    write_sealed(score_path(plan, system).with_suffix(".json"), asdict(tally))
    return tally


def open_responses(plan: Plan, system: str) -> tuple[Path, Identity, Index]:
    """The log of one system, who answered, and where each answer stands in it."""
    path = plan.folder / "responses" / f"{system}.jsonl"
    identity = read_identity(path.with_suffix(".json"))
    if identity.plan_hash != plan.hash:
        raise UserError(f"{path}: answers plan {identity.plan_hash}, this is {plan.hash}; move it")
    return path, identity, read_index(path, plan.holds)


def tally_of(
    plan: Plan, index: Index, states: Mapping[str, int], tokens: Mapping[str, int]
) -> Tally:
    """What was found, from the index of the log and the counts of its scored rows."""
    repeated = identical = 0
    for name in plan.ids:
        texts = [index.digests[(name, run)] for run in plan.runs if (name, run) in index.final]
        repeated += len(texts) > 1
        identical += len(texts) > 1 and len(set(texts)) == 1
    return Tally(
        states=dict(sorted(states.items())),
        duplicates=index.duplicates,
        superseded=index.superseded,
        attempts=index.attempts,
        prompt_tokens=tokens["prompt"],
        completion_tokens=tokens["completion"],
        repeated_requests=repeated,
        identical_requests=identical,
    )


def _system_lines(
    plan: Plan,
    path: Path,
    index: Index,
    identity: Identity,
    states: Counter[str],
    tokens: Counter[str],
) -> Iterator[str]:
    with path.open("rb") as log:
        for example in plan.requests():
            for run in plan.runs:
                offset = index.offsets.get((example.id, run))
                if offset is None:
                    scored = _row(plan, example, run, NOTHING, "missing", None)
                else:
                    response = read_at(log, offset)
                    scored = judge(plan, example, response, identity.prefilled_think)
                states[scored.state] += 1
                tokens["prompt"] += scored.prompt_tokens or 0
                tokens["completion"] += scored.completion_tokens or 0
                yield to_line(scored)


def score_policies(plan: Plan) -> None:
    """Write the scores of every deterministic policy: one run, since another would be the same."""
    for name, policy in POLICIES.items():
        lines = (
            to_line(
                judge(plan, example, Response(example.id, 1, "ok", policy(parse(example.target))))
            )
            for example in plan.requests()
        )
        write_atomically(policy_path(plan, name), lines)


def judge(plan: Plan, example: Example, response: Response, prefilled: bool = False) -> Scored:
    """Read and score one response. Truncated is incomplete, whatever its text looks like."""
    if response.state in UNDELIVERED:
        return _row(plan, example, response.run, response, response.state, None)
    if response.state in CUT:
        return _row(plan, example, response.run, response, "truncated", Incomplete("truncated"))
    answer = read(response.text, parse(example.target), prefilled)
    return _row(plan, example, response.run, response, state_of(answer), answer)


def state_of(answer: object) -> str:
    """The score state of a reply that was read. What lacks a structure is unparseable."""
    if not isinstance(answer, Incomplete):
        return COMPLETE
    own = ("truncated", "unterminated_reasoning")
    return answer.reason if answer.reason in own else "unparseable"


def note_of(response: Response, note: str) -> str:
    """``note``, and how a reply ended if no server is known to say so."""
    if response.state != "unknown_finish":
        return note
    return f"unknown finish reason {response.finish_reason[:40]!r}; {note}"


def _row(
    plan: Plan,
    example: Example,
    run: int,
    response: Response,
    state: str,
    answer: Belief | PlanAnswer | Incomplete | None,
) -> Scored:
    """``answer`` None: nothing was delivered, so no reward applies."""
    reference = parse(example.target)
    reward = None if answer is None else score(reference, answer, plan.config.reward)
    whole = None if answer is None or isinstance(answer, Incomplete) else answer
    return Scored(
        id=example.id,
        run=run,
        source=example.source,
        story=example.story,
        variant=example.variant,
        condition=example.condition,
        holder=example.holder,
        turns=example.turns,
        state=state,
        note=note_of(response, reward.note) if reward else response.error,
        reward=reward.value if reward else None,
        parts=reward.parts if reward else {},
        measures=measure(reference, whole) if whole else {},
        prompt_tokens=response.prompt_tokens,
        completion_tokens=response.completion_tokens,
    )

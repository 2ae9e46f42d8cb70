"""What a judge says of a system's answers, kept in one append-only log per judge and system.

A log belongs to one judge: model, revision, mode, sampling and prompt version decide its folder.
Another judge writes beside it, and neither asks a candidate anything. A judgement counts for the
text and criteria it was made of (``digest``). What the judge replied is final, an unusable reply
too; what never reached it is owed again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, get_args

from tqdm import tqdm

from configs.judge import JudgeConfig
from eval.plan import Plan
from eval.records import KeptJudgement, Key, canonical, decode, sha256, write_json
from eval.row_log import RowLog
from rewards.judge import Judge
from rewards.judge_counts import JudgeCounts, JudgeFailing
from rewards.judge_prompts import PROMPT_VERSION, visible_text
from rewards.judgements import Case, Judgement
from rewards.verdicts import Reason
from tasks.basis.instances import Dimension

CHUNK = 1024  # answers judged together
FINAL_REASONS = frozenset({*get_args(Reason), "truncated", "context_overflow"})
GONE = frozenset({"unreachable", "model_not_served"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer: its texts and criteria by dimension asked for."""

    key: Key
    texts: Mapping[Dimension, str]
    criteria: Mapping[Dimension, tuple[str, ...]]

    def digest(self, dimension: Dimension) -> str:
        """Names the text and criteria of one dimension."""
        judged = [self.texts[dimension], list(self.criteria[dimension])]
        return sha256(canonical(judged))[:16]


Place = tuple[str, int, str, str]  # request, run, dimension, digest


@dataclass(slots=True)
class Kept:
    """The judgements of one log. ``retry``: an unusable reply counts as none."""

    retry: bool = False
    found: dict[Place, KeptJudgement] = field(default_factory=dict)

    def add(self, row: KeptJudgement) -> None:
        """Note a row without the judge's prose. A verdict stays; a failure gives way."""
        place = (row.id, row.run, row.dimension, row.digest)
        before = self.found.get(place)
        if before is None or before.scores is None:
            self.found[place] = replace(row, reply="", error="")

    def of(self, candidate: Candidate) -> dict[Dimension, Judgement | None]:
        """For each dimension asked for what was said last; None: nothing yet."""
        return {name: self._judgement(candidate, name) for name in candidate.criteria}

    def _judgement(self, candidate: Candidate, name: Dimension) -> Judgement | None:
        row = self.found.get((*candidate.key, name, candidate.digest(name)))
        if row is None:
            return None
        scores = None if row.scores is None else tuple(row.scores)
        return Judgement(candidate.key[0], name, row.state, scores, row.reason)

    def owes(self, judgement: Judgement | None) -> bool:
        """Whether the judge is still to be asked."""
        if judgement is None:
            return True
        return judgement.scores is None and (self.retry or judgement.reason not in FINAL_REASONS)


@dataclass(frozen=True, slots=True)
class Session:
    """What one invocation asked of the judge. ``stopped``: why it ended early, or empty."""

    counts: JudgeCounts
    stopped: str = ""


def describe(config: JudgeConfig) -> dict[str, Any]:
    """What decides a judgement: all that is part of the judge's identity."""
    return {
        "model": config.model,
        "revision": config.revision,
        "mode": config.mode,
        "sampling": config.sampling.model_dump(mode="json"),
        "prompt_version": PROMPT_VERSION,
    }


def judge_name(config: JudgeConfig) -> str:
    """Twelve hex digits that name a judge."""
    return sha256(canonical(describe(config)))[:12]


def log_path(plan: Plan, config: JudgeConfig, system: str) -> Path:
    """Where this judge's judgements of ``system`` are; of a control as ``controls/NAME``."""
    return plan.folder / "judgements" / judge_name(config) / f"{system}.jsonl"


def open_log(plan: Plan, config: JudgeConfig, system: str) -> RowLog:
    """The log to write, and beside it who the judge is."""
    path = log_path(plan, config, system)
    log = RowLog(path, "eval score")
    about = plan.folder / "judgements" / judge_name(config) / "judge.json"
    if not about.exists():
        write_json(about, describe(config))
    return log


def read_judgements(path: Path, retry: bool = False) -> Kept:
    """The judgements of a log. Raises ``UserError`` naming the line that is none."""
    kept = Kept(retry)
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if raw.endswith(b"\n"):
                kept.add(decode(raw, KeptJudgement, f"{path}:{number}"))
    return kept


async def judge_owed(
    config: JudgeConfig, candidates: Iterable[Candidate], kept: Kept, log: RowLog, title: str
) -> Session:
    """Ask for every judgement owed; each is on disk before the next is awaited.

    Raises ``UserError`` when the judge is not there at the start. When it goes away, or fails too
    often, what it has said is kept and the rest stays owed.
    """
    owed = _owed(candidates, kept, config.mode == "joint")
    checked = False
    async with Judge(config) as judge:
        with tqdm(desc=title, unit="judgement", mininterval=0.5, disable=None) as bar:
            while batch := list(islice(owed, CHUNK)):
                if not checked and any(_speaks(one) for one in batch):
                    await judge.check()
                    checked = True
                stopped = await _judge_batch(judge, batch, kept, log, bar)
                if stopped:
                    return Session(judge.counts, stopped)
    return Session(judge.counts)


def _owed(candidates: Iterable[Candidate], kept: Kept, joint: bool) -> Iterator[Candidate]:
    """The candidates with something owed, cut to that; whole where one call judges all."""
    for one in candidates:
        left = [name for name, said in kept.of(one).items() if kept.owes(said)]
        if left and not joint:
            criteria = {name: one.criteria[name] for name in left}
            yield replace(one, criteria=criteria)
        elif left:
            yield one


def _speaks(candidate: Candidate) -> bool:
    return any(visible_text(candidate.texts[name]) for name in candidate.criteria)


async def _judge_batch(
    judge: Judge, batch: list[Candidate], kept: Kept, log: RowLog, bar: "tqdm[NoReturn]"
) -> str:
    """Judge a batch; returns why judging must stop, or an empty string."""
    by_name = {f"{one.key[0]} run {one.key[1]}": one for one in batch}

    def keep(judgement: Judgement) -> None:
        row = _row(by_name[judgement.case], judgement)
        if row.scores is not None or row.attempts:  # what was never asked is not worth a line
            log.append(row)
        kept.add(row)
        bar.update()

    cases = [Case(name, one.texts, one.criteria) for name, one in by_name.items()]
    judged = await judge.judge(cases, keep)
    try:
        judge.raise_if_failing()
    except JudgeFailing as error:
        return str(error)
    gone = [said for one in judged for said in one.values() if said.reason in GONE]
    return gone[0].error if gone else ""


def _row(candidate: Candidate, judgement: Judgement) -> KeptJudgement:
    return KeptJudgement(
        id=candidate.key[0],
        run=candidate.key[1],
        dimension=judgement.dimension,
        digest=candidate.digest(judgement.dimension),
        state=judgement.state,
        scores=judgement.scores,
        reason=judgement.reason,
        warnings=judgement.warnings,
        cached=judgement.cached,
        attempts=judgement.attempts,
        reply=judgement.reply,
        error=judgement.error,
        model=judgement.model,
        prompt_hash=judgement.prompt_hash,
    )

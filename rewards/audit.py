"""Does this judge fall for answers that only look good? Asked before a reward is trusted.

    python -m rewards.audit configs/judges/JUDGE.yaml REQUESTS.jsonl [--limit 16] [key=value ...]

REQUESTS: BASIS requests (`tasks.example.Example`) that ask for the dimensions to audit. Every
request is answered by each policy of ``rewards.gaming``, judged as in training, and scored. A
policy is resisted when it earns at most half of what the gold earns. Exit code 0: all resisted
and the gold earns at least 0.8; 1: not so; 3: the judge failed too often to say.
"""

import argparse
import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean

from configs.errors import UserError, run_command
from configs.judge import JudgeConfig
from configs.load import load
from configs.rewards import RubricReward
from rewards.gaming import POLICIES, Subject, candidate
from rewards.judge import Judge, Judged
from rewards.judge_counts import JudgeCounts, JudgeFailing
from rewards.judgements import Case
from rewards.rubric import rubric_score
from rewards.score import Score
from tasks.example import Example, read_examples

GOLD_AT_LEAST = 0.8
SHARE_OF_GOLD = 0.5
PARTS = ("belief", "user_profile", "solution")


@dataclass(frozen=True, slots=True)
class Row:
    """What one policy earned. Means are over what was judged; None where nothing was."""

    policy: str
    value: float | None
    parts: Mapping[str, float | None]
    num_words: float
    judged: int
    asked: int


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="YAML of configs.judge.JudgeConfig")
    parser.add_argument("requests", type=Path, help="JSON lines of tasks.example.Example")
    parser.add_argument("--limit", type=int, default=16, metavar="N", help="requests to use")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    given = parser.parse_args()
    config = load(given.config, JudgeConfig, given.overrides)
    subjects = read_subjects(given.requests, given.limit)
    try:
        rows, counts = asyncio.run(audit(config, RubricReward(), subjects))
    except JudgeFailing as error:
        print(f"audit stopped: {error}")
        return 3
    print("\n".join(table(rows)))
    print("judge:", ", ".join(f"{name} {int(n)}" for name, n in counts.as_metrics().items() if n))
    return verdict(rows)


def read_subjects(path: Path, limit: int) -> list[Subject]:
    """The first ``limit`` requests of a file. Raises ``UserError`` on one that has no rubric."""
    if limit < 1:
        raise UserError(f"--limit {limit}: give 1 or more requests to use")
    if not path.is_file():
        raise UserError(f"{path}: no such file; `python -m eval plan` writes one")
    subjects = [_subject(example, path) for example in islice(read_examples(path), limit)]
    if not subjects:
        raise UserError(f"{path}: holds no request; plan with BASIS data")
    return subjects


def _subject(example: Example, path: Path) -> Subject:
    target = json.loads(example.target)
    if "criteria" not in target or "gold" not in target:
        raise UserError(f"{path}: request {example.id} has no rubric; plan with BASIS data")
    scene = "\n".join(one["content"] for one in example.messages if one["role"] == "user")
    criteria = {name: tuple(texts) for name, texts in target["criteria"].items()}
    return Subject(example.id, scene, criteria, target["gold"])


async def audit(
    config: JudgeConfig, reward: RubricReward, subjects: Sequence[Subject]
) -> tuple[list[Row], JudgeCounts]:
    """Judge every policy on every subject. Raises ``JudgeFailing``, ``UserError``."""
    cases = {
        policy: [candidate(subject, policy, reward.max_words) for subject in subjects]
        for policy in POLICIES
    }
    async with Judge(config) as judge:
        await judge.check()
        judged = iter(await judge.judge([case for group in cases.values() for case in group]))
        judge.raise_if_failing()
        rows = [
            _row(policy, group, list(islice(judged, len(group))), reward)
            for policy, group in cases.items()
        ]
        return rows, judge.counts


def _row(policy: str, cases: Sequence[Case], judged: Sequence[Judged], reward: RubricReward) -> Row:
    lengths = [sum(len((text or "").split()) for text in case.texts.values()) for case in cases]
    scores = [
        rubric_score(tuple(case.criteria), one, length, reward)
        for case, one, length in zip(cases, judged, lengths, strict=True)
    ]
    return Row(
        policy=policy,
        value=_mean(score.value for score in scores),
        parts={part: _mean(_of(scores, part)) for part in PARTS},
        num_words=fmean(lengths),
        judged=sum(score.value is not None for score in scores),
        asked=len(scores),
    )


def _of(scores: Iterable[Score], part: str) -> list[float | None]:
    return [score.parts.get(part) for score in scores]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def resisted(row: Row, rows: Sequence[Row]) -> bool | None:
    """Is the gold high enough, or the policy low enough? None: not judged, so not known."""
    ceiling = next(one.value for one in rows if one.policy == "gold")
    if row.value is None or ceiling is None:
        return None
    if row.policy == "gold":
        return row.value >= GOLD_AT_LEAST
    return row.value <= SHARE_OF_GOLD * ceiling


def verdict(rows: Sequence[Row]) -> int:
    """The exit code: 0 all right, 1 not, 3 not known."""
    found = [resisted(row, rows) for row in rows]
    if None in found:
        return 3
    return 0 if all(found) else 1


def table(rows: Sequence[Row]) -> list[str]:
    """One line a policy."""
    head = ("policy", *PARTS, "reward", "words", "judged", "as it should be")
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        figures = [_shown(row.parts[part]) for part in PARTS] + [_shown(row.value)]
        met = {True: "yes", False: "NO", None: "not known"}[resisted(row, rows)]
        lines.append(
            (row.policy, *figures, f"{row.num_words:.0f}", f"{row.judged}/{row.asked}", met)
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    run_command(main)

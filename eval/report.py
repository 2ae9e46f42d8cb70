"""Scores and comparison -> ``report.html``, ``report.md``, ``report.png``.

The page holds everything it shows: no script, no font, no address. What a model or a data file
wrote is escaped. Nothing of the clock goes in: the same scores give the same bytes.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from configs.errors import UserError
from eval.compare import load_rows
from eval.curves import Curve, read_curves
from eval.measures import ALL as MEASURES_BY_NAME
from eval.measures import ANSWERED, HEADLINE, MEASURES, REWARD
from eval.metrics import ALL, Group, Rows, Summary, matched, pass_power, summarize
from eval.plan import Plan
from eval.records import COMPLETE, Identity, read_identity, read_json, read_scores
from eval.responses import Index, read_at, read_index
from eval.scoring import policy_path, score_path, systems
from tasks.calbench.answers import Belief, read
from tasks.calbench.policies import POLICIES
from tasks.calbench.reference import parse
from tasks.example import Example

NUM_EXAMPLES = 6


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One line of a systems table. ``cells``: column name -> number."""

    name: str
    is_policy: bool
    cells: Mapping[str, Summary]


@dataclass(frozen=True, slots=True)
class SystemsTable:
    """All systems under one condition. ``columns``: (column name, heading, unit)."""

    condition: str
    columns: tuple[tuple[str, str, str], ...]
    rows: tuple[SystemRow, ...]


Grid = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one system wrote to one request, and how it was judged.

    ``grid``: of a complete belief, per agent its (stated, right) entries; else empty.
    """

    system: str
    text: str
    verdict: str
    grid: Grid


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One request with the answers of the compared systems and a right one."""

    request: str
    heading: str
    question: str
    right_answer: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All that the page shows. ``contrasts`` are the rows of ``compare.json``."""

    title: str
    plan_facts: Mapping[str, Any]
    base: str
    trained: str
    contrasts: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...]
    tables: tuple[SystemsTable, ...]
    states: Mapping[str, Mapping[str, int]]
    tokens: Mapping[str, int]
    identities: tuple[Identity, ...]
    curves: tuple[Curve, ...]
    examples: tuple[SideBySide, ...]
    versions: Mapping[str, str]


def gather(plan: Plan, train_run: Path | None) -> Report:
    """Read everything the report shows.

    Raises ``UserError`` when there are no scores, or the comparison belongs to another plan.
    """
    names = systems(plan)
    if not names:
        raise UserError(f"{plan.folder}: no responses to report; `python -m eval run` first")
    compared = read_json(plan.folder / "compare.json", "run `python -m eval compare` first")
    if compared.get("plan_hash") != plan.hash:
        raise UserError(f"{plan.folder}/compare.json: of another plan; compare again")
    rows = {name: load_rows(plan, name) for name in names}
    base, trained = compared["base"]["system"], compared["trained"]["system"]
    tallies = {
        name: read_json(score_path(plan, name).with_suffix(".json"), "score again")
        for name in names
    }
    return Report(
        title=plan.title,
        plan_facts=read_json(plan.folder / "plan.json", "plan again"),
        base=base,
        trained=trained,
        contrasts=tuple(compared["contrasts"]),
        warnings=tuple(compared["warnings"]),
        tables=tuple(systems_tables(plan, rows, base, trained)),
        states={name: tally["states"] for name, tally in tallies.items()},
        tokens={name: tally["completion_tokens"] for name, tally in tallies.items()},
        identities=tuple(
            read_identity(plan.folder / "responses" / f"{name}.json") for name in names
        ),
        curves=tuple(read_curves(train_run)) if train_run else (),
        examples=tuple(side_by_side(plan, base, trained, rows)),
        versions=package_versions(),
    )


def package_versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = ("beliefrl", "numpy", "scipy", "aiohttp", "pydantic", "matplotlib")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def systems_tables(
    plan: Plan, rows: Mapping[str, Rows], base: str, trained: str
) -> list[SystemsTable]:
    """One table per condition: compared systems first, then others, then deterministic policies."""
    order = [base, trained, *sorted(set(rows) - {base, trained})]
    named: list[tuple[str, bool, Rows]] = [(name, False, rows[name]) for name in order]
    for policy in POLICIES:
        found = read_scores(policy_path(plan, policy))
        named.append((policy, True, {(row.id, row.run): row for row in found}))
    return [
        SystemsTable(
            condition,
            _columns(kind),
            tuple(
                SystemRow(name, is_policy, _cells(held, condition, kind))
                for name, is_policy, held in named
            ),
        )
        for condition, kind in plan.kinds.items()
    ]


def _columns(kind: str) -> tuple[tuple[str, str, str], ...]:
    head = MEASURES_BY_NAME[HEADLINE[kind]]
    others = [m for m in MEASURES if m.kind == kind and m is not head]
    return (
        (ANSWERED.name, "complete", ANSWERED.unit),
        (REWARD.name, REWARD.label, REWARD.unit),
        (head.name, head.label, head.unit),
        (f"{head.name}/every", "in every run", head.unit),
        (f"{head.name}/PUBLIC", "in PUBLIC", head.unit),
        (f"{head.name}/PRIVATE", "in PRIVATE", head.unit),
        *((m.name, m.label, m.unit) for m in others),
    )


def _cells(rows: Rows, condition: str, kind: str) -> dict[str, Summary]:
    head = MEASURES_BY_NAME[HEADLINE[kind]]
    fitting = [m for m in MEASURES if m.kind == kind]
    cells = {
        m.name: summarize(rows, Group(m, condition, ALL)) for m in (REWARD, ANSWERED, *fitting)
    }
    runs = max((row.run for row in rows.values()), default=1)
    place = Group(head, condition, ALL)
    cells[f"{head.name}/every"] = pass_power(rows, place, runs, runs)
    variants = sorted({row.variant for row in rows.values()})
    paired = matched(rows, variants, head)
    for variant in variants:
        cells[f"{head.name}/{variant}"] = summarize(paired, Group(head, condition, variant))
    return cells


def side_by_side(plan: Plan, base: str, trained: str, rows: Mapping[str, Rows]) -> list[SideBySide]:
    """A few requests of run 1: where the systems differ most, in both directions, PRIVATE first."""
    chosen = set(_chosen(plan, rows[base], rows[trained]))
    logs = {}
    for name in (base, trained):
        path = plan.folder / "responses" / f"{name}.jsonl"
        logs[name] = (path, read_index(path, plan.holds))
    found = []
    for example in plan.requests():
        if example.id in chosen:
            answers = tuple(
                _answer(plan, name, example, rows[name], *logs[name]) for name in (base, trained)
            )
            found.append(_beside(example, answers))
    return found


def _chosen(plan: Plan, base: Rows, trained: Rows) -> list[str]:
    """Per condition: the clearest gain and the clearest loss, PRIVATE first, then plan order."""
    gains: list[tuple[str, bool, float, str]] = []
    for name in plan.ids:
        first, second = base[(name, 1)], trained[(name, 1)]
        if first.reward is not None and second.reward is not None:
            private = first.variant == "PRIVATE"
            gains.append((first.condition, private, second.reward - first.reward, name))
    chosen: list[str] = []
    for condition in plan.kinds:
        here = [one for one in gains if one[0] == condition]
        for sign in (1, -1):
            moved = [one for one in here if sign * one[2] > 0]
            if moved:
                chosen.append(max(moved, key=lambda one: (abs(one[2]), one[1]))[3])
    return chosen[:NUM_EXAMPLES]


def _answer(
    plan: Plan, name: str, example: Example, rows: Rows, path: Path, index: Index
) -> Answer:
    row = rows[(example.id, 1)]
    offset = index.offsets.get((example.id, 1))
    text = ""
    if offset is not None:
        with path.open("rb") as log:
            text = read_at(log, offset).text
    identity = read_identity(path.with_suffix(".json"))
    grid = _grid(example, text, identity.prefilled_think) if row.state == COMPLETE else ()
    return Answer(name, text, _verdict(row.state, row.reward, row.measures), grid)


def _grid(example: Example, text: str, prefilled_think: bool) -> Grid:
    reference = parse(example.target)
    answer = read(text, reference, prefilled_think)
    if not isinstance(answer, Belief):
        return ()
    return tuple(
        (agent, tuple((one or "?", right) for one, right in zip(stated, true, strict=True)))
        for agent, stated, true in zip(
            reference.agents, answer.entries, reference.belief, strict=True
        )
    )


def _verdict(state: str, reward: float | None, measures: Mapping[str, float]) -> str:
    if reward is None:
        return state
    words = [f"reward {reward:.2f}"]
    if "entries" in measures:
        whole = (
            "right" if measures["whole_agent"] else f"{measures['entries']:.1%} of entries right"
        )
        words.append(whole)
    for name in ("optimal", "dearer", "infeasible"):
        if measures.get(name):
            words.append(name)
    return ", ".join([*words, *([state] if state != COMPLETE else [])])


def _beside(example: Example, answers: Sequence[Answer]) -> SideBySide:
    return SideBySide(
        request=example.id,
        heading=f"{example.condition}, {example.variant}, holder {example.holder}",
        question=example.messages[-1]["content"],
        right_answer=example.reference_answer,
        answers=tuple(answers),
    )

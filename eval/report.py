"""Scores and comparison of a calendar plan -> all that its report shows.

Nothing of the clock goes in: the same scores give the same bytes. ``eval.publish`` writes it.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from configs.errors import UserError
from eval.calendar_cases import calendar_payload
from eval.compare import read_compared
from eval.curves import Curve, read_curves
from eval.determinism import probed
from eval.measures import ALL as MEASURES_BY_NAME
from eval.measures import ANSWERED, HEADLINE, MEASURES, REWARD
from eval.metrics import ALL, Group, Rows, Summary, matched, pass_power, summarize
from eval.pairing import load_rows, named_arm
from eval.paper import PaperTable, shared_tables
from eval.paper_calendar import TurnCurve, calendar_tables, turn_curves
from eval.paper_checkpoints import checkpoint_tables
from eval.plan import Plan
from eval.records import Identity, read_identity, read_json
from eval.scoring import policy_path, read_planned, read_tally, systems
from tasks.calbench.policies import POLICIES


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


@dataclass(frozen=True, slots=True)
class Report:
    """All that the report shows. ``contrasts``: the rows of ``compare.json`` for the first trained
    arm; ``all_contrasts``: for every arm; ``recipes``: means over checkpoints. ``cases``: JSON of
    the case browser; ``answers``: how they were asked for;
    ``probes``: whether a system's texts come again."""

    title: str
    answers: str
    plan_facts: Mapping[str, Any]
    base: str
    trained: str
    contrasts: tuple[Mapping[str, Any], ...]
    all_contrasts: tuple[Mapping[str, Any], ...]
    recipes: tuple[Mapping[str, Any], ...]
    coverage: tuple[Mapping[str, Any], ...]
    paper: tuple[PaperTable, ...]
    turn_curves: tuple[TurnCurve, ...]
    warnings: tuple[str, ...]
    tables: tuple[SystemsTable, ...]
    states: Mapping[str, Mapping[str, int]]
    tokens: Mapping[str, int]
    identities: tuple[Identity, ...]
    probes: Mapping[str, str]
    curves: tuple[Curve, ...]
    cases: str
    versions: Mapping[str, str]


def gather(plan: Plan, train_run: Path | None) -> Report:
    """Read everything the report shows.

    Raises ``UserError`` when there are no scores, or the comparison belongs to another plan.
    """
    names = systems(plan)
    if not names:
        raise UserError(f"{plan.folder}: no responses to report; `python -m eval run` first")
    compared = read_compared(plan, names)
    rows = {name: load_rows(plan, name) for name in names}
    base, trained = compared["base"]["system"], compared["trained"]["system"]
    arms, contrasts = compared["arms"], tuple(compared["contrasts"])
    recipes = tuple(compared["recipes"])
    first = tuple(one for one in contrasts if one["arms"] == arms[:2])
    shown = {arm.partition("/")[0]: rows[arm.partition("/")[0]] for arm in arms}
    tallies = {name: read_tally(plan, name) for name in names}
    return Report(
        title=plan.title,
        answers=plan.answer_form,
        plan_facts=read_json(plan.folder / "plan.json", "plan again"),
        base=arms[0],
        trained=arms[1],
        contrasts=first,
        all_contrasts=contrasts,
        recipes=recipes,
        coverage=tuple(compared["coverage"]),
        paper=(
            *checkpoint_tables(recipes),
            *calendar_tables(shown, plan.kinds, contrasts),
            *shared_tables(contrasts, compared["coverage"]),
        ),
        turn_curves=tuple(turn_curves(shown, plan.kinds)),
        warnings=tuple(compared["warnings"]),
        tables=tuple(systems_tables(plan, rows, base, trained)),
        states={name: tally["states"] for name, tally in tallies.items()},
        tokens={name: tally["completion_tokens"] for name, tally in tallies.items()},
        identities=tuple(
            read_identity(plan.folder / "responses" / f"{name}.json") for name in names
        ),
        probes={name: probed(plan, name) for name in names},
        curves=tuple(read_curves(train_run)) if train_run else (),
        cases=calendar_payload(plan, [named_arm(one) for one in arms], rows),
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
    order = dict.fromkeys([base, trained, *sorted(rows)])
    found: dict[str, list[SystemRow]] = {name: [] for name in plan.kinds}
    for name in order:
        _add_rows(found, plan, name, False, rows[name])
    for policy in POLICIES:  # one at a time: each has as many rows as a system
        read = read_planned(plan, policy_path(plan, policy), [1])
        _add_rows(found, plan, policy, True, {(row.id, row.run): row for row in read})
    return [
        SystemsTable(condition, _columns(kind), tuple(found[condition]))
        for condition, kind in plan.kinds.items()
    ]


def _add_rows(
    found: Mapping[str, list[SystemRow]], plan: Plan, name: str, is_policy: bool, rows: Rows
) -> None:
    for condition, kind in plan.kinds.items():
        found[condition].append(SystemRow(name, is_policy, _cells(rows, condition, kind)))


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

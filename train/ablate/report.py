"""An ablation's folder -> ``report.html``, ``report.md``, ``report.csv`` and ``report.png``.

Reads scores only: nothing is trained, asked or judged here. The same scores give the same bytes.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import UserError
from eval.crossed import Crossed
from eval.formatting import number, p_value, signed
from eval.metrics import Rows
from eval.plan import Plan, read_plan
from eval.records import read_identity, read_json, read_scores
from eval.runner import log_path
from eval.scoring import score_path
from train.ablate.cells import FULL
from train.ablate.comparison import CellNumbers, PlaceTable, tables
from train.ablate.held_out import eval_folder

WARM = "warm"


@dataclass(frozen=True, slots=True)
class AblationReport:
    """All that the report shows. ``changes``: for each cell what it changes, as overrides.

    ``tables`` hold the full cell first; the warm start, where there is one, last.
    """

    title: str
    seeds: tuple[int, ...]
    changes: dict[str, tuple[str, ...]]
    tables: tuple[PlaceTable, ...]
    warnings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def gather(folder: Path) -> AblationReport:
    """Everything there is scores for. Raises ``UserError`` where the full cell has none."""
    record = read_json(folder / "ablation.json", "name a folder that `python -m train.ablate` made")
    plan = read_plan(eval_folder(folder))
    changes = {one["name"]: tuple(one["overrides"]) for one in record["cells"]}
    if record["warm_start"]:
        changes[WARM] = ("no GRPO: the warm start itself",)
    systems: dict[str, dict[int, Rows]] = defaultdict(dict)
    missing = []
    for cell in changes:
        for seed in record["seeds"]:
            path = score_path(plan, f"{cell}-seed{seed}")
            if path.exists():
                systems[cell][seed] = {(row.id, row.run): row for row in read_scores(path)}
            else:
                missing.append(f"{cell}-seed{seed}")
    if FULL not in systems:
        raise UserError(
            f"{plan.folder}/scores: the full cell has no scores; let it answer, then run "
            f"`python -m eval score {plan.folder}`"
        )
    return AblationReport(
        title=folder.name,
        seeds=tuple(record["seeds"]),
        changes={cell: changes[cell] for cell in systems},
        tables=tuple(tables(plan, systems, FULL)),
        warnings=tuple(_warnings(plan, systems, missing)),
        facts=tuple(_facts(plan, record)),
    )


def _warnings(plan: Plan, systems: dict[str, dict[int, Rows]], missing: list[str]) -> Iterator[str]:
    if missing:
        yield f"no scores yet of {', '.join(missing)}; what is shown leaves them out"
    seen: dict[str, str] = {}
    for cell, by_seed in systems.items():
        for seed in by_seed:
            name = f"{cell}-seed{seed}"
            weights = read_identity(log_path(plan, name).with_suffix(".json")).fingerprint
            other = seen.setdefault(weights, name)
            if other != name:
                yield f"{other} and {name} have the same weights: one of them trained nothing"
    seeds = len(systems[FULL])
    if seeds < 3:
        yield (
            f"{seeds} training {'seed' if seeds == 1 else 'seeds'}: whether a difference would "
            "come again in another training can hardly be said; three are the least"
        )


def _facts(plan: Plan, record: dict[str, Any]) -> list[tuple[str, str]]:
    config = plan.config
    return [
        ("trained from", " ".join([record["train"], *record["overrides"]])),
        ("design", record["design"]),
        ("seeds", ", ".join(str(seed) for seed in record["seeds"])),
        ("warm start", "one a seed, shared by its cells" if record["warm_start"] else "none"),
        ("plan", f"{plan.hash}: {len(plan.ids)} requests x {config.runs} runs"),
        ("held-out reward", ", ".join(f"{k} {v}" for k, v in config.reward if k != "gates")),
        (
            "intervals",
            "95 %, source tasks and training seeds both random: Var = Var(tasks) + Var(seeds), "
            "Satterthwaite degrees of freedom; `tasks` alone: for new tasks and these seeds",
        ),
    ]


COLUMNS = (
    "measure", "condition", "primary", "cell", "changes", "mean", "mean_low", "mean_high",
    "difference", "low", "high", "p", "p_holm", "tasks_low", "tasks_high", "verdict", "seeds",
    "by_seed", "requests", "source_tasks", "coverage",
)  # fmt: skip


def csv_text(report: AblationReport) -> str:
    """One line for each cell in each place; differences are cell minus full; empty: undefined."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in report.tables:
        for row in table.rows:
            writer.writerow(_csv_row(report, table, row))
    return out.getvalue()


def _csv_row(report: AblationReport, table: PlaceTable, row: CellNumbers) -> list[object]:
    mean, difference = row.mean, row.difference
    shown = difference or mean
    return [
        table.measure.name, table.condition, int(table.primary), row.cell,
        " ".join(report.changes[row.cell]), *_three(mean), *_three(difference),
        difference.p if difference else None, row.p_holm,
        difference.tasks_low if difference else None, difference.tasks_high if difference else None,
        row.verdict, len(shown.by_seed) if shown else 0,
        " ".join(f"{one:.6g}" for one in shown.by_seed) if shown else "",
        shown.items if shown else 0, shown.clusters if shown else 0, f"{row.coverage:.4f}",
    ]  # fmt: skip


def _three(one: Crossed | None) -> tuple[float | None, float | None, float | None]:
    return (one.mean, one.low, one.high) if one else (None, None, None)


HEAD = (
    "cell", "held out", "95 %", "minus full", "95 % tasks and seeds", "95 % tasks", "by seed",
    "p Holm", "requests", "tasks", "covered", "over seeds",
)  # fmt: skip


def text_rows(table: PlaceTable) -> list[list[str]]:
    """The cells of one table as a reader sees them, in the order of ``HEAD``."""
    unit = table.measure.unit
    rows = []
    for row in table.rows:
        mean, difference = row.mean, row.difference
        shown = difference or mean
        rows.append(
            [
                row.cell,
                number(mean.mean if mean else None, unit),
                span(mean.low, mean.high, unit, plain=True) if mean else "",
                signed(difference.mean, unit) if difference else "",
                span(difference.low, difference.high, unit) if difference else "",
                span(difference.tasks_low, difference.tasks_high, unit) if difference else "",
                ", ".join(signed(one, unit) for one in difference.by_seed) if difference else "",
                p_value(row.p_holm) if row.p_holm is not None else "",
                str(shown.items if shown else 0),
                str(shown.clusters if shown else 0),
                f"{row.coverage:.0%}",
                row.verdict,
            ]
        )
    return rows


def span(low: float | None, high: float | None, unit: str, plain: bool = False) -> str:
    """An interval of differences, or (``plain``) of values."""
    if low is None or high is None:
        return "n/a"
    if plain:
        return f"{number(low, unit, bare=True)} to {number(high, unit, bare=True)}"
    return f"{signed(low, unit)} to {signed(high, unit)}"


def heading(table: PlaceTable) -> str:
    where = "" if table.condition == "all" else f" ({table.condition})"
    worse = "" if table.measure.higher_is_better else ", lower is better"
    return f"{table.measure.label}{where}{worse}"


def lead(report: AblationReport) -> str:
    """One sentence: which changes make a difference that holds."""
    found = [
        f"{row.cell} is {row.verdict} in {heading(table)} "
        f"({signed(row.difference.mean, table.measure.unit)})"
        for table in report.tables
        if table.primary
        for row in table.rows
        if row.difference and row.verdict in ("better", "worse") and row.cell != WARM
    ]
    seeds = len(report.seeds)
    if not found:
        return f"No change makes a primary difference that holds over {seeds} training seeds."
    return f"Holds over {seeds} training seeds: {'; '.join(found)}."

"""Paper-shaped tables: numbers with their std, interval and support, in no format yet.

``eval.exports`` writes them as Markdown, CSV, Parquet and LaTeX, ``eval.sheet`` as HTML. The tables
made here need only the contrasts and the coverage of ``compare.json``; both tasks have them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.formatting import number, p_value, signed
from eval.records import COMPLETE
from eval.repeats import STD_LABEL

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
Row = Mapping[str, Any]  # a contrast of compare.json


@dataclass(frozen=True, slots=True)
class Cell:
    """One number. ``n``: what it is over; ``planned``: how many cells the plan holds there.

    ``signed``: a difference. ``text``: words in place of a number, or a reason beside it.
    """

    value: float | None = None
    unit: str = "score"
    std: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    planned: int | None = None
    signed: bool = False
    text: str = ""
    tone: str = ""

    @property
    def shown(self) -> str:
        """As print has it, on one line."""
        return " ".join(part for part in (self.main, self.below) if part)

    @property
    def main(self) -> str:
        """The number with its std, or the text."""
        if self.value is None:
            return self.text or "n/a"
        if self.unit == "p":
            return p_value(self.value)
        if self.unit == "plain":
            return f"{self.value:g}"
        shown = signed(self.value, self.unit) if self.signed else number(self.value, self.unit)
        if self.std is None:
            return shown
        return f"{shown} {PLUS_MINUS} {number(self.std, self.unit, bare=True)}"

    @property
    def below(self) -> str:
        """The interval, where there is one."""
        if self.low is None or self.high is None:
            return ""
        return f"[{signed(self.low, self.unit)}, {signed(self.high, self.unit)}]"


@dataclass(frozen=True, slots=True)
class PaperTable:
    """``heads`` name the label columns of ``rows``, ``columns`` the number columns.

    ``spans``: headings over consecutive number columns, with how many each covers; may be empty.
    """

    name: str
    title: str
    note: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Cell, ...]], ...]
    spans: tuple[tuple[str, int], ...] = ()


def arms(one: Row) -> str:
    """Which two arms a contrast compares."""
    return f"{one['arms'][1]} \N{MINUS SIGN} {one['arms'][0]}"


def adjusted_p(one: Row) -> float | None:
    """The adjusted p of a declared contrast (max-T; Holm for recipes), the q of another."""
    if not one["primary"]:
        return one["q"]  # type: ignore[no-any-return]
    return one["p_holm" if "members" in one else "p_max_t"]  # type: ignore[no-any-return]


def where(one: Row) -> str:
    """Label, condition and variant of a contrast, without what is ``all``."""
    parts = [one[name] for name in ("condition", "variant") if one[name] != "all"]
    return f"{one['label']} ({', '.join(parts)})" if parts else str(one["label"])


def difference_cell(one: Row) -> Cell:
    """The difference of a contrast with its interval and support."""
    return Cell(
        one["difference"],
        one["unit"],
        low=one["low"],
        high=one["high"],
        n=one["items"],
        planned=one["planned"],
        signed=True,
        text=one["reason"],
        tone=one["verdict"] if one["verdict"] in ("better", "worse") else "",
    )


DIFFERENCE_NOTE = (
    "Over cells complete for both; runs of one request averaged first; 95 % cluster t interval "
    "over source tasks; p by sign flips of source tasks, adjusted over the declared contrasts by "
    "max-T (shared flips) and by Holm. Task-weighted: mean of the means of source tasks. Bounds: "
    "every missing cell at its worst, at its best. The column beside them counts what is "
    "incomplete as wrong."
)


def difference_table(contrasts: Sequence[Row]) -> PaperTable:
    """The declared contrasts."""
    return PaperTable(
        "differences",
        "Declared differences",
        DIFFERENCE_NOTE,
        ("comparison", "measure"),
        (
            "base",
            "trained",
            "difference",
            "task-weighted",
            "p",
            "max-T",
            "Holm",
            "items (tasks)",
            "covered",
            "bounds",
            "incomplete = wrong",
            "verdict",
        ),
        tuple(
            ((arms(one), where(one)), _difference_cells(one)) for one in contrasts if one["primary"]
        ),
    )


def _difference_cells(one: Row) -> tuple[Cell, ...]:
    unit = one["unit"]
    covered = one["cells"] / one["planned"] if one["planned"] else None
    bounds = ""
    if one["bound_low"] is not None:
        bounds = f"{signed(one['bound_low'], unit)} to {signed(one['bound_high'], unit)}"
    return (
        Cell(one["base"], unit),
        Cell(one["trained"], unit),
        difference_cell(one),
        Cell(one["task_weighted_difference"], unit, signed=True),
        Cell(one["p"], "p"),
        Cell(one["p_max_t"], "p"),
        Cell(one["p_holm"], "p"),
        Cell(text=f"{one['items']:,} ({one['clusters']})"),
        Cell(covered, "hit", n=one["cells"], planned=one["planned"]),
        Cell(text=bounds or "n/a"),
        Cell(one["if_incomplete_wrong"], unit, signed=True),
        Cell(text=one["verdict"]),
    )


def equivalence_table(contrasts: Sequence[Row]) -> PaperTable | None:
    """Claims of no difference; None without a declared margin."""
    tested = [one for one in contrasts if one["primary"] and one["equivalence"] is not None]
    if not tested:
        return None
    return PaperTable(
        "equivalence",
        "No difference?",
        "Two one-sided tests: no difference beyond the margin is shown where the 90 % cluster "
        "interval lies within it. The margin is declared before looking.",
        ("comparison", "measure"),
        ("margin", "90 % interval", "p", "no difference"),
        tuple(
            (
                (arms(one), where(one)),
                (
                    Cell(found["margin"], one["unit"]),
                    Cell(
                        one["difference"], one["unit"], low=found["low"], high=found["high"],
                        signed=True,
                    ),
                    Cell(found["p"], "p"),
                    Cell(text="shown" if found["shown"] else "not shown"),
                ),
            )
            for one in tested
            for found in [one["equivalence"]]
        ),
    )  # fmt: skip


def run_table(contrasts: Sequence[Row]) -> PaperTable | None:
    """Each run of the declared contrasts; None where there is one run."""
    shown = [one for one in contrasts if one["primary"] and one["runs"]]
    count = max((len(one["runs"]["base"]) for one in shown), default=0)
    if count < 2:
        return None
    return PaperTable(
        "runs",
        f"{count} runs",
        f"Mean {PLUS_MINUS} {STD_LABEL}, over items complete in every run for both (balanced). It "
        "says whether another sampling of the same requests would move the mean; it is not an "
        "error bar for new tasks.",
        ("measure", "system"),
        (*(f"run {n}" for n in range(1, count + 1)), "mean", "items"),
        tuple(row for one in shown for row in _run_rows(one)),
    )


def _run_rows(one: Row) -> list[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    found, unit = one["runs"], one["unit"]
    return [
        (
            (where(one), name),
            (
                *(Cell(value, unit) for value in found[side]),
                Cell(found[f"{side}_mean"], unit, std=found[f"{side}_std"], n=found["items"]),
                Cell(text=f"{found['items']:,} of {one['items']:,}"),
            ),
        )
        for side, name in zip(("base", "trained"), one["arms"], strict=True)
    ]


def pass_table(contrasts: Sequence[Row]) -> PaperTable | None:
    """pass^k and pass@k of the declared contrasts that are 0 or 1; None where there is none."""
    shown = [one for one in contrasts if one["primary"] and one["passes"]]
    if not shown:
        return None
    count = max(len(one["passes"]) for one in shown)
    numbers = range(1, count + 1)
    return PaperTable(
        "passes",
        "Every time, and at least once",
        "pass^k: all of k runs are right; pass@k: one of k is. Over items complete in every "
        "run for both; the difference with its cluster interval.",
        ("measure", "system"),
        (*(f"pass^{k}" for k in numbers), *(f"pass@{k}" for k in numbers)),
        tuple(row for one in shown for row in _pass_rows(one)),
    )


def _pass_rows(one: Row) -> list[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    unit = one["unit"]
    rows: list[tuple[tuple[str, ...], tuple[Cell, ...]]] = []
    for side, name in zip(("base", "trained"), one["arms"], strict=True):
        found = [Cell(k[kind][side], unit) for kind in ("every", "any") for k in one["passes"]]
        rows.append(((where(one), name), tuple(found)))
    found = [
        Cell(
            k[kind]["difference"], unit, low=k[kind]["low"], high=k[kind]["high"], signed=True
        )
        for kind in ("every", "any")
        for k in one["passes"]
    ]  # fmt: skip
    rows.append(((where(one), "difference"), tuple(found)))
    return rows


def count_table(contrasts: Sequence[Row]) -> PaperTable | None:
    """Paired counts run by run; None where nothing is 0 or 1."""
    shown = [one for one in contrasts if one["primary"] and one["counts"]]
    if not shown:
        return None
    return PaperTable(
        "counts",
        "Paired counts by run",
        "One McNemar mid-p for each run, to describe: runs of one request are not independent "
        "pairs, so nothing is pooled over them. Expected: if runs of the two met in every order.",
        ("measure", "run"),
        ("both right", "only trained", "only base", "neither", "mid-p"),
        tuple(row for one in shown for row in _count_rows(one)),
    )


def _count_rows(one: Row) -> list[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    rows: list[tuple[tuple[str, ...], tuple[Cell, ...]]] = [
        (
            (f"{arms(one)}, {where(one)}", str(run["run"])),
            (*(Cell(float(run[n]), "plain") for n in COUNTS), Cell(run["mid_p"], "p")),
        )
        for run in one["counts"]
    ]
    runs = len(one["counts"])
    if runs > 1:
        expected = [one["n10_expected"] / runs, one["n01_expected"] / runs]
        cells = [Cell(round(value, 2), "plain") for value in expected]
        label = (f"{arms(one)}, {where(one)}", "expected")
        rows.append((label, (BLANK, *cells, BLANK, BLANK)))
    return rows


BLANK = Cell(text="\N{EN DASH}")
COUNTS = ("n11", "n10", "n01", "n00")


def variance_table(contrasts: Sequence[Row]) -> PaperTable:
    """Where the uncertainty comes from, and what more data would buy."""
    shown = [one for one in contrasts if one["primary"] and one["variance"]]
    return PaperTable(
        "variance",
        "What more data would buy",
        "Standard deviations of one paired difference by source task, item and run (nested "
        "analysis of variance; below 0 is 0), and the standard error they give: now, with twice "
        "the source tasks, with twice the runs.",
        ("comparison", "measure"),
        (
            "sd of tasks",
            "sd of items",
            "sd of runs",
            "SE now",
            "SE, twice the tasks",
            "SE, twice the runs",
            "remark",
        ),
        tuple(((arms(one), where(one)), _variance_cells(one)) for one in shown),
    )


def _variance_cells(one: Row) -> tuple[Cell, ...]:
    found, unit = one["variance"], one["unit"]
    parts = [found[name] for name in ("task", "item", "run")]
    errors = [found[name] for name in ("se", "se_twice_tasks", "se_twice_runs")]
    return (
        *(Cell(None if part is None else part**0.5, unit) for part in parts),
        *(Cell(error, unit) for error in errors),
        Cell(text=found["reason"] or "\N{EN DASH}"),
    )


def coverage_table(coverage: Sequence[Row]) -> PaperTable:
    """Planned cells by state."""
    states = sorted({name for one in coverage for name in one["states"]}, key=_complete_first)
    return PaperTable(
        "coverage",
        "Coverage by state",
        "Each planned cell (request, run) has one state. Only complete ones have scores; the "
        "others lower coverage and widen the bounds.",
        ("system", "condition", "variant"),
        ("planned", *states),
        tuple(
            (
                (one["system"], one["condition"], one["variant"]),
                (
                    Cell(float(one["planned"]), "plain"),
                    *(Cell(float(one["states"].get(name, 0)), "plain") for name in states),
                ),
            )
            for one in sorted(coverage, key=lambda one: (one["system"], one["condition"]))
        ),
    )


def _complete_first(state: str) -> tuple[bool, str]:
    return state != COMPLETE, state


def shared_tables(contrasts: Sequence[Row], coverage: Sequence[Row]) -> list[PaperTable]:
    """The tables both tasks have, in reading order."""
    found: Iterable[PaperTable | None] = (
        difference_table(contrasts),
        equivalence_table(contrasts),
        run_table(contrasts),
        pass_table(contrasts),
        count_table(contrasts),
        variance_table(contrasts),
        coverage_table(coverage),
    )
    return [one for one in found if one is not None and one.rows]

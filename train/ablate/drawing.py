"""The ablation at one glance: a panel a primary measure, a line a cell, a dot a training seed.

Small dots are the seeds, the large one their mean, the bar the 95 % interval over tasks and seeds.
Filled and coloured: the difference holds. Same input, same bytes.
"""

import io
import re
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.figures import INK, STYLE
from eval.formatting import BETTER, NEUTRAL, PERCENT, WORSE, signed
from train.ablate.comparison import CellNumbers, PlaceTable
from train.ablate.report import AblationReport, heading

LINE_IN = 0.46  # height of a cell's line
PANEL_IN = 3.1
SEEDS_BELOW = 0.2  # of a line: the seeds' dots do not hide under the bar


def svg(report: AblationReport) -> str:
    """The picture for the page, in the page's own ink."""
    out = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = _figure(report)
        figure.patch.set_alpha(0)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
    return text[text.index("<svg") :].replace(INK, "currentColor")


def png(report: AblationReport) -> bytes:
    """The picture on white."""
    dark = {name: "#22262b" for name, found in STYLE.items() if found == INK}
    out = io.BytesIO()
    with matplotlib.rc_context(STYLE | dark):
        _figure(report).savefig(out, format="png", dpi=160, metadata={"Software": None})
    return out.getvalue()


def _figure(report: AblationReport) -> Figure:
    panels = [table for table in report.tables if table.primary]
    names = [row.cell for row in panels[0].rows if row.difference is not None or row.verdict]
    size = (1.6 + PANEL_IN * len(panels), 1.3 + LINE_IN * len(names))
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(1, len(panels), squeeze=False, sharey=True)[0])
    for ax, table in zip(axes, panels, strict=True):
        _panel(ax, table, names)
    axes[0].set_yticks(range(len(names)), names[::-1])
    figure.supxlabel("difference to the full cell on held-out requests", fontsize=9)
    return figure


def _panel(ax: Axes, table: PlaceTable, names: Sequence[str]) -> None:
    rows = {row.cell: row for row in table.rows}
    ax.axvline(0, color=NEUTRAL, lw=0.9)
    for line, name in enumerate(names[::-1]):
        _line(ax, line, rows[name], table.measure.unit)
    ax.set_title(heading(table), loc="left", fontsize=10, fontweight="bold")
    if table.measure.unit in PERCENT:
        ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:+.3g}" if x else "0")
        ax.set_xlabel("percentage points", fontsize=8.5)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.margins(x=0.12)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=NEUTRAL, alpha=0.2, lw=0.6)


def _line(ax: Axes, line: int, row: CellNumbers, unit: str) -> None:
    found = row.difference
    if found is None:
        ax.annotate("no pairs", (0, line), ha="center", va="center", fontsize=8, color=NEUTRAL)
        return
    color = {"better": BETTER, "worse": WORSE}.get(row.verdict, NEUTRAL)
    below = [line - SEEDS_BELOW] * len(found.by_seed)
    ax.plot(found.by_seed, below, "o", color=color, ms=3.5, alpha=0.6, mew=0)
    if found.low is not None and found.high is not None:
        ax.plot([found.low, found.high], [line, line], color=color, lw=2, solid_capstyle="butt")
    holds = row.verdict in ("better", "worse")
    ax.plot([found.mean], [line], "o", ms=7.5, mfc=color if holds else "none", mec=color, mew=1.6)
    ax.annotate(
        signed(found.mean, unit), (found.mean, line), (0, 8), textcoords="offset points",
        ha="center", fontsize=8,
    )  # fmt: skip

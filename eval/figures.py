"""The drawings of a report: learning curves as SVG, and one summary picture as PNG.

Ink is drawn in one marker colour that becomes ``currentColor`` in the SVG, so that the page's
light and dark styles both suit. Same input, same bytes: no dates, fixed ids.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.curves import Curve
from eval.formatting import NEUTRAL, colour, place

INK = "#123457"  # replaced by currentColor
LINES = ("#2a78c8", "#c8641e", "#3c9a5f", "#8a5fc0", "#b8942a", "#7a7f87")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "beliefrl",
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
}
NAMES = {
    "whole_agent": "whole agents right",
    "entries": "entries right",
    "perspective": "telling entries right",
    "optimality": "plan optimality",
    "belief": "belief criteria met",
    "user_profile": "profile criteria met",
    "solution": "solution criteria met",
    "format": "form as asked for",
    "reward": "composed reward",
    "incomplete": "incomplete answers",
    "loss": "loss",
}


def learning_curve_svg(curves: Sequence[Curve]) -> str:
    """One panel per phase; losses on panels of their own. Empty without curves."""
    panels = _panels(curves)
    if not panels:
        return ""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 3.1), layout="constrained")
        figure.patch.set_alpha(0)
        _draw_panels(list(figure.subplots(1, len(panels), squeeze=False)[0]), panels)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def summary_png(contrasts: Sequence[Mapping[str, Any]], curves: Sequence[Curve]) -> bytes:
    """The primary contrasts as a forest plot, with the learning curves below."""
    panels = _panels(curves)
    heights = [0.9 + 0.42 * len(contrasts), 3.0][: 2 if panels else 1]
    with matplotlib.rc_context(STYLE | _dark_ink()):
        figure = Figure(figsize=(9.2, sum(heights)), layout="constrained")
        parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
        _draw_forest(parts[0, 0].subplots(), contrasts)
        if panels:
            _draw_panels(list(parts[1, 0].subplots(1, len(panels), squeeze=False)[0]), panels)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=160, metadata={"Software": None})
    return out.getvalue()


def _dark_ink() -> dict[Any, Any]:
    """The style entries that draw ink, in a colour for white paper."""
    return {name: "#22262b" for name, found in STYLE.items() if found == INK}


def _panels(curves: Sequence[Curve]) -> list[tuple[str, list[Curve]]]:
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        if curve.name == "loss" and curve.phase != "sft":
            continue  # a policy-gradient loss shows nothing a reader could use
        title = f"{curve.phase}: loss" if curve.name == "loss" else curve.phase
        found.setdefault(title, []).append(curve)
    return list(found.items())


def _draw_panels(axes: Sequence[Axes], panels: Sequence[tuple[str, list[Curve]]]) -> None:
    for ax, (title, curves) in zip(axes, panels, strict=True):
        for number, curve in enumerate(curves):
            color = LINES[number % len(LINES)]
            smooth = len(curve.values) > 20
            ax.plot(curve.steps, curve.values, color=color, lw=0.8, alpha=0.3 if smooth else 1)
            label = NAMES.get(curve.name, curve.name)
            if smooth:
                ax.plot(curve.steps, _smoothed(curve.values), color=color, lw=1.8, label=label)
            else:
                ax.lines[-1].set_label(label)
        _draw_marks(ax, curves[0].marks)
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
        ax.set_xlabel("step")
        ax.grid(axis="y", color=NEUTRAL, alpha=0.25, lw=0.6)
        if not title.endswith("loss"):
            ax.set_ylim(-0.02, 1.02)
        ax.legend(frameon=False, fontsize=8)


def _draw_marks(ax: Axes, marks: Sequence[tuple[int, str]]) -> None:
    """A dashed line with its name before the step that something begins with."""
    for step, name in marks:
        ax.axvline(step - 0.5, color=NEUTRAL, lw=1.0, ls="--")
        ax.annotate(
            name,
            (step - 0.5, 1.0),
            xycoords=ax.get_xaxis_transform(),
            xytext=(3, -2),
            textcoords="offset points",
            va="top",
            fontsize=8,
            color=NEUTRAL,
        )


def _smoothed(values: Sequence[float]) -> list[float]:
    """Centred mean over about a twentieth of the steps on either side."""
    half = max(1, len(values) // 20)
    found = []
    for number in range(len(values)):
        window = values[max(0, number - half) : number + half + 1]
        found.append(sum(window) / len(window))
    return found


def _draw_forest(ax: Axes, contrasts: Sequence[Mapping[str, Any]]) -> None:
    for number, one in enumerate(reversed(contrasts)):
        if one["difference"] is None:
            continue
        color = colour(str(one["verdict"]))
        if one["low"] is not None:
            ax.plot([one["low"], one["high"]], [number, number], color=color, lw=2.2)
        ax.plot([one["difference"]], [number], "o", color=color, ms=6)
    ax.axvline(0, color=NEUTRAL, lw=0.8)
    labels = [place(one) for one in reversed(contrasts)]
    ax.set_yticks(range(len(contrasts)), labels)
    ax.set_ylim(-0.6, len(contrasts) - 0.4)
    several = any("members" in one for one in contrasts)
    over = "source tasks and checkpoints" if several else "source tasks"
    arms = {tuple(one["arms"]) for one in contrasts}
    which = " minus ".join(reversed(arms.pop())) if len(arms) == 1 else "system minus system"
    ax.set_xlabel(f"difference, {which}, with 95 % interval over {over}")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)

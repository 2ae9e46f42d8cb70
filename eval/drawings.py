"""The drawings of a report page: forest plot, turn-length curve, coverage bars, paired matrix.

Plain SVG and HTML that take their colours from the page's style (``eval/report.css``), so they
print and follow light and dark. Nothing is told by colour alone: verdicts are words, lines have
markers and dashes of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from eval.compare import summed
from eval.formatting import interval, p_value, signed
from eval.paper import Row, adjusted_p, arms, where
from eval.paper_calendar import Point, TurnCurve
from eval.records import COMPLETE

MARKS = ("circle", "square", "triangle", "diamond")
DASHES = ("", "6 4", "2 3", "8 3 2 3")


def forest(contrasts: Sequence[Row]) -> str:
    """Differences with their intervals on one axis, in points of the whole scale."""
    shown = [one for one in contrasts if one["difference"] is not None and one["unit"] != "count"]
    if not shown:
        return ""
    ends = [
        abs(one[n]) for one in shown for n in ("low", "high", "difference") if one[n] is not None
    ]
    step, count = _axis(max([*ends, 0.02]))
    reach = step * count
    several = len({tuple(one["arms"]) for one in shown}) > 1
    rows = "".join(_forest_row(one, reach, count, several) for one in shown)
    ticks = "".join(
        f'<text x="{_x(n * step, reach):.1f}" y="14">'
        f"{signed(n * step, 'hit').removesuffix('.0')}</text>"
        for n in range(-count, count + 1)
    )
    axis = f'<svg viewBox="0 0 400 20" class="axis" role="presentation">{ticks}</svg>'
    return (
        '<div class="wide"><table class="forest-table"><thead><tr><th>declared in bold</th>'
        '<th class="plot">points, 95 % interval over source tasks</th><th>difference</th>'
        f"<th>interval</th><th>p adj.</th><th>verdict</th></tr></thead><tbody>{rows}"
        f'<tr><td></td><td class="plot">{axis}</td><td colspan="4"></td></tr></tbody></table></div>'
    )


def _axis(reach: float) -> tuple[float, int]:
    """Ticks on either side of zero: how far apart and how many, in round numbers."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2):
        if 3 * step >= reach:
            return step, 3
    return (0.25, 4) if reach <= 1 else (0.5, 4)  # a difference of differences may pass 1


def _x(value: float, reach: float) -> float:
    """Where a difference stands on the 400 wide axis."""
    return 200 + max(-1.0, min(1.0, value / reach)) * 178


def _forest_row(one: Row, reach: float, count: int, several: bool) -> str:
    kind = one["verdict"] if one["verdict"] in ("better", "worse") else "neutral"
    grid = "".join(
        f'<line x1="{_x(n, count):.1f}" x2="{_x(n, count):.1f}" y1="0" '
        f'y2="26" class="{"zero" if n == 0 else "grid-line"}"/>'
        for n in range(-count, count + 1)
    )
    bar = ""
    if one["low"] is not None:
        low, high = _x(one["low"], reach), _x(one["high"], reach)
        bar = (
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="13" y2="13" class="bar {kind}"/>'
            f'<line x1="{low:.1f}" x2="{low:.1f}" y1="8" y2="18" class="bar {kind}"/>'
            f'<line x1="{high:.1f}" x2="{high:.1f}" y1="8" y2="18" class="bar {kind}"/>'
        )
    middle = _x(one["difference"], reach)
    filled = "filled" if one["primary"] else "hollow"
    name = f"{arms(one)}: {where(one)}" if several else where(one)
    return (
        f'<tr class="{"main" if one["primary"] else ""}"><td>{escape(name)}</td><td class="plot">'
        f'<svg viewBox="0 0 400 26" role="img" aria-label="{escape(where(one))}: '
        f'{signed(one["difference"], one["unit"])}, {escape(interval(one))}">{grid}{bar}'
        f'<circle cx="{middle:.1f}" cy="13" r="5" class="{kind} {filled}"/></svg></td>'
        f'<td class="{kind}">{signed(one["difference"], one["unit"])}</td>'
        f"<td>{escape(interval(one))}</td><td>{escape(p_value(adjusted_p(one)))}</td>"
        f"<td>{escape(one['verdict'])}</td></tr>"
    )


def turn_plots(curves: Sequence[TurnCurve]) -> str:
    """One panel for each measure; empty where no measure has two lengths."""
    panels = [_panel(one) for one in curves if any(len(points) > 1 for _, points in one.lines)]
    if not panels:
        return ""
    legend = "".join(
        f'<span class="key"><svg viewBox="0 0 44 14">{_line([(2, 7), (42, 7)], n)}'
        f"{_mark(22, 7, n)}</svg>{escape(name)}</span>"
        for n, (name, _) in enumerate(curves[0].lines)
    )
    return f'<p class="legend">{legend}</p><div class="panels">{"".join(panels)}</div>'


def _panel(curve: TurnCurve) -> str:
    lengths = sorted({one.turns for _, points in curve.lines for one in points})
    widest = max(lengths[-1] - lengths[0], 1)

    def place(one: Point, value: float) -> tuple[float, float]:
        return 46 + (one.turns - lengths[0]) / widest * 410, 198 - value * 180

    grid = "".join(
        f'<line x1="40" x2="466" y1="{198 - n * 45}" y2="{198 - n * 45}" class="grid-line"/>'
        f'<text x="34" y="{202 - n * 45}" text-anchor="end">{n * 25}</text>'
        for n in range(5)
    )
    places = [46 + (n - lengths[0]) / widest * 410 for n in lengths]
    labels = "".join(
        f'<text x="{x:.1f}" y="218" text-anchor="middle">{n}</text>'
        for n, x in zip(lengths, places, strict=True)
    )
    drawn = []
    for number, (_, points) in enumerate(curve.lines):
        drawn.append(_line([place(one, one.mean) for one in points], number))
        for one in points:
            x, y = place(one, one.mean)
            x += (number - (len(curve.lines) - 1) / 2) * 3
            drawn.append(_whisker(x, one, number))
            drawn.append(
                f"<g><title>{one.turns} turns: {100 * one.mean:.1f} %, {one.items} items</title>"
                f"{_mark(x, y, number)}</g>"
            )
    return (
        f'<figure><figcaption>{escape(curve.title)}, % by turns shown</figcaption>'
        f'<svg viewBox="0 0 480 226" role="img" aria-label="{escape(curve.title)} by turns">'
        f"{grid}{labels}{''.join(drawn)}</svg></figure>"
    )  # fmt: skip


def _whisker(x: float, one: Point, number: int) -> str:
    if one.low is None or one.high is None:
        return ""
    low, high = (198 - max(0.0, min(1.0, end)) * 180 for end in (one.low, one.high))
    ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
    return f'<line {ends} class="whisker s{number % 4}"/>'


def _line(points: Sequence[tuple[float, float]], number: int) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    kind = f'class="line s{number % 4}" stroke-dasharray="{DASHES[number % 4]}"'
    return f'<polyline points="{joined}" {kind}/>'


def _mark(x: float, y: float, number: int) -> str:
    kind = f'class="mark s{number % 4}"'
    name = MARKS[number % 4]
    if name == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {kind}/>'
    if name == "square":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {kind}/>'
    corners = [(x, y - 5.5), (x + 5.5, y), (x, y + 5.5), (x - 5.5, y)]
    if name == "triangle":
        corners = [(x, y - 5.5), (x + 5, y + 4), (x - 5, y + 4)]
    joined = " ".join(f"{one:.1f},{two:.1f}" for one, two in corners)
    return f'<polygon points="{joined}" {kind}/>'


def coverage_bars(coverage: Sequence[Row]) -> str:
    """One bar for each system and condition: what is complete, and why the rest is not."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for one in coverage:
        tally = found.setdefault((one["condition"], one["system"]), {})
        for state, count in one["states"].items():
            tally[state] = tally.get(state, 0) + count
    lines = "".join(
        f"<tr><td>{escape(condition)}</td><td>{escape(system)}</td>{_bar(tally)}</tr>"
        for (condition, system), tally in sorted(found.items(), key=lambda one: one[0][0])
    )
    return f'<div class="wide"><table class="bars"><tbody>{lines}</tbody></table></div>'


def _bar(tally: Mapping[str, int]) -> str:
    total = sum(tally.values())
    done = tally.get(COMPLETE, 0)
    rest = {state: n for state, n in sorted(tally.items()) if state != COMPLETE}
    parts = [f'<span class="done" style="width:{100 * done / total:.3f}%"></span>'] if done else []
    for number, (state, count) in enumerate(rest.items()):
        parts.append(
            f'<span class="lost l{number % 4}" style="width:{100 * count / total:.3f}%" '
            f'title="{escape(state)}: {count:,}"></span>'
        )
    words = ", ".join(f"{escape(state)} {count:,}" for state, count in rest.items())
    share = f"{100 * done / total:.1f} %"
    return (
        f'<td class="track"><div>{"".join(parts)}</div></td><td>{share}</td>'
        f'<td class="why">{done:,} of {total:,} complete{"; " + words if words else ""}</td>'
    )


def matrices(contrasts: Iterable[Row]) -> str:
    """The paired counts of each declared 0/1 contrast as two by two, summed over runs."""
    drawn = [_matrix(one) for one in contrasts if one["primary"] and one["counts"]]
    return f'<div class="panels">{"".join(drawn)}</div>' if drawn else ""


def _matrix(one: Row) -> str:
    total = summed(one["counts"])
    cells = sum(total.values())

    def cell(name: str, outcome: str, kind: str) -> str:
        share = 100 * total[name] / cells if cells else 0.0
        return (
            f'<td class="{kind}"><button type="button" data-outcome="{outcome}" '
            f'data-condition="{escape(one["condition"])}"><b>{total[name]:,}</b>'
            f"<small>{share:.1f} %</small></button></td>"
        )

    base, trained = (escape(name) for name in one["arms"])
    mid = escape(", ".join(p_value(run["mid_p"]) for run in one["counts"]))
    return (
        f'<figure class="matrix"><figcaption>{escape(where(one))}</figcaption><table>'
        f"<tr><th></th><th>{base} right</th><th>{base} wrong</th></tr>"
        f"<tr><th>{trained} right</th>{cell('n11', 'both right', 'same')}"
        f"{cell('n10', 'only trained right', 'gain')}</tr>"
        f"<tr><th>{trained} wrong</th>{cell('n01', 'only base right', 'loss')}"
        f"{cell('n00', 'both wrong', 'same')}</tr></table>"
        f'<p class="sub">{cells:,} cells in {len(one["counts"])} runs, summed to be read, not '
        f"tested. McNemar mid-p run by run: {mid}.</p></figure>"
    )

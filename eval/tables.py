"""The tables of a report as HTML: base against trained, and all systems."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from eval.compare import summed
from eval.formatting import colour, interval, number, p_value, place, signed
from eval.measures import ANSWERED, HEADLINE
from eval.metrics import Summary
from eval.report import Report, SystemsTable


def paired_table(report: Report) -> str:
    shown = [one for one in report.contrasts if _is_main(one)]
    rest = [one for one in report.contrasts if not _is_main(one) and one["planned"]]
    return (
        f'<p class="sub">{PAIRED_NOTE}</p>{_contrast_table(report, shown)}'
        f"<details><summary>The other measures in PUBLIC and PRIVATE apart</summary>"
        f"{_contrast_table(report, rest)}</details>"
        f"<details><summary>Paired counts, bounds, sensitivity, support</summary>"
        f'<p class="sub">{DETAIL_NOTE}</p>{_detail_table(report, shown)}</details>'
    )


PAIRED_NOTE = (
    "Over the cells that are complete for both. The interval and p treat the source task as the "
    "unit. Rows in bold were declared beforehand, p adjusted together by max-T; all others are "
    "exploratory, with Benjamini-Hochberg q. Blue: better; orange: worse; grey: not shown."
)


DETAIL_NOTE = (
    "Counts are summed over runs and describe only: runs of one request are not independent. "
    "Bounds: every cell without a value at its worst, at its best. Support: the cells used."
)


def _is_main(one: Mapping[str, Any]) -> bool:
    """Every measure over both variants; the headline measures also in each variant."""
    if one["variant"] == "all":
        return True
    overall = one["condition"] == "all" and one["measure"] != ANSWERED.name
    return overall or one["measure"] in HEADLINE.values()


def _contrast_table(report: Report, contrasts: Sequence[Mapping[str, Any]]) -> str:
    head = (
        f"<tr><th></th><th>{escape(report.base)}</th><th>{escape(report.trained)}</th>"
        "<th>difference</th><th>95 % interval</th><th></th><th>p</th><th>p adj.</th>"
        "<th>requests<br>(tasks)</th><th>covered</th></tr>"
    )
    scales = {
        unit: _scale([o for o in contrasts if o["unit"] == unit])
        for unit in ("hit", "part", "score", "count")
    }
    lines, condition = [], ""
    for one in contrasts:
        if one["condition"] != condition:
            condition = one["condition"]
            title = "all conditions" if condition == "all" else f"condition {condition}"
            lines.append(f'<tr class="group"><td colspan="10">{escape(title)}</td></tr>')
        lines.append(_contrast_row(one, scales[one["unit"]]))
    return f'<div class="wide"><table>{head}{"".join(lines)}</table></div>'


def _contrast_row(one: Mapping[str, Any], scale: float) -> str:
    kind = one["verdict"] if one["verdict"] in ("better", "worse") else "muted"
    name, indent = one["label"], "" if one["primary"] else "in"
    if one["variant"] != "all":
        name, indent = one["variant"], "deep"
        if not _is_main(one):
            name = f"{one['label']} · {one['variant']}"
    coverage = one["cells"] / one["planned"] if one["planned"] else 0.0
    cells = [
        f'<td class="{indent}">{escape(name)}</td>',
        f"<td>{number(one['base'], one['unit'])}</td>",
        f"<td>{number(one['trained'], one['unit'])}</td>",
        f'<td class="{kind}">{signed(one["difference"], one["unit"])}</td>',
        f"<td>{interval(one)}</td>",
        f"<td>{_forest(one, scale)}</td>",
        f"<td>{escape(p_value(one['p']))}</td>",
        f"<td>{escape(p_value(one['p_max_t'] if one['primary'] else one['q']))}</td>",
        f'<td>{one["items"]:,} <span class="muted">({one["clusters"]})</span></td>',
        f"<td>{coverage:.0%}</td>",
    ]
    return f'<tr class="{"main" if one["primary"] else ""}">{"".join(cells)}</tr>'


def _scale(contrasts: Iterable[Mapping[str, Any]]) -> float:
    """Half the width of the forest plot's axis."""
    names = ("low", "high", "difference")
    ends = [abs(one[name]) for one in contrasts for name in names if one[name] is not None]
    return float(max([*ends, 0.05]))


def _forest(one: Mapping[str, Any], scale: float) -> str:
    """The interval as a small drawing; zero is the middle line."""
    width, middle = 130, 65.0
    if one["difference"] is None:
        return ""

    def x(value: float) -> str:
        return f"{middle + value / scale * (middle - 6):.1f}"

    tone = colour(str(one["verdict"]))
    bar = ""
    if one["low"] is not None:
        bar = (
            f'<line x1="{x(one["low"])}" x2="{x(one["high"])}" y1="9" y2="9" stroke="{tone}" '
            'stroke-width="2.4" stroke-linecap="round"/>'
        )
    return (
        f'<svg class="forest" width="{width}" height="18" role="img" aria-label="interval">'
        f'<line x1="{middle}" x2="{middle}" y1="0" y2="18" stroke="currentColor" '
        f'stroke-opacity=".3"/>{bar}<circle cx="{x(one["difference"])}" cy="9" r="3.6" '
        f'fill="{tone}"/></svg>'
    )


def _detail_table(report: Report, contrasts: Iterable[Mapping[str, Any]]) -> str:
    head = (
        f"<tr><th></th><th>both / {escape(report.trained)} /<br>"
        f"{escape(report.base)} / neither</th>"
        "<th>McNemar mid-p<br>run by run</th><th>bounds</th><th>incomplete<br>= wrong</th>"
        f"<th>± runs<br>{escape(report.base)}</th><th>± runs<br>{escape(report.trained)}</th>"
        "<th>support</th></tr>"
    )
    lines = []
    for one in contrasts:
        total = summed(one["counts"])
        counts = " / ".join(str(total[name]) for name in ("n11", "n10", "n01", "n00"))
        mid = escape(" ".join(p_value(run["mid_p"]) for run in one["counts"]))
        bounds = wrong = ""
        if one["bound_low"] is not None:
            ends = (signed(one[name], one["unit"]) for name in ("bound_low", "bound_high"))
            bounds = " to ".join(ends)
            wrong = signed(one["if_incomplete_wrong"], one["unit"])
        name = place(one) if one["variant"] == "all" else f"{place(one)} · {one['variant']}"
        lines.append(
            f"<tr><td>{escape(name)}</td><td>{counts if one['counts'] else ''}</td><td>{mid}</td>"
            f"<td>{bounds}</td><td>{wrong}</td>"
            f"<td>{number(one['base_run_std'], one['unit'])}</td>"
            f"<td>{number(one['trained_run_std'], one['unit'])}</td>"
            f"<td><code>{escape(one['support'])}</code></td></tr>"
        )
    return f'<div class="wide"><table class="narrow">{head}{"".join(lines)}</table></div>'


def systems_table(table: SystemsTable) -> str:
    columns = [one for one in table.columns if any(one[0] in row.cells for row in table.rows)]
    head = "".join(f"<th>{escape(heading)}</th>" for _, heading, _ in columns)
    lines, previous = [], False
    for row in table.rows:
        first = "first" if row.is_policy and not previous else ""
        previous = row.is_policy
        cells = "".join(
            f"<td>{_summary(row.cells.get(name), unit, name == 'answered')}</td>"
            for name, _, unit in columns
        )
        kind = "policy" if row.is_policy else ""
        lines.append(f'<tr class="{kind} {first}"><td>{escape(row.name)}</td>{cells}</tr>')
    return (
        f"<h3>condition {escape(table.condition)}</h3>"
        f'<div class="wide"><table class="systems"><tr><th></th>{head}</tr>'
        f"{''.join(lines)}</table></div>"
    )


def _summary(one: Summary | None, unit: str, is_coverage: bool) -> str:
    if one is None or one.mean is None:
        return '<span class="muted">&ndash;</span>'
    bounds = ""
    if one.bounds and one.cells < one.planned and unit != "count":
        low, high = (number(end, unit, bare=True) for end in one.bounds)
        bounds = f' title="if the incomplete were all wrong or all right: {low} to {high}"'
    if is_coverage:
        below = f"{one.total:,.0f} of {one.planned:,}"
    elif unit == "hit" and one.std is None:
        below = f"{one.total:,.0f} of {one.cells:,}"
    else:
        std = "" if one.std is None else f"± {number(one.std, unit, bare=True)} · "
        below = f"{std}n {one.cells:,}"
    return f"<span{bounds}>{number(one.mean, unit)}</span><small>{below}</small>"

"""A `Report` -> one HTML page and one Markdown page."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from eval.compare import summed
from eval.figures import colour, learning_curve_svg, place
from eval.measures import ANSWERED, HEADLINE
from eval.metrics import Summary
from eval.report import Answer, Report, SideBySide, SystemsTable

MAX_SHOWN = 4_000  # characters of one model answer

STYLE = """
:root{color-scheme:light dark;--bg:#fdfdfc;--ink:#1f2328;--soft:#666d76;--line:#dfe2e6;
--panel:#f4f5f6;--better:#1f66b0;--worse:#b4530f;--accent:#1f66b0}
@media(prefers-color-scheme:dark){:root{--bg:#16181b;--ink:#e3e5e8;--soft:#9aa1ab;--line:#33373d;
--panel:#1f2226;--better:#6fb1f2;--worse:#f0a06a;--accent:#6fb1f2}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1080px;margin:0 auto;padding:44px 28px 80px}
h1{font-size:15px;font-weight:600;color:var(--soft);margin:0 0 14px;letter-spacing:.01em}
.lead{font-size:25px;line-height:1.36;font-weight:600;margin:0 0 12px;letter-spacing:-.01em;
text-wrap:pretty}
.lead b{color:var(--accent);font-weight:650;white-space:nowrap}
.sub{color:var(--soft);margin:0 0 8px;max-width:78ch}
h2{font-size:19px;margin:52px 0 6px;letter-spacing:-.005em}
h3{font-size:15px;margin:30px 0 8px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:13.5px}
th{font-weight:600;text-align:right;color:var(--soft);vertical-align:bottom;
padding:6px 9px;border-bottom:1px solid var(--line);line-height:1.25}
td{text-align:right;padding:6px 9px;border-bottom:1px solid var(--line);vertical-align:top;
white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}
td:first-child{white-space:normal;min-width:205px}
tr.group td{border-bottom:none;padding-top:20px;font-weight:650}
tr.main td:first-child{font-weight:650}
table.systems td:first-child{min-width:96px}
td.in:first-child{padding-left:14px;color:var(--soft)}
td.deep:first-child{padding-left:28px;color:var(--soft)}
td small{display:block;color:var(--soft);font-size:11.5px;line-height:1.2}
tr.policy td{color:var(--soft)}
tr.first td{border-top:2px solid var(--line)}
.better{color:var(--better);font-weight:600}.worse{color:var(--worse);font-weight:600}
.muted{color:var(--soft)}
.forest{display:block;margin-left:auto;color:var(--ink)}
.curve{color:var(--ink);margin:8px 0 0}.curve svg{width:100%;height:auto}
.note{border-left:3px solid var(--worse);padding:6px 14px;margin:10px 0;background:var(--panel)}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:14px;
margin:8px 0 6px}
.card{background:var(--panel);border-radius:8px;padding:12px 14px;min-width:0}
.card header{display:flex;justify-content:space-between;gap:10px;font-size:13px;
margin-bottom:8px;font-weight:600}
.card header span{color:var(--soft);font-weight:400;text-align:right}
pre{margin:0;font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
white-space:pre-wrap;overflow-wrap:anywhere;max-height:260px;overflow:auto}
details{margin:8px 0}summary{cursor:pointer;color:var(--soft);font-size:13.5px}
details[open] summary{margin-bottom:8px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 22px;margin:10px 0;font-size:13.5px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
code{font:12.5px ui-monospace,Menlo,Consolas,monospace}
"""


def html(report: Report) -> str:
    """The whole page, self-contained."""
    body = [
        f"<h1>Evaluation {escape(report.title)}</h1>",
        _lead(report),
        *(f'<p class="note">{escape(text)}</p>' for text in report.warnings),
        "<h2>Base and trained on matched pairs</h2>",
        _paired_table(report),
        _curves(report),
        "<h2>All systems, and what copying is worth</h2>",
        f'<p class="sub">{SYSTEMS_NOTE}</p>',
        *(_systems_table(table) for table in report.tables),
        _examples(report.examples),
        "<h2>How it was run</h2>",
        _how(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escape(report.title)}: evaluation</title><style>{STYLE}</style></head>"
        f"<body><main>\n{chr(10).join(body)}\n</main></body></html>\n"
    )


SYSTEMS_NOTE = (
    "Each number is over the system's own complete answers, so look at the column "
    "<i>complete</i> first. ± is the standard deviation from run to run on the same requests "
    "(sampling noise), not an error bar for new tasks. PUBLIC and PRIVATE are matched: the same "
    "stories and holders, complete in both. The grey rows are fixed answers, scored by the same "
    "reader."
)


def headline(report: Report) -> tuple[str, str, str]:
    """The first sentence in three parts, the middle one to be stressed."""
    one = report.contrasts[0]
    names = f"{report.trained} against {report.base} in {one['label']}:"
    if one["difference"] is None:
        return names, "no request", "was answered by both, so nothing can be compared."
    numbers = signed(one["difference"], one["unit"])
    if one["low"] is None:
        tail = f"({one['clusters']} source tasks are too few for an interval)."
    else:
        tail = f"(95 % interval {_interval(one)})."
    return names, numbers, f"{tail} {VERDICTS[one['verdict']]}"


VERDICTS = {
    "better": "The trained model is better.",
    "worse": "The trained model is worse.",
    "no difference shown": "No difference is shown.",
    "inconclusive": "Interval and test disagree: inconclusive.",
    "too few tasks": "",
    "no pairs": "",
}


def _lead(report: Report) -> str:
    before, stressed, after = headline(report)
    return (
        f'<p class="lead">{escape(before)} <b>{escape(stressed)}</b> {escape(after)}</p>'
        f'<p class="sub">{escape(basis(report))}</p>'
    )


def basis(report: Report) -> str:
    """What the first number rests on."""
    one, facts = report.contrasts[0], report.plan_facts
    parts = [
        f"{number(one['base'], one['unit'])} became {number(one['trained'], one['unit'])}",
        f"p {p_value(one['p'])} by sign flips of source tasks",
        f"{one['items']:,} of {facts['requests']:,} requests, "
        f"{facts['config']['runs']} runs each, from {one['clusters']} source tasks",
        f"both replied in {one['cells']:,} of {one['planned']:,} cells",
    ]
    if one["difference"] is None:
        return "; ".join(parts[2:]) + "."
    return "; ".join(parts) + "."


def _paired_table(report: Report) -> str:
    shown = [one for one in report.contrasts if _is_main(one)]
    rest = [one for one in report.contrasts if not _is_main(one)]
    return (
        f'<p class="sub">{PAIRED_NOTE}</p>{_contrast_table(report, shown)}'
        f"<details><summary>All {len(report.contrasts)} contrasts, with PUBLIC and PRIVATE "
        f"apart</summary>{_contrast_table(report, rest)}</details>"
        f"<details><summary>Paired counts per run, bounds, sensitivity, support</summary>"
        f"{_detail_table(report, report.contrasts)}</details>"
    )


PAIRED_NOTE = (
    "Over the cells that are complete for both. The interval and p treat the source task as the "
    "unit. Rows in bold were declared beforehand and share one Holm correction; all others are "
    "exploratory. Blue: better; orange: worse; grey: not shown."
)


def _is_main(one: Mapping[str, Any]) -> bool:
    """Every measure over both variants; the headline measures also in each variant."""
    headline = one["measure"] in HEADLINE.values() or one["condition"] == "all"
    return one["variant"] == "all" or (headline and one["measure"] != ANSWERED.name)


def _contrast_table(report: Report, contrasts: Sequence[Mapping[str, Any]]) -> str:
    head = (
        f"<tr><th></th><th>{escape(report.base)}</th><th>{escape(report.trained)}</th>"
        "<th>difference</th><th>95 % interval</th><th></th><th>p</th><th>p Holm</th>"
        "<th>requests<br>(tasks)</th><th>covered</th></tr>"
    )
    scales = {unit: _scale([o for o in contrasts if o["unit"] == unit]) for unit in ("hit", "part", "score", "count")}
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
            name = f"{one['label']}, {one['variant']}"
    coverage = one["cells"] / one["planned"] if one["planned"] else 0.0
    cells = [
        f'<td class="{indent}">{escape(name)}</td>',
        f"<td>{number(one['base'], one['unit'])}</td>",
        f"<td>{number(one['trained'], one['unit'])}</td>",
        f'<td class="{kind}">{signed(one["difference"], one["unit"])}</td>',
        f"<td>{_interval(one)}</td>",
        f"<td>{_forest(one, scale)}</td>",
        f"<td>{p_value(one['p'])}</td>",
        f"<td>{p_value(one['p_holm']) if one['primary'] else ''}</td>",
        f'<td>{one["items"]:,} <span class="muted">({one["clusters"]})</span></td>',
        f"<td>{coverage:.0%}</td>",
    ]
    return f'<tr class="{"main" if one["primary"] else ""}">{"".join(cells)}</tr>'


def _scale(contrasts: Iterable[Mapping[str, Any]]) -> float:
    """Half the width of the forest plot's axis."""
    ends = [abs(one[name]) for one in contrasts for name in ("low", "high", "difference") if one[name] is not None]
    return max([*ends, 0.05])


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
        "<tr><th></th><th>both / only trained / only base / neither</th>"
        "<th>McNemar mid-p, run by run</th><th>bounds</th><th>incomplete = wrong</th>"
        f"<th>± runs<br>{escape(report.base)}</th><th>± runs<br>{escape(report.trained)}</th>"
        "<th>support</th></tr>"
    )
    lines = []
    for one in contrasts:
        total = summed(one["counts"])
        counts = " / ".join(str(total[name]) for name in ("n11", "n10", "n01", "n00"))
        mid = " ".join(f"{run['mid_p']:.2f}" for run in one["counts"])
        bounds = ""
        if one["bound_low"] is not None:
            bounds = f"{signed(one['bound_low'], one['unit'])} to {signed(one['bound_high'], one['unit'])}"
        name = f"{place(one)} · {one['variant']}"
        lines.append(
            f"<tr><td>{escape(name)}</td><td>{counts if one['counts'] else ''}</td><td>{mid}</td>"
            f"<td>{bounds}</td><td>{signed(one['if_incomplete_wrong'], one['unit'])}</td>"
            f"<td>{number(one['base_run_std'], one['unit'])}</td>"
            f"<td>{number(one['trained_run_std'], one['unit'])}</td>"
            f"<td><code>{escape(one['support'])}</code></td></tr>"
        )
    return f'<div class="wide"><table>{head}{"".join(lines)}</table></div>'


def _curves(report: Report) -> str:
    drawing = learning_curve_svg(report.curves)
    if not drawing:
        return ""
    return (
        "<h2>How training went</h2>"
        '<p class="sub">Means of each step&rsquo;s completions on training prompts; thin lines are '
        "single steps.</p>"
        f'<div class="curve">{drawing}</div>'
    )


def _systems_table(table: SystemsTable) -> str:
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
        f'<div class="wide"><table class="systems"><tr><th></th>{head}</tr>{"".join(lines)}</table></div>'
    )


def _summary(one: Summary | None, unit: str, is_coverage: bool) -> str:
    if one is None or one.mean is None:
        return '<span class="muted">–</span>'
    bounds = ""
    if one.bounds and one.cells < one.planned and unit != "count":
        low, high = (number(end, unit, bare=True) for end in one.bounds)
        bounds = f' title="if the incomplete were all wrong or all right: {low} to {high}"'
    if is_coverage:
        below = f"{one.total:,.0f} of {one.planned:,}"
    elif unit == "hit" and one.std is None:
        below = f"{one.total:,.0f} of {one.cells:,}"
    else:
        std = "" if one.std is None else f"± {number(one.std, unit, bare=True)} "
        below = f"{std}n {one.cells:,}"
    return f"<span{bounds}>{number(one.mean, unit)}</span><small>{below}</small>"


def _examples(examples: Sequence[SideBySide]) -> str:
    if not examples:
        return ""
    blocks = [
        f"<h3>{escape(one.heading)}</h3>"
        f'<div class="pair">{"".join(_card(answer) for answer in one.answers)}</div>'
        f"<details><summary>request {escape(one.request)} and a right answer</summary>"
        f'<div class="card"><pre>{escape(one.question)}</pre></div>'
        f'<div class="card" style="margin-top:8px"><pre>{escape(one.right_answer)}</pre></div>'
        "</details>"
        for one in examples
    ]
    return (
        "<h2>Answers side by side</h2>"
        '<p class="sub">Per condition the clearest gain and the clearest loss of run 1.</p>'
        + "".join(blocks)
    )


def _card(answer: Answer) -> str:
    text = answer.text[:MAX_SHOWN] + (" […]" if len(answer.text) > MAX_SHOWN else "")
    return (
        f'<div class="card"><header>{escape(answer.system)}<span>{escape(answer.verdict)}</span>'
        f"</header><pre>{escape(text) or '(nothing)'}</pre></div>"
    )


def how(report: Report) -> list[tuple[str, str]]:
    """The facts needed to run it again, as (name, value)."""
    facts = report.plan_facts
    config = facts["config"]
    sampling = ", ".join(f"{name} {value}" for name, value in config["sampling"].items())
    weights = ", ".join(f"{name} {value}" for name, value in config["reward"].items())
    found = [
        ("plan", str(facts["plan_hash"])),
        ("requests", f"{facts['requests']} from {facts['source_tasks']} source tasks"),
        ("cells", ", ".join(f"{name} {count}" for name, count in facts["counts"].items())),
        ("runs", str(config["runs"])),
        ("sampling", sampling),
        ("reward", weights),
    ]
    for one in report.identities:
        states = ", ".join(f"{name} {count}" for name, count in report.states[one.system].items())
        found.append(
            (
                f"system {one.system}",
                f"{one.model} by {one.engine}, fingerprint {one.fingerprint}; {states}",
            )
        )
    found.append(("versions", ", ".join(f"{name} {v}" for name, v in report.versions.items())))
    return found


def _how(report: Report) -> str:
    lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in how(report))
    return f"<dl>{lines}</dl>"


def number(value: float | None, unit: str, bare: bool = False) -> str:
    """Hits and parts as a percentage, scores and counts as they are; ``bare`` leaves % away."""
    if value is None:
        return "n/a"
    digits = {"hit": 1, "part": 2, "score": 3, "count": 2}[unit]
    percent = unit in ("hit", "part")
    shown = f"{100 * value if percent else value:.{digits}f}"
    return _minus(shown) + (" %" if percent and not bare else "")


def signed(value: float | None, unit: str) -> str:
    """A difference, with its sign; in percentage points for hits and parts."""
    if value is None:
        return "n/a"
    digits = {"hit": 1, "part": 2, "score": 3, "count": 2}[unit]
    return _minus(f"{100 * value if unit in ('hit', 'part') else value:+.{digits}f}")


def _minus(shown: str) -> str:
    """The minus sign of print, and none before a zero."""
    if not shown.strip("+-0."):
        return shown.lstrip("+-")
    return shown.replace("-", "−")


def p_value(p: float | None) -> str:
    """Three digits, never 0."""
    if p is None:
        return "n/a"
    return "< .001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def _interval(one: Mapping[str, Any]) -> str:
    if one["low"] is None:
        return "n/a"
    return f"{signed(one['low'], one['unit'])} to {signed(one['high'], one['unit'])}"


def markdown(report: Report) -> str:
    """The same numbers for a terminal or a pull request."""
    lines = [f"# Evaluation {report.title}", "", " ".join(headline(report)), "", basis(report), ""]
    lines += [f"> {text}" for text in report.warnings]
    lines += ["", "| measure | condition | variant | base | trained | difference | 95 % interval | p "]
    lines[-1] += "| p Holm | requests | tasks | covered | verdict |"
    lines.append("|---|---|---|" + "---:|" * 9 + "---|")
    for one in report.contrasts:
        coverage = one["cells"] / one["planned"] if one["planned"] else 0.0
        cells = [
            one["label"],
            one["condition"],
            one["variant"],
            number(one["base"], one["unit"]),
            number(one["trained"], one["unit"]),
            signed(one["difference"], one["unit"]),
            _interval(one),
            p_value(one["p"]),
            p_value(one["p_holm"]) if one["primary"] else "",
            one["items"],
            one["clusters"],
            f"{coverage:.0%}",
            one["verdict"],
        ]
        lines.append("| " + " | ".join(_cell(str(cell)) for cell in cells) + " |")
    for table in report.tables:
        lines += ["", f"## Systems, condition {_cell(table.condition)}", ""]
        lines += _markdown_systems(table)
    lines += ["", "## How it was run", ""]
    lines += [f"- {name}: {value}" for name, value in how(report)]
    return "\n".join(lines) + "\n"


def _markdown_systems(table: SystemsTable) -> list[str]:
    heads = ["system", *(heading for _, heading, _ in table.columns)]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * len(table.columns)]
    for row in table.rows:
        cells = [_cell(row.name)]
        for name, _, unit in table.columns:
            one = row.cells.get(name)
            cells.append("–" if one is None else f"{number(one.mean, unit)} (n {one.cells})")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def data_uri(png: bytes) -> str:
    """A PNG that needs no file."""
    return "data:image/png;base64," + base64.b64encode(png).decode()

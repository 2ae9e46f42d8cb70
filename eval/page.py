"""A `Report` -> one HTML page that needs nothing else."""

from collections.abc import Sequence
from html import escape

from eval.figures import learning_curve_svg
from eval.formatting import interval, number, p_value, signed
from eval.plan import ANSWER_FORMS
from eval.report import Answer, Report, SideBySide
from eval.tables import paired_table, systems_table

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
table.narrow{font-size:12px}table.narrow td:first-child{white-space:nowrap}
.grid{font-size:12px}.grid td,.grid th{padding:1px 4px;border:0;text-align:center;
font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.grid td:first-child{min-width:0;text-align:left;color:var(--soft);padding-left:0}
.grid b{color:var(--worse);border-bottom:2px solid var(--worse);font-weight:600}
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
white-space:pre-wrap;unicode-bidi:isolate;overflow-wrap:anywhere;max-height:260px;overflow:auto}
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
        paired_table(report),
        _curves(report),
        "<h2>All systems, and what copying is worth</h2>",
        f'<p class="sub">{SYSTEMS_NOTE}</p>',
        *(systems_table(table) for table in report.tables),
        _examples(report.examples),
        "<h2>How it was run</h2>",
        _how(report),
    ]
    return document(report.title, body)


def document(title: str, body: Sequence[str]) -> str:
    """A page of its own around the parts of its body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escape(title)}: evaluation</title><style>{STYLE}</style></head>"
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
        tail = f"(95 % interval {interval(one)})."
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
        '<p class="sub">Run 1: per condition the clearest gain and the clearest loss in reward. '
        "Wrong entries are underlined.</p>" + "".join(blocks)
    )


def _card(answer: Answer) -> str:
    text = answer.text[:MAX_SHOWN] + (" […]" if len(answer.text) > MAX_SHOWN else "")
    raw = f"<pre>{escape(text) or '(nothing)'}</pre>"
    if answer.grid:
        raw = f"{_grid(answer)}<details><summary>as written</summary>{raw}</details>"
    return (
        f'<div class="card"><header>{escape(answer.system)}<span>{escape(answer.verdict)}</span>'
        f"</header>{raw}</div>"
    )


def _grid(answer: Answer) -> str:
    """The stated entries, one row per agent; wrong ones marked, the right entry on hover."""
    lines = []
    for agent, entries in answer.grid:
        cells = "".join(
            f"<td>{escape(stated)}</td>"
            if stated == right
            else f'<td><b title="right: {escape(right)}">{escape(stated)}</b></td>'
            for stated, right in entries
        )
        lines.append(f"<tr><td>{escape(agent)}</td>{cells}</tr>")
    return f'<div class="wide"><table class="grid">{"".join(lines)}</table></div>'


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
        ("answers", ANSWER_FORMS["structured_output" in config]),
        ("sampling", sampling),
        ("reward", weights),
    ]
    for one in report.identities:
        states = ", ".join(f"{name} {count}" for name, count in report.states[one.system].items())
        found.append(
            (
                f"system {one.system}",
                f"{one.model} by {one.engine}, fingerprint {one.fingerprint}; "
                f"{states}; {report.tokens[one.system]:,} tokens written",
            )
        )
    found.append(("versions", ", ".join(f"{name} {v}" for name, v in report.versions.items())))
    return found


def _how(report: Report) -> str:
    lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in how(report))
    return f"<dl>{lines}</dl>"

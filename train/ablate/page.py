"""The ablation's report as one HTML page that needs nothing else, and as Markdown."""

from html import escape
from pathlib import Path

from eval.exports import escaped_cell
from eval.records import write_atomically
from train.ablate.comparison import PlaceTable
from train.ablate.drawing import png, svg
from train.ablate.report import (
    HEAD,
    AblationReport,
    csv_text,
    heading,
    lead,
    text_rows,
)

STYLE = """
:root{color-scheme:light dark;--bg:#fdfdfc;--ink:#1f2328;--soft:#666d76;--line:#dfe2e6;
--better:#1f66b0;--worse:#b4530f}
@media(prefers-color-scheme:dark){:root{--bg:#16181b;--ink:#e3e5e8;--soft:#9aa1ab;--line:#33373d;
--better:#6fb1f2;--worse:#f0a06a}}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:40px 28px 80px}
h1{font-size:15px;color:var(--soft);margin:0 0 12px}
.lead{font-size:22px;line-height:1.36;font-weight:600;margin:0 0 14px}
.sub{color:var(--soft);max-width:85ch}.note{border-left:3px solid var(--worse);padding:4px 14px}
h2{font-size:18px;margin:40px 0 6px}.wide{overflow-x:auto}svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:5px 9px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft)}th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}
.better{color:var(--better);font-weight:600}.worse{color:var(--worse);font-weight:600}
summary{cursor:pointer;color:var(--soft)}dl{display:grid;grid-template-columns:max-content 1fr;
gap:4px 20px;font-size:13.5px}dt{color:var(--soft)}dd{margin:0}code{font-size:12.5px}
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

HOW_TO_READ = (
    "Small dots are training seeds, the ring is their mean, the bar its 95 % interval for new "
    "source tasks and new seeds. A filled, coloured dot: the interval leaves out 0 and every seed "
    "agrees in sign, so the difference holds over seeds. Cells of one seed start from the same "
    "warm start, so that only GRPO differs. All cells are measured by the same held-out reward, "
    "whatever they were trained on."
)


def write_report(folder: Path, report: AblationReport) -> list[Path]:
    """Write the four files; returns their paths."""
    paths = [folder / f"report.{ending}" for ending in ("html", "md", "csv", "png")]
    write_atomically(paths[0], [html(report)])
    write_atomically(paths[1], [markdown(report)])
    write_atomically(paths[2], [csv_text(report)])
    paths[3].write_bytes(png(report))
    return paths


def html(report: AblationReport) -> str:
    """The whole page."""
    shown = [table for table in report.tables if table.primary]
    folded = [table for table in report.tables if not table.primary]
    body = [
        f"<h1>Ablation {escape(report.title)}</h1>",
        f'<p class="lead">{escape(lead(report))}</p>',
        *(f'<p class="note">{escape(text)}</p>' for text in report.warnings),
        f'<div class="wide">{svg(report)}</div>',
        f'<p class="sub">{escape(HOW_TO_READ)}</p>',
        "<h2>What each cell changes</h2>",
        _changes(report),
        *(f"<h2>{escape(heading(table))}</h2>{_table(table)}" for table in shown),
        "<h2>All other parts (exploratory)</h2>",
        *(
            f"<details><summary>{escape(heading(table))}</summary>{_table(table)}</details>"
            for table in folded
        ),
        "<h2>How it was run</h2>",
        f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in report.facts)}</dl>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(report.title)}: ablation</title><style>{STYLE}</style></head>"
        f"<body><main>\n{chr(10).join(body)}\n</main></body></html>\n"
    )


def _changes(report: AblationReport) -> str:
    lines = "".join(
        f"<dt>{escape(cell)}</dt><dd><code>{escape(' '.join(changes) or 'nothing')}</code></dd>"
        for cell, changes in report.changes.items()
    )
    return f"<dl>{lines}</dl>"


def _table(table: PlaceTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in HEAD)
    lines = []
    for cells in text_rows(table):
        *others, said = [escape(cell) for cell in cells]
        kind = said if said in ("better", "worse") else ""
        row = "".join(f"<td>{cell}</td>" for cell in others)
        lines.append(f'<tr>{row}<td class="{kind}">{said}</td></tr>')
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def markdown(report: AblationReport) -> str:
    """The same numbers for a terminal or a pull request."""
    lines = [f"# Ablation {report.title}", "", lead(report), ""]
    lines += [f"> {text}" for text in report.warnings]
    lines += ["", "![differences to the full cell](report.png)", "", HOW_TO_READ, ""]
    lines += [f"- `{cell}`: {' '.join(c) or 'nothing'}" for cell, c in report.changes.items()]
    for table in report.tables:
        title = heading(table) if table.primary else f"{heading(table)}, exploratory"
        lines += ["", f"## {title}", "", "| " + " | ".join(HEAD) + " |"]
        lines.append("|---|" + "---:|" * (len(HEAD) - 2) + "---|")
        for cells in text_rows(table):
            lines.append("| " + " | ".join(escaped_cell(cell) for cell in cells) + " |")
    lines += ["", "## How it was run", ""]
    lines += [f"- {name}: {found}" for name, found in report.facts]
    return "\n".join(lines) + "\n"

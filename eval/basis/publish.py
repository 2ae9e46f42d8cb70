"""A BASIS report -> ``report.html``, ``report.md`` and ``report.png`` in the plan folder.

The page holds everything it shows: no script, no font, no address. All text is escaped.
"""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from eval.basis.report import BasisReport, Table
from eval.figures import learning_curve_svg, summary_png
from eval.markdown_page import escaped_cell
from eval.page import document
from eval.records import write_atomically


def write_report(folder: Path, report: BasisReport) -> list[Path]:
    """Write the three forms; returns their paths."""
    paths = [folder / f"report.{ending}" for ending in ("html", "md", "png")]
    write_atomically(paths[0], [html(report)])
    write_atomically(paths[1], [markdown(report)])
    paths[2].write_bytes(summary_png(report.primary, report.curves))
    return paths


def html(report: BasisReport) -> str:
    """The whole page, self-contained."""
    body = [
        f"<h1>Evaluation {escape(report.title)}</h1>",
        f'<p class="lead">{escape(report.lead)}</p>',
        *(f'<p class="note">{escape(text)}</p>' for text in report.warnings),
        *(_html_table(table) for table in report.tables),
        *_curves(report),
        "<h2>How it was run</h2>",
        f"<dl>{''.join(_fact(name, text) for name, text in report.facts)}</dl>",
    ]
    return document(report.title, body)


def _curves(report: BasisReport) -> Iterator[str]:
    if drawing := learning_curve_svg(report.curves):
        yield f'<h2>How training went</h2><div class="curve">{drawing}</div>'


def _fact(name: str, text: str) -> str:
    return f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"


def _html_table(table: Table) -> str:
    note = f'<p class="sub">{escape(table.note)}</p>' if table.note else ""
    lines = "".join(_html_row(row, "td") for row in table.rows)
    drawn = f'<div class="wide"><table class="narrow">{_html_row(table.head, "th")}{lines}</table>'
    if table.folded:
        title = f"<summary>{escape(table.title)}</summary>"
        return f"<details>{title}{note}{drawn}</div></details>"
    return f"<h2>{escape(table.title)}</h2>{note}{drawn}</div>"


def _html_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def markdown(report: BasisReport) -> str:
    """The same numbers for a terminal or a pull request."""
    lines = [f"# Evaluation {report.title}", "", report.lead, ""]
    lines += [f"> {text}" for text in report.warnings]
    for table in report.tables:
        lines += ["", f"## {table.title}", "", *([table.note, ""] if table.note else [])]
        lines += [_row(table.head), "|" + "---|" * len(table.head), *map(_row, table.rows)]
    lines += ["", "## How it was run", ""]
    lines += [f"- {name}: {text}" for name, text in report.facts]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escaped_cell(cell) for cell in cells) + " |"

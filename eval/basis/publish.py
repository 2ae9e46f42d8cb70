"""A BASIS report -> ``report.html``, ``.md``, ``.csv``, ``.parquet``, ``.tex`` and ``.png``.

All text is escaped; ``eval.sheet`` has the page.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from eval.basis.report import BasisReport, Table
from eval.exports import escaped_cell, table_markdown
from eval.publish import Forms, write_forms
from eval.sheet import Section, Sheet
from eval.sheet import html as sheet_html


def write_report(folder: Path, report: BasisReport) -> list[Path]:
    """Write every form; returns their paths."""
    texts = {"html": html(report), "md": markdown(report)}
    forms = Forms(texts, report.paper, report.contrasts, report.answers)
    return write_forms(folder, forms, report.primary, report.curves)


def html(report: BasisReport) -> str:
    """The whole page, self-contained."""
    return sheet_html(
        Sheet(
            title=report.title,
            lead=report.lead,
            basis=report.basis,
            warnings=report.warnings,
            forest=report.forest,
            coverage=report.coverage,
            curves=report.turn_curves,
            tables=report.paper,
            sections=_sections(report),
            cases=report.cases,
            facts=report.facts,
        )
    )


def _sections(report: BasisReport) -> list[Section]:
    found = [Section("detail", "All cells", "".join(map(_html_table, report.tables)))]
    if report.curves:
        from eval.figures import learning_curve_svg  # matplotlib costs memory and half a second

        curve = f'<div class="curve">{learning_curve_svg(report.curves)}</div>'
        found.append(Section("training", "How training went", curve))
    return found


def _html_table(table: Table) -> str:
    note = f'<p class="sub">{escape(table.note)}</p>' if table.note else ""
    last = len(table.rows) - table.apart
    lines = "".join(
        _html_row(row, "td", "" if n < last else "policy first" if n == last else "policy")
        for n, row in enumerate(table.rows)
    )
    drawn = f'<div class="wide"><table class="narrow">{_html_row(table.head, "th")}{lines}</table>'
    if table.folded:
        title = f"<summary>{escape(table.title)}</summary>"
        return f"<details>{title}{note}{drawn}</div></details>"
    return f"<h3>{escape(table.title)}</h3>{note}{drawn}</div>"


def _html_row(cells: Sequence[str], tag: str, kind: str = "") -> str:
    """``kind``: the class of the row; those of the calendar report's fixed answers."""
    opening = f'<tr class="{kind}">' if kind else "<tr>"
    return f"{opening}{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def markdown(report: BasisReport) -> str:
    """The same numbers for a terminal or a pull request."""
    lead = " ".join(part for part in report.lead if part)
    lines = [f"# Evaluation {report.title}", "", lead, "", report.basis, ""]
    lines += [f"> {text}" for text in report.warnings]
    for paper in report.paper:
        lines += table_markdown(paper)
    for table in report.tables:
        lines += ["", f"## {table.title}", "", *([table.note, ""] if table.note else [])]
        lines += [_row(table.head), "|" + "---|" * len(table.head), *map(_row, table.rows)]
    lines += ["", "## How it was run", ""]
    lines += [f"- {name}: {text}" for name, text in report.facts]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escaped_cell(cell) for cell in cells) + " |"

"""One HTML page that needs nothing else: headline, drawings, paper tables, case browser.

The only script is the one of this package, allowed by its hash in the content security policy, so
a script that a model wrote would not run even if it got into the page unescaped. Texts of cases
travel as JSON and are set as text.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from eval.drawings import coverage_bars, forest, matrices, turn_plots
from eval.paper import Cell, PaperTable, Row
from eval.paper_calendar import TurnCurve

SCRIPT = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page that only one task has. ``html`` is safe already."""

    anchor: str
    title: str
    html: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """All that a page shows. ``lead``: the first sentence in three parts, the middle stressed.

    ``forest``: the contrasts to draw; ``sections`` come after the tables, in order.
    """

    title: str
    lead: tuple[str, str, str]
    basis: str
    warnings: Sequence[str]
    forest: Sequence[Row]
    coverage: Sequence[Row]
    curves: Sequence[TurnCurve]
    tables: Sequence[PaperTable]
    sections: Sequence[Section]
    cases: str
    facts: Sequence[tuple[str, str]]


def html(sheet: Sheet) -> str:
    """The whole page, self-contained."""
    sections = list(_sections(sheet))
    links = "".join(f'<a href="#{one.anchor}">{escape(one.title)}</a>' for one in sections)
    before, stressed, after = sheet.lead
    body = [
        f"<nav><div><b>{escape(sheet.title)}</b>{links}</div></nav><main>",
        f"<h1>Evaluation {escape(sheet.title)}</h1>",
        f'<p class="lead">{escape(before)} <b>{escape(stressed)}</b> {escape(after)}</p>',
        f'<p class="sub">{escape(sheet.basis)}</p>',
        *(f'<p class="note">{escape(text)}</p>' for text in sheet.warnings),
        *(f'<h2 id="{one.anchor}">{escape(one.title)}</h2>{one.html}' for one in sections),
        "</main>",
        f'<script type="application/json" id="case-data">{sheet.cases}</script>',
        f"<script>{SCRIPT}</script>",
    ]
    return document(sheet.title, body)


def document(title: str, body: Sequence[str]) -> str:
    """The page around the parts of its body."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}: evaluation</title><style>{STYLE}</style></head>"
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _sections(sheet: Sheet) -> Iterator[Section]:
    if drawn := forest(sheet.forest):
        yield Section("differences", "Differences", f'<p class="sub">{FOREST_NOTE}</p>{drawn}')
    if drawn := matrices(one for one in sheet.forest if "members" not in one):
        note = f'<p class="sub">{MATRIX_NOTE}</p>'
        yield Section("pairs", "Paired matrix", note + drawn)
    yield Section("coverage", "Coverage", coverage_bars(sheet.coverage))
    if drawn := turn_plots(sheet.curves):
        note = f'<p class="sub">{TURN_NOTE}</p>'
        yield Section("turns", "Length", note + drawn)
    yield Section("tables", "Tables", "".join(map(paper_html, sheet.tables)))
    yield from sheet.sections
    yield Section("cases", "Cases", BROWSER)
    lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in sheet.facts)
    yield Section("how", "How it was run", f"<dl>{lines}</dl>")


FOREST_NOTE = (
    "Bold, filled: declared beforehand, p adjusted together by max-T. Hollow: exploratory, "
    "q by Benjamini-Hochberg. The interval treats the source task as the unit."
)
MATRIX_NOTE = "Over cells complete for both. A number opens its cases below."
TURN_NOTE = "Over what every system completed; whiskers are 95 % cluster intervals."
BROWSER = """
<p class="sub">Wrong entries are underlined; a bar at the left marks lines on which the systems
differ. Keys j and k step through the list. <span id="case-count"></span></p>
<div class="filters">
<select id="by-outcome" aria-label="outcome"><option value="">every outcome</option></select>
<select id="by-condition" aria-label="condition"><option value="">every condition</option></select>
<select id="by-variant" aria-label="variant"><option value="">every variant</option></select>
<select id="by-turns" aria-label="turns"><option value="">every length</option></select>
<input id="by-text" type="search" placeholder="text in request or answers" aria-label="text">
</div>
<div class="browser"><div><div id="case-list" class="listing"></div>
<div class="paging"><button type="button" id="case-back">back</button>
<button type="button" id="case-more">more</button></div></div>
<div id="case-view"></div></div>
<noscript><p class="note">This part needs JavaScript; everything else does not.</p></noscript>
"""


def paper_html(table: PaperTable) -> str:
    """A paper table with its note; long ones scroll in a box of their own."""
    heads = [f'<th class="label">{escape(name)}</th>' for name in table.heads]
    heads += [f"<th>{escape(name)}</th>" for name in table.columns]
    spans = ""
    if table.spans:
        over = [f'<th class="span" colspan="{n}">{escape(name)}</th>' for name, n in table.spans]
        spans = f'<tr><th colspan="{len(table.heads)}"></th>{"".join(over)}</tr>'
    lines, before = [], ""
    for labels, cells in table.rows:
        shown = ["" if n == 0 and text == before else text for n, text in enumerate(labels)]
        shown = shown if len(labels) > 1 else list(labels)
        before = labels[0]
        drawn = [f'<td class="label">{escape(text)}</td>' for text in shown]
        lines.append(f"<tr>{''.join([*drawn, *map(_cell, cells)])}</tr>")
    return (
        f'<h3 id="table-{escape(table.name)}">{escape(table.title)}</h3>'
        f'<p class="sub">{escape(table.note)}</p><div class="wide"><table class="paper">'
        f"{spans}<tr>{''.join(heads)}</tr>{''.join(lines)}</table></div>"
    )


WRAPPED = 30  # characters from which words in a cell go over several lines


def _cell(cell: Cell) -> str:
    below = cell.below
    if not below and cell.n is not None and cell.value is not None:
        below = f"n {cell.n:,}"
    kind = cell.tone or ("words" if cell.value is None and len(cell.text) > WRAPPED else "")
    small = f"<small>{escape(below)}</small>" if below else ""
    return f'<td class="{kind}">{escape(cell.main)}{small}</td>'

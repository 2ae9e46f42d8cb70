"""Paper tables and contrasts as Markdown, CSV, Parquet and LaTeX.

``answers``: how answers were asked for. It goes with every number and caption, since a table in a
paper, or rows of two plans in one frame, have no page title to say it.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval.paper import Cell, PaperTable, Row

FIELDS = ("value", "std", "low", "high")
COLUMNS = ("table", "row", "column", *FIELDS, "n", "planned", "unit", "text", "answers")
NUMBERS = ("base", "trained", "difference", "p", "p_t", "p_max_t", "p_holm", "q")


def tidy_rows(
    tables: Iterable[PaperTable], contrasts: Iterable[Row], answers: str
) -> Iterator[dict[str, Any]]:
    """One row for each number: all cells of the tables, then every contrast."""
    for table in tables:
        spans = [name for name, width in table.spans for _ in range(width)]
        for labels, cells in table.rows:
            for number, (column, cell) in enumerate(zip(table.columns, cells, strict=True)):
                above = f"{spans[number]} / " if spans else ""
                yield _tidy(table.name, " / ".join(labels), above + column, cell, answers)
    for one in contrasts:
        parts = [*one["arms"], *_place(one), one["measure"]]
        for name in NUMBERS:
            is_difference = name == "difference"
            cell = Cell(
                one[name],
                one["unit"] if name in NUMBERS[:3] else "p",
                low=one["low"] if is_difference else None,
                high=one["high"] if is_difference else None,
                n=one["items"],
                planned=one["planned"],
                text=one["reason"] if one[name] is None else "",
            )
            yield _tidy("contrasts", " / ".join(parts), name, cell, answers)


def _place(one: Row) -> list[str]:
    extra = [one[name] for name in ("comparison", "system", "subset") if name in one]
    return [*(text for text in extra if text), one["condition"], one["variant"]]


def _tidy(table: str, row: str, column: str, cell: Cell, answers: str) -> dict[str, Any]:
    numbers = {name: getattr(cell, name) for name in FIELDS}
    words = "" if cell.value is not None else cell.text
    rest = {"n": cell.n, "planned": cell.planned, "unit": cell.unit, "text": words}
    rest["answers"] = answers
    return {"table": table, "row": row, "column": column, **numbers, **rest}


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Full precision; an empty cell is null."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def write_parquet(path: Path, csv_text: str) -> bool:
    """What ``to_csv`` gave, typed; False where pyarrow is not installed.

    Read by Arrow from the text: from Python values it would import pandas, 48 MB.
    """
    try:
        import pyarrow as pa
        import pyarrow.csv as pc
        import pyarrow.parquet as pq
    except ImportError:
        return False
    pa.set_memory_pool(pa.system_memory_pool())  # no arenas of its own for some hundred rows
    types = [pa.float64()] * len(FIELDS) + [pa.int64()] * 2
    kinds = dict(zip((*FIELDS, "n", "planned"), types, strict=True))
    table = pc.read_csv(
        io.BytesIO(csv_text.encode()),
        read_options=pc.ReadOptions(use_threads=False),
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=pc.ConvertOptions(
            column_types={name: kinds.get(name, pa.string()) for name in COLUMNS},
            null_values=[""],
            strings_can_be_null=False,
        ),
    )
    part = path.with_name(path.name + ".part")
    pq.write_table(table, part)
    part.replace(path)
    return True


def table_markdown(table: PaperTable) -> list[str]:
    """A title, a note and the table."""
    spans = [name for name, width in table.spans for _ in range(width)]
    heads = [f"{spans[n]} / {name}" if spans else name for n, name in enumerate(table.columns)]
    lines = ["", f"## {escaped_cell(table.title)}", "", escaped_cell(table.note), ""]
    lines.append("| " + " | ".join(map(escaped_cell, [*table.heads, *heads])) + " |")
    lines.append("|" + "---|" * len(table.heads) + "---:|" * len(heads))
    for labels, cells in table.rows:
        shown = [*labels, *(cell.shown for cell in cells)]
        lines.append("| " + " | ".join(map(escaped_cell, shown)) + " |")
    return lines


def escaped_cell(text: str) -> str:
    """Text that cannot end a cell or a row."""
    return text.replace("|", "\\|").replace("\n", " ")


def to_latex(tables: Iterable[PaperTable], answers: str) -> str:
    """Tables for ``\\input``; they need ``\\usepackage{booktabs,graphicx}``."""
    lines = ["% needs \\usepackage{booktabs,graphicx}", f"% answers: {answers}"]
    for table in tables:
        lines += _latex_table(table, answers)
    return "\n".join(lines) + "\n"


def _latex_table(table: PaperTable, answers: str) -> list[str]:
    form = "l" * len(table.heads) + "r" * len(table.columns)
    caption = f"{table.title}. {table.note} Answers: {answers}."
    lines = [
        "",
        "\\begin{table}[t]",
        "\\centering\\small",
        f"\\caption{{{latex(caption)}}}",
        f"\\label{{tab:{latex(table.name)}}}",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{form}}}",
        "\\toprule",
    ]
    if table.spans:
        over = [f"\\multicolumn{{{width}}}{{c}}{{{latex(name)}}}" for name, width in table.spans]
        lines.append(" & ".join([*[""] * len(table.heads), *over]) + " \\\\")
    lines.append(" & ".join(map(latex, [*table.heads, *table.columns])) + " \\\\")
    lines.append("\\midrule")
    for labels, cells in table.rows:
        shown = [*map(latex, labels), *(latex(cell.shown) for cell in cells)]
        lines.append(" & ".join(shown) + " \\\\")
    return [*lines, "\\bottomrule", "\\end{tabular}}", "\\end{table}"]


LATEX = {
    "\\": "\\textbackslash{}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "{": "\\{",
    "}": "\\}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "[": "{[}",
    "]": "{]}",
    "\N{MINUS SIGN}": "$-$",
    "\N{PLUS-MINUS SIGN}": "$\\pm$",
    "\N{EN DASH}": "--",
    "\n": " ",
}


def latex(text: str) -> str:
    """Text with nothing in it that LaTeX would read as a command."""
    return "".join(LATEX.get(char, char) for char in text)

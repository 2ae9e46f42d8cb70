"""A `Report` as Markdown, for a terminal or a pull request."""

from eval.exports import escaped_cell, table_markdown
from eval.formatting import interval, number, p_value, signed
from eval.page import basis, headline, how
from eval.report import Report, SystemsTable

DASH = "\N{EN DASH}"


def markdown(report: Report) -> str:
    """The same numbers for a terminal or a pull request."""
    lines = [f"# Evaluation {report.title}", "", " ".join(headline(report)), "", basis(report), ""]
    lines += [f"> {text}" for text in report.warnings]
    for paper in report.paper:
        lines += table_markdown(paper)
    lines += [
        "",
        "## All measures",
        "",
        f"| measure | condition | variant | {escaped_cell(report.base)} "
        f"| {escaped_cell(report.trained)} | difference | 95 % interval | p ",
    ]
    lines[-1] += "| p max-T | q | requests | tasks | covered | verdict |"
    lines.append("|---|---|---|" + "---:|" * 10 + "---|")
    for one in report.contrasts:
        coverage = one["cells"] / one["planned"] if one["planned"] else 0.0
        cells = [
            one["label"],
            one["condition"],
            one["variant"],
            number(one["base"], one["unit"]),
            number(one["trained"], one["unit"]),
            signed(one["difference"], one["unit"]),
            interval(one),
            p_value(one["p"]),
            p_value(one["p_max_t"]) if one["primary"] else "",
            "" if one["primary"] else p_value(one["q"]),
            one["items"],
            one["clusters"],
            f"{coverage:.0%}",
            one["verdict"],
        ]
        lines.append("| " + " | ".join(escaped_cell(str(cell)) for cell in cells) + " |")
    for table in report.tables:
        lines += ["", f"## Systems, condition {escaped_cell(table.condition)}", ""]
        lines += _markdown_systems(table)
    lines += ["", "## How it was run", ""]
    lines += [f"- {name}: {value}" for name, value in how(report)]
    return "\n".join(lines) + "\n"


def _markdown_systems(table: SystemsTable) -> list[str]:
    heads = ["system", *(heading for _, heading, _ in table.columns)]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * len(table.columns)]
    for row in table.rows:
        cells = [escaped_cell(row.name)]
        for name, _, unit in table.columns:
            one = row.cells.get(name)
            cells.append(DASH if one is None else f"{number(one.mean, unit)} (n {one.cells})")
        lines.append("| " + " | ".join(cells) + " |")
    return lines

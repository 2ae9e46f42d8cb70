"""A gathered report -> ``report.html``, ``report.md`` and ``report.png`` in the plan folder."""

from pathlib import Path

from eval.figures import summary_png
from eval.markdown_page import markdown
from eval.page import html
from eval.records import write_atomically
from eval.report import Report


def write_report(folder: Path, report: Report) -> list[Path]:
    """Write the three forms; returns their paths."""
    primary = [one for one in report.contrasts if one["primary"]]
    paths = [folder / f"report.{ending}" for ending in ("html", "md", "png")]
    write_atomically(paths[0], [html(report)])
    write_atomically(paths[1], [markdown(report)])
    paths[2].write_bytes(summary_png(primary, report.curves))
    return paths

"""A gathered report -> ``report.html``, ``.md``, ``.csv``, ``.parquet``, ``.tex`` and ``.png``."""

from collections.abc import Sequence
from pathlib import Path

from eval.exports import tidy_rows, to_csv, to_latex, write_parquet
from eval.figures import summary_png
from eval.markdown_page import markdown
from eval.page import html
from eval.paper import PaperTable, Row
from eval.records import write_atomically
from eval.report import Report


def write_report(folder: Path, report: Report) -> list[Path]:
    """Write every form; returns their paths."""
    primary = [one for one in report.recipes or report.contrasts if one["primary"]]
    texts = {"html": html(report), "md": markdown(report)}
    png = summary_png(primary, report.curves)
    return write_forms(folder, texts, png, report.paper, report.all_contrasts, report.answers)


def write_forms(
    folder: Path,
    texts: dict[str, str],
    png: bytes,
    tables: Sequence[PaperTable],
    contrasts: Sequence[Row],
    answers: str,
) -> list[Path]:
    """Write ``texts`` by ending, the picture, and the tables for programs and papers.

    ``answers``: how they were asked for, which each table names.
    Parquet is left out where pyarrow is not installed (it comes with ``datasets``).
    """
    rows = list(tidy_rows(tables, contrasts, answers))
    texts = {**texts, "csv": to_csv(rows), "tex": to_latex(tables, answers)}
    paths = [folder / f"report.{ending}" for ending in (*texts, "png")]
    for path, text in zip(paths, texts.values(), strict=False):
        write_atomically(path, [text])
    paths[-1].write_bytes(png)
    parquet = folder / "report.parquet"
    return [*paths, parquet] if write_parquet(parquet, rows) else paths

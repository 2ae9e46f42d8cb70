"""A gathered report -> ``report.html``, ``.md``, ``.csv``, ``.parquet``, ``.tex`` and ``.png``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.curves import Curve
from eval.exports import tidy_rows, to_csv, to_latex, write_parquet
from eval.markdown_page import markdown
from eval.page import html
from eval.paper import PaperTable, Row
from eval.records import write_atomically
from eval.report import Report


def write_report(folder: Path, report: Report) -> list[Path]:
    """Write every form; returns their paths."""
    primary = [one for one in report.recipes or report.contrasts if one["primary"]]
    texts = {"html": html(report), "md": markdown(report)}
    forms = Forms(texts, report.paper, report.all_contrasts, report.answers)
    return write_forms(folder, forms, primary, report.curves)


@dataclass(frozen=True, slots=True)
class Forms:
    """``texts`` by ending; tables and contrasts for programs and papers; ``answers``: how they
    were asked for, which each table names."""

    texts: Mapping[str, str]
    tables: Sequence[PaperTable]
    contrasts: Sequence[Row]
    answers: str


def write_forms(
    folder: Path, forms: Forms, drawn: Sequence[Row], curves: Sequence[Curve]
) -> list[Path]:
    """Write every form; ``drawn``, ``curves``: what the picture shows.

    Parquet is left out where pyarrow is not installed (it comes with ``datasets``).
    """
    numbers = to_csv(tidy_rows(forms.tables, forms.contrasts, forms.answers))
    texts = {**forms.texts, "csv": numbers, "tex": to_latex(forms.tables, forms.answers)}
    paths = [folder / f"report.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_atomically(path, [text])
    from eval.figures import summary_png  # matplotlib costs memory and half a second: the last

    picture = folder / "report.png"
    picture.write_bytes(summary_png(drawn, curves))
    parquet = folder / "report.parquet"
    return [*paths, picture, *([parquet] if write_parquet(parquet, numbers) else [])]

"""The same table as CSV, Markdown and LaTeX."""

from pathlib import Path

import pytest

from eval.exports import latex, table_markdown, tidy_rows, to_csv, to_latex, write_parquet
from eval.paper import Cell, PaperTable

TABLE = PaperTable(
    "t",
    "A_B & C",
    "50 % of all.",
    ("system",),
    ("PUBLIC", "gap"),
    (
        (("a|b_1",), (Cell(0.1234567, "hit", std=0.01, n=7, planned=9), Cell(text="too few"))),
        (("c",), (Cell(), Cell(-0.5, "hit", low=-0.7, high=-0.3, signed=True))),
    ),
    (("direct", 2),),
)


def test_markdown() -> None:
    assert table_markdown(TABLE)[-4:] == [
        "| system | direct / PUBLIC | direct / gap |",
        "|---|---:|---:|",
        "| a\\|b_1 | 12.3 % \N{PLUS-MINUS SIGN} 1.0 | too few |",
        "| c | n/a | \N{MINUS SIGN}50.0 [\N{MINUS SIGN}70.0, \N{MINUS SIGN}30.0] |",
    ]


def test_csv_keeps_full_precision_and_leaves_null_empty() -> None:
    assert to_csv(tidy_rows([TABLE], [], "free text")).splitlines() == [
        "table,row,column,value,std,low,high,n,planned,unit,text,answers",
        "t,a|b_1,direct / PUBLIC,0.1234567,0.01,,,7,9,hit,,free text",
        "t,a|b_1,direct / gap,,,,,,,score,too few,free text",
        "t,c,direct / PUBLIC,,,,,,,score,,free text",
        "t,c,direct / gap,-0.5,,-0.7,-0.3,,,hit,,free text",
    ]


def test_parquet_has_the_numbers_of_the_csv_with_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write_parquet(tmp_path / "t.parquet", to_csv(tidy_rows([TABLE], [], "free, text")))
    rows = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [one["value"] for one in rows] == [0.1234567, None, None, -0.5]
    assert (rows[0]["n"], rows[1]["n"], rows[1]["text"]) == (7, None, "too few")
    assert (rows[0]["row"], rows[0]["answers"], rows[3]["low"]) == ("a|b_1", "free, text", -0.7)


def test_latex_reads_no_text_as_a_command() -> None:
    text = to_latex([TABLE], "structured output (JSON schema)")
    assert text.splitlines()[1] == "% answers: structured output (JSON schema)"
    caption = "A\\_B \\& C. 50 \\% of all. Answers: structured output (JSON schema)."
    assert f"\\caption{{{caption}}}" in text
    assert " & \\multicolumn{2}{c}{direct} \\\\" in text
    assert "a|b\\_1 & 12.3 \\% $\\pm$ 1.0 & too few \\\\" in text
    assert "c & n/a & $-$50.0 {[}$-$70.0, $-$30.0{]} \\\\" in text
    evil = latex("\\input{/etc/passwd} $x^2$ #1 ~ <b>")
    assert evil == (
        "\\textbackslash{}input\\{/etc/passwd\\} \\$x\\textasciicircum{}2\\$ \\#1 "
        "\\textasciitilde{} \\textless{}b\\textgreater{}"
    )

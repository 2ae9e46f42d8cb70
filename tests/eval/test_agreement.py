"""python -m eval agreement: a CSV of both ratings in, figures or one line that says why not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from eval.agreement import agreement, table
from eval.ratings import parse_scale, read_ratings

ROOT = Path(__file__).resolve().parents[2]


def written(folder: Path, text: str) -> Path:
    path = folder / "human.csv"
    path.write_text(text, encoding="utf-8")
    return path


def ratings_csv(folder: Path, human: list[str], judge: list[str]) -> Path:
    lines = [f"a{n},{h},{j}\n" for n, (h, j) in enumerate(zip(human, judge, strict=True))]
    return written(folder, "id,human,judge\n" + "".join(lines))


def figure(found: dict[str, Any], unit: str, dimension: str = "all") -> dict[str, Any]:
    one: dict[str, Any]
    [one] = [f for f in found["figures"] if (f["unit"], f["dimension"]) == (unit, dimension)]
    return one


def test_an_ordinal_scale_is_the_declared_one_as_numbers_or_words(tmp_path: Path) -> None:
    numbers = ratings_csv(tmp_path, list("125512"), list("155221"))
    found = agreement(numbers, parse_scale("1..5"), None)
    assert figure(found, "rating")["kappa_quadratic"]["value"] == pytest.approx(0.4230769, abs=1e-7)
    human, judge = "11233213", "12232213"
    for scale, names in (("1..3", "123"), ("low,medium,high", ["low", "medium", "high"])):
        words = dict(zip("123", names, strict=True))
        path = ratings_csv(tmp_path, [words[c] for c in human], [words[c] for c in judge])
        one = figure(agreement(path, parse_scale(scale), None), "rating")
        assert one["kappa_quadratic"]["value"] == pytest.approx(0.8)
        assert one["confusion_human_by_judge"] == [[2, 1, 0], [0, 2, 0], [0, 1, 2]]


def test_undefined_is_null_with_its_reason_in_the_file(tmp_path: Path) -> None:
    path = ratings_csv(tmp_path, ["1"] * 4, ["1"] * 4)
    agreement(path, parse_scale("0,1"), None)
    one = figure(json.loads((tmp_path / "agreement.json").read_text()), "rating")
    assert (one["kappa_linear"]["value"], one["kappa_linear"]["reason"]) == (None, "no_variance")
    assert one["spearman"]["value"] is None
    assert one["accuracy"]["value"] == 1.0


def test_missing_ratings_are_dropped_by_pair_and_counted_apart(tmp_path: Path) -> None:
    text = (
        "id,human,judge,reason\na,1,1,\nb,2,,judge_unparsed\nc,,2,\nd,,,timeout\ne,2.0,2,\nf,3,3,\n"
    )
    found = agreement(written(tmp_path, text), parse_scale("1..3"), None)
    assert found["missing"] == {
        "judge_failed": 2,
        "judge_reasons": {"judge_unparsed": 1, "timeout": 1},
        "human": 2,
        "both": 1,
    }
    one = figure(found, "rating")
    assert (one["pairs"], one["left_out"], one["accuracy"]["value"]) == (3, 3, 1.0)
    assert "judge failed: 2/6 rows (judge_unparsed 1, timeout 1)" in "\n".join(table(found))


def test_a_judge_that_always_fails_has_no_agreement(tmp_path: Path) -> None:
    found = agreement(ratings_csv(tmp_path, ["1"] * 6, [""] * 6), parse_scale("1..5"), None)
    assert found["missing"]["judge_failed"] == 6
    one = figure(found, "rating")
    assert one["accuracy"] == {
        "value": None, "reason": "no_pairs", "low": None, "high": None,
        "interval_reason": "", "undefined_draws": 0,
    }  # fmt: skip


CRITERIA = """id,source,domain,dimension,criterion,human,judge
a,s1,swe,belief,criterion_1,1,1
a,s1,swe,belief,criterion_2,0,1
a,s1,swe,solution,criterion_1,1,1
b,s1,swe,belief,criterion_1,1,1
b,s1,swe,belief,criterion_2,1,1
c,s2,pref,belief,criterion_1,0,0
c,s2,pref,belief,criterion_2,0,0
d,s3,pref,belief,criterion_1,1,1
d,s3,pref,belief,criterion_2,1,
"""


def test_criteria_are_compared_one_by_one_and_as_counts(tmp_path: Path) -> None:
    found = agreement(written(tmp_path, CRITERIA), None, tmp_path / "deep" / "out.json")
    assert json.loads((tmp_path / "deep" / "out.json").read_text()) == found
    assert [(f["unit"], f["dimension"]) for f in found["figures"]] == [
        ("criterion", "belief"), ("criterion", "solution"), ("criterion", "all"),
        ("criteria met", "belief"), ("criteria met", "solution"), ("criteria met", "all"),
    ]  # fmt: skip
    one_by_one = figure(found, "criterion", "belief")
    assert (one_by_one["pairs"], one_by_one["left_out"]) == (7, 1)
    assert one_by_one["accuracy"]["value"] == pytest.approx(6 / 7)
    counts = figure(found, "criteria met", "belief")  # (1, 2), (2, 2), (0, 0); d is incomplete
    assert (counts["pairs"], counts["left_out"], counts["sources"]) == (3, 1, 2)
    assert counts["scale"] == [str(n) for n in range(8)]
    assert counts["accuracy"]["value"] == pytest.approx(2 / 3)
    assert counts["kappa_quadratic"]["value"] == pytest.approx(1 - 3 * 1 / 15)
    assert counts["spearman"]["value"] == pytest.approx(0.8660254, abs=1e-7)
    assert [(c["dimension"], c["criterion"], c["pairs"]) for c in found["criteria"]] == [
        ("belief", "criterion_1", 4), ("belief", "criterion_2", 3), ("solution", "criterion_1", 1),
    ]  # fmt: skip
    assert found["criteria"][0]["kappa_quadratic"]["value"] == 1.0
    assert found["sample"]["ids_by_domain"] == {"pref": 2, "swe": 2}
    assert "domain swe: 2 answers (75 are planned)" in "\n".join(table(found))


def test_spearman_compares_shares_of_unequal_rubrics(tmp_path: Path) -> None:
    rows = ["id,criterion,human,judge"]
    for name, size, human, judge in (
        ("a", 2, 1, 1),
        ("b", 4, 2, 2),
        ("c", 4, 3, 4),
        ("d", 2, 0, 0),
    ):
        rows += [f"{name},{n},{int(n <= human)},{int(n <= judge)}" for n in range(1, size + 1)]
    found = agreement(written(tmp_path, "\n".join(rows)), None, None)
    assert figure(found, "criteria met")["spearman"]["value"] == pytest.approx(1.0)


def test_twenty_sources_give_intervals_the_same_each_time(tmp_path: Path) -> None:
    rows = [
        f"a{n},c{m},{int(n * m % 5 > 1)},{int(n * m % 5 > 1 and n % 7 > 0)}"
        for n in range(25)
        for m in (1, 2, 3)
    ]
    path = written(tmp_path, "id,criterion,human,judge\n" + "\n".join(rows))
    first = agreement(path, None, None)
    before = (tmp_path / "agreement.json").read_bytes()
    agreement(path, None, None)
    assert (tmp_path / "agreement.json").read_bytes() == before
    one = figure(first, "criteria met")["kappa_quadratic"]
    assert one["low"] < one["value"] < one["high"]


@pytest.mark.parametrize(
    ("text", "scale", "said"),
    [
        ("id,human\na,1\n", "0,1", ":1: column judge is missing, found id, human; add it"),
        ("", "0,1", ":1: column id is missing, found nothing"),
        ("id;human;judge\n", "0,1", ":1: column id is missing, found id;human;judge"),
        ("id,human,judge,human\n", "0,1", ":1: column 'human' is given twice"),
        ("id,human,judge\na,1,1\n", None, ":1: no column criterion, so the scale"),
        ("id,human,judge\n", "0,1", ": holds no rating"),
        ("id,human,judge\na,1\n", "0,1", ":2: 2 cells under 3 columns"),
        ("id,human,judge\na,1,1\n\nb,6,1\n", "1..5", ":4: human: '6' is not on the scale 1,2"),
        ("id,human,judge\na,1,NaN\n", "1..5", ":2: judge: 'NaN' is not on the scale 1,2"),
        ("id,human,judge\na,1,high\n", "1..5", ":2: judge: 'high' is not on the scale 1,2"),
        ("id,human,judge\na,1,high\n", "1..5", ":2: judge: 'high' is not on the scale"),
        ("id,human,judge\na,1,NaN\n", "1..5", ":2: judge: 'NaN' is not on the scale"),
        ("id,human,judge\na,0.5,1\n", "0,1", ":2: human: '0.5' is not on the scale 0,1"),
        ("id,human,judge\n,1,1\n", "0,1", ":2: id: '' is blank"),
        ("id,human,judge\na,1,1\na,0,0\n", "0,1", ":3: id: 'a' is also rated in line 2"),
        ("id,human,judge\na,\"1\"x,1\n", "0,1", ":2: not CSV"),
        ("id,criterion,source,human,judge\na,1,s,1,1\na,2,t,1,1\n", None, ":3: source: 't'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path: Path, text: str, scale: str | None, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as error:
        read_ratings(path, None if scale is None else parse_scale(scale))
    assert str(error.value).startswith(f"{path}{said}")


@pytest.mark.parametrize("scale", ["1", "5..1", "a,,b", "a,a", "0..5000", ""])
def test_a_scale_needs_different_values_in_order(scale: str) -> None:
    with pytest.raises(UserError, match=r"write it as 1\.\.5 or low,medium,high"):
        parse_scale(scale)


def test_files_as_spreadsheets_write_them(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    text = 'ID,Human,Judge,note\r\n"a, b",1,1,"two\r\nlines"\r\nc,0,0,\r\n,,,\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = read_ratings(path, ("0", "1"))
    assert [(row.id, row.human) for row in found.rows] == [("a, b", 1), ("c", 0)]
    assert found.unread == ("note",)
    path.write_bytes("id,human,judge\né,1,1\n".encode("latin-1"))
    with pytest.raises(UserError, match=":2: byte 0xe9 is not UTF-8"):
        read_ratings(path, ("0", "1"))


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "eval", "agreement", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_command(tmp_path: Path) -> None:
    done = run(str(written(tmp_path, CRITERIA)))
    assert (done.returncode, done.stderr) == (0, "")
    assert "human.csv: 9 rows, 4 answers, 3 sources, scale 0,1" in done.stdout
    assert (tmp_path / "agreement.json").is_file()
    bad = run(str(written(tmp_path, "id,human,judge\na,1,2\n")), "--scale", "0,1")
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    assert bad.stderr.startswith(f"error: {tmp_path}/human.csv:2: judge: '2' is not on the scale")
    gone = run(str(tmp_path / "none.csv"))
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1)
    folder = run(str(written(tmp_path, CRITERIA)), "--out", str(tmp_path))
    assert (folder.returncode, folder.stderr.count("\n")) == (2, 1)
    told = run("--help")
    assert "swe_0001:guided:k5,swe_0001,swe,belief,criterion_1,1,1," in told.stdout

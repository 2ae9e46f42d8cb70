"""A CSV of ratings by a human and by the judge -> pairs on a declared scale.

One row is one rating; ``COLUMNS`` says what stands in it. A blank cell is a missing rating.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from configs.errors import UserError
from tasks.documents import read_text

COLUMNS: Final[Mapping[str, str]] = {
    "id": "the rated answer (required)",
    "human": "the human's rating, blank where there is none (required)",
    "judge": "the judge's rating, blank where the judge failed (required)",
    "source": "source item: answers that share one are resampled together (default: the id)",
    "domain": "domain of the answer; the sample is counted by it",
    "dimension": "belief, profile, solution or any other name (default: all)",
    "criterion": "which criterion of its dimension the row rates, such as criterion_1; with two "
    "values on the scale, criteria met are also summed by answer and dimension",
    "reason": "why the judge failed, such as judge_unparsed; counted by name",
}
EXAMPLE: Final = """\
  id,source,domain,dimension,criterion,human,judge,reason
  swe_0001:guided:k5,swe_0001,swe,belief,criterion_1,1,1,
  swe_0001:guided:k5,swe_0001,swe,belief,criterion_2,0,1,
  swe_0001:guided:k5,swe_0001,swe,solution,criterion_1,1,,judge_unparsed
A blank judge cell is a judge failure: it is counted and its pair left out, never taken for 0.
Without the column criterion, human and judge are ratings on a scale that --scale declares.
"""
REQUIRED: Final = ("id", "human", "judge")
BINARY: Final = ("0", "1")
ALL: Final = "all"
MAX_VALUES: Final = 101


@dataclass(frozen=True, slots=True)
class Rating:
    """One row. ``human`` and ``judge`` are positions on the scale, None where missing."""

    id: str
    source: str
    domain: str
    dimension: str
    criterion: str
    human: int | None
    judge: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Ratings:
    """The rows of a file, its scale in order, and the names of the columns that were not read."""

    rows: tuple[Rating, ...]
    scale: tuple[str, ...]
    has_criteria: bool
    unread: tuple[str, ...]


def parse_scale(text: str) -> tuple[str, ...]:
    """``1..5`` or ``low,medium,high``: all values in order. Raises ``UserError``."""
    span = re.fullmatch(r"\s*(-?\d{1,6})\s*\.\.\s*(-?\d{1,6})\s*", text)
    if span:
        low, high = int(span[1]), int(span[2])
        size = high - low + 1
        values = tuple(str(low + step) for step in range(min(size, MAX_VALUES + 1)))
    else:
        values = tuple(value.strip() for value in text.split(","))
    if not 2 <= len(values) <= MAX_VALUES or "" in values or len(set(values)) < len(values):
        raise UserError(
            f"--scale {text!r}: expected 2 to {MAX_VALUES} different values in order; write it as "
            "1..5 or low,medium,high"
        )
    return values


def read_ratings(path: Path, scale: Sequence[str] | None) -> Ratings:
    """Read a CSV. ``scale`` None: 0,1 for rows that rate criteria; others must declare theirs.

    Raises ``UserError`` naming file, line, column, value and remedy.
    """
    lines = _lines(path)
    header = _header(path, next(lines, (1, []))[1])
    has_criteria = "criterion" in header
    if scale is None and not has_criteria:
        raise UserError(
            f"{path}:1: no column criterion, so the scale of human and judge is not known; "
            "declare it: --scale 1..5 or --scale low,medium,high"
        )
    values = tuple(scale or BINARY)
    reader = _Reader(path, header, values)
    rows = tuple(reader.read(line, cells) for line, cells in lines)
    if not rows:
        raise UserError(f"{path}: holds no rating; write one row for each under the header")
    return Ratings(rows, values, has_criteria, tuple(n for n in header if n not in COLUMNS))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number where it ends, cells) of every row that is not blank."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise UserError(
            f"{path}:{reader.line_num}: not CSV ({error}); put quotes around a cell that holds a "
            "comma, a quote or a line break"
        ) from None


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    names = [cell.lower() for cell in cells]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise UserError(f"{path}:1: column {twice[0]!r} is given twice; remove one")
    for name in REQUIRED:
        if name not in names:
            raise UserError(
                f"{path}:1: column {name} is missing, found {', '.join(names) or 'nothing'}; add "
                "it to the header, with commas between the names"
            )
    return names


class _Reader:
    """Checks one row after another; knows what earlier rows said."""

    def __init__(self, path: Path, header: Sequence[str], scale: Sequence[str]) -> None:
        self._path = path
        self._header = header
        self._scale = scale
        self._place = {value: place for place, value in enumerate(scale)}
        self._seen: dict[tuple[str, str, str], int] = {}
        self._of_id: dict[tuple[str, str], str] = {}

    def read(self, line: int, cells: Sequence[str]) -> Rating:
        where = f"{self._path}:{line}"
        if len(cells) != len(self._header):
            raise UserError(
                f"{where}: {len(cells)} cells under {len(self._header)} columns; write one for "
                "each column, in quotes if it holds a comma"
            )
        row = dict(zip(self._header, cells, strict=True))
        for name in ("id", "source", "dimension", "criterion"):
            if row.get(name) == "":
                raise UserError(f"{where}: {name}: '' is blank; write it, or remove the column")
        rating = Rating(
            id=row["id"],
            source=row.get("source", row["id"]),
            domain=row.get("domain", ""),
            dimension=row.get("dimension", ALL),
            criterion=row.get("criterion", ""),
            human=self._position(row["human"], "human", where),
            judge=self._position(row["judge"], "judge", where),
            reason=row.get("reason", ""),
        )
        self._note(rating, line, where)
        return rating

    def _position(self, text: str, column: str, where: str) -> int | None:
        if not text:
            return None
        plain = re.sub(r"(?<=\d)\.0+$", "", text) if text not in self._place else text
        if plain in self._place:  # spreadsheets write 1 as 1.0 in a column with blanks
            return self._place[plain]
        shown = ",".join(self._scale[:3]) + (f"...{self._scale[-1]}" if self._scale[3:] else "")
        raise UserError(
            f"{where}: {column}: {text!r} is not on the scale {shown}; correct it, leave it blank "
            "if there is no rating, or declare another --scale"
        )

    def _note(self, rating: Rating, line: int, where: str) -> None:
        key = rating.id, rating.dimension, rating.criterion
        first = self._seen.setdefault(key, line)
        if first != line:
            named = f" {rating.dimension} {rating.criterion}" if rating.criterion else ""
            raise UserError(
                f"{where}: id: {rating.id!r}{named} is also rated in line {first}; "
                "keep one row, or give each human a file"
            )
        for column, value in (("source", rating.source), ("domain", rating.domain)):
            before = self._of_id.setdefault((column, rating.id), value)
            if before != value:
                raise UserError(
                    f"{where}: {column}: {value!r}, but {rating.id!r} had {before!r} before; an id "
                    f"has one {column}"
                )

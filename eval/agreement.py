"""How far the judge agrees with a human, from a CSV of both ratings.

Rows that rate criteria (a column ``criterion``) are compared criterion by criterion and, on a
scale of two values, also as the number of criteria met by answer and dimension: exact agreement
and weighted kappa on the counts 0..7 (or up to the largest rubric), Spearman on the share met.
Rows without criteria are compared as they are, on the declared scale.

A missing rating leaves its pair out, is counted, and takes an incomplete count with it. Intervals
resample sources; see ``eval.kappa``. What is not defined is None with its reason, never 0.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from configs.errors import UserError
from eval.intervals import numbered
from eval.kappa import (
    DRAW_SEED,
    LEVEL,
    MIN_SOURCES,
    NUM_DRAWS,
    Agreed,
    Pairs,
    accuracy,
    agreed,
    gwet_ac2,
    linear_kappa,
    quadratic_kappa,
    spearman,
)
from eval.ratings import ALL, Rating, Ratings, read_ratings
from eval.records import write_json

PER_DOMAIN: Final = 75
"""Answers a domain that the BASIS sampling plan asks humans to rate."""
LARGEST_RUBRIC: Final = 7
_SHOWN_CRITERIA: Final = 40
STATISTICS: Final = {
    "accuracy": accuracy,
    "kappa_linear": linear_kappa,
    "kappa_quadratic": quadratic_kappa,
    "gwet_ac2": gwet_ac2,
}


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing that both rated: positions on the scale of the figure, and the shares met."""

    source: str
    human: int
    judge: int
    human_share: Fraction
    judge_share: Fraction


def agreement(path: Path, scale: Sequence[str] | None, out: Path | None) -> dict[str, Any]:
    """Read ``path``, write the figures to ``out`` (agreement.json beside it), and return them.

    Raises ``UserError`` for a file that is not as ``eval.ratings`` describes.
    """
    out = out or path.with_name("agreement.json")
    if out.is_dir():
        raise UserError(f"--out {out}: is a folder; name the JSON file to write in it")
    found = measure(read_ratings(path, scale), path.name)
    write_json(out, found)
    return found


def measure(ratings: Ratings, name: str) -> dict[str, Any]:
    """All figures of a file: ``figures`` by unit and dimension, ``criteria`` one by one."""
    rows = ratings.rows
    unit = "criterion" if ratings.has_criteria else "rating"
    figures = [
        _figure(unit, dimension, ratings.scale, *_rated(some, len(ratings.scale)))
        for dimension, some in _by_dimension(rows)
    ]
    if ratings.has_criteria and len(ratings.scale) == 2:
        scale = [str(count) for count in range(_most_criteria(rows) + 1)]
        figures += [
            _figure("criteria met", dimension, scale, *_summed(some))
            for dimension, some in _by_dimension(rows)
        ]
    return {
        "file": name,
        "scale": list(ratings.scale),
        "unread_columns": list(ratings.unread),
        "sample": _sample(rows),
        "missing": _missing(rows),
        "interval": {
            "method": "percentile bootstrap over sources",
            "draws": NUM_DRAWS,
            "seed": DRAW_SEED,
            "level": LEVEL,
            "min_sources": MIN_SOURCES,
        },
        "figures": figures,
        "criteria": _criteria(ratings) if ratings.has_criteria else [],
    }


def _sample(rows: Sequence[Rating]) -> dict[str, Any]:
    ids = {row.id: row.domain for row in rows}
    domains = Counter(domain for domain in ids.values() if domain)
    return {
        "rows": len(rows),
        "ids": len(ids),
        "sources": len({row.source for row in rows}),
        "ids_by_domain": dict(sorted(domains.items())),
        "planned_per_domain": PER_DOMAIN,
    }


def _missing(rows: Sequence[Rating]) -> dict[str, Any]:
    """Rows without a pair. A judge that failed is apart from a human who did not rate."""
    failed = [row for row in rows if row.judge is None]
    return {
        "judge_failed": len(failed),
        "judge_reasons": dict(sorted(Counter(row.reason or "unnamed" for row in failed).items())),
        "human": sum(row.human is None for row in rows),
        "both": sum(row.human is None for row in failed),
    }


def _by_dimension(rows: Sequence[Rating]) -> Iterator[tuple[str, list[Rating]]]:
    """Each dimension in order of appearance, then all of them if there are several."""
    names = list(dict.fromkeys(row.dimension for row in rows))
    for name in names:
        yield name, [row for row in rows if row.dimension == name]
    if len(names) > 1:
        yield ALL, list(rows)


def _rated(rows: Sequence[Rating], size: int) -> tuple[list[Unit], int]:
    """A unit for each complete row, and how many rows are not."""
    units = [
        Unit(row.source, row.human, row.judge, *_shares(row.human, row.judge, size - 1))
        for row in rows
        if row.human is not None and row.judge is not None
    ]
    return units, len(rows) - len(units)


def _shares(human: int, judge: int, most: int) -> tuple[Fraction, Fraction]:
    return Fraction(human, most), Fraction(judge, most)


def _summed(rows: Sequence[Rating]) -> tuple[list[Unit], int]:
    """A unit for each (answer, dimension) whose every criterion has both ratings."""
    units, left_out = [], 0
    for some in _answers(rows).values():
        complete, missing = _rated(some, 2)
        if missing:
            left_out += 1
            continue
        human, judge = sum(one.human for one in complete), sum(one.judge for one in complete)
        units.append(Unit(some[0].source, human, judge, *_shares(human, judge, len(some))))
    return units, left_out


def _answers(rows: Sequence[Rating]) -> dict[tuple[str, str], list[Rating]]:
    found: dict[tuple[str, str], list[Rating]] = {}
    for row in rows:
        found.setdefault((row.id, row.dimension), []).append(row)
    return found


def _most_criteria(rows: Sequence[Rating]) -> int:
    return max(LARGEST_RUBRIC, *(len(some) for some in _answers(rows).values()))


def _figure(
    unit: str, dimension: str, scale: Sequence[str], units: Sequence[Unit], left_out: int
) -> dict[str, Any]:
    pairs = _pairs(units, len(scale), lambda one: (one.human, one.judge))
    shares = sorted({share for one in units for share in (one.human_share, one.judge_share)})
    place = {share: index for index, share in enumerate(shares)}
    ranked = _pairs(units, len(shares), lambda o: (place[o.human_share], place[o.judge_share]))
    found = dict(zip(STATISTICS, agreed(pairs, list(STATISTICS.values())), strict=True))
    found["spearman"] = agreed(ranked, [spearman])[0]
    return {
        "unit": unit,
        "dimension": dimension,
        "scale": list(scale),
        "pairs": len(units),
        "left_out": left_out,
        "sources": pairs.num_sources,
        **{name: asdict(one) for name, one in found.items()},
        "confusion_human_by_judge": pairs.table.astype(int).tolist(),
    }


def _pairs(units: Sequence[Unit], size: int, places: Callable[[Unit], tuple[int, int]]) -> Pairs:
    found = np.asarray([places(one) for one in units], dtype=np.int64).reshape(-1, 2)
    return Pairs(found[:, 0], found[:, 1], numbered([one.source for one in units]), size)


def _criteria(ratings: Ratings) -> list[dict[str, Any]]:
    """Every criterion that stands under one name in a dimension, by itself."""
    found: dict[tuple[str, str], list[Rating]] = {}
    for row in ratings.rows:
        found.setdefault((row.dimension, row.criterion), []).append(row)
    return [
        _one_criterion(*key, *_rated(some, len(ratings.scale)), size=len(ratings.scale))
        for key, some in found.items()
    ]


def _one_criterion(
    dimension: str, criterion: str, units: Sequence[Unit], left_out: int, size: int
) -> dict[str, Any]:
    pairs = _pairs(units, size, lambda one: (one.human, one.judge))
    exact, kappa = agreed(pairs, [accuracy, quadratic_kappa])
    return {
        "dimension": dimension,
        "criterion": criterion,
        "pairs": len(units),
        "left_out": left_out,
        "sources": pairs.num_sources,
        "accuracy": asdict(exact),
        "kappa_quadratic": asdict(kappa),
    }


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """The figures for a reader, line by line."""
    yield from _about(found)
    names = [*STATISTICS, "spearman"]
    head = ("unit", "dimension", "pairs", "left out", "sources", *names)
    yield from _columns([head, *(_cells(one, names) for one in found["figures"])])
    criteria = found["criteria"]
    if 0 < len(criteria) <= _SHOWN_CRITERIA:
        yield ""
        names = ["accuracy", "kappa_quadratic"]
        head = ("dimension", "criterion", "pairs", "left out", "sources", *names)
        yield from _columns([head, *(_cells(one, names) for one in criteria)])
    elif criteria:
        yield f"{len(criteria)} criteria, one by one in the JSON file"


def _about(found: Mapping[str, Any]) -> Iterator[str]:
    sample, missing = found["sample"], found["missing"]
    yield (
        f"{found['file']}: {sample['rows']} rows, {sample['ids']} answers, "
        f"{sample['sources']} sources, scale {','.join(found['scale'])}"
    )
    for domain, count in sample["ids_by_domain"].items():
        short = "" if count >= PER_DOMAIN else f" ({PER_DOMAIN} are planned)"
        yield f"domain {domain}: {count} answers{short}"
    reasons = ", ".join(f"{reason} {count}" for reason, count in missing["judge_reasons"].items())
    yield (
        f"judge failed: {missing['judge_failed']}/{sample['rows']} rows"
        f"{f' ({reasons})' if reasons else ''}; no human rating: {missing['human']} "
        f"(both missing: {missing['both']})"
    )
    if sample["sources"] < MIN_SOURCES:
        yield f"no intervals: they need at least {MIN_SOURCES} sources"
    if found["unread_columns"]:
        yield f"columns not read: {', '.join(found['unread_columns'])}"
    yield ""


def _cells(one: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    labels = [one[name] for name in ("unit", "dimension", "criterion") if name in one]
    counts = [str(one[name]) for name in ("pairs", "left_out", "sources")]
    return (*labels, *counts, *(shown(Agreed(**one[name])) for name in names))


def shown(one: Agreed) -> str:
    """Value, interval and reason in few characters."""
    value = "n/a" if one.value is None else f"{one.value:.3f}"
    interval = "" if one.low is None else f" [{one.low:.3f}, {one.high:.3f}]"
    return f"{value}{interval}{f' ({one.reason})' if one.reason else ''}"


def _columns(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()

"""Means of one system: dimensions, AVG, pooled, five runs, what is missing."""

from pathlib import Path

import pytest

from eval.basis.cells import Unit, places, read_units, summarize, value, words
from eval.records import Key, Scored
from tests.eval.basis.requests import make_plan

DIMENSIONS = ("belief", "profile", "solution")


def unit(name: str = "swe_1", source: str = "") -> Unit:
    return Unit(
        instance=name,
        source=source or name,
        domain="swe",
        setting="separate",
        turns=0,
        leaks=False,
        unanswerable=False,
        requests={"belief": f"{name}:b", "profile": f"{name}:p", "solution": f"{name}:s"},
        sizes={"belief": 2, "profile": 3, "solution": 5},
    )


def rows(one: Unit, run: int, *shares: float | None) -> dict[Key, Scored]:
    found = {}
    for (name, request), share in zip(one.requests.items(), shares, strict=True):
        measures = {} if share is None else {str(name): share, f"{name}_words": 10 * share}
        found[(request, run)] = Scored(
            id=request,
            run=run,
            source=one.source,
            story=one.instance,
            variant=one.domain,
            condition=one.setting,
            holder=name,
            turns=0,
            state="ok" if measures else "judge_failed",
            note="",
            reward=None,
            measures=measures,
        )
    return found


def test_avg_weighs_dimensions_alike_and_pooled_weighs_criteria_alike() -> None:
    held = rows(unit(), 1, 0.5, 0.0, 1.0)
    assert value(unit(), "avg", held, 1) == pytest.approx(0.5)
    assert value(unit(), "pooled", held, 1) == pytest.approx((1 + 0 + 5) / 10)
    assert value(unit(), "solution", held, 1) == 1.0
    assert words(unit(), "avg", held, 1) == 15.0


def test_a_missing_dimension_leaves_avg_and_pooled_without_a_value() -> None:
    held = rows(unit(), 1, 0.5, None, 1.0)
    assert [value(unit(), name, held, 1) for name in ("avg", "pooled", "profile")] == [None] * 3
    assert value(unit(), "belief", held, 1) == 0.5
    assert words(unit(), "avg", held, 1) is None


def test_five_runs_give_the_sample_std_and_missing_scores_the_bounds() -> None:
    held: dict[Key, Scored] = {}
    for run, share in enumerate((0.60, 0.62, 0.58, 0.61, 0.59), 1):
        held |= rows(unit(), run, share, None if run == 5 else 1.0, 0.0)
    runs = range(1, 6)
    found = summarize([unit()], "belief", held, runs)
    assert found.mean == pytest.approx(0.6)
    assert found.std == pytest.approx(0.0158114, abs=1e-7)
    profile = summarize([unit()], "profile", held, runs)
    assert (profile.cells, profile.planned, profile.bounds) == (4, 5, (0.8, 1.0))
    assert summarize([unit()], "avg", held, runs).cells == 4
    one = summarize([unit()], "belief", held, range(1, 2))
    assert (one.mean, one.std) == (0.6, None)  # one run has no std


def test_sisters_are_one_cluster() -> None:
    pair = [unit("a", "a+b"), unit("b", "a+b"), unit("c")]
    held = {key: row for one in pair for key, row in rows(one, 1, 1.0, 1.0, 1.0).items()}
    found = summarize(pair, "belief", held, range(1, 2))
    assert (found.items, found.clusters) == (3, 2)


def test_separate_is_one_unit_of_three_requests_and_guided_of_one(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"separate": (0,), "guided": (0, 5), "cot": (5,)}, count=1)
    units = [one for one in read_units(plan) if one.instance == "swe_0000"]
    assert [(one.setting, one.turns, len(set(one.requests.values()))) for one in units] == [
        ("separate", 0, 3),
        ("guided", 0, 1),
        ("guided", 5, 1),
        ("cot", 5, 1),
    ]
    assert [one.leaks for one in units] == [False, False, True, True]
    assert [one.measures for one in places(units)][-1] == ("solution",)
    assert units[0].sizes == {"belief": 2, "profile": 3, "solution": 4}

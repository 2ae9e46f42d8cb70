"""Paired comparison: supports, counts, bounds, the golden fixture end to end, warnings."""

import json
from pathlib import Path

import pytest

from eval.compare import (
    Pair,
    compare,
    contrast,
    fragile,
    gap_pairs,
    paired_items,
    pairs,
    run_counts,
    verdict,
)
from eval.measures import ALL, REWARD
from eval.metrics import Group, pass_power
from eval.records import Key, Scored
from eval.scoring import score_system
from tests.eval.stories import make_plan, some
from tests.eval.test_scoring import Response, plans_asked, store

OPTIMAL = Group(ALL["optimal"], "direct", "all")


def cell(
    name: str,
    run: int,
    value: float | None,
    source: str = "s",
    variant: str = "PRIVATE",
    story: str = "t",
) -> Scored:
    return Scored(
        id=name,
        run=run,
        source=source,
        story=story,
        variant=variant,
        condition="direct",
        holder="A",
        turns=3,
        state="ok" if value is not None else "truncated",
        note="",
        reward=value or 0.0,
        measures={} if value is None else {"optimal": value},
    )


def rows(cells: list[Scored]) -> dict[Key, Scored]:
    return {(one.id, one.run): one for one in cells}


def golden(which: str) -> dict[Key, Scored]:
    def right(c: int, j: int, r: int) -> float:
        if which == "A":
            return float((7 * c + 5 * j + 3 * r + c * j) % 10 < 6)
        return float((3 * c + 11 * j + 7 * r + c * r) % 10 < 4)

    return rows(
        [
            cell(f"{c}-{j}", r + 1, right(c, j, r), source=f"s{c}")
            for c in range(6)
            for j in range(3)
            for r in range(5)
        ]
    )


def test_golden_fixture_end_to_end() -> None:
    found = contrast(OPTIMAL, pairs(paired_items(golden("B"), golden("A")), OPTIMAL), True)
    assert (found.trained, found.base) == pytest.approx((0.5777778, 0.3888889), abs=1e-7)
    assert (found.difference, found.se) == pytest.approx((0.1888889, 0.0718366), abs=1e-7)
    assert (found.p, found.p_exact) == (0.0625, True)
    assert (found.low, found.high, found.verdict) == (None, None, "too few tasks")
    assert found.trained_run_std == pytest.approx(0.0929622, abs=1e-7)
    assert [(one.n10, one.n01) for one in found.counts] == [(7, 5), (6, 1), (8, 1), (4, 4), (6, 3)]
    sums = [sum(getattr(one, n) for one in found.counts) for n in ("n11", "n10", "n01", "n00")]
    assert sums == [21, 31, 14, 24]
    assert (found.items, found.clusters, found.cells, found.planned) == (18, 6, 90, 90)


def test_support_is_what_both_completed() -> None:
    base = rows([cell(f"r{n}", 1, 1.0 if n <= 8 else None) for n in range(1, 11)])
    trained = rows([cell(f"r{n}", 1, 1.0 if n >= 3 else None) for n in range(1, 11)])
    found = contrast(OPTIMAL, pairs(paired_items(base, trained), OPTIMAL), True)
    assert (found.items, found.cells, found.planned) == (6, 6, 10)
    assert (found.base_cells, found.trained_cells) == (8, 8)
    same = contrast(OPTIMAL, pairs(paired_items(trained, base), OPTIMAL), True)
    assert same.support == found.support
    fewer = contrast(OPTIMAL, pairs(paired_items(base, base), OPTIMAL), True)
    assert fewer.support != found.support


def test_bounds_and_sensitivity_count_incomplete_cells() -> None:
    base = rows([cell("a", 1, 1.0), cell("b", 1, 0.0), cell("c", 1, 0.0), cell("d", 1, None)])
    trained = rows([cell("a", 1, 1.0), cell("b", 1, 1.0), cell("c", 1, None), cell("d", 1, 1.0)])
    found = contrast(OPTIMAL, pairs(paired_items(base, trained), OPTIMAL), True)
    assert found.difference == 0.5  # over a and b
    assert (found.bound_low, found.bound_high) == (0.25, 0.75)
    assert found.if_incomplete_wrong == 0.5  # trained 3 of 4, base 1 of 4


def test_incomplete_counts_as_wrong_for_measures_where_less_is_better() -> None:
    group = Group(ALL["infeasible"], "direct", "all")
    found = contrast(group, [Pair(("a", 1), "s", 0.0, None), Pair(("b", 1), "s", 0.0, 0.0)], False)
    assert found.if_incomplete_wrong == 0.5


def test_a_verdict_that_incomplete_answers_could_turn_is_called_out() -> None:
    sure = [Pair((f"r{n}", 1), f"s{n}", 0.0, 1.0) for n in range(12)]
    lost = [Pair((f"x{n}", 1), f"s{n}", 0.0, None) for n in range(12)]
    found = contrast(OPTIMAL, sure, True)
    assert (found.verdict, fragile(found)) == ("better", "")
    assert found.low == found.high == 1.0
    found = contrast(OPTIMAL, sure + lost, True)
    assert (found.verdict, found.bound_low) == ("better", 0.5)
    assert fragile(found) == ""
    base_lost = [Pair((f"y{n}", 1), f"s{n}", None, 0.0) for n in range(12)]
    assert "12 of 24 cells" in fragile(contrast(OPTIMAL, sure + base_lost, True))


def test_pass_power_leaves_out_requests_without_every_run() -> None:
    def runs(name: str, values: list[float | None]) -> list[Scored]:
        return [cell(name, n, value) for n, value in enumerate(values, 1)]

    found = rows(runs("a", [1, 1, 1, 0, 0]) + runs("b", [1, 1, 1, 1, None]))
    for k, expected in ((1, 0.6), (2, 0.3), (3, 0.1), (4, 0.0)):
        summary = pass_power(found, OPTIMAL, 5, k)
        assert (summary.mean, summary.cells, summary.planned) == (pytest.approx(expected), 1, 2)


def test_no_common_cell_is_a_row_without_numbers() -> None:
    found = contrast(OPTIMAL, [Pair(("a", 1), "s", None, 1.0)], True)
    assert (found.difference, found.p, found.verdict) == (None, None, "no pairs")
    assert (found.cells, found.planned, found.trained_cells) == (0, 1, 1)


def test_private_minus_public_is_paired_within_story_and_holder() -> None:
    base = rows([cell("p", 1, 1.0, variant="PUBLIC"), cell("q", 1, 0.0)])
    trained = rows([cell("p", 1, 1.0, variant="PUBLIC"), cell("q", 1, 1.0)])
    group = Group(ALL["optimal"], "direct", "gap")
    assert gap_pairs(paired_items(base, trained), group) == [Pair(("q", 1), "s", -1.0, 0.0)]
    alone = rows([cell("q", 1, 0.0, story="other"), cell("p", 1, 1.0, variant="PUBLIC")])
    assert gap_pairs(paired_items(alone, alone), group) == []


def test_run_counts_are_for_zero_one_measures() -> None:
    assert run_counts([Pair(("a", 1), "s", 0.5, 1.0)]) == ()
    found = run_counts([Pair(("a", 2), "s", 0.0, 1.0)])[0]
    assert (found.run, found.n10, found.n01, found.mid_p) == (2, 1, 0, 0.5)


VERDICTS = [
    (0.1, 0.3, 0.01, "optimal", "better"),
    (-0.3, -0.1, 0.01, "optimal", "worse"),
    (-0.3, -0.1, 0.01, "infeasible", "better"),
    (-0.1, 0.3, 0.2, "optimal", "no difference shown"),
    (0.01, 0.3, 0.06, "optimal", "inconclusive"),
    (None, None, 0.01, "optimal", "too few tasks"),
    (None, None, None, "optimal", "no pairs"),
]


@pytest.mark.parametrize(("low", "high", "p", "measure", "expected"), VERDICTS)
def test_verdicts(
    low: float | None, high: float | None, p: float | None, measure: str, expected: str
) -> None:
    assert verdict(low, high, p, ALL[measure]) == expected


def test_compare_writes_declared_contrasts_with_holm(tmp_path: Path) -> None:
    asked = some(400, tasks=12)
    plan = make_plan(tmp_path, asked)
    store(plan, [Response(one.id, 1, "ok", '{"plan":{}}') for one in asked])
    store(plan, [Response(one.id, 1, "ok", one.reference_answer) for one in asked], "trained")
    for system in ("base", "trained"):
        score_system(plan, system)
    result = compare(plan, "base", "trained")
    again = (plan.folder / "compare.json").read_bytes()
    compare(plan, "base", "trained")
    assert (plan.folder / "compare.json").read_bytes() == again
    primary = {
        (one["measure"], one["condition"]): one for one in result["contrasts"] if one["primary"]
    }
    assert list(primary) == [("reward", "all"), ("whole_agent", "belief"), ("optimal", "direct")]
    reward = primary[(REWARD.name, "all")]
    assert (reward["base"], reward["trained"], reward["verdict"]) == (0.0, 1.0, "better")
    assert reward["clusters"] == 12
    assert reward["p"] == 2 / 2**12  # the smallest that 12 source tasks can give
    assert reward["p_holm"] == reward["p"]  # the other two have no pairs
    assert primary[("optimal", "direct")]["verdict"] == "no pairs"
    assert primary[("optimal", "direct")]["trained_cells"] > 0


def test_warnings_say_when_systems_or_prompts_are_not_what_they_seem(tmp_path: Path) -> None:
    asked = plans_asked(3)
    plan = make_plan(tmp_path, asked, runs=2)
    for system, tokens in (("base", 11), ("trained", 12)):
        answers = [
            Response(one.id, run, "ok", "x", prompt_tokens=tokens if one is asked[0] else 9)
            for one in asked
            for run in (1, 2)
        ]
        store(plan, answers, system)
        score_system(plan, system)
    path = plan.folder / "responses/trained.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "fingerprint": "base", "prompts_hash": "z"}))
    found = compare(plan, "base", "trained")["warnings"]
    assert len(found) == 5
    assert "same weights" in found[0]
    assert "probe prompts differ" in found[1]
    assert "differ in length on 1 of 3 requests" in found[2]
    assert "base: 3 of 3 requests got the same text in every run" in found[3]

"""Paired comparison: supports, counts, bounds, the golden fixture end to end, warnings."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from configs.errors import UserError
from eval.compare import compare
from eval.contrast import adjusted, cautions, contrast, fragile, run_counts, verdict
from eval.measures import ALL, REWARD
from eval.metrics import Group, pass_power
from eval.pairing import gap_pairs, paired_items, pairs
from eval.plan import Plan
from eval.records import Key, Scored
from eval.repeats import Pair
from eval.scoring import score_path, score_system
from tasks.calbench.policies import initial_copy, right_answer, world_copy
from tasks.calbench.reference import parse
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
    assert found.reason == "6 source tasks, fewer than 8: no interval"
    assert found.trained_run_std == pytest.approx(0.0929622, abs=1e-7)
    assert found.runs is not None and found.variance is not None
    assert [round(18 * one) for one in found.runs.trained] == [10, 11, 13, 9, 9]
    assert [round(18 * one) for one in found.runs.base] == [8, 6, 6, 9, 6]
    assert (found.runs.base_std, found.runs.items) == (pytest.approx(0.0785674, abs=1e-7), 18)
    assert (found.n10_expected, found.n01_expected) == pytest.approx((32.4, 15.4))
    split = (found.variance.task, found.variance.item, found.variance.run)
    assert split == pytest.approx((0.0, 0.02, 0.4555556), abs=1e-7)
    hats = [(one.every.trained, one.every.base) for one in found.passes]
    assert hats[1:3] == [
        pytest.approx((0.2888889, 0.1833333)),
        pytest.approx((0.1111111, 0.1166667)),
    ]
    assert (found.passes[4].any.trained, found.passes[4].any.base) == pytest.approx((1, 0.8333333))
    assert found.passes[0].every.difference == pytest.approx(0.1888889)
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
    assert (found.low, found.high) == (None, None)  # no spread: an interval of no width is none
    assert found.reason == "every source task differs by the same +100.0: no spread, so no interval"
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
    assert reward["p_holm"] == reward["p_max_t"] == reward["p"]  # the other two have no pairs
    assert "sums" not in reward
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
    assert "same weights" in found[0]
    assert "probe prompts differ" in found[1]
    assert "differ in length on 1 of 3 requests" in found[2]
    nothing = "base completed no request (unparseable 6): no measure of its answers has a value"
    assert found[3] == nothing
    assert "base: 3 of 3 requests got the same text in every run" in found[4]
    assert "trained completed no request" in found[5]


def varied(base: float = 0.0) -> list[Pair]:
    """Ten source tasks with two items; the trained system is right in 15 of 20."""
    return [
        Pair((f"r{n}-{item}", 1), f"s{n}", base, float(n % 4 != 0 or item == 0))
        for n in range(10)
        for item in range(2)
    ]


def test_one_source_task_has_neither_interval_nor_test() -> None:
    planned = [Pair((f"r{n}", 1), "s", 0.0, 1.0) for n in range(5)]
    found = contrast(OPTIMAL, planned, True)
    assert (found.p, found.low, found.verdict) == (None, None, "too few tasks")
    assert cautions([("b", found)])[0].endswith("1 source task: neither an interval nor a test")


def test_equal_scores_everywhere_are_no_proof_of_no_difference() -> None:
    planned = [Pair((f"r{n}", 1), f"s{n}", 1.0, 1.0) for n in range(12)]
    found = contrast(OPTIMAL, planned, True, margin=0.05)
    assert (found.difference, found.se, found.p, found.low) == (0.0, 0.0, 1.0, None)
    assert (found.equivalence, found.verdict) == (None, "no difference shown")
    assert "no spread, so no interval" in found.reason


NOTHING = [
    ([], "nothing is planned here"),
    ([Pair(("a", 1), "s", None, 1.0)], "base has no value in any of the 1 cells"),
    ([Pair(("a", 1), "s", 1.0, None)], "trained has no value in any of the 1 cells"),
    (
        [Pair(("a", 1), "s", None, None)],
        "neither base nor trained has a value in any of the 1 cells",
    ),
    (
        [Pair(("a", 1), "s", None, 1.0), Pair(("b", 1), "s", 0.0, None)],
        "disjoint supports: base has a value in 1 cells, trained in 1, none in common",
    ),
]


@pytest.mark.parametrize(("planned", "reason"), NOTHING)
def test_why_there_is_no_number(planned: list[Pair], reason: str) -> None:
    found = contrast(OPTIMAL, planned, True)
    assert (found.difference, found.p, found.verdict) == (None, None, "no pairs")
    assert found.reason == reason


def test_no_difference_is_claimed_within_a_declared_margin_only() -> None:
    assert contrast(OPTIMAL, varied(1.0), True).equivalence is None
    found = contrast(OPTIMAL, varied(1.0), True, margin=0.5).equivalence
    assert found is not None and found.shown
    narrow = contrast(OPTIMAL, varied(1.0), True, margin=0.05).equivalence
    assert narrow is not None and not narrow.shown
    few = contrast(OPTIMAL, varied(1.0)[:10], True, margin=0.5)
    assert (few.equivalence, few.clusters) == (None, 5)


def test_declared_and_exploratory_contrasts_are_adjusted_apart() -> None:
    first, second = contrast(OPTIMAL, varied(), True), contrast(OPTIMAL, varied(), True)
    third, fourth = contrast(OPTIMAL, varied(), False), contrast(OPTIMAL, varied(1.0), False)
    found = adjusted([first, second, third, fourth])
    p = first.p
    assert p is not None and fourth.p is not None
    assert [one.p_max_t for one in found] == [p, p, None, None]
    assert [one.p_holm for one in found] == [2 * p, 2 * p, None, None]
    assert [one.q for one in found] == [None, None, min(2 * p, fourth.p), fourth.p]


def test_a_verdict_that_does_not_survive_adjustment_is_called_out() -> None:
    shown = contrast(OPTIMAL, varied(), True)
    caution = cautions([("b", dataclasses.replace(shown, p_max_t=0.07))])
    assert caution == [
        "plans optimal for holder (direct): better by its own test (p 0.002), not after adjustment "
        "for the contrasts declared beside it (max-T p 0.070)"
    ]


def test_a_difference_of_differences_is_higher_or_lower() -> None:
    group = Group(ALL["infeasible"], "direct", "PRIVATE - PUBLIC")
    found = contrast(group, varied(), False, plain=False)
    assert (found.verdict, found.counts, found.bound_low) == ("higher", (), None)
    assert contrast(group, varied(), False).verdict == "worse"  # more infeasible plans


def test_too_few_tasks_for_the_declared_family_is_said() -> None:
    planned = [one for one in varied() if one.source in ("s0", "s1", "s2", "s3", "s4", "s5")]
    three = [("b", contrast(OPTIMAL, planned, True)) for _ in range(3)]
    assert cautions(three)[-1] == (
        "6 source tasks: no p below 0.031 can occur, so Holm over 3 contrasts can never reject"
    )


def test_items_without_every_run_leave_mean_and_std_and_are_counted() -> None:
    whole = [Pair((f"r{n}", run), f"s{n}", 0.0, 1.0) for n in range(9) for run in (1, 2)]
    found = contrast(
        OPTIMAL, [*whole, Pair(("x", 1), "s0", 0.0, 0.0), Pair(("x", 2), "s0", None, 0)], True
    )
    assert found.runs is not None
    assert (found.items, found.runs.items, found.runs.trained) == (10, 9, (1.0, 1.0))
    assert any("9 of 10 items have every run for both" in text for text in cautions([("b", found)]))


def test_one_run_has_no_std_and_no_passes() -> None:
    found = contrast(OPTIMAL, varied(), True)
    assert (found.base_run_std, found.trained_run_std, found.passes) == (None, None, ())


def three_arms(tmp_path: Path) -> Plan:
    asked = some(400, tasks=9)
    plan = make_plan(tmp_path, asked)
    for system, policy in (("base", initial_copy), ("a", world_copy), ("b", right_answer)):
        store(plan, [Response(x.id, 1, "ok", policy(parse(x.target))) for x in asked], system)
        score_system(plan, system)
    return plan


def test_many_systems_share_one_declared_family(tmp_path: Path) -> None:
    found = compare(three_arms(tmp_path), "base", ["a", "b"])
    primary = [one for one in found["contrasts"] if one["primary"]]
    assert found["arms"] == ["base", "a", "b"]
    assert [one["arms"][1] for one in primary] == ["a"] * 3 + ["b"] * 3
    assert all(one["p_holm"] >= one["p_max_t"] >= one["p"] for one in primary)
    spread = [text for text in found["warnings"] if "no spread" in text]
    assert all(text.startswith(("a, ", "b, ")) for text in spread)
    states = [one for one in found["coverage"] if one["system"] == "a"]
    assert {(one["condition"], one["variant"], one["planned"]) for one in states} == {
        (condition, variant, 36)
        for condition in ("belief", "direct")
        for variant in ("PUBLIC", "PRIVATE")
    }
    assert all(one["states"] == {"ok": 36} for one in states)


def test_two_conditions_of_one_system_are_paired_on_the_story(tmp_path: Path) -> None:
    plan = three_arms(tmp_path)
    with pytest.raises(UserError, match="belief asks for a belief, direct for a plan"):
        compare(plan, "b/belief", "b/direct")
    with pytest.raises(
        UserError, match="no condition 'directly' in the plan; it has belief, direct"
    ):
        compare(plan, "b/directly", "b/direct")
    with pytest.raises(UserError, match="give both a condition, or neither"):
        compare(plan, "base", "b/direct")
    found = compare(plan, "base/direct", "b/direct")
    assert {one["condition"] for one in found["contrasts"]} == {"all", "direct"}


ARMS = [
    ("base", ["base"], None, "both 'base'; name two systems"),
    ("base", ["b", "b"], None, "--trained 'b' is given twice"),
    ("base", ["b"], -0.1, "--margin -0.1"),
    ("base", ["b"], float("nan"), "--margin nan"),
    (
        "base",
        ["c"],
        None,
        "--trained 'c': no answers of 'c'; the folder has those of a, b, base; name one of them, "
        "or two settings of one, as a/belief",
    ),
]


@pytest.mark.parametrize(("base", "trained", "margin", "expected"), ARMS)
def test_arms_that_cannot_be_compared(
    tmp_path: Path, base: str, trained: list[str], margin: float | None, expected: str
) -> None:
    with pytest.raises(UserError, match=re.escape(expected)):
        compare(three_arms(tmp_path), base, trained, margin)


WRONG_SCORES = [
    ('"reward":1.0', '"reward":NaN', "b.jsonl:1: reward is nan, not a finite number"),
    ('"reward":1.0', '"reward":1e999', "b.jsonl:1: reward is inf, not a finite number"),
    ('"reward":1.0', '"reward":1' + 400 * "0", "0, not a finite number"),
    ('"reward":1.0', '"reward":"high"', 'b.jsonl:1: reward: "high" is not what a Scored'),
    (
        '"measures":{"entries":1.0',
        '"measures":{"entries":NaN',
        "b.jsonl:1: entries is nan, not a finite number",
    ),
    (
        '"measures":{"entries":1.0',
        '"measures":{"entries":true',
        'b.jsonl:1: measures: {"entries": true',
    ),
    ('"run":1', '"run":2', " run 2 is there; score again"),
]


@pytest.mark.parametrize(("old", "new", "expected"), WRONG_SCORES)
def test_scores_that_are_no_numbers_are_refused(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    plan = three_arms(tmp_path)
    path = score_path(plan, "b")
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=re.escape(expected)):
        compare(plan, "base", "b")


def test_a_score_given_twice_or_of_another_plan_is_refused(tmp_path: Path) -> None:
    plan = three_arms(tmp_path)
    path = score_path(plan, "b")
    whole = path.read_text()
    path.write_text(whole + whole.splitlines(keepends=True)[0])
    with pytest.raises(UserError, match="holds more rows than the plan has; score again"):
        compare(plan, "base", "b")
    path.write_text(whole)
    answered = plan.folder / "responses/b.json"
    answered.write_text(answered.read_text().replace(plan.hash, "0" * 16))
    with pytest.raises(UserError, match="answers plan 0000000000000000"):
        compare(plan, "base", "b")


def test_a_system_that_completed_nothing_is_named(tmp_path: Path) -> None:
    plan = three_arms(tmp_path)
    store(plan, [Response(name, 1, "truncated", "{") for name in plan.ids], "b")
    score_system(plan, "b")
    found = compare(plan, "base", "b")
    assert (
        "b completed no request (truncated 144): no measure of its answers has a value"
        in found["warnings"]
    )
    assert (
        "whole agents right (belief), plans optimal for holder (direct): b has no value in "
        "any of the 72 cells" in found["warnings"]
    )

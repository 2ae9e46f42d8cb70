"""Several runs of the same items: balance, std, and which successes count."""

import pytest

from eval.repeats import Pair, balanced, five_runs, passes, variance_of


def item(name: str, source: str, base: list[float], trained: list[float]) -> list[Pair]:
    values = enumerate(zip(base, trained, strict=True), 1)
    return [Pair((name, run), source, b, t) for run, (b, t) in values]


def test_only_items_with_every_run_are_balanced() -> None:
    found = balanced([*item("a", "s", [0, 1], [1, 1]), *item("b", "t", [0], [1])], [1, 2])
    assert found is not None
    assert (found.base.tolist(), found.trained.tolist()) == ([[0.0, 1.0]], [[1.0, 1.0]])
    assert balanced(item("b", "t", [0], [1]), [1, 2]) is None


def test_five_runs_by_hand() -> None:
    values = [0.60, 0.62, 0.58, 0.61, 0.59]
    table = balanced(item("a", "s", values, [0.5] * 5), [1, 2, 3, 4, 5])
    assert table is not None
    found = five_runs(table)
    assert (found.base_mean, found.base_std) == (pytest.approx(0.6), pytest.approx(0.0158114))
    assert (found.trained, found.trained_std, found.items) == ((0.5,) * 5, 0.0, 1)


def test_pass_chances_by_hand_and_half_a_reward_is_no_success() -> None:
    runs = item("a", "s", [1, 1, 1, 0, 0], [0.5] * 5)
    table = balanced([*runs, *item("b", "t", [1] * 5, [0.5] * 5)], range(1, 6))
    assert table is not None
    found = passes(table)
    assert [one.every.base for one in found] == pytest.approx([0.8, 0.65, 0.55, 0.5, 0.5])
    assert [one.any.base for one in found] == pytest.approx([0.8, 0.95, 1.0, 1.0, 1.0])
    assert {one.every.trained for one in found} == {one.any.trained for one in found} == {0.0}
    assert found[0].every.difference == pytest.approx(-0.8)
    assert (found[0].every.low, found[0].every.high) == (None, None)  # two source tasks


def test_variance_is_of_the_paired_differences() -> None:
    same = [x for n in range(3) for x in item(f"i{n}", f"s{n}", [0, 1, 0], [0, 1, 0])]
    table = balanced(same, [1, 2, 3])
    assert table is not None
    found = variance_of(table)
    assert (found.task, found.run, found.se) == (0.0, 0.0, 0.0)

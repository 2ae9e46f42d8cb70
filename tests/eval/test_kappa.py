"""Agreement statistics against values worked out by hand and published counter-examples."""

import numpy as np
import pytest

from eval.kappa import (
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


def pairs(human: list[int], judge: list[int], size: int, sources: list[int] | None = None) -> Pairs:
    return Pairs(
        np.asarray(human, dtype=np.int64),
        np.asarray(judge, dtype=np.int64),
        np.asarray(sources or range(len(human)), dtype=np.int64),
        size,
    )


def test_kappa_counts_the_distance_over_the_declared_scale() -> None:
    gap = pairs([0, 1, 4, 4, 0, 1], [0, 4, 4, 1, 1, 0], 5)  # 1, 2 and 5 of 1..5
    assert quadratic_kappa(gap.table) == pytest.approx(0.4230769, abs=1e-7)
    positions = pairs([0, 1, 2, 2, 0, 1], [0, 2, 2, 1, 1, 0], 3)  # the scale forgotten
    assert quadratic_kappa(positions.table) == pytest.approx(0.5)
    three = pairs([0, 0, 1, 2, 2, 1, 0, 2], [0, 1, 1, 2, 1, 1, 0, 2], 3)
    assert quadratic_kappa(three.table) == pytest.approx(0.8)
    assert linear_kappa(three.table) == pytest.approx(1 - 1 / 3.5)


def test_kappa_of_two_values_is_cohens() -> None:
    two = pairs([1] * 6 + [0] * 4, [1] * 5 + [0, 1, 0, 0, 0], 2)  # 8 of 10 equal, margins 6/4, 6/4
    expected = (0.8 - 0.52) / (1 - 0.52)
    assert linear_kappa(two.table) == pytest.approx(expected)
    assert quadratic_kappa(two.table) == pytest.approx(expected)


def test_both_constant_and_equal_is_undefined_with_full_raw_agreement() -> None:
    same = pairs([3] * 4, [3] * 4, 5)
    found = agreed(same, [accuracy, quadratic_kappa, spearman, gwet_ac2])
    assert [one.value for one in found] == [1.0, None, None, 1.0]
    assert [one.reason for one in found] == ["", "no_variance", "no_variance", ""]


def test_one_constant_rater_is_zero_and_flagged() -> None:
    flat = pairs([0] * 5, [0, 0, 1, 0, 1], 2)
    kappa, rho = agreed(flat, [quadratic_kappa, spearman])
    assert (kappa.value, kappa.reason) == (0.0, "one_rater_constant")
    assert (rho.value, rho.reason) == (None, "one_rater_constant")
    apart = agreed(pairs([0] * 5, [1] * 5, 2), [linear_kappa])[0]
    assert (apart.value, apart.reason) == (0.0, "both_raters_constant")


def test_spearman_ranks_ties_by_their_average() -> None:
    tied = pairs([0, 1, 1, 2], [0, 1, 2, 3], 4)
    assert spearman(tied.table) == pytest.approx(0.9486833, abs=1e-7)
    assert spearman(pairs([0, 1, 2], [2, 1, 0], 3).table) == pytest.approx(-1.0)


def test_too_few_pairs_are_undefined() -> None:
    one, two = pairs([0], [1], 2), pairs([0, 1], [0, 1], 2)
    assert agreed(one, [accuracy])[0].value == 0.0
    assert agreed(one, [linear_kappa])[0].reason == "too_few_pairs"
    assert agreed(two, [spearman])[0] == Agreed(None, "too_few_pairs")
    assert agreed(two, [linear_kappa])[0].value == 1.0
    none = pairs([], [], 2)
    assert [a.reason for a in agreed(none, [accuracy, spearman])] == ["no_pairs", "no_pairs"]


def test_ac2_stays_high_where_kappa_collapses_under_skew() -> None:
    skew = pairs([1] * 90 + [0] * 5 + [1] * 5, [1] * 90 + [1] * 5 + [0] * 5, 2)
    assert accuracy(skew.table) == pytest.approx(0.9)
    assert linear_kappa(skew.table) == pytest.approx((0.9 - 0.905) / (1 - 0.905))
    assert gwet_ac2(skew.table) == pytest.approx((0.9 - 0.095) / (1 - 0.095))


def test_no_interval_below_twenty_sources() -> None:
    human, judge = [0, 1] * 20, [0, 1] * 19 + [1, 0]
    few = agreed(pairs(human, judge, 2, [n % 19 for n in range(40)]), [accuracy])[0]
    assert (few.low, few.interval_reason) == (None, "fewer_than_20_sources")
    enough = agreed(pairs(human, judge, 2, [n % 20 for n in range(40)]), [accuracy])[0]
    assert enough.low is not None and enough.high is not None
    assert 0.8 < enough.low < 0.95 < enough.high <= 1.0


def test_the_interval_resamples_sources_not_pairs() -> None:
    human = [0, 1] * 100
    judge = [0, 1] * 80 + [1, 0] * 20
    alone = agreed(pairs(human, judge, 2), [accuracy])[0]
    grouped = agreed(pairs(human, judge, 2, [n // 10 for n in range(200)]), [accuracy])[0]
    assert alone.low is not None and grouped.low is not None
    assert grouped.low < alone.low - 0.05
    again = agreed(pairs(human, judge, 2), [accuracy])[0]
    assert alone == again


def test_undefined_draws_are_left_out_and_counted() -> None:
    rare = pairs([0] * 24 + [1], [0] * 24 + [1], 2)  # a draw without the last is constant
    kappa = agreed(rare, [linear_kappa])[0]
    assert 0.3 * NUM_DRAWS < kappa.undefined_draws < 0.43 * NUM_DRAWS  # (1 - 1/25)^25 = 0.36
    assert (kappa.value, kappa.low, kappa.high) == (1.0, 1.0, 1.0)

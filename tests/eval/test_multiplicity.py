"""Adjusted p values against numbers worked out by hand or by counting every sign vector."""

import pytest

from eval.multiplicity import benjamini_hochberg, holm, max_t

P = [0.001, 0.012, 0.03, 0.04, 0.2]
FIRST = {"a": 0.6, "b": 0.5, "c": -0.2, "d": 0.4, "e": 0.1}
SECOND = {"a": 0.1, "b": -0.4, "c": 0.3, "d": 0.2, "e": 0.0}


def test_holm_keeps_the_order_given() -> None:
    assert holm(P) == pytest.approx([0.005, 0.048, 0.09, 0.09, 0.2])
    assert holm([0.2, 0.001]) == pytest.approx([0.2, 0.002])
    assert holm([]) == []


def test_benjamini_hochberg_keeps_the_order_given() -> None:
    assert benjamini_hochberg(P) == pytest.approx([0.005, 0.03, 0.05, 0.05, 0.2])
    assert benjamini_hochberg(P[::-1]) == pytest.approx([0.2, 0.05, 0.05, 0.03, 0.005])
    assert benjamini_hochberg([]) == []


def test_max_t_shares_its_flips_between_contrasts() -> None:
    assert max_t([FIRST]) == [6 / 32]
    assert max_t([FIRST, SECOND]) == [10 / 32, 28 / 32]
    assert max_t([FIRST, FIRST]) == [6 / 32, 6 / 32]  # a copy costs nothing; Holm would double
    assert holm([6 / 32, 6 / 32])[0] == 12 / 32


def test_max_t_of_contrasts_on_other_source_tasks() -> None:
    ones = dict.fromkeys("abcd", 1.0)
    apart = dict.fromkeys("efgh", 1.0)
    assert max_t([ones, {"a": 0.0}]) == [2 / 16, 1.0]
    assert max_t([ones, apart]) == [60 / 256, 60 / 256]  # 1 - (14/16)^2
    assert max_t([]) == []


def test_drawn_flips_are_the_same_each_time() -> None:
    many = {f"s{n}": 1.0 for n in range(20)}
    assert max_t([many]) == max_t([many]) == [1 / 10_000]

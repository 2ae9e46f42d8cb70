"""The statistics against the golden fixture: 6 source tasks, 3 items each, 5 runs."""

import numpy as np
import pytest

from eval.intervals import (
    Interval,
    cluster_interval,
    equivalence,
    mcnemar_mid_p,
    numbered,
    pass_at,
    pass_hat,
    run_std,
    sign_flip,
)

C, M, R = np.meshgrid(np.arange(6), np.arange(3), np.arange(5), indexing="ij")
A = ((7 * C + 5 * M + 3 * R + C * M) % 10 < 6).astype(float)
B = ((3 * C + 11 * M + 7 * R + C * R) % 10 < 4).astype(float)
CLUSTERS = np.repeat(np.arange(6), 3)
D = (A.mean(axis=2) - B.mean(axis=2)).ravel()


def test_fixture_counts_per_run() -> None:
    assert A.sum(axis=(0, 1)).tolist() == [10, 11, 13, 9, 9]
    assert B.sum(axis=(0, 1)).tolist() == [8, 6, 6, 9, 6]
    cells = [int(((a == A) & (b == B)).sum()) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
    assert cells == [21, 31, 14, 24]


def test_run_to_run_std_divides_by_runs_minus_one() -> None:
    assert run_std(A.mean(axis=(0, 1)).tolist()) == pytest.approx(0.0929622, abs=1e-7)
    assert run_std(B.mean(axis=(0, 1)).tolist()) == pytest.approx(0.0785674, abs=1e-7)
    assert run_std([0.60, 0.62, 0.58, 0.61, 0.59]) == pytest.approx(0.0158114, abs=1e-7)
    assert run_std([0.6]) is None


def test_cluster_interval_golden() -> None:
    found = cluster_interval(D, CLUSTERS)
    assert found.mean == pytest.approx(0.1888889, abs=1e-7)
    assert found.se == pytest.approx(0.0718366, abs=1e-7)
    assert found.p_t == pytest.approx(0.0465655, abs=1e-7)
    assert (found.low, found.high) == pytest.approx((0.0042271, 0.3735507), abs=1e-7)
    assert (found.clusters, found.items) == (6, 18)


def test_item_level_error_is_another_number() -> None:
    assert cluster_interval(D, np.arange(18)).se == pytest.approx(0.0766491, abs=1e-7)


def test_exact_sign_flip_golden() -> None:
    found = sign_flip(np.bincount(CLUSTERS, weights=D))
    assert found.p == 4 / 64
    assert found.exact


def test_drawn_sign_flips_are_near_the_exact_ones_and_the_same_each_time() -> None:
    sums = np.asarray([0.3, 0.5, -0.2, 0.4, 0.1, 0.6, -0.1, 0.2, 0.35, 0.15] * 2)[:17]
    drawn = sign_flip(sums)
    assert not drawn.exact
    assert drawn == sign_flip(sums)
    signs = 1.0 - 2.0 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    exact = float((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean())
    assert drawn.p == pytest.approx(exact, abs=0.005)


def test_no_difference_at_all_has_p_one() -> None:
    assert sign_flip(np.zeros(9)).p == 1.0
    assert cluster_interval(np.zeros(18), CLUSTERS).p_t is None


def test_mcnemar_mid_p_per_run_golden() -> None:
    found = []
    for run in range(5):
        a, b = A[:, :, run], B[:, :, run]
        n10, n01 = int((a > b).sum()), int((b > a).sum())
        found.append((n10, n01, round(mcnemar_mid_p(n10, n01), 6)))
    assert found == [
        (7, 5, 0.581055),
        (6, 1, 0.070312),
        (8, 1, 0.021484),
        (4, 4, 1.0),
        (6, 3, 0.34375),
    ]
    assert mcnemar_mid_p(0, 0) == 1.0


def test_pass_hat_and_pass_at_golden() -> None:
    def mean(table: np.ndarray, k: int, one: object) -> float:
        successes = table.sum(axis=2).ravel().astype(int)
        return float(np.mean([one(int(c), 5, k) for c in successes]))  # type: ignore[operator]

    assert [mean(A, k, pass_hat) for k in (2, 3, 5)] == pytest.approx([0.2888889, 0.1111111, 0])
    expected = [0.1833333, 0.1166667, 0.1111111]
    assert [mean(B, k, pass_hat) for k in (2, 3, 5)] == pytest.approx(expected, abs=1e-7)
    assert mean(A, 5, pass_at) == 1.0
    assert mean(B, 5, pass_at) == pytest.approx(0.8333333, abs=1e-7)


def test_pass_hat_of_three_in_five() -> None:
    assert [round(pass_hat(3, 5, k), 6) for k in (1, 2, 3, 4)] == [0.6, 0.3, 0.1, 0.0]


def test_two_one_sided_tests_of_no_difference() -> None:
    found = Interval(0.02, 0.01, 0.0, 0.04, 0.08, 9, 30, 0.02)
    small, wide = equivalence(found, 0.035), equivalence(found, 0.05)
    assert small is not None and wide is not None
    assert (small.low, small.high) == pytest.approx((0.0014045, 0.0385955), abs=1e-7)
    assert not small.shown
    assert wide.shown
    assert wide.p == pytest.approx(0.0085358, abs=1e-7)  # P(t_8 > (.05 - .02) / .01)
    assert equivalence(cluster_interval(np.zeros(9), np.arange(9)), 0.05) is None


def test_numbered_by_first_appearance() -> None:
    assert numbered(["b", "a", "b"]).tolist() == [0, 1, 0]

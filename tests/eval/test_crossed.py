"""Means over seeds and tasks: python -m pytest tests/eval/test_crossed.py -v"""

import math
from dataclasses import replace

import numpy as np
import pytest

from eval.crossed import Crossed, crossed, over_seeds, verdict
from eval.intervals import cluster_interval
from eval.measures import ALL as MEASURES
from eval.measures import REWARD

CLUSTERS = np.arange(8).repeat(2)  # eight source tasks of two requests


def test_equal_seeds_leave_the_interval_over_tasks_alone() -> None:
    row = np.sin(np.arange(16.0)) + 0.5
    found = crossed(np.stack([row] * 3), CLUSTERS)
    tasks = cluster_interval(row, CLUSTERS)
    assert (found.mean, found.items, found.clusters) == (tasks.mean, 16, 8)
    assert (found.low, found.high) == pytest.approx((tasks.low, tasks.high))
    assert (found.tasks_low, found.tasks_high) == (tasks.low, tasks.high)


def test_equal_requests_leave_the_t_interval_over_seeds_alone() -> None:
    values = np.repeat([[0.1], [0.2], [0.3]], 16, axis=1)
    found = crossed(values, CLUSTERS)
    half = 4.302653 * 0.1 / math.sqrt(3)  # t(0.975, 2)
    assert found.by_seed == pytest.approx((0.1, 0.2, 0.3))
    assert (found.low, found.high) == pytest.approx((0.2 - half, 0.2 + half), rel=1e-6)


def test_one_seed_or_few_tasks_give_no_interval_of_their_own() -> None:
    one = crossed(np.ones((1, 16)) * np.arange(16), CLUSTERS)
    assert one.low is None and one.p is None and one.tasks_low is not None
    few = crossed(np.ones((3, 4)) * np.arange(4), np.arange(4))
    assert few.low is None and few.tasks_low is None and few.mean == 1.5


def test_the_interval_covers_the_truth_where_tasks_alone_would_not() -> None:
    """Crossed normal effects: 3 seeds (sd .05), 20 tasks (sd .2) of 3 requests, noise .3."""
    rng = np.random.default_rng(1)
    clusters = np.arange(20).repeat(3)
    both = tasks_only = 0
    for _ in range(1000):
        values = (
            rng.normal(0, 0.05, (3, 1))
            + rng.normal(0, 0.2, 20)[clusters]
            + rng.normal(0, 0.05, (3, 20))[:, clusters]
            + rng.normal(0, 0.3, (3, 60))
        )
        found = crossed(values, clusters)
        assert found.low is not None and found.high is not None
        assert found.tasks_low is not None and found.tasks_high is not None
        both += found.low < 0 < found.high
        tasks_only += found.tasks_low < 0 < found.tasks_high
    assert both >= 940
    assert tasks_only < 940


HOLDS = Crossed(0.1, (0.08, 0.1, 0.12), 0.05, 0.15, 0.02, 0.18, 0.02, 5.0, 16, 8, "")


def test_a_difference_holds_only_over_tasks_and_seeds_that_agree() -> None:
    assert verdict(HOLDS, REWARD) == "better"
    assert verdict(HOLDS, MEASURES["stale_entries"]) == "worse"
    assert verdict(replace(HOLDS, low=-0.01), REWARD) == "these checkpoints only"
    assert verdict(replace(HOLDS, by_seed=(-0.01, 0.1, 0.2)), REWARD) == "these checkpoints only"
    assert verdict(replace(HOLDS, low=-0.1, tasks_low=-0.01), REWARD) == "not shown"
    assert verdict(replace(HOLDS, by_seed=(0.1,), low=None), REWARD) == "one checkpoint: unknown"
    assert verdict(replace(HOLDS, clusters=7), REWARD) == "too few tasks"
    assert verdict(None, REWARD) == "no pairs"


def test_only_requests_that_every_seed_has_count() -> None:
    first = {"a": [(1.0, "t1"), (0.0, "t1")], "b": [(1.0, "t2")]}
    second = {"a": [(1.0, "t1")], "c": [(0.0, "t3")]}
    found = over_seeds([first, second])
    assert found is not None
    assert (found.items, found.by_seed, found.mean) == (1, (0.5, 1.0), 0.75)
    assert over_seeds([first, {"c": [(0.0, "t3")]}]) is None


def test_degrees_of_freedom_are_those_of_the_two_variances() -> None:
    """Two seeds, eight tasks of one request: .1 and .3, and 0 or .4 by turns in both."""
    row = np.tile([0.0, 0.4], 4)
    found = crossed(np.stack([row - 0.1, row + 0.1]), np.arange(8))
    # V_tasks = (8/7) 8 (.2)^2 / 64 = .04/7, df 7; V_seeds = .02/2 = .01, df 1
    of_tasks, of_seeds = 0.04 / 7, 0.01
    df = (of_tasks + of_seeds) ** 2 / (of_tasks**2 / 7 + of_seeds**2)
    assert (found.df, found.reason) == (pytest.approx(df), "")
    assert df == pytest.approx(2.3593, abs=1e-4)
    assert found.by_seed == pytest.approx((0.1, 0.3))
    # t(.975, 2.3593) = 3.7319 times sqrt(.0157143) = .125357
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, -0.26781, 0.66781), abs=1e-4)


def test_what_is_undefined_has_a_reason() -> None:
    one = crossed(np.ones((1, 4)) * np.arange(4), np.arange(4))
    assert one.df is None
    assert one.reason == (
        "1 checkpoint, fewer than 2; 4 source tasks, fewer than 8: no interval over both"
    )
    same = crossed(np.full((3, 8), 0.5), np.arange(8))
    assert (same.low, same.p, same.tasks_low, same.mean) == (None, None, None, 0.5)
    assert same.reason == (
        "no spread between source tasks nor between checkpoints: no interval over both"
    )

"""Intervals and tests for matched pairs whose source tasks are the independent units.

d[c, j] is the difference of two systems on item j of source task c, runs averaged first. Sources:
Miller 2024 (arXiv 2411.00640), appendix A, with the factor C/(C-1) for few clusters; sign flips by
cluster; Fagerland, Lydersen, Laake 2013 for the McNemar mid-p; Schuirmann 1987 for two one-sided
tests; Yao et al. 2024 (arXiv 2406.12045) for pass^k. Everything here is arithmetic on arrays: no
files, no random state.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, stdtr, stdtrit

Array = npt.NDArray[np.float64]

MIN_CLUSTERS = 8  # below: counts and the exact p only, no interval
EXACT_CLUSTERS = 16  # up to here every sign vector is enumerated
NUM_FLIPS = 9_999
FLIP_SEED = 20_240_611


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over items with its cluster standard error. None where it is not defined."""

    mean: float
    se: float | None
    low: float | None
    high: float | None
    p_t: float | None
    clusters: int
    items: int
    mean_of_cluster_means: float


def cluster_interval(
    values: Array, clusters: npt.NDArray[np.int64], level: float = 0.95
) -> Interval:
    """Mean of ``values`` (items,) and its t interval with C-1 degrees of freedom.

    ``clusters`` (items,): the cluster number of each item, from 0, none left out.
    SE = 1/N sqrt(C/(C-1) sum_c E_c^2), E_c = sum_j (d_cj - mean).
    """
    mean = float(values.mean())
    sizes = np.bincount(clusters)
    count = len(sizes)
    sums = np.bincount(clusters, weights=values)
    between = float((sums / sizes).mean())
    if count < 2:
        return Interval(mean, None, None, None, None, count, len(values), between)
    excess = sums - mean * sizes
    se = math.sqrt(count / (count - 1) * float((excess**2).sum())) / len(values)
    half = float(stdtrit(count - 1, 0.5 + level / 2)) * se
    p = 2 * float(stdtr(count - 1, -abs(mean) / se)) if se > 0 else None
    return Interval(mean, se, mean - half, mean + half, p, count, len(values), between)


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Two-sided p of the cluster sign-flip test. ``exact``: all 2^C sign vectors were counted."""

    p: float
    exact: bool
    flips: int


def sign_flip(cluster_sums: Array) -> SignFlip:
    """Share of sign vectors whose |sum of +-S_c| reaches the observed |sum of S_c|.

    Beyond ``EXACT_CLUSTERS`` clusters: ``NUM_FLIPS`` draws, p = (1 + reached) / (1 + draws).
    """
    count = len(cluster_sums)
    observed = abs(float(cluster_sums.sum()))
    tolerance = 1e-9 * max(1.0, float(np.abs(cluster_sums).sum()))
    exact = count <= EXACT_CLUSTERS
    sums = flipped(every_sign(count) if exact else drawn_signs(count), cluster_sums)
    reached = int((np.abs(sums) >= observed - tolerance).sum())
    if exact:
        return SignFlip(reached / 2**count, True, 2**count)
    return SignFlip((1 + reached) / (1 + NUM_FLIPS), False, NUM_FLIPS)


Signs = npt.NDArray[np.int8]  # (flips, clusters) of +1 and -1
BLOCK = 1_024  # flips multiplied at once: as float64 all of them would be tens of megabytes


def flipped(signs: Signs, sums: Array) -> Array:
    """``sums`` (clusters,) or (clusters, contrasts) under each sign vector: (flips, ...)."""
    parts = [signs[n : n + BLOCK].astype(np.float64) @ sums for n in range(0, len(signs), BLOCK)]
    return np.concatenate(parts)


@lru_cache(maxsize=4)
def every_sign(count: int) -> Signs:
    """(2^count, count): all sign vectors."""
    codes = np.arange(2**count, dtype=np.int32)[:, None] >> np.arange(count, dtype=np.int32)
    return (1 - 2 * (codes & 1)).astype(np.int8)


@lru_cache(maxsize=4)
def drawn_signs(count: int) -> Signs:
    """(NUM_FLIPS, count): sign vectors, the same each time; contrasts share them."""
    rng = np.random.default_rng(FLIP_SEED)
    signs = np.empty((NUM_FLIPS, count), dtype=np.int8)
    for n in range(0, NUM_FLIPS, BLOCK):
        rows = signs[n : n + BLOCK]
        rows[:] = 1 - 2 * rng.integers(0, 2, size=rows.shape)
    return signs


def mcnemar_mid_p(n10: int, n01: int) -> float:
    """2 P(X <= min) - P(X = min), X ~ Bin(n10 + n01, 1/2), at most 1. Describes one run only."""
    total, least = n10 + n01, min(n10, n01)
    if total == 0:
        return 1.0
    up_to = float(bdtr(least, total, 0.5))
    below = float(bdtr(least - 1, total, 0.5)) if least > 0 else 0.0
    return min(1.0, 2 * up_to - (up_to - below))


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests of "no difference beyond ``margin``", which was declared beforehand.

    ``low``, ``high``: the 90 % cluster interval; ``shown``: it lies within the margin.
    """

    margin: float
    low: float
    high: float
    p: float
    shown: bool


def equivalence(found: Interval, margin: float) -> Equivalence | None:
    """None where the mean has no standard error, or one of 0."""
    if not found.se:
        return None
    freedom = found.clusters - 1
    half = float(stdtrit(freedom, 0.95)) * found.se
    p = max(
        float(stdtr(freedom, -(found.mean + margin) / found.se)),
        float(stdtr(freedom, (found.mean - margin) / found.se)),
    )
    low, high = found.mean - half, found.mean + half
    return Equivalence(margin, low, high, p, -margin < low and high < margin)


def run_std(run_means: Sequence[float]) -> float | None:
    """Standard deviation over runs with R-1: sampling noise on frozen inputs. None for one run."""
    if len(run_means) < 2:
        return None
    return float(np.std(np.asarray(run_means), ddof=1))


def pass_hat(successes: int, runs: int, k: int) -> float:
    """pass^k of one item: the chance that k runs drawn without replacement all succeed."""
    return math.comb(successes, k) / math.comb(runs, k)


def pass_at(successes: int, runs: int, k: int) -> float:
    """pass@k of one item: the chance that one of k runs drawn without replacement succeeds."""
    return 1.0 - math.comb(runs - successes, k) / math.comb(runs, k)


def numbered(names: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Cluster names -> numbers from 0, in order of first appearance."""
    seen: dict[Any, int] = {}
    return np.asarray([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)

"""Means over training seeds and source tasks, both random: what would another run show elsewhere?

v[s, j] is one number of seed s on request j. Every seed is asked the same requests, so the two
factors are crossed, and the mean varies with both: Var = V_tasks + V_seeds - V_both (Cameron,
Gelbach, Miller 2011). V_tasks is the cluster variance of the seeds' mean (``eval.intervals``),
V_seeds the variance of the seed means over their number. V_both is not taken off: with a few seeds
it is poorly known, and leaving it in errs on the side of a wider interval. Degrees of freedom by
Satterthwaite (1946).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from eval.intervals import MIN_CLUSTERS, Array, cluster_interval

MIN_SEEDS = 2


@dataclass(frozen=True, slots=True)
class Crossed:
    """A mean over seeds and requests.

    ``tasks_low``, ``tasks_high``: the 95 % interval for new source tasks and these very seeds.
    ``low``, ``high``, ``p``: for new tasks and new seeds. None where there are too few of either.
    """

    mean: float
    by_seed: tuple[float, ...]
    tasks_low: float | None
    tasks_high: float | None
    low: float | None
    high: float | None
    p: float | None
    items: int
    clusters: int


def crossed(values_SN: Array, clusters_N: npt.NDArray[np.int64]) -> Crossed:
    """``values_SN``: (seeds, requests); ``clusters_N``: the source task of each request, from 0."""
    seeds, items = values_SN.shape
    by_seed = values_SN.mean(axis=1)
    tasks = cluster_interval(values_SN.mean(axis=0), clusters_N)
    enough = tasks.clusters >= MIN_CLUSTERS and tasks.se is not None
    low = high = p = None
    if enough and seeds >= MIN_SEEDS and tasks.se is not None:
        of_seeds = float(by_seed.var(ddof=1)) / seeds
        low, high, p = _interval(tasks.mean, tasks.se**2, tasks.clusters - 1, of_seeds, seeds - 1)
    return Crossed(
        mean=tasks.mean,
        by_seed=tuple(float(one) for one in by_seed),
        tasks_low=tasks.low if enough else None,
        tasks_high=tasks.high if enough else None,
        low=low,
        high=high,
        p=p,
        items=items,
        clusters=tasks.clusters,
    )


def _interval(
    mean: float, of_tasks: float, tasks_df: int, of_seeds: float, seeds_df: int
) -> tuple[float, float, float | None]:
    """95 % interval and two-sided p from two variances of one mean."""
    total = of_tasks + of_seeds
    if total == 0:
        return mean, mean, None
    df = total**2 / (of_tasks**2 / tasks_df + of_seeds**2 / seeds_df)
    half = float(stdtrit(df, 0.975)) * math.sqrt(total)
    return mean - half, mean + half, 2 * float(stdtr(df, -abs(mean) / math.sqrt(total)))

"""Means over checkpoints and source tasks, both random: what would another training run show?

v[s, j] is one number of checkpoint s (a training seed) on request j. Every checkpoint is asked the
same requests, so the two factors are crossed, and the mean varies with both: Var = V_tasks +
V_seeds - V_both (Cameron, Gelbach, Miller 2011). V_tasks is the cluster variance of the seeds' mean
(``eval.intervals``), V_seeds the variance of the seed means over their number. V_both is not taken
off: with a few seeds it is poorly known, and leaving it in errs on the side of a wider interval.
Degrees of freedom by Satterthwaite (1946).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from eval.intervals import MIN_CLUSTERS, Array, cluster_interval, numbered
from eval.measures import Measure

MIN_SEEDS = 2
NO_SPREAD = 1e-24  # a variance below is rounding

ByItem = Mapping[str, Sequence[tuple[float, str]]]
"""Request -> one (value, source task) for each run."""


@dataclass(frozen=True, slots=True)
class Crossed:
    """A mean over seeds and requests.

    ``tasks_low``, ``tasks_high``: the 95 % interval for new source tasks and these very seeds.
    ``low``, ``high``, ``p``, ``df``: for new tasks and new seeds. None: undefined, for ``reason``.
    """

    mean: float
    by_seed: tuple[float, ...]
    tasks_low: float | None
    tasks_high: float | None
    low: float | None
    high: float | None
    p: float | None
    df: float | None
    items: int
    clusters: int
    reason: str


def crossed(values_SN: Array, clusters_N: npt.NDArray[np.int64]) -> Crossed:
    """``values_SN``: (seeds, requests); ``clusters_N``: the source task of each request, from 0."""
    seeds, items = values_SN.shape
    by_seed = values_SN.mean(axis=1)
    tasks = cluster_interval(values_SN.mean(axis=0), clusters_N)
    of_tasks = (tasks.se or 0.0) ** 2
    of_seeds = float(by_seed.var(ddof=1)) / seeds if seeds >= MIN_SEEDS else 0.0
    reason = _reason(seeds, tasks.clusters, of_tasks + of_seeds)
    enough = tasks.clusters >= MIN_CLUSTERS and of_tasks > NO_SPREAD
    low = high = p = df = None
    if not reason:
        df = _satterthwaite(of_tasks, tasks.clusters - 1, of_seeds, seeds - 1)
        error = math.sqrt(of_tasks + of_seeds)
        half = float(stdtrit(df, 0.975)) * error
        low, high = tasks.mean - half, tasks.mean + half
        p = 2 * float(stdtr(df, -abs(tasks.mean) / error))
    return Crossed(
        mean=tasks.mean,
        by_seed=tuple(float(one) for one in by_seed),
        tasks_low=tasks.low if enough else None,
        tasks_high=tasks.high if enough else None,
        low=low,
        high=high,
        p=p,
        df=df,
        items=items,
        clusters=tasks.clusters,
        reason=reason,
    )


def _satterthwaite(of_tasks: float, tasks_df: int, of_seeds: float, seeds_df: int) -> float:
    """Degrees of freedom of the sum of two variances of one mean."""
    return (of_tasks + of_seeds) ** 2 / (of_tasks**2 / tasks_df + of_seeds**2 / seeds_df)


def _reason(seeds: int, clusters: int, variance: float) -> str:
    """Why there is no interval over seeds and tasks; empty where there is one."""
    found = []
    if seeds < MIN_SEEDS:
        found.append(f"{seeds} checkpoint, fewer than {MIN_SEEDS}")
    if clusters < MIN_CLUSTERS:
        found.append(f"{clusters} source tasks, fewer than {MIN_CLUSTERS}")
    if not found and variance <= NO_SPREAD:
        found.append("no spread between source tasks nor between checkpoints")
    return f"{'; '.join(found)}: no interval over both" if found else ""


def over_seeds(seeds: Sequence[ByItem]) -> Crossed | None:
    """The mean over the requests that every seed has; None where there are none.

    Runs of a request are averaged first.
    """
    if not seeds:
        return None
    items = shared_items(seeds)
    if not items:
        return None
    values = [[_mean(one[name]) for name in items] for one in seeds]
    sources = [seeds[0][name][0][1] for name in items]
    return crossed(np.asarray(values), numbered(sources))


def shared_items(seeds: Sequence[ByItem]) -> list[str]:
    """The requests that every seed has, in the order of the first."""
    return [name for name in seeds[0] if all(name in other for other in seeds[1:])]


def _mean(values: Sequence[tuple[float, str]]) -> float:
    return sum(number for number, _ in values) / len(values)


def verdict(difference: Crossed | None, measure: Measure) -> str:
    """Whether a difference holds over seeds.

    ``better``, ``worse``: the interval over tasks and seeds leaves out 0 and every seed agrees in
    sign. ``these checkpoints only``: the interval over tasks does, the other does not or seeds
    disagree.
    """
    if difference is None:
        return "no pairs"
    if difference.clusters < MIN_CLUSTERS:
        return "too few tasks"
    tasks_low, tasks_high = difference.tasks_low, difference.tasks_high
    if tasks_low is None or tasks_high is None:  # every source task differs equally
        tasks_low = tasks_high = difference.mean
    on_tasks = tasks_low > 0 or tasks_high < 0
    if len(difference.by_seed) < MIN_SEEDS:
        return "one checkpoint: unknown" if on_tasks else "not shown"
    low, high = difference.low, difference.high
    agree = len({one > 0 for one in difference.by_seed}) == 1
    if agree and low is not None and high is not None and (low > 0 or high < 0):
        return "better" if (low > 0) == measure.higher_is_better else "worse"
    return "these checkpoints only" if on_tasks else "not shown"

"""Several runs of the same requests: mean and run-to-run std, pass^k and pass@k, variance split.

All of it is over the balanced support: items with a value for both systems in every run. The std
is sampling noise on frozen inputs; it is not an error bar for new tasks.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eval.intervals import (
    MIN_CLUSTERS,
    Array,
    Interval,
    cluster_interval,
    numbered,
    pass_at,
    pass_hat,
    run_std,
)
from eval.records import Key
from eval.variance import Variance, split

STD_LABEL = "run-to-run std on frozen inputs (sampling noise)"


@dataclass(frozen=True, slots=True)
class Pair:
    """One planned cell seen by both systems; None where a system has no value."""

    key: Key
    source: str
    base: float | None
    trained: float | None


@dataclass(frozen=True, slots=True)
class Balanced:
    """Values (items, runs) of both systems, and the source task of each item by number."""

    base: Array
    trained: Array
    sources: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FiveRuns:
    """The mean of each run, their mean, and their std with R-1 (None for one run)."""

    items: int
    base: tuple[float, ...]
    trained: tuple[float, ...]
    base_mean: float
    trained_mean: float
    base_std: float | None
    trained_std: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One number of both systems with the cluster interval of their difference.

    ``low``, ``high``: None below 8 source tasks, and where every source task differs equally.
    """

    base: float
    trained: float
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Passes:
    """pass^k: all of k runs drawn without replacement succeed; pass@k: one of them does."""

    k: int
    every: Difference
    any: Difference


def balanced(common: Sequence[Pair], runs: Sequence[int]) -> Balanced | None:
    """The items of the common support that have every run of ``runs``; None if no item has."""
    by_item: dict[str, dict[int, Pair]] = defaultdict(dict)
    for pair in common:
        by_item[pair.key[0]][pair.key[1]] = pair
    whole = [found for found in by_item.values() if len(found) == len(runs)]
    if not whole:
        return None
    return Balanced(
        np.asarray([[one[run].base for run in runs] for one in whole], dtype=np.float64),
        np.asarray([[one[run].trained for run in runs] for one in whole], dtype=np.float64),
        numbered([one[runs[0]].source for one in whole]),
    )


def five_runs(table: Balanced) -> FiveRuns:
    """Run by run, over the same items."""
    base, trained = table.base.mean(axis=0).tolist(), table.trained.mean(axis=0).tolist()
    return FiveRuns(
        items=len(table.base),
        base=tuple(base),
        trained=tuple(trained),
        base_mean=float(table.base.mean()),
        trained_mean=float(table.trained.mean()),
        base_std=run_std(base),
        trained_std=run_std(trained),
    )


def variance_of(table: Balanced) -> Variance:
    """Of the paired differences."""
    return split(table.trained - table.base, table.sources)


def passes(table: Balanced) -> tuple[Passes, ...]:
    """For k from 1 to the number of runs; only a value of 1 is a success, .5 is none."""
    runs = table.base.shape[1]
    base, trained = (table.base == 1.0).sum(axis=1), (table.trained == 1.0).sum(axis=1)
    found = []
    for k in range(1, runs + 1):
        every, some = (
            _difference(
                np.asarray([chance(int(c), runs, k) for c in base]),
                np.asarray([chance(int(c), runs, k) for c in trained]),
                table.sources,
            )
            for chance in (pass_hat, pass_at)
        )
        found.append(Passes(k, every, some))
    return tuple(found)


def _difference(base: Array, trained: Array, sources: npt.NDArray[np.int64]) -> Difference:
    found = cluster_interval(trained - base, sources)
    low, high = (found.low, found.high) if has_interval(found) else (None, None)
    return Difference(float(base.mean()), float(trained.mean()), found.mean, low, high)


def has_interval(found: Interval) -> bool:
    """Enough source tasks, and they do not all differ equally."""
    return found.clusters >= MIN_CLUSTERS and found.se is not None and found.se > 1e-12

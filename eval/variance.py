"""Where the uncertainty of a difference comes from: source tasks, items in them, runs of an item.

Nested analysis of variance of the paired differences d[task, item, run], sizes of tasks unequal:
Var(mean) = task * sum m_c^2 / N^2 + item / N + run / (N R).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eval.intervals import Array


@dataclass(frozen=True, slots=True)
class Variance:
    """Variance components of one item difference, and what more data would buy.

    A component estimated below 0 is 0; None: it cannot be told apart here, for ``reason``, and is
    part of the one above it. ``se``: of the mean, by the components. ``se_twice_tasks``,
    ``se_twice_runs``: that of the same design with twice the source tasks, twice the runs.
    """

    task: float | None
    item: float | None
    run: float | None
    se: float | None
    se_twice_tasks: float | None
    se_twice_runs: float | None
    reason: str


def split(values: Array, sources: npt.NDArray[np.int64]) -> Variance:
    """``values`` (items, runs): differences of items that have every run; ``sources`` (items,)."""
    num_items, runs = values.shape if values.size else (0, 0)
    sizes = np.bincount(sources) if num_items else np.zeros(0)
    if len(sizes) < 2:
        reason = "fewer than 2 source tasks have items with every run"
        return Variance(None, None, None, None, None, None, reason)
    means = values.mean(axis=1)
    task_means = np.bincount(sources, weights=means) / sizes
    noise = float(((values - means[:, None]) ** 2).sum())
    ms_run = noise / (num_items * (runs - 1)) if runs > 1 else None
    inner = num_items - len(sizes)
    ms_item = runs * float(((means - task_means[sources]) ** 2).sum()) / inner if inner else None
    ms_task = runs * float((sizes * (task_means - means.mean()) ** 2).sum()) / (len(sizes) - 1)
    typical = (num_items - float((sizes**2).sum()) / num_items) / (len(sizes) - 1)
    item = None if ms_item is None else max(0.0, (ms_item - (ms_run or 0.0)) / runs)
    below = ms_item if ms_item is not None else (ms_run or 0.0)
    task = max(0.0, (ms_task - below) / (runs * typical))
    between = task * float((sizes**2).sum()) / num_items**2 + (item or 0.0) / num_items
    within = (ms_run or 0.0) / (num_items * runs)
    return Variance(
        task=task,
        item=item,
        run=ms_run,
        se=math.sqrt(between + within),
        se_twice_tasks=math.sqrt((between + within) / 2),
        se_twice_runs=math.sqrt(between + within / 2) if ms_run is not None else None,
        reason=_reason(runs, inner),
    )


def _reason(runs: int, inner: int) -> str:
    found = []
    if runs < 2:
        found.append("one run: noise between runs is part of the item")
    if not inner:
        found.append("one item a source task: the item is part of the task")
    return "; ".join(found)

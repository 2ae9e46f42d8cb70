"""Agreement of two raters, from tables of how often they gave which pair of values.

A table is (..., K, K): rows the human's value, columns the judge's, both in the order of the
declared scale; leading axes are bootstrap draws. Every statistic is NaN where it is not defined.
Sources: Cohen 1968 for weighted kappa over the whole declared scale, so that values which nobody
gave keep their distance; Gwet 2008 (AC2), because kappa collapses when one value prevails;
Spearman's rho is Pearson's on average ranks, right with ties.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Statistic = Callable[[Array], Array]

NUM_DRAWS = 2_000
DRAW_SEED = 20_240_611
MIN_SOURCES = 20  # below: no interval
LEVEL = 0.95
_CHUNK = 200  # draws held in memory at once


@dataclass(frozen=True, slots=True)
class Agreed:
    """One statistic with its interval over resampled sources; None where not defined.

    ``reason``: why ``value`` is None, or why it says little. ``interval_reason``: the same of the
    interval. ``undefined_draws``: draws that were left out because the statistic is not defined.
    """

    value: float | None
    reason: str = ""
    low: float | None = None
    high: float | None = None
    interval_reason: str = ""
    undefined_draws: int = 0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Positions on a scale of ``size`` values, from 0, and the source number of each pair."""

    human: Positions
    judge: Positions
    sources: Positions
    size: int

    @property
    def table(self) -> Array:
        """(size, size) counts."""
        counts: Array = _tables(self, np.ones((1, self.num_sources)))[0]
        return counts

    @property
    def num_sources(self) -> int:
        return len(np.unique(self.sources))


def accuracy(tables: Array) -> Array:
    """Share of equal pairs."""
    equal: Array = np.einsum("...ii->...", tables)
    return _ratio(equal, tables.sum((-2, -1)))


def weighted_kappa(tables: Array, power: int) -> Array:
    """1 - sum w O / sum w E with w = (|i-j| / (K-1)) ** power; power 1 linear, 2 quadratic."""
    weights = _distance(tables.shape[-1], power)
    rows, columns, total = tables.sum(-1), tables.sum(-2), tables.sum((-2, -1))
    expected = np.einsum("...i,ij,...j->...", rows, weights, columns)
    return 1.0 - _ratio((tables * weights).sum((-2, -1)) * total, expected)


def gwet_ac2(tables: Array) -> Array:
    """Gwet's AC2 with quadratic weights: chance agreement from the mean of both margins.

    Unlike kappa it grows with the part of the scale that nobody uses: compare it on one scale.
    """
    size = tables.shape[-1]
    weights = 1.0 - _distance(size, 2)
    total = tables.sum((-2, -1))
    observed = _ratio((tables * weights).sum((-2, -1)), total)
    share = _ratio((tables.sum(-1) + tables.sum(-2)) / 2, total[..., None])
    chance = weights.sum() / (size * (size - 1)) * (share * (1 - share)).sum(-1)
    return _ratio(observed - chance, 1 - chance)


def spearman(tables: Array) -> Array:
    """Pearson's correlation of average ranks."""
    rows, columns = _centred_ranks(tables.sum(-1)), _centred_ranks(tables.sum(-2))
    both = np.einsum("...i,...ij,...j->...", rows, tables, columns)
    spread = (tables.sum(-1) * rows**2).sum(-1) * (tables.sum(-2) * columns**2).sum(-1)
    return _ratio(both, np.sqrt(spread))


def _centred_ranks(counts: Array) -> Array:
    """Average rank of each value, less the mean rank."""
    upto: Array = counts.cumsum(-1)
    mean: Array = (counts + counts.sum(-1, keepdims=True)) / 2
    return upto - mean


def _distance(size: int, power: int) -> Array:
    places = np.arange(size) / (size - 1)
    return np.asarray(np.abs(places[:, None] - places[None, :]) ** power, dtype=np.float64)


def _ratio(above: Array, below: Array) -> Array:
    """``above / below``, NaN where ``below`` is 0."""
    below = np.where(below == 0, np.nan, below)
    return np.asarray(above / below, dtype=np.float64)


def _tables(pairs: Pairs, weights: Array) -> Array:
    """(draws, K, K): one table for each row of ``weights`` (draws, sources)."""
    cells = pairs.human * pairs.size + pairs.judge
    shape = (len(weights), pairs.size, pairs.size)
    counted = [
        np.bincount(cells, weights=row[pairs.sources], minlength=pairs.size**2) for row in weights
    ]
    return np.asarray(counted, dtype=np.float64).reshape(shape)


def agreed(pairs: Pairs, statistics: Sequence[Statistic]) -> list[Agreed]:
    """Each statistic of the pairs with its interval. Statistics share the draws.

    Percentile interval over ``NUM_DRAWS`` resamplings of the sources, the same every time.
    """
    values = [float(statistic(pairs.table)) for statistic in statistics]
    if pairs.num_sources < MIN_SOURCES:
        few = f"fewer_than_{MIN_SOURCES}_sources"
        return [
            _judged(pairs, one, value, few) for one, value in zip(statistics, values, strict=True)
        ]
    drawn = _drawn(pairs, statistics)
    return [
        _with_interval(_judged(pairs, one, value, ""), draws)
        for one, value, draws in zip(statistics, values, drawn, strict=True)
    ]


def _drawn(pairs: Pairs, statistics: Sequence[Statistic]) -> list[Array]:
    """(draws,) of each statistic."""
    count = pairs.num_sources
    rng = np.random.default_rng(DRAW_SEED)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=NUM_DRAWS).astype(np.float64)
    chunks: list[list[Array]] = [[] for _ in statistics]
    for start in range(0, NUM_DRAWS, _CHUNK):
        tables = _tables(pairs, weights[start : start + _CHUNK])
        for held, statistic in zip(chunks, statistics, strict=True):
            held.append(statistic(tables))
    return [np.concatenate(held) for held in chunks]


def _with_interval(one: Agreed, draws: Array) -> Agreed:
    defined = draws[~np.isnan(draws)]
    dropped = len(draws) - len(defined)
    if one.value is None or not len(defined):
        return Agreed(one.value, one.reason, None, None, "undefined", dropped)
    tail = (1 - LEVEL) / 2
    low, high = (float(edge) for edge in np.quantile(defined, [tail, 1 - tail]))
    return Agreed(one.value, one.reason, low, high, "", dropped)


def _judged(pairs: Pairs, statistic: Statistic, value: float, interval_reason: str) -> Agreed:
    """The value, or None, with what is to be said about it."""
    if len(pairs.human) < _LEAST_PAIRS.get(statistic, 2):
        return Agreed(None, "too_few_pairs" if len(pairs.human) else "no_pairs")
    if statistic is accuracy or statistic is gwet_ac2:
        return Agreed(value, interval_reason=interval_reason)
    constant = [len(np.unique(values)) == 1 for values in (pairs.human, pairs.judge)]
    if np.isnan(value):
        return Agreed(None, "no_variance" if all(constant) else "one_rater_constant")
    if any(constant):  # chance alone explains all of it, whatever rounding says
        reason = "both_raters_constant" if all(constant) else "one_rater_constant"
        return Agreed(0.0, reason, interval_reason=interval_reason)
    return Agreed(value, interval_reason=interval_reason)


def linear_kappa(tables: Array) -> Array:
    """``weighted_kappa`` with linear weights."""
    return weighted_kappa(tables, 1)


def quadratic_kappa(tables: Array) -> Array:
    """``weighted_kappa`` with quadratic weights."""
    return weighted_kappa(tables, 2)


_LEAST_PAIRS: Mapping[Statistic, int] = {accuracy: 1, spearman: 3}

"""Adjusted p values: max-T and Holm over the declared family, Benjamini-Hochberg for the rest.

Sources: Westfall & Young 1993 (max-T, here by cluster sign flips shared by all contrasts);
Holm 1979; Benjamini & Hochberg 1995.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from eval.intervals import EXACT_CLUSTERS, NUM_FLIPS, Array, drawn_signs, every_sign, flipped


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Step-up q values (false discovery rate), in the order given."""
    count = len(p_values)
    order = sorted(range(count), key=lambda number: p_values[number])
    adjusted = [0.0] * count
    least = 1.0
    for rank in range(count, 0, -1):
        number = order[rank - 1]
        least = min(least, p_values[number] * count / rank)
        adjusted[number] = least
    return adjusted


def holm_and_rest(
    p_values: Sequence[float | None], declared: Sequence[bool]
) -> tuple[list[float | None], list[float | None]]:
    """Holm over the declared ones, Benjamini-Hochberg over the rest, each in the order given.

    None where there is no p value, or where the other of the two says it.
    """
    stepped: list[float | None] = [None] * len(p_values)
    q_values: list[float | None] = [None] * len(p_values)
    known = [(n, p) for n, p in enumerate(p_values) if p is not None]
    for family, method, into in ((True, holm, stepped), (False, benjamini_hochberg, q_values)):
        members = [(n, p) for n, p in known if declared[n] == family]
        for (n, _), value in zip(members, method([p for _, p in members]), strict=True):
            into[n] = value
    return stepped, q_values


def max_t(sums: Sequence[Mapping[str, float]]) -> list[float]:
    """Single-step max-T p values of several contrasts, in the order given.

    ``sums``: for each contrast, source task -> S_c, the sum of its item differences. One sign per
    source task is drawn for all contrasts, so that their correlation is kept. T_k is
    sum S_ck / sqrt(sum S_ck^2); a source task without items in a contrast adds nothing to it.
    """
    if not sums:
        return []
    names = sorted({name for one in sums for name in one})
    table = np.asarray([[one.get(name, 0.0) for one in sums] for name in names])
    scale = np.sqrt((table**2).sum(axis=0))
    scaled = table / np.where(scale > 0, scale, 1.0)
    observed = np.abs(scaled.sum(axis=0)) - 1e-9
    exact = len(names) <= EXACT_CLUSTERS
    signs = every_sign(len(names)) if exact else drawn_signs(len(names))
    largest: Array = np.abs(flipped(signs, scaled)).max(axis=1)
    reached = [int((largest >= one).sum()) for one in observed]
    if exact:
        return [count / len(signs) for count in reached]
    return [(1 + count) / (1 + NUM_FLIPS) for count in reached]

"""The bins of story and dialogue lengths that the pilot and the live metrics both count in."""

Bin = tuple[int, int]

BINS: tuple[Bin, ...] = ((0, 3), (4, 7), (8, 10))
"""Turns, both ends in. A BASIS prefix may show none; a calendar story has one at least."""


def bin_of(turns: int) -> Bin:
    return next(ends for ends in BINS if turns <= ends[1])

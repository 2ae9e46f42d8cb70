"""The bins of story and dialogue lengths that pilot, live metrics and held-out slices count in."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from tasks.example import Example

Bin = tuple[int, int]

BINS: tuple[Bin, ...] = ((0, 3), (4, 7), (8, 10))
"""Turns, both ends in. A BASIS prefix may show none; a calendar story has one at least."""


def bin_of(turns: int) -> Bin:
    return next(ends for ends in BINS if turns <= ends[1])


def draw(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """``count`` prompts, as evenly as possible over conditions and bins of turns."""
    kinds: dict[tuple[str, Bin], list[Example]] = defaultdict(list)
    for example in examples:
        kinds[(example.condition, bin_of(example.turns))].append(example)
    for kind, several in kinds.items():
        Random(f"{seed}:pilot:{kind}").shuffle(several)
    queues = [kinds[kind] for kind in sorted(kinds)]
    chosen: list[Example] = []
    place = 0
    while len(chosen) < min(count, len(examples)):
        chosen += [queue[place] for queue in queues if place < len(queue)]
        place += 1
    return chosen[:count]

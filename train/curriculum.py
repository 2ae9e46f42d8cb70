"""The whole run as one list of rows, written before it starts.

Why a list: TRL's sampler replays the first epoch's order when a run is resumed in a later one, and
drops an incomplete last batch in silence. With the order materialised, `shuffle_dataset` off and
one epoch, position in the list is the only state: a resumed run reads on where it stopped.

``plan`` is pure: the same arguments give the same plan, on every machine and process.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, TypeVar

from configs.errors import UserError
from configs.training import Mix

Kind = tuple[int, str, str]  # (turns, condition, task)
KeyT = TypeVar("KeyT", Kind, str)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What the plan needs to know of a row."""

    id: str
    turns: int
    condition: str
    task: str


@dataclass(frozen=True, slots=True)
class StageSize:
    """One stage asked for: which rows, how many batches (None: every row once), the config key."""

    mix: Mix
    batches: int | None
    key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """``indices[i]`` is the row at position i, ``stages[i]`` its stage, counted from 1."""

    seed: int
    rows_per_batch: int
    rows_sha256: str
    indices: tuple[int, ...]
    stages: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def sha256(self) -> str:
        return _sha256([self.rows_per_batch, self.rows_sha256, self.indices, self.stages])

    def to_dict(self) -> dict[str, Any]:
        """As written to ``plan.json``."""
        return {**asdict(self), "sha256": self.sha256}


def plan(
    seed: int, stages: Sequence[StageSize], rows: Sequence[PlanRow], rows_per_batch: int
) -> Plan:
    """Lay out every batch of every stage.

    A stage draws each kind of row as often as its weight says (largest remainder), each kind in
    shuffled passes that run on over the stages, so no row is repeated before all of its kind have
    been used. The draw is then shuffled inside the stage. A stage that is one pass over its rows is
    padded from its own rows to full batches, and a note says so.

    Raises ``UserError`` when a stage asks for turns or conditions that no row has.
    """
    by_kind: dict[Kind, list[int]] = {}
    for index, row in enumerate(rows):
        by_kind.setdefault((row.turns, row.condition, row.task), []).append(index)
    streams = {
        kind: _passes(indices, Random(f"{seed}:plan:{kind[0]}:{kind[1]}"))
        for kind, indices in sorted(by_kind.items())
    }
    order: list[int] = []
    stage_of: list[int] = []
    notes: list[str] = []
    for number, stage in enumerate(stages, 1):
        weights = _weights(stage, by_kind)
        chosen, note = _draw(stage, weights, by_kind, streams, rows_per_batch)
        Random(f"{seed}:stage:{number}").shuffle(chosen)
        order += chosen
        stage_of += [number] * len(chosen)
        notes += [f"stage {number}: {text}" for text in note]
    rows_sha256 = _sha256([row.id for row in rows])
    return Plan(seed, rows_per_batch, rows_sha256, tuple(order), tuple(stage_of), tuple(notes))


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any], place: str) -> None:
    """Refuse to resume under another plan. Raises ``UserError`` naming the keys that differ."""
    names = sorted(
        key
        for key in saved.keys() | now.keys()
        if _canonical(saved.get(key)) != _canonical(now.get(key))
    )
    if not names:
        return
    shown = ", ".join(_difference(name, saved.get(name), now.get(name)) for name in names)
    raise UserError(
        f"{place}: the plan of this run differs in {shown}; resume with what it was started with, "
        "or start a run under another name"
    )


def _difference(name: str, saved: object, now: object) -> str:
    short = all(isinstance(value, int | float) or value is None for value in (saved, now))
    return f"{name} ({saved} saved, {now} now)" if short else name


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _sha256(value: object) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _passes(indices: Sequence[int], random: Random) -> Iterator[int]:
    while True:
        order = list(indices)
        random.shuffle(order)
        yield from order


def _weights(stage: StageSize, by_kind: Mapping[Kind, Sequence[int]]) -> dict[Kind, float]:
    """Weight of each kind of row in this stage; a table left empty leaves the data's own shares.

    With a table of tasks each task gets its share, whatever the other tables make of its rows.
    """
    mix = stage.mix
    _check_known(mix.turns, {kind[0] for kind in by_kind}, f"{stage.key}.turns")
    _check_known(mix.conditions, {kind[1] for kind in by_kind}, f"{stage.key}.conditions")
    _check_known(mix.tasks, {kind[2] for kind in by_kind}, f"{stage.key}.tasks")
    if not mix.tasks:
        weights = _kind_weights(mix, by_kind)
        if not weights:
            raise UserError(f"{stage.key}: no example has both its turns and its conditions")
        return weights
    weights = {}
    for task, share in mix.tasks.items():
        own = _kind_weights(mix, {k: rows for k, rows in by_kind.items() if k[2] == task})
        if share > 0 and not own:
            raise UserError(
                f"{stage.key}.tasks: no {task} example has both the turns and the conditions "
                "of this stage"
            )
        weights |= {k: share * w / sum(own.values()) for k, w in own.items() if share > 0}
    return dict(sorted(weights.items()))


def _kind_weights(mix: Mix, by_kind: Mapping[Kind, Sequence[int]]) -> dict[Kind, float]:
    """Weights above 0 by the tables of turns and conditions."""
    turns, conditions = mix.turns, mix.conditions
    weights = {
        kind: (turns.get(kind[0], 0.0) if turns else 1.0)
        * (conditions.get(kind[1], 0.0) if conditions else 1.0)
        * _own_share(kind, by_kind, bool(turns), bool(conditions))
        for kind in sorted(by_kind)
    }
    return {kind: weight for kind, weight in weights.items() if weight > 0}


def _own_share(
    kind: Kind, by_kind: Mapping[Kind, Sequence[int]], turns_set: bool, conditions_set: bool
) -> float:
    """The share of ``kind`` among the rows that the given tables do not tell apart."""
    alike = [
        len(indices)
        for other, indices in by_kind.items()
        if (not turns_set or other[0] == kind[0]) and (not conditions_set or other[1] == kind[1])
    ]
    return len(by_kind[kind]) / sum(alike)


def _check_known(table: Mapping[Any, float], known: set[Any], key: str) -> None:
    for name, weight in table.items():
        if weight > 0 and name not in known:
            have = ", ".join(str(value) for value in sorted(known))
            raise UserError(f"{key}: no example has {name!r}; the data has {have}")


def _draw(
    stage: StageSize,
    weights: Mapping[Kind, float],
    by_kind: Mapping[Kind, Sequence[int]],
    streams: Mapping[Kind, Iterator[int]],
    rows_per_batch: int,
) -> tuple[list[int], list[str]]:
    """The rows of one stage, in no order yet, and what a reader should know about them."""
    if stage.batches is None:
        every = [index for kind in weights for index in by_kind[kind]]
        missing = -len(every) % rows_per_batch
        if not missing:
            return every, []
        padding = _take(missing, stage, weights, streams)
        return every + padding, [
            f"{len(every)} rows, padded with {missing} of them to fill batches of {rows_per_batch}"
        ]
    chosen = _take(stage.batches * rows_per_batch, stage, weights, streams)
    most = max(Counter(chosen).values())
    return chosen, [f"{len(set(chosen))} rows, each up to {most} times"] if most > 1 else []


def _take(
    count: int,
    stage: StageSize,
    weights: Mapping[Kind, float],
    streams: Mapping[Kind, Iterator[int]],
) -> list[int]:
    """``count`` rows by the weights; the shares of tasks, where given, are met first."""
    if stage.mix.tasks:
        by_task: dict[str, dict[Kind, float]] = {}
        for kind, weight in weights.items():
            by_task.setdefault(kind[2], {})[kind] = weight
        totals = {task: sum(own.values()) for task, own in by_task.items()}
        shares: dict[Kind, int] = {}
        for task, number in _apportion(count, totals).items():
            shares |= _apportion(number, by_task[task])
    else:
        shares = _apportion(count, weights)
    return [next(streams[kind]) for kind, number in shares.items() for _ in range(number)]


def _apportion(count: int, weights: Mapping[KeyT, float]) -> dict[KeyT, int]:
    """Whole numbers that sum to ``count`` in proportion to ``weights`` (largest remainder)."""
    total = sum(weights.values())
    exact = {kind: count * weight / total for kind, weight in weights.items()}
    shares = {kind: math.floor(value) for kind, value in exact.items()}
    by_remainder = sorted(sorted(exact), key=lambda kind: shares[kind] - exact[kind])
    for kind in by_remainder[: count - sum(shares.values())]:
        shares[kind] += 1
    return shares

"""Which cells of two arms belong together.

An arm is a system (``trained``) or a system under one condition (``trained/symbolic``). Two systems
meet on the same requests; two conditions on the same story, variant, holder and run.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from configs.errors import UserError
from eval.metrics import ALL, Group, Rows, applies, value
from eval.plan import Plan
from eval.records import Key, Scored, read_identity
from eval.repeats import Pair
from eval.scoring import read_planned, score_path, systems

Item = list[tuple[Key, Scored, Scored]]  # the cells of one request: key, base's row, trained's


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison. ``condition``: empty for all of the plan."""

    system: str
    condition: str

    @property
    def name(self) -> str:
        """As it was asked for."""
        return f"{self.system}/{self.condition}" if self.condition else self.system


@dataclass(frozen=True, slots=True)
class Side:
    """A side as asked for: one arm, or the checkpoints of one recipe, training seed by seed."""

    name: str
    arms: tuple[Arm, ...]
    is_recipe: bool


def read_side(plan: Plan, text: str, option: str) -> Side:
    """An arm, or a recipe: ``NAME=SYSTEM,SYSTEM,...``, with ``/CONDITION`` after the last.

    Raises ``UserError``.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        arm = read_arm(plan, text, option)
        return Side(arm.name, (arm,), False)
    members, slash, condition = rest.partition("/")
    names = members.split(",")
    if not name or not all(names) or len(set(names)) < len(names):
        raise UserError(
            f"{option} {text!r}: write a recipe as NAME=SYSTEM,SYSTEM,... with its checkpoints, "
            "each once"
        )
    arms = tuple(read_arm(plan, f"{one}{slash}{condition}", option) for one in names)
    return Side(f"{name}{slash}{condition}", arms, True)


@dataclass(frozen=True, slots=True)
class Match:
    """Two sides and which of their arms meet, base first."""

    base: Side
    trained: Side
    pairs: tuple[tuple[Arm, Arm], ...]

    @property
    def is_recipe(self) -> bool:
        """Whether checkpoints were named as such, be it one."""
        return self.base.is_recipe or self.trained.is_recipe


def met(base: Side, trained: Side) -> Match:
    """Arms meet in their order, or the single one of a side meets each of the other.

    Raises ``UserError`` for other numbers.
    """
    ours, theirs = len(trained.arms), len(base.arms)
    if 1 not in (ours, theirs) and ours != theirs:
        raise UserError(
            f"{base.name} has {theirs} checkpoints, {trained.name} {ours}; name as many, so that "
            "they pair off by training seed, or one for all"
        )
    most = max(ours, theirs)
    pairs = zip(base.arms * (most // theirs), trained.arms * (most // ours), strict=True)
    return Match(base, trained, tuple(pairs))


def named_arm(text: str) -> Arm:
    """The arm of a name, ``SYSTEM`` or ``SYSTEM/CONDITION``, that was checked when compared."""
    system, _, condition = text.partition("/")
    return Arm(system, condition)


def read_arm(plan: Plan, text: str, option: str) -> Arm:
    """``SYSTEM`` or ``SYSTEM/CONDITION``.

    Raises ``UserError`` for a condition not in the plan, and for a system that has not answered
    where others have.
    """
    system, slash, condition = text.partition("/")
    if slash and condition not in plan.kinds:
        raise UserError(
            f"{option} {text!r}: no condition {condition!r} in the plan; it has "
            f"{', '.join(plan.kinds)}"
        )
    arm = Arm(system, condition)
    there = systems(plan)
    if there and system not in there:
        raise UserError(
            f"{option} {text!r}: no answers of {system!r}; the folder has those of "
            f"{', '.join(there)}; name one of them, or two settings of one, as "
            f"{there[0]}/{next(iter(plan.kinds))}"
        )
    return arm


def identity_path(plan: Plan, system: str) -> Path:
    """Who answered as this system."""
    return plan.folder / "responses" / f"{system}.json"


def load_rows(plan: Plan, system: str) -> dict[Key, Scored]:
    """The scores of a system by (request, run), in plan order.

    Raises ``UserError`` when they are of another plan, or not one row for every planned cell.
    """
    identity = read_identity(identity_path(plan, system))
    if identity.plan_hash != plan.hash:
        raise UserError(
            f"{identity_path(plan, system)}: answers plan {identity.plan_hash}, this is "
            f"{plan.hash}; move {system} away or run it again"
        )
    rows = read_planned(plan, score_path(plan, system), plan.runs)
    return {(row.id, row.run): _lean(row) for row in rows}


TELLING = "perspective"


def _lean(row: Scored) -> Scored:
    """The row without what no table asks for; of the parts only ``eval.metrics.applies`` does."""
    known = row.parts.get(TELLING) is not None
    return replace(row, note="", parts=TOLD if known else NOT_TOLD)


TOLD: Mapping[str, float | None] = {TELLING: 0.0}
NOT_TOLD: Mapping[str, float | None] = {}


def across(row: Scored) -> str:
    """What the requests of one story, variant and holder share under all conditions."""
    return f"{row.story}:{row.variant}:{row.holder}"


def across_conditions(rows: Rows, condition: str, name: str) -> dict[Key, Scored]:
    """The rows of one condition, renamed so that they meet those of another one."""
    found = {}
    for row in rows.values():
        if row.condition == condition:
            shared = across(row)
            found[(shared, row.run)] = replace(row, id=shared, condition=name)
    return found


def paired_items(base: Rows, trained: Rows) -> list[Item]:
    """The cells that both arms plan, by request, in the order of ``base``."""
    by_item: dict[str, Item] = defaultdict(list)
    for key, row in base.items():
        if key in trained:
            by_item[row.id].append((key, row, trained[key]))
    return list(by_item.values())


def pairs(items: Iterable[Item], group: Group) -> list[Pair]:
    """Every planned cell of the group, in plan order."""
    measure = group.measure
    return [
        Pair(key, b.source, value(b, measure), value(t, measure))
        for item in items
        if group.holds(item[0][1]) and applies((r for _, b, t in item for r in (b, t)), measure)
        for key, b, t in item
    ]


Shared = tuple[str | int, ...]


def combined_pairs(
    items: Iterable[Item],
    group: Group,
    share: Callable[[Scored], Shared],
    level: Callable[[Scored], str | int],
    weights: Mapping[str | int, float],
) -> list[Pair]:
    """One cell for each ``share`` that has every level of ``weights``: the weighted sum, for both.

    PRIVATE - PUBLIC is weights {PRIVATE: 1, PUBLIC: -1} over the level ``variant``.
    """
    wide = replace(group, variant=ALL)
    cells: dict[Shared, dict[str | int, Pair]] = defaultdict(dict)
    for item in items:
        for pair, (_, row, _) in zip(pairs([item], wide), item, strict=False):
            if level(row) in weights:
                cells[share(row)][level(row)] = pair
    return [
        Pair(
            (found[last].key[0], found[last].key[1]),
            found[last].source,
            _weighted(weights, {name: one.base for name, one in found.items()}),
            _weighted(weights, {name: one.trained for name, one in found.items()}),
        )
        for found in cells.values()
        if len(found) == len(weights)
        for last in list(weights)[-1:]
    ]


def _weighted(
    weights: Mapping[str | int, float], found: Mapping[str | int, float | None]
) -> float | None:
    total = 0.0
    for name, weight in weights.items():
        one = found[name]
        if one is None:
            return None
        total += weight * one
    return total


def gap_pairs(items: Iterable[Item], group: Group) -> list[Pair]:
    """PRIVATE minus PUBLIC of each matched story, holder and run, for both arms."""
    weights: dict[str | int, float] = {"PUBLIC": -1.0, "PRIVATE": 1.0}
    return combined_pairs(items, group, _but_variant, lambda row: row.variant, weights)


def turn_pairs(
    items: Iterable[Item], group: Group, weights: Mapping[str | int, float]
) -> list[Pair]:
    """A weighted sum over turn lengths of one story (its family, variant and holder) and run."""
    return combined_pairs(items, group, _but_turns, lambda row: row.turns, weights)


def _but_variant(row: Scored) -> Shared:
    return (row.source, row.story, row.condition, row.holder, row.turns, row.run)


def _but_turns(row: Scored) -> Shared:
    family = row.story.removesuffix(f":t{row.turns}")
    return (row.source, family, row.variant, row.condition, row.holder, row.run)


def turn_weights(turns: Iterable[int]) -> dict[str, dict[str | int, float]]:
    """Contrasts over turn lengths by name: longest minus shortest, and the linear trend.

    The trend is the least-squares change over the whole range: for 0, 5, 10 the weights -1, 0, 1,
    with a support of its own (every length complete). Empty for a single length.
    """
    lengths = sorted(set(turns))
    if len(lengths) < 2:
        return {}
    first, last = lengths[0], lengths[-1]
    minus = "\N{MINUS SIGN}"
    found: dict[str, dict[str | int, float]] = {
        f"{last} {minus} {first} turns": {first: -1.0, last: 1.0}
    }
    if len(lengths) > 2:
        mean = sum(lengths) / len(lengths)
        squares = sum((one - mean) ** 2 for one in lengths)
        found[f"trend over {first} to {last} turns"] = {
            one: (one - mean) * (last - first) / squares for one in lengths
        }
    return found

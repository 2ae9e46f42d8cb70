"""What the tables of BASIS average over: one instance under one setting and prefix, in one run.

Separate asks three requests of an instance and guided one; here both are one unit with a value in
each dimension. ``avg`` is the plain mean of the three dimensions, ``pooled`` all criteria met over
all criteria; both only where all three have a value. Every mean is given over all units, without
those that show a leak in their turns, and without those with a criterion that no answer can meet.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from configs.data import Setting
from eval.measures import Measure
from eval.metrics import Rows, Summary, summary_of
from eval.plan import Plan
from tasks.basis.instances import DIMENSIONS, Dimension, Domain
from tasks.basis.reference import parse

ALL = "all"

MEASURES: dict[str, Measure] = {
    "avg": Measure("avg", "AVG of three", "any", "part"),
    "belief": Measure("belief", "belief", "any", "part"),
    "profile": Measure("profile", "profile", "any", "part"),
    "solution": Measure("solution", "solution", "any", "part"),
    "pooled": Measure("pooled", "pooled criteria", "any", "part"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A setting at a prefix of ``turns`` turns. ``measures``: what it gives a number for."""

    setting: Setting
    turns: int
    measures: tuple[str, ...]

    @property
    def name(self) -> str:
        """As tables name it."""
        return f"{self.setting}, {self.turns} turns"


@dataclass(frozen=True, slots=True)
class Unit:
    """One instance under one setting and prefix. ``source``: its cluster.

    ``requests``: for each dimension asked for the request that asks; ``sizes``: its criteria.
    """

    instance: str
    source: str
    domain: Domain
    setting: Setting
    turns: int
    leaks: bool
    unanswerable: bool
    requests: Mapping[Dimension, str]
    sizes: Mapping[Dimension, int]

    @property
    def id(self) -> str:
        return f"{self.instance}:{self.setting}:k{self.turns}"


SUBSETS: Mapping[str, Callable[[Unit], bool]] = {
    ALL: lambda unit: True,
    "no leaks": lambda unit: not unit.leaks,
    "answerable": lambda unit: not unit.unanswerable,
}


def read_units(plan: Plan) -> list[Unit]:
    """The units of a plan, in plan order."""
    requests: dict[tuple[str, str, int], dict[Dimension, str]] = {}
    sizes: dict[tuple[str, str, int], dict[Dimension, int]] = {}
    made: dict[tuple[str, str, int], Unit] = {}
    for example in plan.requests():
        reference = parse(example.target)
        key = (reference.instance, reference.setting, reference.turns)
        asked, counted = requests.setdefault(key, {}), sizes.setdefault(key, {})
        for dimension, criteria in reference.criteria.items():
            asked[dimension], counted[dimension] = example.id, len(criteria)
        made[key] = Unit(
            instance=reference.instance,
            source=example.source,
            domain=reference.domain,
            setting=reference.setting,
            turns=reference.turns,
            leaks=bool(reference.shown_leaks),
            unanswerable=bool(reference.flags.unanswerable),
            requests=asked,
            sizes=counted,
        )
    return list(made.values())


def places(units: Iterable[Unit]) -> list[Place]:
    """Every setting and prefix that the units have, in plan order."""
    found: dict[tuple[Setting, int], Place] = {}
    for unit in units:
        whole = len(unit.requests) == len(DIMENSIONS)
        names = tuple(MEASURES) if whole else tuple(str(name) for name in unit.requests)
        found.setdefault((unit.setting, unit.turns), Place(unit.setting, unit.turns, names))
    return list(found.values())


def domains(units: Iterable[Unit]) -> list[str]:
    """``all``, then the domains, in plan order."""
    return [ALL, *dict.fromkeys(unit.domain for unit in units)]


def chosen(units: Iterable[Unit], place: Place, domain: str, subset: str) -> list[Unit]:
    """The units of one cell of a table."""
    keeps = SUBSETS[subset]
    return [
        unit
        for unit in units
        if (unit.setting, unit.turns) == (place.setting, place.turns)
        and domain in (ALL, unit.domain)
        and keeps(unit)
    ]


def value(unit: Unit, measure: str, rows: Rows, run: int) -> float | None:
    """The share of criteria met, from 0 to 1; None where a dimension has no score."""
    shares = {
        name: rows[(request, run)].measures.get(name) for name, request in unit.requests.items()
    }
    if measure in DIMENSIONS:
        return shares[_dimension(measure)]
    known = {name: share for name, share in shares.items() if share is not None}
    if len(known) < len(DIMENSIONS):
        return None
    if measure == "avg":
        return sum(known.values()) / len(known)
    met = sum(share * unit.sizes[name] for name, share in known.items())
    return met / sum(unit.sizes.values())


def words(unit: Unit, measure: str, rows: Rows, run: int) -> float | None:
    """Words of the texts behind ``value``; None where there is no readable answer."""
    names = [_dimension(measure)] if measure in DIMENSIONS else list(DIMENSIONS)
    counts = [rows[(unit.requests[n], run)].measures.get(f"{n}_words") for n in names]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(names) else None


def _dimension(measure: str) -> Dimension:
    return next(name for name in DIMENSIONS if name == measure)


def summarize(units: Sequence[Unit], measure: str, rows: Rows, runs: range) -> Summary:
    """The mean of one system over the units, with interval, run-to-run std and coverage."""
    values, sources, cells = [], [], 0
    for unit in units:
        found = [v for run in runs if (v := value(unit, measure, rows, run)) is not None]
        if found:
            cells += len(found)
            values.append(found)
            sources.append(unit.source)
    return summary_of(values, sources, cells, len(units) * len(runs))


def mean_words(units: Sequence[Unit], measure: str, rows: Rows, runs: range) -> float | None:
    """Mean length of the answers, in words; None where there are none."""
    found = [w for u in units for run in runs if (w := words(u, measure, rows, run)) is not None]
    return sum(found) / len(found) if found else None

"""BASIS systems on matched pairs -> ``compare.json``.

Between systems: trained minus base in every cell of the tables. Within each system: guided minus
separate, and cot and each intervention minus its baseline, the solution request of separate at the
same prefix; the longest prefix minus the shortest, within each system and of the difference between
systems. Every difference is over units that have a value in every arm, runs averaged first; the
source group is the independent unit (``eval.contrast`` has the estimates).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from configs.errors import UserError
from eval.basis.cells import (
    ALL,
    MEASURES,
    SUBSETS,
    Place,
    Unit,
    chosen,
    domains,
    mean_words,
    places,
    read_units,
    value,
)
from eval.checkpoints import RecipeContrast, recipe_contrast
from eval.checkpoints import adjusted as adjusted_recipes
from eval.compare import (
    arms_of,
    checked_margin,
    coverage,
    few_checkpoints,
    matches_of,
    warnings,
)
from eval.contrast import Contrast, adjusted, cautions, contrast
from eval.metrics import Group, Rows
from eval.pairing import Arm as Side
from eval.pairing import Match, identity_path, load_rows, turn_weights
from eval.plan import Plan
from eval.records import read_identity, write_sealed
from eval.repeats import Pair
from eval.scoring import read_tally

BETWEEN = "trained - base"


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: whose rows, under which setting, at which prefix (None: same)."""

    rows: Rows
    units: Mapping[tuple[str, str, int], Unit]
    setting: str
    turns: int | None = None

    def match(self, unit: Unit) -> Unit | None:
        """The unit of this arm with the same instance and prefix, if that was asked."""
        turns = unit.turns if self.turns is None else self.turns
        return self.units.get((unit.instance, self.setting, turns))


@dataclass(frozen=True, slots=True)
class Cell:
    """Where in the tables a contrast stands. ``system``: of a comparison within one."""

    comparison: str
    system: str
    place: Place
    domain: str
    subset: str
    measure: str

    def row(self) -> dict[str, Any]:
        """What a contrast of ``compare.json`` says of its cell."""
        return {
            "comparison": self.comparison,
            "system": self.system,
            "setting": self.place.setting,
            "turns": self.place.turns,
            "domain": self.domain,
            "subset": self.subset,
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """A contrast in its cell, with the mean length of the answers of both arms, in words."""

    arms: tuple[str, str]
    cell: Cell
    contrast: Contrast
    base_words: float | None
    trained_words: float | None

    def row(self, found: Contrast) -> dict[str, Any]:
        """As ``compare.json`` holds it; ``found`` is the contrast after adjustment."""
        return {
            "arms": list(self.arms),
            **self.cell.row(),
            **found.row(),
            "base_words": self.base_words,
            "trained_words": self.trained_words,
        }


def compare(
    plan: Plan, base: str, trained: str | Sequence[str], margin: float | None = None
) -> dict[str, Any]:
    """Compare each of ``trained`` with ``base``, and the settings within each system; writes
    ``compare.json``. An arm is ``SYSTEM`` or ``SYSTEM/SETTING``; ``margin``: see ``eval.compare``.

    Raises ``UserError`` when the systems were not judged by the same judge.
    """
    checked_margin(margin)
    matches = matches_of(plan, base, trained)
    chosen_arms = arms_of(matches)
    systems = list(dict.fromkeys(one.system for one in chosen_arms))
    tallies = {name: read_tally(plan, name) for name in systems}
    _refuse_two_judges(tallies)
    rows = {name: load_rows(plan, name) for name in systems}
    units = read_units(plan)
    found: list[Compared] = []
    recipes: list[tuple[Match, Cell, RecipeContrast]] = []
    for match in matches:
        for pair in match.pairs:
            found += between(plan, units, pair, rows, margin)
        if match.is_recipe:
            recipes += over_checkpoints(plan, units, match, rows)
    for name in systems:
        found += [*within(plan, units, name, rows[name]), *turned(plan, units, name, rows[name])]
    for pair in (pair for match in matches for pair in match.pairs):
        if not pair[0].condition:
            found += turned_between(plan, units, pair, rows)
    contrasts = adjusted([one.contrast for one in found])
    pairs = list(zip(found, contrasts, strict=True))
    between_only = [(one, c) for one, c in pairs if one.cell.comparison == BETWEEN]
    result = {
        "plan_hash": plan.hash,
        "answers": plan.answer_form,
        "base": asdict(read_identity(identity_path(plan, chosen_arms[0].system))),
        "trained": asdict(read_identity(identity_path(plan, chosen_arms[1].system))),
        "arms": [one.name for one in chosen_arms],
        "margin": margin,
        "judge": tallies[chosen_arms[0].system]["judge"],
        "withheld": withheld(plan, tallies),
        "coverage": coverage(rows),
        "warnings": [
            *(f"no headline: {text}" for text in [withheld(plan, tallies)] if text),
            *warnings(plan, systems, rows),
            *few_checkpoints(matches),
            *without_baseline(units),
            *cautions([(one.arms[1], c) for one, c in between_only]),
        ],
        "recipes": recipe_rows(recipes),
        "contrasts": [one.row(c) for one, c in pairs],
    }
    write_sealed(plan.folder / "compare.json", result)
    return result


def _refuse_two_judges(tallies: Mapping[str, Mapping[str, Any]]) -> None:
    names = {system: tally["judge"]["name"] for system, tally in tallies.items()}
    if len(set(names.values())) > 1:
        listed = ", ".join(f"{system} by {judge}" for system, judge in names.items())
        raise UserError(f"scores come from different judges ({listed}); score again with one")


def withheld(plan: Plan, tallies: Mapping[str, Mapping[str, Any]]) -> str:
    """Why no headline may be given; empty when the judge failed rarely enough."""
    limit = plan.config.max_judge_failures
    shares = {name: tally["judgements"]["failing_share"] for name, tally in tallies.items()}
    over = [f"{share:.1%} for {name}" for name, share in shares.items() if share > limit]
    if not over:
        return ""
    return f"the judge failed on {' and '.join(over)}, more than {limit:.0%} (max_judge_failures)"


def primary(found: Sequence[Place]) -> set[tuple[str, int, str]]:
    """The contrasts between systems declared beforehand, over all domains and units.

    AVG where a setting gives all three dimensions; if none does, the solution of each.
    """
    whole = {(one.setting, one.turns, "avg") for one in found if "avg" in one.measures}
    return {*whole} or {(one.setting, one.turns, "solution") for one in found}


def cells(
    comparison: str, system: str, units: Sequence[Unit], found: Sequence[Place]
) -> Iterator[Cell]:
    """Every cell of a comparison, in reading order."""
    for subset in SUBSETS:
        for domain in domains(units):
            for place in found:
                for measure in place.measures:
                    yield Cell(comparison, system, place, domain, subset, measure)


def between(
    plan: Plan,
    units: Sequence[Unit],
    sides: tuple[Side, Side],
    rows: Mapping[str, Rows],
    margin: float | None,
) -> list[Compared]:
    """Trained minus base, cell by cell. Raises ``UserError`` when no prefix has both settings."""
    names = (sides[0].name, sides[1].name)
    by_key = _by_key(units)
    return [
        _compared(plan, units, names, cell, *_arms(cell, sides, rows, by_key), is_primary, margin)
        for cell, is_primary in _between_cells(units, sides)
    ]


def _between_cells(units: Sequence[Unit], sides: tuple[Side, Side]) -> Iterator[tuple[Cell, bool]]:
    """Every cell two sides share, and whether its contrast is declared."""
    found = _shared_places(places(units), sides)
    declared = primary(found)
    for cell in cells(BETWEEN, "", units, found):
        overall = cell.domain == ALL and cell.subset == ALL
        yield cell, overall and (cell.place.setting, cell.place.turns, cell.measure) in declared


def _arms(
    cell: Cell,
    sides: tuple[Side, Side],
    rows: Mapping[str, Rows],
    by_key: Mapping[tuple[str, str, int], Unit],
) -> tuple[Arm, Arm]:
    first, second = (
        Arm(rows[one.system], by_key, one.condition or cell.place.setting) for one in sides
    )
    return first, second


def over_checkpoints(
    plan: Plan, units: Sequence[Unit], match: Match, rows: Mapping[str, Rows]
) -> list[tuple[Match, Cell, RecipeContrast]]:
    """The mean of a recipe's differences, cell by cell, none adjusted yet."""
    by_key = _by_key(units)
    found = []
    for cell, is_primary in _between_cells(units, match.pairs[0]):
        planned = [
            _pairs(plan, _matched(units, cell, base), cell, base, trained)
            for base, trained in (_arms(cell, pair, rows, by_key) for pair in match.pairs)
        ]
        found.append((match, cell, recipe_contrast(_group(cell), planned, is_primary)))
    return found


def recipe_rows(found: Sequence[tuple[Match, Cell, RecipeContrast]]) -> list[dict[str, Any]]:
    """As ``compare.json`` holds them, adjusted together; ``members``: who met whom."""
    ready = adjusted_recipes([one for *_, one in found])
    return [
        {
            "arms": [match.base.name, match.trained.name],
            "members": [[base.name, trained.name] for base, trained in match.pairs],
            **cell.row(),
            **one.row(),
        }
        for (match, cell, _), one in zip(found, ready, strict=True)
    ]


def _shared_places(known: Sequence[Place], sides: tuple[Side, Side]) -> list[Place]:
    """The places of the trained side, with what the base side gives at the same prefix too."""
    base, trained = sides
    if not base.condition and not trained.condition:
        return list(known)
    if not (base.condition and trained.condition):
        raise UserError(f"{base.name} and {trained.name}: give both a setting, or neither of them")
    there = {one.turns: one.measures for one in known if one.setting == base.condition}
    found = []
    for one in known:
        if one.setting == trained.condition and one.turns in there:
            both = tuple(name for name in one.measures if name in there[one.turns])
            found += [replace(one, measures=both)] if both else []
    if not found:
        raise UserError(
            f"{base.name} and {trained.name}: no prefix at which both settings give the same "
            "dimension; plan both at one prefix"
        )
    return found


def baseline(place: Place) -> str:
    """The setting that ``place`` is compared with; empty for the baseline itself."""
    return "" if place.setting == "separate" else "separate"


def within(plan: Plan, units: Sequence[Unit], system: str, rows: Rows) -> list[Compared]:
    """Each setting minus separate at the same prefix, where the plan asks both."""
    known = places(units)
    asked = {(one.setting, one.turns) for one in known}
    paired = [one for one in known if baseline(one) and (baseline(one), one.turns) in asked]
    by_key = _by_key(units)
    made = []
    for place in paired:
        for cell in cells(f"{place.setting} - {baseline(place)}", system, units, [place]):
            arms = Arm(rows, by_key, baseline(place)), Arm(rows, by_key, place.setting)
            names = (f"{system}/{baseline(place)}", f"{system}/{place.setting}")
            made.append(_compared(plan, units, names, cell, *arms, False))
    return made


def _ends(units: Sequence[Unit]) -> Iterator[tuple[str, Place, int]]:
    """(name, longest, shortest prefix) of each setting that is asked at several."""
    by_setting: dict[str, list[Place]] = {}
    for one in places(units):
        by_setting.setdefault(one.setting, []).append(one)
    for found in by_setting.values():
        names = list(turn_weights(one.turns for one in found))
        if names:
            longest = max(found, key=lambda one: one.turns)
            yield names[0], longest, min(one.turns for one in found)


def turned(plan: Plan, units: Sequence[Unit], system: str, rows: Rows) -> list[Compared]:
    """The longest prefix minus the shortest of each setting, within one system."""
    by_key = _by_key(units)
    made = []
    for name, place, shortest in _ends(units):
        for cell in cells(name, system, units, [place]):
            arms = Arm(rows, by_key, place.setting, shortest), Arm(rows, by_key, place.setting)
            names = (f"{system} at {shortest} turns", f"{system} at {place.turns} turns")
            made.append(_compared(plan, units, names, cell, *arms, False))
    return made


def turned_between(
    plan: Plan, units: Sequence[Unit], sides: tuple[Side, Side], rows: Mapping[str, Rows]
) -> list[Compared]:
    """By how much the difference between two systems grows from the shortest prefix on."""
    by_key = _by_key(units)
    base, trained = (rows[one.system] for one in sides)
    names = (sides[0].name, sides[1].name)
    made = []
    for name, place, shortest in _ends(units):
        for cell in cells(f"{BETWEEN}, {name}", "", units, [place]):
            pairs = []
            for unit in chosen(units, place, cell.domain, cell.subset):
                short = by_key.get((unit.instance, place.setting, shortest))
                for run in plan.runs if short is not None else ():
                    assert short is not None
                    grown = (_grown(unit, short, cell.measure, one, run) for one in (base, trained))
                    pairs.append(Pair((unit.id, run), unit.source, *grown))
            group = Group(MEASURES[cell.measure], f"{place.setting}, {name}", cell.domain)
            found = contrast(group, pairs, False, plain=False, names=names)
            made.append(Compared(names, cell, found, None, None))
    return made


def _grown(unit: Unit, short: Unit, measure: str, rows: Rows, run: int) -> float | None:
    after, before = value(unit, measure, rows, run), value(short, measure, rows, run)
    return None if after is None or before is None else after - before


def without_baseline(units: Sequence[Unit]) -> list[str]:
    """A sentence for each setting and prefix that the plan asks without its baseline."""
    known = places(units)
    asked = {(one.setting, one.turns) for one in known}
    return [
        f"{one.name}: no {baseline(one)} at this prefix in the plan, so it is compared with none"
        for one in known
        if baseline(one) and (baseline(one), one.turns) not in asked
    ]


def _by_key(units: Sequence[Unit]) -> dict[tuple[str, str, int], Unit]:
    return {(one.instance, one.setting, one.turns): one for one in units}


def _compared(
    plan: Plan,
    units: Sequence[Unit],
    names: tuple[str, str],
    cell: Cell,
    base: Arm,
    trained: Arm,
    is_primary: bool,
    margin: float | None = None,
) -> Compared:
    matched = _matched(units, cell, base)
    pairs = _pairs(plan, matched, cell, base, trained)
    return Compared(
        names,
        cell,
        contrast(_group(cell), pairs, is_primary, margin, names=names),
        mean_words([other for other, _ in matched], cell.measure, base.rows, plan.runs),
        mean_words([unit for _, unit in matched], cell.measure, trained.rows, plan.runs),
    )


def _group(cell: Cell) -> Group:
    return Group(MEASURES[cell.measure], cell.place.name, cell.domain)


def _matched(units: Sequence[Unit], cell: Cell, base: Arm) -> list[tuple[Unit, Unit]]:
    """The units of a cell, each after the base's unit that meets it, where there is one."""
    here = chosen(units, cell.place, cell.domain, cell.subset)
    return [(other, unit) for unit in here if (other := base.match(unit)) is not None]


def _pairs(
    plan: Plan, matched: Sequence[tuple[Unit, Unit]], cell: Cell, base: Arm, trained: Arm
) -> list[Pair]:
    return [
        Pair(
            (unit.id, run),
            unit.source,
            value(other, cell.measure, base.rows, run),
            value(unit, cell.measure, trained.rows, run),
        )
        for other, unit in matched
        for run in plan.runs
    ]

"""BASIS systems on matched pairs -> ``compare.json``.

Between systems: trained minus base in every cell of the tables. Within each system: guided minus
separate, and cot and each intervention minus its baseline, the solution request of separate at the
same prefix. Every difference is over units that have a value in both arms, runs averaged first; the
source group is the independent unit (``eval.compare`` has the estimates).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from eval.compare import (
    Contrast,
    Pair,
    adjusted,
    contrast,
    fragile,
    identity_path,
    load_rows,
    warnings,
)
from eval.metrics import Group, Rows
from eval.plan import Plan
from eval.records import read_identity, read_json, write_json
from eval.scoring import score_path

BETWEEN = "trained - base"


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: whose rows, under which setting."""

    rows: Rows
    units: Mapping[tuple[str, str, int], Unit]
    setting: str

    def match(self, unit: Unit) -> Unit | None:
        """The unit of this arm with the same instance and prefix, if that was asked."""
        return self.units.get((unit.instance, self.setting, unit.turns))


@dataclass(frozen=True, slots=True)
class Cell:
    """Where in the tables a contrast stands. ``system``: of a comparison within one."""

    comparison: str
    system: str
    place: Place
    domain: str
    subset: str
    measure: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A contrast in its cell, with the mean length of the answers of both arms, in words."""

    cell: Cell
    contrast: Contrast
    base_words: float | None
    trained_words: float | None

    def row(self, found: Contrast) -> dict[str, Any]:
        """As ``compare.json`` holds it; ``found`` is the contrast after adjustment."""
        cell = self.cell
        return {
            "comparison": cell.comparison,
            "system": cell.system,
            "setting": cell.place.setting,
            "turns": cell.place.turns,
            "domain": cell.domain,
            "subset": cell.subset,
            **asdict(found),
            "base_words": self.base_words,
            "trained_words": self.trained_words,
        }


def compare(plan: Plan, base: str, trained: str) -> dict[str, Any]:
    """Compare two scored systems, and the settings within each; writes ``compare.json``.

    Raises ``UserError`` when the two were not judged by the same judge.
    """
    if base == trained:
        raise UserError(f"--base and --trained are both {base!r}; name two systems")
    tallies = {name: _tally(plan, name) for name in (base, trained)}
    _refuse_two_judges(tallies)
    rows = {name: load_rows(plan, name) for name in (base, trained)}
    units = read_units(plan)
    found = [*between(plan, units, rows[base], rows[trained])]
    for name in (base, trained):
        found += within(plan, units, name, rows[name])
    contrasts = adjusted([one.contrast for one in found])
    result = {
        "plan_hash": plan.hash,
        "answers": plan.answer_form,
        "base": asdict(read_identity(identity_path(plan, base))),
        "trained": asdict(read_identity(identity_path(plan, trained))),
        "judge": tallies[base]["judge"],
        "withheld": withheld(plan, tallies),
        "warnings": [
            *(f"no headline: {text}" for text in [withheld(plan, tallies)] if text),
            *warnings(plan, base, trained, rows[base], rows[trained]),
            *without_baseline(units),
            *(text for one in contrasts if (text := fragile(one))),
        ],
        "contrasts": [one.row(c) for one, c in zip(found, contrasts, strict=True)],
    }
    write_json(plan.folder / "compare.json", result)
    return result


def _tally(plan: Plan, system: str) -> dict[str, Any]:
    return read_json(score_path(plan, system).with_suffix(".json"), "run `python -m eval score`")


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


def between(plan: Plan, units: Sequence[Unit], base: Rows, trained: Rows) -> list[Compared]:
    """Trained minus base, cell by cell."""
    found = places(units)
    declared = primary(found)
    by_key = _by_key(units)
    made = []
    for cell in cells(BETWEEN, "", units, found):
        place = cell.place
        first, second = (Arm(rows, by_key, place.setting) for rows in (base, trained))
        overall = cell.domain == ALL and cell.subset == ALL
        is_primary = overall and (place.setting, place.turns, cell.measure) in declared
        made.append(_compared(plan, units, cell, first, second, is_primary))
    return made


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
            made.append(_compared(plan, units, cell, *arms, is_primary=False))
    return made


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
    plan: Plan, units: Sequence[Unit], cell: Cell, base: Arm, trained: Arm, is_primary: bool
) -> Compared:
    here = chosen(units, cell.place, cell.domain, cell.subset)
    matched = [(other, unit) for unit in here if (other := base.match(unit)) is not None]
    pairs = [
        Pair(
            (unit.id, run),
            unit.source,
            value(other, cell.measure, base.rows, run),
            value(unit, cell.measure, trained.rows, run),
        )
        for other, unit in matched
        for run in plan.runs
    ]
    group = Group(MEASURES[cell.measure], cell.place.name, cell.domain)
    return Compared(
        cell,
        contrast(group, pairs, is_primary),
        mean_words([other for other, _ in matched], cell.measure, base.rows, plan.runs),
        mean_words([unit for _, unit in matched], cell.measure, trained.rows, plan.runs),
    )

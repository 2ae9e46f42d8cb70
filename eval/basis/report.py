"""Scores and comparison of a BASIS plan -> the tables of its report, as text cells.

Nothing of the clock goes in: the same scores give the same report. ``eval.basis.publish`` writes it
as a page, as Markdown and as a picture.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import UserError
from eval.basis.cases import basis_payload
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
    summarize,
)
from eval.basis.compare import BETWEEN
from eval.basis.controls import RUNS, cautions, mean_reward, read_controls
from eval.basis.paper import basis_curves, basis_tables
from eval.compare import read_compared
from eval.curves import Curve, read_curves
from eval.determinism import probed
from eval.formatting import interval, number, p_value, signed
from eval.metrics import Rows, Summary
from eval.pairing import load_rows
from eval.paper import PaperTable, shared_tables
from eval.paper_calendar import TurnCurve
from eval.paper_checkpoints import checkpoint_tables, recipe_lead
from eval.plan import Plan
from eval.records import Identity, read_identity
from eval.report import package_versions
from eval.scoring import read_tally, systems

Contrast = Mapping[str, Any]  # a row of compare.json


@dataclass(frozen=True, slots=True)
class Table:
    """``folded``: not among the first things a reader wants. ``apart``: how many of the last rows
    are no system's and stand in a block of their own.
    """

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False
    apart: int = 0


@dataclass(frozen=True, slots=True)
class BasisReport:
    """All that the report shows. ``facts``: what is needed to run it again, (name, value).

    ``lead``: the first sentence in three parts; ``forest``: the contrasts to draw.
    """

    title: str
    answers: str
    lead: tuple[str, str, str]
    basis: str
    warnings: tuple[str, ...]
    tables: tuple[Table, ...]
    primary: tuple[Contrast, ...]
    forest: tuple[Contrast, ...]
    contrasts: tuple[Contrast, ...]
    coverage: tuple[Contrast, ...]
    paper: tuple[PaperTable, ...]
    turn_curves: tuple[TurnCurve, ...]
    cases: str
    curves: tuple[Curve, ...]
    facts: tuple[tuple[str, str], ...]


def gather(plan: Plan, train_run: Path | None) -> BasisReport:
    """Read everything the report shows. Raises ``UserError`` when something is not there yet."""
    names = systems(plan)
    if not names:
        raise UserError(f"{plan.folder}: no responses to report; `python -m eval run` first")
    compared = read_compared(plan, names)
    base, trained, *_ = arms = compared["arms"]
    shown = list(dict.fromkeys(arm.partition("/")[0] for arm in arms))
    order = dict.fromkeys([*shown, *sorted(names)])
    tallies = {name: read_tally(plan, name) for name in order}
    units, contrasts = read_units(plan), compared["contrasts"]
    rows = {name: load_rows(plan, name) for name in order}
    compared_rows = {name: rows[name] for name in shown}
    between = [one for one in contrasts if one["arms"] == arms[:2] or one["system"]]
    held = () if compared["withheld"] else contrasts
    held_recipes = () if compared["withheld"] else compared["recipes"]
    judged = read_controls(plan)
    controls = {name: held_rows for name, (_, held_rows) in judged.items()}
    judges = {**tallies, **{f"control {name}": tally for name, (tally, _) in judged.items()}}
    sentence, basis = lead(compared, base, trained)
    return BasisReport(
        title=plan.title,
        answers=plan.answer_form,
        lead=sentence,
        basis=basis,
        warnings=(
            *compared["warnings"],
            *other_judges(judges, compared["judge"]["name"]),
            *cautions({name: mean_reward([*held.values()]) for name, held in controls.items()}),
        ),
        tables=(
            *between_tables(between, base, trained),
            *within_tables(between, shown),
            *(system_table(plan, units, place, rows, controls) for place in places(units)),
            judge_table(judges),
        ),
        primary=tuple(one for one in held_recipes or held if one["primary"]),
        forest=tuple(one for one in (*held_recipes, *held) if _drawn(one)),
        contrasts=tuple(contrasts),
        coverage=tuple(compared["coverage"]),
        paper=(
            *checkpoint_tables(held_recipes),
            *basis_tables(between),
            *shared_tables(held, compared["coverage"]),
        ),
        turn_curves=tuple(basis_curves(units, compared_rows, plan.runs)),
        cases=basis_payload(plan, shown, rows, compared["judge"]["name"]),
        curves=tuple(read_curves(train_run)) if train_run else (),
        facts=tuple(facts(plan, units, compared, tallies)),
    )


def _drawn(one: Contrast) -> bool:
    """The declared contrasts, and over all units the turn lengths and the settings."""
    overall = one["variant"] == ALL and one["subset"] == ALL
    return bool(
        one["primary"] or (overall and one["measure"] == "avg" and one["comparison"] != BETWEEN)
    )


def other_judges(tallies: Mapping[str, Mapping[str, Any]], judge: str) -> list[str]:
    """A sentence for each system whose scores come from another judge than the compared ones."""
    return [
        f"{name} was scored by another judge, {tally['judge']['model']}; its means do not compare"
        for name, tally in tallies.items()
        if tally["judge"]["name"] != judge
    ]


def lead(compared: Mapping[str, Any], base: str, trained: str) -> tuple[tuple[str, str, str], str]:
    """The first sentence and what it rests on: the first declared contrast, unless the judge
    failed too often."""
    if compared["recipes"] and not compared["withheld"]:
        return recipe_lead(next(row for row in compared["recipes"] if row["primary"]))
    one = next(row for row in compared["contrasts"] if row["primary"])
    names = f"{trained} against {base}, {one['label']} ({one['condition']}):"
    if compared["withheld"]:
        return (names, "no headline,", f"because {compared['withheld']}."), ""
    if one["difference"] is None:
        return (names, "nothing to compare", f"({one['reason']})."), ""
    before, after = (number(one[name], one["unit"]) for name in ("base", "trained"))
    tail = f"95 % interval {interval(one)}" if one["low"] is not None else one["reason"]
    basis = (
        f"p {p_value(one['p'])} by sign flips of source groups; {one['items']} instances in "
        f"{one['clusters']} groups; {one['cells']} of {one['planned']} cells scored for both."
    )
    points = f"{signed(one['difference'], one['unit'])} points,"
    return (names, points, f"from {before} to {after} ({tail}): {one['verdict']}."), basis


HEAD = ("difference", "95 % interval", "p", "p Holm", "n (groups)", "covered", "bounds")
WORDS_NOTE = "Words: mean length of the judged answers."
CONTRAST_NOTE = (
    "Over units that have a score in both arms, runs averaged first; intervals and p treat the "
    "source group as the unit. p Holm: the contrasts declared beforehand; all others are "
    "exploratory. Bounds: every missing score at its worst, at its best. Last columns: the same "
    "difference without instances that leak in the turns shown, and without instances that have a "
    f"criterion no answer can meet. ±: run-to-run std on frozen inputs. {WORDS_NOTE}"
)


def between_tables(contrasts: Sequence[Contrast], base: str, trained: str) -> list[Table]:
    """Trained against base: over all domains, then domain by domain."""
    found = [one for one in contrasts if one["comparison"] == BETWEEN]
    title = f"{trained} minus {base}"
    note = f"{CONTRAST_NOTE} {higher_cells(found, base, trained)}"
    return [
        _contrast_table(title, note, found, (base, trained), by_domain=False),
        _contrast_table(f"{title}, by domain", "", found, (base, trained), by_domain=True),
    ]


def higher_cells(found: Iterable[Contrast], base: str, trained: str) -> str:
    """In how many cells (domain, setting, prefix, dimension) the trained system is higher."""
    cells = [
        one["difference"] > 0
        for one in found
        if one["subset"] == ALL
        and one["variant"] != ALL
        and one["measure"] in ("belief", "profile", "solution")
        and one["difference"] is not None
    ]
    return f"{trained} is above {base} in {sum(cells)} of {len(cells)} cells by domain."


def within_tables(contrasts: Sequence[Contrast], names: Sequence[str]) -> list[Table]:
    """Settings against their baselines within each system."""
    tables: list[Table] = []
    for name in names:
        here = [one for one in contrasts if one["system"] == name]
        settings = [one for one in here if one["comparison"].endswith(" - separate")]
        turns = [one for one in here if one not in settings]
        tables += _two_tables(
            f"Settings against separate, within {name}", settings, ("separate", "setting")
        )
        tables += _two_tables(f"More turns, within {name}", turns, ("shortest", "longest"))
    return tables


def _two_tables(title: str, found: Sequence[Contrast], arms: Sequence[str]) -> list[Table]:
    if not found:
        return []
    return [
        _contrast_table(title, "", found, arms, by_domain=False),
        _contrast_table(f"{title}, by domain", "", found, arms, by_domain=True),
    ]


def _contrast_table(
    title: str, note: str, found: Sequence[Contrast], arms: Sequence[str], by_domain: bool
) -> Table:
    others = [subset for subset in SUBSETS if subset != ALL]
    lookup = {_where(one, one["subset"]): one for one in found}
    shown = [o for o in found if o["subset"] == ALL and (o["variant"] != ALL) == by_domain]
    places_head = ("setting", "domain", "dimension") if by_domain else ("setting", "dimension")
    return Table(
        title,
        note,
        (*places_head, *arms, *HEAD, *others, f"words {arms[0]}", f"words {arms[1]}"),
        tuple(
            _contrast_row(one, [lookup[_where(one, subset)] for subset in others], by_domain)
            for one in shown
        ),
        folded=by_domain,
    )


def _where(one: Contrast, subset: str) -> tuple[object, ...]:
    return (one["comparison"], one["condition"], one["variant"], one["measure"], subset)


def _contrast_row(one: Contrast, without: Sequence[Contrast], by_domain: bool) -> tuple[str, ...]:
    unit = one["unit"]
    bounds = [signed(one[name], unit) for name in ("bound_low", "bound_high")]
    return (
        one["condition"],
        *((one["variant"],) if by_domain else ()),
        one["label"],
        with_std(one["base"], one["base_run_std"], unit),
        with_std(one["trained"], one["trained_run_std"], unit),
        signed(one["difference"], unit),
        interval(one),
        p_value(one["p"]),
        p_value(one["p_holm"]) if one["primary"] else "",
        f"{one['items']} ({one['clusters']})",
        f"{one['cells'] / one['planned']:.0%}" if one["planned"] else "n/a",
        " to ".join(bounds),
        *(f"{signed(other['difference'], unit)} (n {other['items']})" for other in without),
        length(one["base_words"]),
        length(one["trained_words"]),
    )


def with_std(mean: float | None, std: float | None, unit: str) -> str:
    """A mean and its run-to-run std, where there is more than one run."""
    if mean is None or std is None:
        return number(mean, unit)
    return f"{number(mean, unit)} ± {number(std, unit, bare=True)}"


def length(mean_count: float | None) -> str:
    return "n/a" if mean_count is None else f"{mean_count:.0f}"


SYSTEM_NOTE = (
    "Share of criteria met, over the system's own scored units. ± is the run-to-run std on frozen "
    "inputs (sampling noise over the runs), not an error bar for new instances. In brackets: cells "
    "with a score of those planned, and the mean if every missing score were 0 and were 1. An "
    "answer without the form asked for scores 0; one that was cut off, or on which the judge "
    "failed, has no score."
)
CONTROL_NOTE = (
    " Below the systems, the controls: candidates of known worth, judged once by the same judge, "
    "in no comparison. Gold is what the hidden fields say, the ceiling of this judge on these "
    "criteria; the others deserve next to nothing."
)
NO_CONTROLS = " No controls were judged; `python -m eval score FOLDER --controls` does so."


def system_table(
    plan: Plan,
    units: Sequence[Unit],
    place: Place,
    rows: Mapping[str, Rows],
    controls: Mapping[str, Rows],
) -> Table:
    """All systems at one place: by domain, and without flagged instances; then the controls."""
    lines: list[tuple[str, ...]] = []
    for name, held in rows.items():
        lines += _system_lines(name, units, place, held, plan.runs)
    apart: list[tuple[str, ...]] = []
    for name, held in controls.items():
        apart += _system_lines(f"control: {name}", units, place, held, RUNS)
    labels = [MEASURES[name].label for name in place.measures]
    head = ("system", "domain", "instances", *labels, "words")
    note = SYSTEM_NOTE + (CONTROL_NOTE if controls else NO_CONTROLS)
    title = f"All systems: {place.name}"
    return Table(title, note, head, (*lines, *apart), folded=True, apart=len(apart))


def _system_lines(
    name: str, units: Sequence[Unit], place: Place, rows: Rows, runs: range
) -> Iterator[tuple[str, ...]]:
    for domain in domains(units):
        for subset in SUBSETS:
            here = chosen(units, place, domain, subset)
            means = [summary_text(summarize(here, m, rows, runs)) for m in place.measures]
            length_shown = length(mean_words(here, place.measures[0], rows, runs))
            yield (name, domain, subset, *means, length_shown)


def summary_text(one: Summary) -> str:
    """The mean, its run-to-run std, its support, and its bounds where something is missing."""
    shown = f"{with_std(one.mean, one.std, 'part')} [{one.cells}/{one.planned}"
    if one.bounds and one.cells < one.planned:
        low, high = (number(end, "part", bare=True) for end in one.bounds)
        shown += f"; {low} to {high}"
    return f"{shown}]"


JUDGE_NOTE = (
    "Judgements are dimensions of answers. An empty text scores 0 without a call; a failure has no "
    "score, is never 0, and counts against coverage and bounds."
)


def judge_table(tallies: Mapping[str, Mapping[str, Any]]) -> Table:
    """How judging ended, system by system."""
    lines = []
    for name, tally in tallies.items():
        said = tally["judgements"]
        failed = ", ".join(f"{reason} {count}" for reason, count in said["failed"].items())
        judge = f"{tally['judge']['model']} ({tally['judge']['name']})"
        share = f"{said['failing_share']:.2%}"
        empty = str(said["empty_candidate"])
        lines.append((name, judge, str(said["judged"]), empty, share, failed or "none"))
    head = ("system", "judge", "judged", "empty", "failed", "reasons")
    return Table("The judge", JUDGE_NOTE, head, tuple(lines))


def facts(
    plan: Plan,
    units: Sequence[Unit],
    compared: Mapping[str, Any],
    tallies: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, str]]:
    """What is needed to run it again."""
    config, judge = plan.config, compared["judge"]
    instances = {unit.instance for unit in units}
    leaking = {unit.instance for unit in units if unit.leaks}
    unanswerable = {unit.instance for unit in units if unit.unanswerable}
    found = [
        ("plan", plan.hash),
        ("requests", f"{len(plan.ids)} on {len(instances)} instances"),
        ("runs", str(config.runs)),
        ("answers", plan.answer_form),
        ("sampling", _listed(config.sampling.model_dump(mode="json"))),
        ("judge", _listed({k: v for k, v in judge.items() if k != "sampling"})),
        ("judge sampling", _listed(judge["sampling"])),
        ("reward", _listed(config.rubric.model_dump(mode="json"))),
        ("flagged", f"{len(leaking)} leak in turns shown, {len(unanswerable)} unanswerable"),
        ("transfer", _transfer(plan)),
    ]
    for name, tally in tallies.items():
        identity = read_identity(plan.folder / "responses" / f"{name}.json")
        found.append((f"system {name}", _system(identity, tally)))
        found.append((f"probe of {name}", probed(plan, name)))
    found.append(("versions", _listed(package_versions())))
    return [(name, text) for name, text in found if text]


def _transfer(plan: Plan) -> str:
    data = plan.config.data
    rule = data.transfer if data is not None and data.task == "basis" else None
    if rule is None:
        return ""
    oracle = " (an oracle: it looks at scores on the test rubrics)" if "oracle" in rule.pick else ""
    return f"notes picked by {rule.pick}{oracle} from {', '.join(rule.pool) or rule.system}"


def _system(identity: Identity, tally: Mapping[str, Any]) -> str:
    return (
        f"{identity.model} by {identity.engine}, fingerprint {identity.fingerprint}; "
        f"{_listed(tally['states'])}; {tally['completion_tokens']:,} tokens written"
    )


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value != "")

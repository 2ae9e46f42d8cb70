"""A `Report` of calendar answers -> one HTML page that needs nothing else."""

from collections.abc import Mapping
from typing import Any

from eval.formatting import interval, number, p_value, signed
from eval.measures import HEADLINE
from eval.paper_checkpoints import recipe_lead
from eval.report import Report
from eval.sheet import Section, Sheet
from eval.sheet import html as sheet_html
from eval.tables import paired_table, systems_table


def html(report: Report) -> str:
    """The whole page, self-contained."""
    return sheet_html(
        Sheet(
            title=report.title,
            lead=headline(report),
            basis=basis(report),
            warnings=report.warnings,
            forest=[one for one in (*report.recipes, *report.all_contrasts) if _drawn(one)],
            coverage=report.coverage,
            curves=report.turn_curves,
            tables=report.paper,
            sections=_sections(report),
            cases=report.cases,
            facts=how(report),
        )
    )


def _drawn(one: Mapping[str, Any]) -> bool:
    """The declared contrasts, and their variants, gaps and turn lengths."""
    overall = one["condition"] == "all" and one["measure"] == "reward"
    return bool(one["primary"] or (one["measure"] in HEADLINE.values() and not overall))


def _sections(report: Report) -> list[Section]:
    systems = "".join(systems_table(table) for table in report.tables)
    found = [
        Section("measures", "All measures", paired_table(report)),
        Section("systems", "Systems and policies", f'<p class="sub">{SYSTEMS_NOTE}</p>{systems}'),
    ]
    if report.curves:
        from eval.figures import learning_curve_svg  # matplotlib costs memory and half a second

        drawing = learning_curve_svg(report.curves)
        curve = f'<p class="sub">{CURVE_NOTE}</p><div class="curve">{drawing}</div>'
        found += [Section("training", "How training went", curve)] if drawing else []
    return found


CURVE_NOTE = (
    "Means of each step&rsquo;s completions on training prompts; thin lines are single steps."
)
SYSTEMS_NOTE = (
    "Each number is over the system's own complete answers, so look at the column "
    "<i>complete</i> first. ± is the standard deviation from run to run on the same requests "
    "(sampling noise), not an error bar for new tasks. PUBLIC and PRIVATE are matched: the same "
    "stories and holders, complete in both. The grey rows are fixed answers, scored by the same "
    "reader: what copying is worth."
)


def headline(report: Report) -> tuple[str, str, str]:
    """The first sentence in three parts, the middle one to be stressed."""
    if report.recipes:
        return recipe_lead(report.recipes[0])[0]
    one = report.contrasts[0]
    names = f"{report.trained} against {report.base} in {one['label']}:"
    if one["difference"] is None:
        return names, "nothing to compare", f"({one['reason']})."
    numbers = signed(one["difference"], one["unit"])
    tail = one["reason"] if one["low"] is None else f"95 % interval {interval(one)}"
    return names, numbers, f"({tail}). {VERDICTS[one['verdict']].format(report.trained)}"


VERDICTS = {
    "better": "{} is better.",
    "worse": "{} is worse.",
    "no difference shown": "No difference is shown.",
    "inconclusive": "Interval and test disagree: inconclusive.",
    "too few tasks": "",
    "no pairs": "",
}


def basis(report: Report) -> str:
    """What the first number rests on."""
    if report.recipes:
        return recipe_lead(report.recipes[0])[1]
    one, facts = report.contrasts[0], report.plan_facts
    parts = [
        f"{number(one['base'], one['unit'])} became {number(one['trained'], one['unit'])}",
        f"p {p_value(one['p'])} by sign flips of source tasks",
        f"{one['items']:,} of {facts['requests']:,} requests, "
        f"{facts['config']['runs']} runs each, from {one['clusters']} source tasks",
        f"both replied in {one['cells']:,} of {one['planned']:,} cells",
    ]
    if one["difference"] is None:
        return "; ".join(parts[2:]) + "."
    return "; ".join(parts) + "."


def how(report: Report) -> list[tuple[str, str]]:
    """The facts needed to run it again, as (name, value)."""
    facts = report.plan_facts
    config = facts["config"]
    sampling = ", ".join(f"{name} {value}" for name, value in config["sampling"].items())
    weights = ", ".join(f"{name} {value}" for name, value in config["reward"].items())
    found = [
        ("plan", str(facts["plan_hash"])),
        ("requests", f"{facts['requests']} from {facts['source_tasks']} source tasks"),
        ("cells", ", ".join(f"{name} {count}" for name, count in facts["counts"].items())),
        ("runs", str(config["runs"])),
        ("answers", report.answers),
        ("sampling", sampling),
        ("reward", weights),
    ]
    for one in report.identities:
        states = ", ".join(f"{name} {count}" for name, count in report.states[one.system].items())
        found.append(
            (
                f"system {one.system}",
                f"{one.model} by {one.engine}, fingerprint {one.fingerprint}; "
                f"{states}; {report.tokens[one.system]:,} tokens written"
                f"{'; ' if report.probes[one.system] else ''}{report.probes[one.system]}",
            )
        )
    found.append(("versions", ", ".join(f"{name} {v}" for name, v in report.versions.items())))
    return found

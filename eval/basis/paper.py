"""BASIS tables in the shape papers print them: domains x turns x dimensions, and turn curves."""

from collections.abc import Mapping, Sequence

from eval.basis.cells import ALL, MEASURES, Unit, chosen, places, summarize
from eval.basis.compare import BETWEEN
from eval.metrics import Rows
from eval.paper import PLUS_MINUS, Cell, PaperTable, Row, difference_cell
from eval.paper_calendar import TurnCurve, point

SHOWN = ("belief", "profile", "solution", "avg")


def basis_tables(contrasts: Sequence[Row]) -> list[PaperTable]:
    """One table for each setting: domains and systems by prefix and dimension."""
    found = [
        one for one in contrasts if one["comparison"] == BETWEEN and one["subset"] == ALL
    ]  # fmt: skip
    settings = dict.fromkeys(one["setting"] for one in found)
    return [setting_table([o for o in found if o["setting"] == name], name) for name in settings]


def setting_table(found: Sequence[Row], setting: str) -> PaperTable:
    """``found``: the contrasts of one setting, over all instances."""
    turns = sorted({one["turns"] for one in found})
    measures = [name for name in SHOWN if any(one["measure"] == name for one in found)]
    at = {(one["domain"], one["turns"], one["measure"]): one for one in found}
    places_shown = [(n, name) for n in turns for name in measures]
    lines: list[tuple[tuple[str, ...], tuple[Cell, ...]]] = []
    for domain in dict.fromkeys(one["domain"] for one in found):
        here = [at.get((domain, n, name)) for n, name in places_shown]
        first = next(one for one in here if one is not None)
        for side, system in zip(("base", "trained"), first["arms"], strict=True):
            lines.append(((domain, system), tuple(_mean(one, side) for one in here)))
        cells = tuple(Cell() if one is None else difference_cell(one) for one in here)
        lines.append(((domain, "difference"), cells))
    return PaperTable(
        f"domains-{setting}",
        f"Domains, turns and dimensions: {setting}",
        "Share of criteria met, over instances with a score for both systems; "
        f"{PLUS_MINUS}: run-to-run std on frozen inputs; in brackets the 95 % cluster interval of "
        "the difference, in points.",
        ("domain", "system"),
        tuple(MEASURES[name].label for _, name in places_shown),
        tuple(lines),
        tuple((f"{n} turns", len(measures)) for n in turns),
    )


def _mean(one: Row | None, side: str) -> Cell:
    if one is None:
        return Cell()
    return Cell(one[side], one["unit"], std=one[f"{side}_run_std"], n=one["items"])


def basis_curves(units: Sequence[Unit], rows: Mapping[str, Rows], runs: range) -> list[TurnCurve]:
    """For each setting its AVG (its solution, where it gives only that) by prefix, by system."""
    by_setting: dict[str, dict[int, str]] = {}
    for one in places(units):
        measure = "avg" if "avg" in one.measures else one.measures[0]
        by_setting.setdefault(one.setting, {})[one.turns] = measure
    found = []
    for setting, measures in by_setting.items():
        at = {one.turns: one for one in places(units) if one.setting == setting}
        lines = []
        for system, held in rows.items():
            means = [
                (n, summarize(chosen(units, at[n], ALL, ALL), measures[n], held, runs))
                for n in sorted(measures)
            ]
            lines.append((system, tuple(point(n, one) for n, one in means if one.cells)))
        label = MEASURES[next(iter(measures.values()))].label
        found.append(TurnCurve(f"{setting}: {label}", tuple(lines)))
    return [one for one in found if any(points for _, points in one.lines)]

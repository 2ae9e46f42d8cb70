"""What a report says of recipes with several checkpoints: the first sentence, and a table."""

from collections.abc import Sequence

from eval.formatting import interval, number, p_value, signed
from eval.paper import Cell, PaperTable, Row, arms, where

NOTE = (
    "Mean over the checkpoints (training seeds) of a recipe, each against its base on the same "
    "requests, runs averaged first. Checkpoints and source tasks are both random: Var = Var(tasks) "
    "+ Var(checkpoints), Satterthwaite degrees of freedom. The interval over tasks alone is for "
    "new tasks and these very checkpoints. p adjusted by Holm over the declared rows."
)


def checkpoint_tables(recipes: Sequence[Row]) -> list[PaperTable]:
    """The declared contrasts of recipes; empty where no recipe was compared."""
    shown = [one for one in recipes if one["primary"]]
    table = PaperTable(
        "checkpoints",
        "Over training checkpoints",
        NOTE,
        ("comparison", "measure"),
        (
            "mean difference",
            "by checkpoint",
            "df",
            "p",
            "Holm",
            "tasks alone",
            "items (tasks)",
            "covered",
            "bounds",
            "incomplete = wrong",
            "verdict",
        ),
        tuple(((arms(one), where(one)), _cells(one)) for one in shown),
    )
    return [table] if shown else []


def _cells(one: Row) -> tuple[Cell, ...]:
    unit = one["unit"]
    tasks = bounds = ""
    if one["tasks_low"] is not None:
        tasks = f"{signed(one['tasks_low'], unit)} to {signed(one['tasks_high'], unit)}"
    if one["bound_low"] is not None:
        bounds = f"{signed(one['bound_low'], unit)} to {signed(one['bound_high'], unit)}"
    return (
        Cell(
            one["difference"], unit, low=one["low"], high=one["high"], n=one["items"], signed=True
        ),
        Cell(text=each(one)),
        Cell(None if one["df"] is None else round(one["df"], 1), "plain"),
        Cell(one["p"], "p"),
        Cell(one["p_holm"], "p"),
        Cell(text=tasks),
        Cell(text=f"{one['items']:,} ({one['clusters']})"),
        Cell(text=f"{one['cells']:,} of {one['planned']:,}"),
        Cell(text=bounds),
        Cell(one["if_incomplete_wrong"], unit, signed=True),
        Cell(text=f"{one['verdict']} ({one['reason']})" if one["reason"] else one["verdict"]),
    )


def each(one: Row) -> str:
    """The differences of the checkpoints, in their order."""
    return ", ".join(signed(found, one["unit"]) for found in one["by_checkpoint"])


def recipe_lead(one: Row) -> tuple[tuple[str, str, str], str]:
    """The first sentence in three parts, the middle one to be stressed, and what it rests on."""
    base, trained = one["arms"]
    count = len(one["members"])
    names = f"{trained} against {base}, mean over {count} checkpoints, {one['label']}:"
    if one["difference"] is None:
        return (names, "nothing to compare", f"({one['reason']})."), ""
    tail = one["reason"] or f"95 % interval over tasks and checkpoints {interval(one)}"
    sentence = (names, signed(one["difference"], one["unit"]), f"({tail}): {one['verdict']}.")
    df = "" if one["df"] is None else f" with {one['df']:.1f} degrees of freedom"
    parts = [
        f"{number(one['base'], one['unit'])} became {number(one['trained'], one['unit'])}",
        f"checkpoint by checkpoint {each(one)}",
        f"p {p_value(one['p'])}{df}",
        f"{one['items']:,} requests from {one['clusters']} source tasks",
        f"both replied in {one['cells']:,} of {one['planned']:,} cells",
    ]
    return sentence, "; ".join(parts) + "."

"""Recipes: several checkpoints against one base or pair by pair, by hand and end to end."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from configs.errors import UserError
from eval.__main__ import main
from eval.checkpoints import adjusted, recipe_contrast
from eval.compare import compare
from eval.measures import ALL
from eval.metrics import Group
from eval.plan import Plan
from eval.repeats import Pair
from eval.scoring import score_policies, score_system
from tasks.calbench.policies import initial_copy, right_answer
from tasks.calbench.reference import parse
from tests.eval.stories import make_plan, some
from tests.eval.test_scoring import Response, store

OPTIMAL = Group(ALL["optimal"], "direct", "all")


def pairs(base: Sequence[float | None], trained: Sequence[float | None]) -> list[Pair]:
    """One request of each of as many source tasks."""
    both = zip(base, trained, strict=True)
    return [Pair((f"r{n}", 1), f"s{n}", b, t) for n, (b, t) in enumerate(both)]


def test_two_checkpoints_on_eight_tasks_by_hand() -> None:
    """Right on 6 and on 4 of 8 tasks, the base on none.

    Differences .75 and .5: variance of their mean .03125 / 2. Of the tasks' means 1 1 1 1 .5 .5 0 0
    around .625 the squares sum to 1.375: variance 8/7 x 1.375 / 64.
    """
    base: list[float | None] = [0.0] * 8
    planned = [pairs(base, [1] * 6 + [0] * 2), pairs(base, [1] * 4 + [0] * 4)]
    found = recipe_contrast(OPTIMAL, planned, True)
    assert found.by_checkpoint == (0.75, 0.5)
    assert (found.base, found.trained, found.difference) == (0.0, 0.625, 0.625)
    of_tasks, of_seeds = 8 / 7 * 1.375 / 64, 0.015625
    df = (of_tasks + of_seeds) ** 2 / (of_tasks**2 / 7 + of_seeds**2)
    assert found.df == pytest.approx(df) == pytest.approx(4.888, abs=1e-3)
    half = 2.588410 * 0.200446  # t(.975, 4.888) sqrt(.0401786)
    assert (found.low, found.high) == pytest.approx((0.625 - half, 0.625 + half), abs=1e-5)
    tasks = 2.364624 * 0.156696  # t(.975, 7) sqrt(.0245536)
    assert (found.tasks_low, found.tasks_high) == pytest.approx(
        (0.625 - tasks, 0.625 + tasks), abs=1e-5
    )
    assert (found.items, found.clusters, found.cells, found.planned) == (8, 8, 16, 16)
    assert (found.reason, found.verdict) == ("", "better")


def test_each_base_meets_its_own_checkpoint_where_both_have_values() -> None:
    first = pairs([1, 0, None, 0, 0, 0, 0, 0, 0], [1] * 9)
    second = pairs([0] * 9, [1, 1, 1, 1, 0, 0, None, 0, 0])
    found = recipe_contrast(OPTIMAL, [first, second], True)
    # shared: all but r2 and r6; r0 gives 0 and 1
    assert found.by_checkpoint == pytest.approx((6 / 7, 3 / 7))
    assert (found.items, found.clusters, found.cells, found.planned) == (7, 7, 16, 18)
    assert (found.low, found.p, found.df, found.verdict) == (None, None, None, "too few tasks")
    assert found.reason == "7 source tasks, fewer than 8: no interval over both"
    # all 18 cells: 8 - 1 and 4 won, the two without a value at worst -1 + 1 and 0 - 0
    assert (found.bound_low, found.bound_high) == pytest.approx((11 / 18, 13 / 18))
    assert found.if_incomplete_wrong == pytest.approx(12 / 18)


def test_one_checkpoint_or_nothing_shared_is_no_number_over_checkpoints() -> None:
    one = recipe_contrast(OPTIMAL, [pairs([0] * 9, [1] * 6 + [0] * 3)], True)
    assert (one.low, one.p, one.verdict) == (None, None, "one checkpoint: unknown")
    assert one.reason == "1 checkpoint, fewer than 2: no interval over both"
    assert one.tasks_low is not None
    none = recipe_contrast(OPTIMAL, [pairs([0], [1]), pairs([0], [None])], True)
    assert (none.difference, none.verdict) == (None, "no pairs")
    assert none.reason == "checkpoint 2: trained has no value in any of the 1 cells"
    apart = [pairs([0, 0], [1, None]), pairs([0, 0], [None, 1])]
    assert recipe_contrast(OPTIMAL, apart, True).reason == (
        "no request that every checkpoint and its base completed"
    )


def test_differences_of_differences_are_higher_or_lower() -> None:
    planned = [pairs([0] * 8, [1] * 6 + [0] * 2), pairs([0] * 8, [1] * 5 + [0] * 3)]
    found = recipe_contrast(OPTIMAL, planned, False, plain=False)
    assert (found.verdict, found.bound_low) == ("higher", None)


def test_declared_ones_are_adjusted_apart_from_the_rest() -> None:
    one = recipe_contrast(OPTIMAL, [pairs([0] * 8, [1] * 6 + [0] * 2)] * 2, True)
    made = [replace(one, p=0.01), replace(one, p=0.04), replace(one, primary=False, p=0.5)]
    found = adjusted([*made, replace(one, p=None)])
    assert [x.p_holm for x in found] == [0.02, 0.04, None, None]
    assert [x.q for x in found] == [None, None, 0.5, None]


@pytest.fixture(scope="module")
def trained_thrice(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Checkpoint n is right but for every (n + 2)th request; warm ones copy the start."""
    asked = some(400, tasks=9)
    plan = make_plan(tmp_path_factory.mktemp("recipes"), asked)
    for seed in range(3):
        for name in (f"warm-{seed}", f"grpo-{seed}"):
            wrong = initial_copy
            rows = [
                Response(
                    one.id,
                    1,
                    "ok",
                    (right_answer if name[0] == "g" and n % (seed + 2) else wrong)(
                        parse(one.target)
                    ),
                )
                for n, one in enumerate(asked)
            ]
            store(plan, rows, name)
            score_system(plan, name)
    score_policies(plan)
    return plan


WARM, GRPO = "warm=warm-0,warm-1,warm-2", "grpo=grpo-0,grpo-1,grpo-2"


def test_a_recipe_is_compared_pair_by_pair_and_reported(
    trained_thrice: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained_thrice.folder
    assert main(["compare", str(folder), "--base", WARM, "--trained", GRPO]) == 0
    said = capsys.readouterr().out
    assert "grpo-1 - warm-1, composed reward (all): +" in said
    found = compare(trained_thrice, WARM, [GRPO])
    reward = found["recipes"][0]
    assert (reward["measure"], reward["condition"], reward["primary"]) == ("reward", "all", True)
    assert reward["members"] == [[f"warm-{n}", f"grpo-{n}"] for n in range(3)]
    alone = [
        one["difference"]
        for one in found["contrasts"]
        if (one["measure"], one["condition"], one["variant"]) == ("reward", "all", "all")
    ]
    assert reward["by_checkpoint"] == pytest.approx(alone)
    assert reward["difference"] == pytest.approx(sum(alone) / 3)
    assert reward["df"] is not None and 2 < reward["df"] < 11
    shown = re.search(r"grpo - warm over 3 checkpoints \((.*)\), composed reward \(all\): ", said)
    assert shown and shown[1].count(",") == 2
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "grpo against warm, mean over 3 checkpoints, composed reward:" in page
    text = (folder / "report.md").read_text()
    assert "## Over training checkpoints" in text and "checkpoint by checkpoint +" in text
    assert (
        "checkpoints,grpo \N{MINUS SIGN} warm / composed reward,mean difference,"
        in (folder / "report.csv").read_text()
    )


def test_one_base_meets_every_checkpoint(trained_thrice: Plan) -> None:
    found = compare(trained_thrice, "warm-0/direct", ["grpo=grpo-0,grpo-1/direct"])
    first = found["recipes"][0]
    assert first["arms"] == ["warm-0/direct", "grpo/direct"]
    assert first["members"] == [["warm-0/direct", f"grpo-{n}/direct"] for n in (0, 1)]
    assert any(text.startswith("grpo/direct: 2 checkpoints;") for text in found["warnings"])
    assert compare(trained_thrice, "warm-0", ["grpo-0"])["recipes"] == []


REFUSED = [
    (WARM, "grpo=grpo-0,grpo-1", "warm has 3 checkpoints, grpo 2; name as many"),
    (WARM, "grpo=grpo-0,,grpo-1", "write a recipe as NAME=SYSTEM,SYSTEM,..."),
    (WARM, "grpo=grpo-0,grpo-0,grpo-1", "each once"),
    (WARM, "grpo=grpo-0,grpo-1,grpo-9", "no answers of 'grpo-9'"),
    (WARM, "warm=grpo-0,grpo-1,grpo-2", "'warm' is named twice"),
    ("warm-0", "grpo=warm-0,grpo-1", "'warm-0' is named twice"),
]


@pytest.mark.parametrize(("base", "trained", "expected"), REFUSED)
def test_recipes_that_cannot_be_compared(
    trained_thrice: Plan, base: str, trained: str, expected: str
) -> None:
    with pytest.raises(UserError, match=re.escape(expected)):
        compare(trained_thrice, base, [trained])

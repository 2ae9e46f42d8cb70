"""python -m pytest tests/tasks/basis/test_overlap.py -v"""

from dataclasses import replace
from pathlib import Path

import pytest

from configs.errors import UserError
from tasks.basis.collection import read_instances
from tasks.basis.instances import Instance, Turn
from tasks.basis.overlap import check_apart, overlaps
from tests.shared_data import shared_file
from tests.train.basis_data import HELD_OUT, THINGS, users

from .small_instances import instances


def trained(folder: Path) -> tuple[Instance, ...]:
    return instances(folder, *users(THINGS))


def held_out(folder: Path) -> tuple[Instance, ...]:
    return instances(folder, *users(HELD_OUT))


LONG = (
    "The pump in our cellar starts every night at three although nobody uses any water then and "
    "the meter stands still"
)


def changed_words(text: str, every: int) -> str:
    """The text with every n-th word replaced."""
    words = text.split()
    for place in range(every - 1, len(words), every):
        words[place] = f"other{place}"
    return " ".join(words)


def test_different_users_are_apart(tmp_path: Path) -> None:
    check_apart(trained(tmp_path), held_out(tmp_path))


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (lambda one, test: replace(one, id=test.id), "'swe_0901' has the same id as test"),
        (lambda one, test: replace(one, group=test.group), "the same source item as test instance"),
        (
            lambda one, test: replace(test, id="new", group="new"),
            "'new' has the same texts as test instance 'swe_0901'",
        ),
        (
            lambda one, test: replace(one, belief=f"Well, {LONG}, says he."),
            "shares a run of 13 words of its belief with test instance 'swe_0901'",
        ),
        (
            lambda one, test: replace(one, observation=changed_words(LONG, 7), instruction=""),
            r"near-duplicate \(\d\d% of the word trigrams of its scene\) of test instance",
        ),
    ],
)
def test_what_gives_a_test_instance_away_is_named_with_both_ids(
    tmp_path: Path, change: object, how: str
) -> None:
    first, *others = trained(tmp_path)
    test = replace(held_out(tmp_path)[0], belief=LONG, observation=LONG, instruction="Stop it.")
    bad = change(first, test)  # type: ignore[operator]
    with pytest.raises(UserError, match=how) as refused:
        check_apart([*others, bad], [test])
    assert str(refused.value).endswith("; take it out of the training data")
    assert "\n" not in str(refused.value)


def test_how_many_overlap_is_said(tmp_path: Path) -> None:
    bad = [replace(one, id=f"copy-{one.id}", group="g") for one in held_out(tmp_path)]
    with pytest.raises(UserError, match=r"'copy-swe_0901' .* \(one of 2 such instances\)"):
        check_apart([*trained(tmp_path), *bad], held_out(tmp_path))


def reworded(one: Instance, every: int) -> Instance:
    """A copy under another id and group with every n-th word of every text changed."""
    return replace(
        one,
        id=f"copy-{one.id}",
        group=f"copy-{one.id}",
        observation=changed_words(one.observation, every),
        instruction=changed_words(one.instruction, every),
        belief=changed_words(one.belief, every),
        profile=changed_words(one.profile, every),
        true_state=changed_words(one.true_state, every),
        turns=tuple(
            Turn(
                t.number, changed_words(t.action, every), changed_words(t.observation or "", every)
            )
            for t in one.turns
        ),
    )


def test_real_instances_are_told_from_each_other_and_from_their_copies() -> None:
    found = read_instances([shared_file("basis", "synchtom")]).instances
    odd, even = found[::2], found[1::2]
    groups = {one.group for one in even}
    # Sisters apart, no instance of one half is taken for one of the other.
    assert not list(overlaps([one for one in odd if one.group not in groups], even))
    assert len(list(overlaps([reworded(one, 6) for one in found], found))) == len(found)
    assert len(list(overlaps([reworded(one, 3) for one in found], found))) < len(found) / 10

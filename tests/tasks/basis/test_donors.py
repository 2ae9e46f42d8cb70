"""Shuffle: a derangement within the domain, never oneself or a sister, drawn once and saved."""

import json
from pathlib import Path

import pytest

from configs.errors import UserError
from tasks.basis.collection import read_instances
from tasks.basis.donors import donors_for, draw_donors, read_donors
from tasks.basis.instances import Instance
from tests.shared_data import shared_file
from tests.tasks.basis.small_instances import instances, record


def grouped(folder: Path, groups: str) -> tuple[Instance, ...]:
    """One instance a letter; equal letters are sisters."""
    return instances(folder, *(record(f"i{n}", group=g) for n, g in enumerate(groups)))


def check(read: tuple[Instance, ...], donors: dict[str, str]) -> None:
    known = {one.id: one for one in read}
    assert donors.keys() == known.keys()
    assert sorted(donors.values()) == sorted(known)
    for taker, giver in donors.items():
        assert known[taker].group != known[giver].group
        assert known[taker].domain == known[giver].domain


@pytest.mark.parametrize("seed", range(20))
def test_real_donors_are_a_derangement_without_sisters(seed: int) -> None:
    read = read_instances([shared_file("basis", "synchtom")], strict=True).instances
    check(read, draw_donors(read, seed))


@pytest.mark.parametrize("groups", ["ab", "aabb", "aaabbb", "aabc", "abcdefgh", "aaabbcd"])
def test_every_possible_one_is_found(tmp_path: Path, groups: str) -> None:
    read = grouped(tmp_path, groups)
    for seed in range(10):
        check(read, draw_donors(read, seed))


@pytest.mark.parametrize("groups", ["a", "aa", "aab", "aaabb"])
def test_an_impossible_one_is_refused(tmp_path: Path, groups: str) -> None:
    with pytest.raises(UserError, match="belong to 'a', so some would get notes of a sister"):
        draw_donors(grouped(tmp_path, groups), 0)


def test_seed_decides_and_order_does_not(tmp_path: Path) -> None:
    read = grouped(tmp_path, "abcdefghij")
    assert draw_donors(read, 0) == draw_donors(read[::-1], 0)
    assert len({json.dumps(draw_donors(read, seed), sort_keys=True) for seed in range(10)}) == 10


def test_saved_once_then_read_whatever_the_seed(tmp_path: Path) -> None:
    read = grouped(tmp_path, "abcdef")
    path = tmp_path / "new" / "donors.json"
    first = donors_for(read, 0, path)
    text = path.read_text()
    assert donors_for(read, 1, path) == first != draw_donors(read, 1)
    assert path.read_text() == text
    assert [file.name for file in path.parent.iterdir()] == ["donors.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"i0": "i0"}, "i0 has donor 'i0', which is itself or a sister"),
        ({"i0": "i1"}, "i0 has donor 'i1', which is itself or a sister"),
        ({"i0": "i3"}, "i1 has donor 'i3', which 'i0' has too"),
        ({"i0": "i9"}, "i0 has donor 'i9', not loaded"),
        ({"i0": 3}, "is not a map of instance ids to donor ids"),
    ],
)
def test_a_saved_one_that_does_not_fit(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    read = grouped(tmp_path, "aabb")
    path = tmp_path / "donors.json"
    path.write_text(json.dumps({"i0": "i2", "i1": "i3", "i2": "i0", "i3": "i1"} | changes))
    with pytest.raises(UserError) as caught:
        read_donors(path, read)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    path.write_text("{}")
    with pytest.raises(UserError, match="i0 has no donor"):
        read_donors(path, read)

"""All real instances: every anomaly of the release that the data specification lists is found."""

import json
from collections import Counter
from functools import cache

from tasks.basis.collection import Collection, read_instances
from tasks.basis.faults import Faults
from tasks.basis.flags import COUNTED
from tasks.basis.instances import Instance, LeakKind
from tasks.basis.turns import read_turn
from tests.shared_data import shared_file


@cache
def real() -> Collection:
    return read_instances([shared_file("basis", "synchtom")], strict=True)


@cache
def raw() -> Collection:
    return read_instances([shared_file("basis", "synchtom_raw")], strict=True)


def by_id() -> dict[str, Instance]:
    return {one.id: one for one in real().instances}


def ids(text: str, prefix: str = "") -> set[str]:
    return {prefix + name for name in text.split()}


def leaking(kind: LeakKind) -> dict[str, tuple[int, ...]]:
    return {
        one.id: leak.turns
        for one in real().instances
        for leak in one.flags.leaks
        if leak.kind == kind
    }


def test_all_313_load_in_strict_mode_by_domain() -> None:
    domains = Counter(one.domain for one in real().instances)
    assert domains == {"swe": 81, "pref": 96, "culture": 56, "education": 80}
    assert real().faults == ()
    assert {len(one.turns) for one in real().instances} == {10}
    education = {one.subdomain for one in real().instances if one.domain == "education"}
    assert len(education) == 3


def test_missing_and_empty_observations_are_told_apart() -> None:
    turns = [(one.id, turn) for one in real().instances for turn in one.turns]
    missing = {(name, turn.number) for name, turn in turns if turn.observation is None}
    empty = {(name, turn.number) for name, turn in turns if turn.observation == ""}
    assert {number for _, number in missing} == {10}
    assert {name for name, _ in missing} == ids("pref_0005 pref_0094 swe_0023 swe_0046 swe_0047")
    assert empty == {("swe_0033", 4), ("swe_0081", 6), ("swe_0081", 8), ("swe_0081", 10)}


def test_texts_are_the_files_texts_to_the_letter() -> None:
    edges = 0
    for file in real().files:
        rows = [json.loads(line) for line in file.path.read_text(encoding="utf-8").splitlines()]
        for row, one in zip(rows, file.instances, strict=True):
            seen = [turn.get("observation") for turn in row["trajectory_inline"]]
            assert [turn.observation for turn in one.turns] == seen
            assert [turn.action for turn in one.turns] == [
                turn["action"] for turn in row["trajectory_inline"]
            ]
            edges += sum(text is not None and text != text.strip() for text in seen)
    assert edges == 29
    assert str(by_id()["swe_0073"].turns[7].observation).endswith(" ")


def test_author_only_keys_are_counted() -> None:
    dropped = sum((Counter(file.dropped) for file in real().files), Counter[str]())
    assert dropped == {"red_herring": 17}


def test_hidden_keys_of_the_synthetic_turns_never_show() -> None:
    path = shared_file("basis", "synchtom_raw", "synthetic_hidden_keys.json")
    listed = json.loads(path.read_text())["trajectory"]
    dropped, faults = Counter[str](), Faults(strict=True)
    turns = [read_turn(one, n, "x", dropped, faults) for n, one in enumerate(listed, 1)]
    assert "HIDDEN" in path.read_text()
    assert "HIDDEN" not in repr(turns)
    assert dropped == {
        "interpretation": 1,
        "observation_hidden_context": 1,
        "red_herring": 1,
        "thought": 1,
    }


def test_leaks_are_flagged_with_their_turns() -> None:
    assert leaking("leaks_truth") == {"swe_0012": tuple(range(1, 11))}
    assert leaking("red_herring_note") == {
        "culture_0654": (2, 7, 9),
        "edu_0075": (2, 5, 8),
        "pref_0051": (2, 5, 7),
    }
    assert leaking("author_note") == {
        "swe_0004": (5, 8),
        "swe_0008": (4,),
        "swe_0040": (4, 5, 9, 10),
        "swe_0082": (10,),
        "swe_0092": (10,),
        "swe_0098": (10,),
    }
    told = ids("0004 0011 0015 0018 0025 0026 0040 0043 0051 0052 0053 0061", "swe_")
    told |= ids("swe_0083 swe_0085 swe_0097 swe_0098 swe_00104")
    told |= ids("culture_0580 pref_0022 pref_0118 pref_00122")
    assert leaking("narrates_belief").keys() == told
    said = leaking("says_true_state")
    assert said.pop("swe_0012") == tuple(range(1, 11))  # the generator's instruction says it too
    assert said == {"edu_0043": (7,), "edu_0090": (10,), "swe_0008": (4,)}


def test_30_of_the_instances_leak_by_the_counted_kinds() -> None:
    flagged = [
        one.domain
        for one in real().instances
        if any(leak.kind in COUNTED for leak in one.flags.leaks)
    ]
    assert Counter(flagged) == {"swe": 21, "pref": 4, "culture": 2, "education": 3}


def test_criteria_that_ask_for_an_unseen_letter() -> None:
    letters = {one.id: one.flags for one in real().instances if one.flags.letter_criteria}
    listed = "0006 0017 0018 0019 0023 0032 0035 0042 0045 0047 0048 0054 0056 0060 0070 0084 0085"
    assert letters.keys() == ids(f"{listed} 0092 0095 0096 0099", "edu_")
    assert sum(len(flags.letter_criteria) for flags in letters.values()) == 33
    assert sum(len(flags.unanswerable) for flags in letters.values()) == 25


def test_terms_coarse_rubrics_labels_and_long_ids() -> None:
    terms = {one.id for one in real().instances if one.flags.term_criteria}
    assert terms >= ids("culture_0186 culture_0212 pref_0004 pref_0025 pref_0029 pref_0102")
    assert terms >= ids("swe_0050 swe_0060")
    assert {one.id for one in real().instances if one.flags.coarse} == ids(
        "culture_0106 culture_0143 culture_0154 culture_0645 culture_0655 edu_0047 edu_00102 "
        "swe_0060 swe_0070"
    )
    labels = {one.id for one in real().instances if one.flags.option_label}
    assert labels == ids("edu_0010 edu_0013 edu_0053 edu_0099")
    assert ids("edu_00101 edu_00102 edu_00105 pref_00121 pref_00122 swe_00104") <= by_id().keys()


def test_sisters_share_a_group_and_nobody_else_does() -> None:
    groups: dict[str, list[str]] = {}
    for one in real().instances:
        groups.setdefault(one.group, []).append(one.id)
    shared = [members for members in groups.values() if len(members) > 1]
    assert len(shared) == 23
    assert ["culture_0010", "culture_0011"] in shared
    assert all(len(members) == 2 and members[0][:7] == "culture" for members in shared)
    assert len({one.fingerprint() for one in real().instances}) == 313


def test_the_releases_own_layout_gives_the_same_instances() -> None:
    assert len(raw().instances) == 23
    for one in raw().instances:
        same = by_id().get(one.id)
        assert same is None or (one.turns, one.rubrics, one.flags, one.group) == (
            same.turns,
            same.rubrics,
            same.flags,
            same.group,
        )
    assert sum(one.id in by_id() for one in raw().instances) >= 20
    stray = [name for file in raw().files for name in file.unreferenced]
    assert stray == ["trajectories/culture-benchmark/culture_0099.json"]
    assert [path.name for path in raw().ignored] == ["synthetic_hidden_keys.json"]

"""Anomalies that travel with an instance: leaks with their turns, criteria with their places."""

from pathlib import Path

import pytest

from tasks.basis.instances import Leak, LeakKind, Place
from tests.tasks.basis.small_instances import RUBRICS, instance, record, turns

TRUE = record()["true_latent_state"]
LEAKS: list[tuple[str, str, LeakKind | None]] = [
    ("observation", f"MUST reflect True State '{TRUE}'. -> dark", "leaks_truth"),
    ("observation", f"So {TRUE.upper()}!", "leaks_truth"),
    ("observation", "The bulb is worn out.", None),
    ("action", "Check the switch (Red Herring).", "red_herring_note"),
    ("action", "Cook a red herring.", None),
    ("observation", "Dark. (Note: the bulb is old.)", "author_note"),
    ("observation", "Dark. (System Note: the bulb is old.)", "author_note"),
    ("observation", "The label says: 'Note: 40 W'.", None),
    ("observation", "Dark. The user believes it was the fuse.", "narrates_belief"),
    ("observation", "Dark. The user still assumes a short.", "narrates_belief"),
    ("observation", "This confirms the user's belief.", "narrates_belief"),
    ("observation", "The user clicks on 'believe'.", None),
    ("observation", "(User interprets this as a short.)", "comments_on_user"),
    ("observation", "The user ignores the bulb.", "comments_on_user"),
    ("observation", "This is the true state of the lamp.", "says_true_state"),
    ("observation", "It is true. State it.", None),
]


@pytest.mark.parametrize(("key", "text", "kind"), LEAKS, ids=[text for _, text, _ in LEAKS])
def test_leaks_name_their_turn(tmp_path: Path, key: str, text: str, kind: LeakKind | None) -> None:
    read = instance(tmp_path, trajectory_inline=turns(t4={key: text}))
    kinds = {leak.kind: leak.turns for leak in read.flags.leaks}
    if kind is None:
        assert kinds == {}
    else:
        assert kinds[kind] == (4,)


def test_a_leak_lists_all_its_turns(tmp_path: Path) -> None:
    note = {"observation": "(Note: x)"}
    read = instance(tmp_path, trajectory_inline=turns(t2=note, t9=note))
    assert read.flags.leaks == (Leak("author_note", (2, 9)),)


CRITERIA: list[tuple[str, bool, bool]] = [
    # criterion, names an unseen letter, offers no other wording
    ("Identifies 'Option B' as right.", True, True),
    ("Recommends Answer C.", True, True),
    ("Recommends 'the bulb' or 'Option B'.", True, False),
    ("Mentions 'Option B' or the bulb.", True, False),
    ("Names Option A as the user's choice.", False, False),  # the letter is visible, see below
    ("Names a vitamin B option.", False, False),
    ("Gives an option before acting.", False, False),
    ("Answers a question.", False, False),
]


@pytest.mark.parametrize(("criterion", "unseen", "hopeless"), CRITERIA)
def test_criteria_that_ask_for_a_letter(
    tmp_path: Path, criterion: str, unseen: bool, hopeless: bool
) -> None:
    criteria = [{"criterion": "Names the bulb."}, {"criterion": criterion}]
    read = instance(
        tmp_path,
        rubrics=RUBRICS | {"correct_resolution": criteria},
        trajectory_inline=turns(t8={"observation": "The slip shows Option A."}),
    )
    place: tuple[Place, ...] = (("solution", 1),)
    assert read.flags.letter_criteria == (place if unseen else ())
    assert read.flags.unanswerable == (place if hopeless else ())


def test_internal_terms_coarse_rubrics_and_labels(tmp_path: Path) -> None:
    criteria = [{"criterion": "States the TRUE latent state."}]
    read = instance(
        tmp_path,
        rubrics=RUBRICS | {"user_profile_modeling": criteria},
        user_latent_belief="Blown fuse",
    )
    assert read.flags.term_criteria == (("profile", 0),)
    assert read.flags.coarse == ("belief",)
    assert read.flags.option_label
    assert not instance(tmp_path).flags.option_label


@pytest.mark.parametrize(
    ("domain", "flagged"),
    [
        ("Software Engineering", False),
        ("Culture", True),
        ("Science / Assessment", True),
        ("x", False),
    ],
)
def test_a_domain_text_that_names_another_domain_than_the_file(
    tmp_path: Path, domain: str, flagged: bool
) -> None:
    read = instance(tmp_path, domain=domain)
    assert (read.domain, read.flags.other_domain) == ("swe", flagged)

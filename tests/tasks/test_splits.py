"""Two splits never share a source task, by id or by content."""

from dataclasses import replace

import pytest

from configs.data import CalbenchData, GeneratedTasks
from configs.errors import UserError
from tasks.calbench.examples import examples
from tasks.splits import check_disjoint

SMALL = GeneratedTasks(agents=4, slots=6, meetings=2, participants=3, count=3)
TRAIN = list(examples(CalbenchData(split="train", generated=SMALL)))
TEST = list(examples(CalbenchData(split="test", generated=SMALL)))


def test_generated_splits_are_disjoint() -> None:
    check_disjoint(TRAIN, TEST)
    assert {one.source for one in TRAIN}.isdisjoint(one.source for one in TEST)


def test_the_same_source_is_named() -> None:
    with pytest.raises(UserError, match="'generated-train-s0/00000' is in training and in test"):
        check_disjoint(TRAIN, TRAIN[:1])


def test_the_same_content_under_another_name_is_named() -> None:
    renamed = replace(TRAIN[0], source="other/1")
    with pytest.raises(UserError, match="'other/1' has the content of training task"):
        check_disjoint(TRAIN, [renamed])

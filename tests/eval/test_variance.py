"""The nested analysis of variance against numbers worked out by hand."""

import numpy as np
import pytest

from eval.variance import split

# Two source tasks, two items each, two runs: mean squares 2.0 (task), 0.25 (item), 0.25 (run).
VALUES = np.asarray([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, -1.0]])
SOURCES = np.asarray([0, 0, 1, 1])


def test_components_and_what_doubling_buys() -> None:
    found = split(VALUES, SOURCES)
    assert (found.task, found.item, found.run) == (0.4375, 0.0, 0.25)
    assert found.se == pytest.approx(0.5)
    assert found.se_twice_tasks == pytest.approx(0.3535534)
    assert found.se_twice_runs == pytest.approx(0.4841229)
    assert found.reason == ""


def test_one_run_cannot_tell_its_noise_from_the_item() -> None:
    found = split(VALUES[:, :1], SOURCES)
    assert (found.run, found.se_twice_runs) == (None, None)
    assert "one run" in found.reason


def test_one_item_a_task_cannot_tell_the_item_from_the_task() -> None:
    found = split(VALUES, np.asarray([0, 1, 2, 3]))
    assert found.item is None
    assert found.reason == "one item a source task: the item is part of the task"


def test_one_source_task_has_no_split() -> None:
    found = split(VALUES, np.zeros(4, dtype=np.int64))
    assert (found.task, found.se) == (None, None)
    assert "fewer than 2 source tasks" in found.reason

"""Generated tasks have the public kind's proportions and are the same every time."""

import pytest

from configs.data import GeneratedTasks, TaskShape
from configs.errors import UserError
from tasks.calbench.generate import generate, generated_tasks


def test_public_proportions() -> None:
    """5 agents, 3 participants, density .8: 13 errands at most, a free slot per meeting."""
    shape = TaskShape(density=0.8)
    for index in range(20):
        made = generate(shape, 0, "train", index)
        for agent, row in enumerate(made.calendars):
            attended = sum(agent in meeting.participants for meeting in made.meetings)
            errands = [entry for entry in row if entry is not None]
            assert len(errands) == min(13, 16 - attended)
            tiers = [sum(e.cost == cost for e in errands) for cost in (1, 100, 1000)]
            assert max(tiers) - min(tiers) <= 1


@pytest.mark.parametrize(
    ("agents", "slots", "meetings", "participants", "immovable"),
    [(2, 4, 1, 2, 0), (3, 8, 3, 2, 1), (6, 24, 8, 4, 2), (12, 12, 4, 5, 0), (1, 3, 2, 1, 1)],
)
def test_any_size(
    agents: int, slots: int, meetings: int, participants: int, immovable: int
) -> None:
    shape = TaskShape(
        agents=agents,
        slots=slots,
        meetings=meetings,
        participants=participants,
        immovable=immovable,
        density=0.5,
    )
    made = generate(shape, 1, "train", 0)
    assert (made.num_agents, made.num_slots, len(made.meetings)) == (agents, slots, meetings)
    for row in made.calendars:
        assert sum(entry is not None and entry.blocked for entry in row) == immovable
    ids = [entry.id for row in made.calendars for entry in row if entry is not None]
    assert len(set(ids)) == len(ids)


def test_same_seed_same_tasks_and_splits_do_not_share() -> None:
    config = GeneratedTasks(count=30, agents=4, slots=6, meetings=2)
    train, again = generated_tasks(config, "train"), generated_tasks(config, "train")
    assert train == again
    assert generate(config, 0, "train", 0) == train[0]
    test = generated_tasks(config, "test")
    other_seed = generated_tasks(config.model_copy(update={"seed": 1}), "train")
    prints = [{made.fingerprint() for made in tasks} for tasks in (train, test, other_seed)]
    assert prints[0].isdisjoint(prints[1])
    assert prints[0].isdisjoint(prints[2])


def test_a_shape_that_cannot_be_is_refused_with_the_remedy() -> None:
    with pytest.raises(UserError, match="give more slots"):
        generate(TaskShape(agents=2, slots=2, meetings=3, participants=2), 0, "train", 0)
    with pytest.raises(ValueError, match="participants 4 exceeds agents 3"):
        TaskShape(agents=3, participants=4)


def test_small_shapes_share_no_content_between_splits_and_repeat_none() -> None:
    """3 agents x 3 slots have few different calendars; other seeds must not leak one."""
    tiny = GeneratedTasks(
        agents=3, slots=3, meetings=1, participants=3, density=0.7, cost_tiers=(1,), count=10
    )
    test = {
        made.fingerprint() for made in generated_tasks(tiny.model_copy(update={"count": 2}), "test")
    }
    for seed in range(5):
        made = generated_tasks(tiny.model_copy(update={"seed": seed}), "train")
        prints = {one.fingerprint() for one in made}
        assert len(prints) == 10
        assert prints.isdisjoint(test)


def test_more_tasks_than_there_are_is_refused() -> None:
    tiny = GeneratedTasks(
        agents=3, slots=3, meetings=1, participants=3, density=0.7, cost_tiers=(1,), count=500
    )
    with pytest.raises(UserError, match=r"only .* different tasks of 3 agents x 3 slots"):
        generated_tasks(tiny, "train")

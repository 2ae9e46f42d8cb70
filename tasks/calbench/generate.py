"""Calendar tasks of the public kind, for any number of agents, slots, meetings and cost tiers."""

import random

from configs.data import GeneratedTasks, TaskShape
from configs.errors import UserError
from tasks.calbench.calendars import CalendarTask, Entry, Errand, Meeting
from tasks.calbench.solver import plan_table

MAX_DRAWS = 400
TEST_SHARE = 8  # one content in this many belongs to the test split


def generated_tasks(config: GeneratedTasks, split: str) -> list[CalendarTask]:
    """``config.count`` feasible tasks, no two with the same content.

    Raises ``UserError`` when the shape has too few different tasks.
    """
    found: dict[str, CalendarTask] = {}
    for index in range(4 * config.count + MAX_DRAWS):
        task = generate(config, config.seed, split, index)
        found.setdefault(task.fingerprint(), task)
        if len(found) == config.count:
            return list(found.values())
    raise UserError(
        f"generated.count {config.count}: only {len(found)} different tasks of {config.agents} "
        f"agents x {config.slots} slots found for split {split!r}; ask for fewer, or give more "
        "slots or cost_tiers"
    )


def generate(shape: TaskShape, seed: int, split: str, index: int) -> CalendarTask:
    """One feasible task; it depends on shape, seed, split and index alone.

    Which split a task belongs to is decided by its content, so that training and test never share
    one, whatever their seeds. Raises ``UserError`` when no draw of this shape will do.
    """
    rng = random.Random(f"{seed}:{split}:{index}")
    for _ in range(MAX_DRAWS):
        task = _draw(shape, rng, f"generated-{split}-s{seed}/{index:05d}")
        if (
            task is not None
            and _belongs(task, split)
            and plan_table(task.calendars, task.meetings) is not None
        ):
            return task
    raise UserError(
        f"no feasible {split} task in {MAX_DRAWS} draws of {shape.agents} agents x {shape.slots} "
        f"slots x {shape.meetings} meetings with {shape.immovable} immovable errands; give more "
        "slots, fewer meetings or fewer immovable errands"
    )


def _belongs(task: CalendarTask, split: str) -> bool:
    return (int(task.fingerprint(), 16) % TEST_SHARE == 0) == (split == "test")


def _draw(shape: TaskShape, rng: random.Random, task_id: str) -> CalendarTask | None:
    """One draw; None when an agent attends more meetings than it has slots for."""
    agents = range(shape.agents)
    meetings = tuple(
        Meeting(number, tuple(sorted(rng.sample(agents, shape.participants))))
        for number in range(1, shape.meetings + 1)
    )
    rows = []
    for agent in agents:
        attended = sum(agent in meeting.participants for meeting in meetings)
        if attended + shape.immovable > shape.slots:
            return None
        rows.append(_row(shape, attended, agent * shape.slots, rng))
    return CalendarTask(task_id, tuple(rows), meetings, group=task_id.split("/")[0])


def _row(shape: TaskShape, attended: int, first_id: int, rng: random.Random) -> tuple[Entry, ...]:
    """One calendar: nominal density, but a free slot is kept for each meeting attended."""
    wanted = max(round(shape.density * shape.slots), shape.immovable)
    num_errands = min(wanted, shape.slots - attended)
    tiers = [shape.cost_tiers[i % len(shape.cost_tiers)] for i in range(num_errands)]
    rng.shuffle(tiers)
    errands = [
        Errand(first_id + number, cost, blocked=number <= shape.immovable)
        for number, cost in enumerate(tiers, 1)
    ]
    entries: list[Entry] = [*errands, *[None] * (shape.slots - num_errands)]
    rng.shuffle(entries)
    return tuple(entries)

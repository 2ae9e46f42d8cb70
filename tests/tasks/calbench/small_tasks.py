"""Tasks written as text: ``.`` free, a number a movable errand of that cost, ``#`` immovable."""

import random

from tasks.calbench.calendars import CalendarTask, Entry, Errand, Meeting


def task(calendars: str, meetings: str) -> CalendarTask:
    """``calendars`` such as ``". 3 | 2 #"`` (agents by ``|``); ``meetings`` such as ``"AB A"``."""
    next_id = iter(range(1, 10_000))
    rows = tuple(
        tuple(_entry(cell, next_id) for cell in row.split()) for row in calendars.split("|")
    )
    told = tuple(
        Meeting(number, tuple("ABCDEFGH".index(name) for name in names))
        for number, names in enumerate(meetings.split(), 1)
    )
    return CalendarTask("small/written", rows, told)


def _entry(cell: str, next_id: "iter[int]") -> Entry:  # type: ignore[valid-type]
    if cell == ".":
        return None
    number = next(next_id)
    return Errand(number, 9, blocked=True) if cell == "#" else Errand(number, int(cell))


def random_task(rng: random.Random) -> CalendarTask:
    """Any small task, feasible or not: 1-4 agents, 2-6 slots, 1-4 meetings of 1-3 participants."""
    agents, slots = rng.randint(1, 4), rng.randint(2, 6)
    cells = [".", ".", ".", "0", "1", "1", "2", "5", "#"]
    rows = " | ".join(" ".join(rng.choice(cells) for _ in range(slots)) for _ in range(agents))
    names = "ABCD"[:agents]
    meetings = " ".join(
        "".join(sorted(rng.sample(names, rng.randint(1, min(3, agents)))))
        for _ in range(rng.randint(1, 4))
    )
    return task(rows, meetings)

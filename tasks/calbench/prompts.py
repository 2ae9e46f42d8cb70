"""How a request reads: the rules in the system message, the case in one user message.

The story comes before the start calendars, so that the part of the prompt that is copied from
stands at a fixed distance from the answer. Whom the question is about is said in the last line
only: the holders of one story share all that is before it, and a server's prefix cache reads that
once. Cells are named like ``B8``: agent B's slot 8. Conditions that are compared differ by exactly
the block that names them.
"""

import json

from tasks.calbench.calendars import Calendars, token
from tasks.calbench.reference import Rows
from tasks.calbench.stories import Story, Turn
from tasks.example import Message

ASKS_PLAN = {
    "belief": False,
    "access": False,
    "direct": True,
    "textual": True,
    "symbolic": True,
}


def messages(story: Story, holder: int, condition: str) -> tuple[Message, ...]:
    """The chat messages of one request: system rules, user case."""
    task = story.scenario.source
    rules = [_setting(task.agents, task.num_slots)]
    rules.append(PLAN_RULES if ASKS_PLAN[condition] else _belief_rules(task.num_slots))
    return (
        Message(role="system", content="\n".join(rules)),
        Message(role="user", content="\n".join(_case(story, holder, condition))),
    )


def belief_answer(rows: Rows, agents: str) -> str:
    """The compact JSON answer that states these entries."""
    return _compact({"belief": {agent: list(row) for agent, row in zip(agents, rows, strict=True)}})


def plan_answer(slots: tuple[int, ...], meetings: tuple[str, ...]) -> str:
    """The compact JSON answer that gives each meeting its slot."""
    return _compact({"plan": dict(zip(meetings, slots, strict=True))})


def tokens(calendars: Calendars) -> Rows:
    """The calendars as entry tokens."""
    return tuple(tuple(token(entry) for entry in row) for row in calendars)


PLAN_RULES = (
    "Plan the meetings as the agent would, by what it knows. Each meeting gets one slot. Meetings "
    "that share a participant need different slots. No participant may have X in a meeting's slot. "
    "A participant's M<c> there is moved away and costs c; F costs nothing. Choose the least total "
    'cost. Answer with JSON only, one slot per meeting: {"plan":{"M1":0,"M2":3,...}}'
)


def _belief_rules(num_slots: int) -> str:
    return (
        "Write the calendars as the agent believes they are now, by what it knows. Answer with "
        f"JSON only, every agent, slots 0 to {num_slots - 1} in order: "
        '{"belief":{"A":["F","M1",...],"B":[...],...}}'
    )


def _setting(agents: str, num_slots: int) -> str:
    return (
        f"Agents {', '.join(agents)} each have a calendar of slots 0 to {num_slots - 1}. "
        "Cell B2 is agent B's slot 2. F: free. M<c>: an errand that can move at cost c. X: an "
        "errand that cannot move. Everybody knows the start calendars. Later an agent knows only "
        "what it did, said or was told itself. What is said is true."
    )


def _case(story: Story, holder: int, condition: str) -> list[str]:
    task = story.scenario.source
    name = task.agents[holder]
    believed = story.scenario.calendars(story.scenario.known(story.variant, holder))
    lines: list[str] = []
    if condition == "textual":
        lines += [f"{name} believes:", *_prose(believed, task.agents)]
    elif condition == "symbolic":
        lines += [f"{name} believes:", belief_answer(tokens(believed), task.agents)]
    else:
        lines += history(story)
        if condition == "access":
            lines.append(_access(story, holder))
        lines += ["Start calendars:", *_grid(task.calendars, task.agents)]
    if ASKS_PLAN[condition]:
        lines.append("Meetings: " + "; ".join(_meetings(story)))
    lines.append(f"{'Plan' if ASKS_PLAN[condition] else 'Belief'} of {name}:")
    return lines


def history(story: Story) -> list[str]:
    """The story, one line per turn."""
    return [
        f"Turn {number}. " + " ".join(_saying(story, said) for said in turn)
        for number, turn in enumerate(story.turns, 1)
    ]


def _saying(story: Story, turn: Turn) -> str:
    agents = story.scenario.source.agents
    everybody = len(turn.hearers) == len(agents) - 1
    hearers = "all" if everybody else "only " + ", ".join(agents[h] for h in turn.hearers)
    text = turn.topic
    if turn.update is not None:
        text = f"{_cell(story, turn.update)} is now X"
    return f"{agents[turn.speaker]} tells {hearers}: {text}."


def _cell(story: Story, update: int) -> str:
    changed = story.scenario.updates[update]
    return f"{story.scenario.source.agents[changed.owner]}{changed.slot}"


def _access(story: Story, holder: int) -> str:
    """Which deliveries the holder made or got, in story order."""
    name = story.scenario.source.agents[holder]
    known = story.scenario.known(story.variant, holder)
    got = [
        f"turn {number} ({_cell(story, said.update)})"
        for number, turn in enumerate(story.turns, 1)
        for said in turn
        if said.update is not None and said.update in known
    ]
    return f"Calendar news that {name} has: {', '.join(got) or 'none'}."


def _grid(calendars: Calendars, agents: str) -> list[str]:
    return [
        " ".join(f"{agent}{slot}:{entry}" for slot, entry in enumerate(row))
        for agent, row in zip(agents, tokens(calendars), strict=True)
    ]


def _prose(calendars: Calendars, agents: str) -> list[str]:
    """One sentence per agent: which slots are free, movable at what cost, immovable."""
    lines = []
    for agent, row in zip(agents, tokens(calendars), strict=True):
        groups: dict[str, list[str]] = {}
        for slot, entry in enumerate(row):
            groups.setdefault(entry, []).append(str(slot))
        parts = [f"{_words(entry)} in {', '.join(groups[entry])}" for entry in sorted(groups)]
        lines.append(f"{agent} is {'; '.join(parts)}.")
    return lines


def _words(entry: str) -> str:
    if entry == "F":
        return "free"
    return "immovable" if entry == "X" else f"movable at cost {entry[1:]}"


def _meetings(story: Story) -> list[str]:
    task = story.scenario.source
    return [
        f"M{meeting.id} " + " ".join(task.agents[a] for a in meeting.participants)
        for meeting in task.meetings
    ]


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

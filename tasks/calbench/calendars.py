"""Calendar tasks: the records, and the strict reader of the public CalBench files."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.documents import is_whole, parse_json, read_text

AGENT_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Errand:
    """A standing entry of one slot. ``cost`` >= 0 is paid when it is displaced; blocked: never."""

    id: int
    cost: int
    blocked: bool = False


Entry = Errand | None  # None: the slot is free
Calendars = tuple[tuple[Entry, ...], ...]  # one row per agent, one entry per slot


@dataclass(frozen=True, slots=True)
class Meeting:
    """``participants`` are agent indices; placing a meeting costs nothing."""

    id: int
    participants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CalendarTask:
    """One source task.

    ``group`` is the cell of the public design it belongs to, used by test-set selections;
    ``recorded_optimum`` and ``recorded_plan`` (a slot per meeting, in order) are the optimum its
    file claims, checked by ``sources.read_public``; ``origin`` is where it stands, FILE:LINE.
    """

    id: str
    calendars: Calendars
    meetings: tuple[Meeting, ...]
    group: str = ""
    recorded_optimum: int | None = None
    recorded_plan: tuple[int, ...] | None = None
    origin: str = field(default="", compare=False)

    @property
    def num_agents(self) -> int:
        return len(self.calendars)

    @property
    def num_slots(self) -> int:
        return len(self.calendars[0])

    @property
    def agents(self) -> str:
        """One letter per agent, in order."""
        return AGENT_NAMES[: self.num_agents]

    def fingerprint(self) -> str:
        """SHA-256 of what the task is, whatever its id: equal tasks in two splits show."""
        cells = [[token(entry) for entry in row] for row in self.calendars]
        who = [meeting.participants for meeting in self.meetings]
        return hashlib.sha256(json.dumps([cells, who]).encode()).hexdigest()


def token(entry: Entry) -> str:
    """``F`` free, ``M<cost>`` movable, ``X`` immovable."""
    if entry is None:
        return "F"
    return "X" if entry.blocked else f"M{entry.cost}"


TASK_KEYS = frozenset(
    {
        "calendars",
        "config_difficulty_degenerate",
        "config_normalized_difficulty",
        "cost_per_total_agent",
        "difficulty",
        "difficulty_score",
        "difficulty_scorer",
        "feasible",
        "greedy",
        "meetings",
        "optimal",
        "optimal_evictions",
        "params",
        "participant_slots",
        "seed",
        "setting_normalized_difficulty",
        "task_id",
        "version",
        "witness_solution",
    }
)
PARAM_KEYS = frozenset(
    {
        "density",
        "duration",
        "errand_cost_multiplier",
        "errand_cost_range",
        "errand_cost_values",
        "meeting_cost_range",
        "num_meetings",
        "num_slots",
        "pref_level",
        "subset_size",
        "total_agents",
    }
)
ERRAND_KEYS = frozenset({"cost", "errand_id", "blocked"})
MEETING_KEYS = frozenset({"cost", "duration", "id", "participants"})


def read_tasks(path: Path) -> list[CalendarTask]:
    """Read a public task file (JSON lines). Ids become ``<file>/<task_id>``, e.g. ``uniform/b1``.

    Raises ``UserError`` naming the file, the line, the key and the value. Feasibility and the
    recorded optimum are checked by ``sources.read_public``, which has the solver.
    """
    prefix = path.stem.removesuffix("_full")
    tasks: list[CalendarTask] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        task = _task(_json(line, where), prefix, where)
        if task.id in seen:
            raise UserError(
                f"{where}: task_id {task.id!r} is also on line {seen[task.id]}; rename one"
            )
        seen[task.id] = number
        tasks.append(task)
    if not tasks:
        raise UserError(f"{path}: holds no task; expected one JSON object a line")
    return tasks


def _json(line: str, where: str) -> dict[str, Any]:
    raw = parse_json(line, where)
    if not isinstance(raw, dict):
        raise UserError(f"{where}: holds {type(raw).__name__}, expected one JSON object a line")
    return raw


def _task(raw: dict[str, Any], prefix: str, where: str) -> CalendarTask:
    _check_keys(raw, TASK_KEYS, {"task_id", "calendars", "meetings"}, where)
    params = raw.get("params", {})
    if not isinstance(params, dict):
        raise UserError(f"{where}: params is {type(params).__name__}, expected an object")
    _check_keys(params, PARAM_KEYS, set(), f"{where}: params")
    task_id = raw["task_id"]
    if not isinstance(task_id, str) or not task_id:
        raise UserError(f"{where}: task_id {task_id!r} is not a name; give a non-empty string")
    if not is_whole(task_id):
        raise UserError(
            f"{where}: task_id {task_id!r} holds half of a surrogate pair; write whole characters"
        )
    if not task_id.isprintable():
        raise UserError(f"{where}: task_id {task_id!r} is not one printable line; rename it")
    calendars = _calendars(raw["calendars"], _num_slots(params, where), where)
    meetings = _meetings(raw["meetings"], len(calendars), where)
    _check_stated(raw, params, calendars, meetings, where)
    for key in ("optimal", "witness_solution"):
        if raw.get(key) is not None:
            _check_solution(raw[key], meetings, len(calendars[0]), f"{where}: {key}")
    optimal = raw.get("optimal")
    return CalendarTask(
        f"{prefix}/{task_id}",
        calendars,
        meetings,
        _group(params, raw.get("difficulty"), where),
        optimal["cost"] if optimal else None,
        tuple(optimal["assignments"][str(one.id)] for one in meetings) if optimal else None,
        where,
    )


def _check_stated(
    raw: Mapping[str, Any],
    params: Mapping[str, Any],
    calendars: Calendars,
    meetings: tuple[Meeting, ...],
    where: str,
) -> None:
    """What a task says of itself must be so: test sets are picked by it."""
    sizes = sorted({len(meeting.participants) for meeting in meetings})
    for key, found in (
        ("total_agents", [len(calendars)]),
        ("num_meetings", [len(meetings)]),
        ("subset_size", sizes),
    ):
        stated = params.get(key)
        if stated is not None and [_count(stated, f"{where}: params.{key}")] != found:
            counted = " and ".join(str(number) for number in found)
            raise UserError(f"{where}: params.{key} is {stated}, the task has {counted}; mend one")
    if raw.get("feasible", True) is not True:
        raise UserError(
            f"{where}: feasible is {raw['feasible']!r}; only tasks with a feasible plan can be "
            "used, remove the line"
        )


def _num_slots(params: Mapping[str, Any], where: str) -> int | None:
    """The slots that every calendar must have; None where the file does not say."""
    stated = params.get("num_slots")
    return None if stated is None else _count(stated, f"{where}: params.num_slots")


def _group(params: Mapping[str, Any], difficulty: Any, where: str) -> str:
    """The cell of the public design: cost kind, size, density and difficulty."""
    costs = params.get("errand_cost_range", [])
    if not isinstance(costs, list) or not all(isinstance(cost, int) for cost in costs):
        raise UserError(f"{where}: params.errand_cost_range {costs!r} is not a list of numbers")
    named = {"params.density": params.get("density"), "difficulty": difficulty}
    for key, value in named.items():
        if not isinstance(value, (str, int, float, type(None))) or not is_whole(str(value)):
            raise UserError(f"{where}: {key} {value!r} is neither a number nor a name"[:300])
    kind = "uniform" if len(set(costs)) == 1 else "varied"
    size = f"{params.get('total_agents')}a{params.get('subset_size')}p"
    return f"{kind}/{size}/{named['params.density']}/{difficulty}"


def _check_keys(
    raw: Mapping[str, Any], allowed: Iterable[str], required: set[str], where: str
) -> None:
    unknown = sorted(set(raw) - set(allowed))
    if unknown:
        value = json.dumps(raw[unknown[0]])[:40]
        allowed_text = ", ".join(sorted(allowed))
        raise UserError(
            f"{where}: unknown key {unknown[0]!r} (value {value}); allowed: {allowed_text}"
        )
    missing = sorted(required - set(raw))
    if missing:
        raise UserError(f"{where}: key {missing[0]!r} is missing; add it")


def _calendars(raw: Any, num_slots: Any, where: str) -> Calendars:
    if not isinstance(raw, list) or not raw or len(raw) > len(AGENT_NAMES):
        raise UserError(f"{where}: calendars must be a list of 1 to {len(AGENT_NAMES)} agents")
    rows: list[tuple[Entry, ...]] = []
    seen: dict[int, str] = {}
    for agent, row in enumerate(raw):
        here = f"{where}: calendars[{agent}]"
        if not isinstance(row, list) or not row:
            raise UserError(f"{here}: expected a non-empty list of slots, got {row!r}"[:300])
        expected = len(raw[0]) if num_slots is None else num_slots
        if len(row) != expected:
            raise UserError(f"{here}: has {len(row)} slots, expected {expected}")
        entries = tuple(_entry(entry, f"{here}[{slot}]") for slot, entry in enumerate(row))
        for slot, entry in enumerate(entries):
            if entry is not None and seen.setdefault(entry.id, f"calendars[{agent}][{slot}]") != (
                f"calendars[{agent}][{slot}]"
            ):
                raise UserError(
                    f"{here}[{slot}]: errand_id {entry.id} is also at {seen[entry.id]}; "
                    "ids are unique in a task"
                )
        rows.append(entries)
    return tuple(rows)


def _entry(raw: Any, where: str) -> Entry:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise UserError(f"{where}: {raw!r} is not an entry; expected null or an errand object")
    meeting_keys = sorted(key for key in raw if "meeting" in key or key == "participants")
    if meeting_keys:
        raise UserError(
            f"{where}: a standing meeting (key {meeting_keys[0]!r}) is not supported; "
            "write it as an errand with blocked: true"
        )
    _check_keys(raw, ERRAND_KEYS, {"cost", "errand_id"}, where)
    blocked = raw.get("blocked", False)
    if not isinstance(blocked, bool):
        raise UserError(f"{where}: blocked {blocked!r} is not true or false")
    return Errand(
        _count(raw["errand_id"], f"{where}: errand_id"),
        _count(raw["cost"], f"{where}: cost"),
        blocked,
    )


def _count(raw: Any, where: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw <= 10**9:
        raise UserError(f"{where} {str(raw)[:40]!r} is not a whole number from 0 to 1000000000")
    return raw


def _meetings(raw: Any, num_agents: int, where: str) -> tuple[Meeting, ...]:
    if not isinstance(raw, list) or not raw:
        raise UserError(f"{where}: meetings must be a non-empty list")
    meetings = []
    for index, fields in enumerate(raw):
        here = f"{where}: meetings[{index}]"
        if not isinstance(fields, dict):
            raise UserError(f"{here}: {fields!r} is not a meeting object")
        _check_keys(fields, MEETING_KEYS, {"id", "participants"}, here)
        if isinstance(fields.get("duration"), bool) or fields.get("duration", 1) != 1:
            raise UserError(f"{here}: duration {fields['duration']!r}; every meeting lasts 1 slot")
        _count(fields.get("cost", 1), f"{here}: cost")
        participants = _participants(fields["participants"], num_agents, here)
        meetings.append(Meeting(_count(fields["id"], f"{here}: id"), participants))
    ids = [meeting.id for meeting in meetings]
    if len(set(ids)) != len(ids):
        raise UserError(f"{where}: meetings: ids {ids} are not unique; rename one")
    return tuple(meetings)


def _participants(raw: Any, num_agents: int, where: str) -> tuple[int, ...]:
    if not isinstance(raw, list) or not raw:
        raise UserError(f"{where}: participants {raw!r} must be a non-empty list of agents")
    for agent in raw:
        if isinstance(agent, bool) or not isinstance(agent, int) or not 0 <= agent < num_agents:
            raise UserError(
                f"{where}: participants names unknown agent {agent!r}; "
                f"agents are 0 to {num_agents - 1}"
            )
    if len(set(raw)) != len(raw):
        raise UserError(f"{where}: participants {raw} names an agent twice")
    return tuple(sorted(raw))


def _check_solution(raw: Any, meetings: tuple[Meeting, ...], num_slots: int, where: str) -> None:
    """A recorded solution must give every meeting one slot that exists."""
    if not isinstance(raw, dict) or not isinstance(raw.get("assignments"), dict):
        raise UserError(f"{where}: expected an object with assignments, got {raw!r}"[:300])
    _check_keys(raw, {"assignments", "cost"}, {"assignments", "cost"}, where)
    _count(raw["cost"], f"{where}: cost")
    ids = {str(meeting.id) for meeting in meetings}
    _check_keys(raw["assignments"], ids, ids, f"{where}: assignments")
    for meeting, slot in raw["assignments"].items():
        if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot < num_slots:
            raise UserError(
                f"{where}: meeting {meeting} has slot {slot!r}, out of range 0 to {num_slots - 1}"
            )

"""The strict reader of public task files: every fault names file, line, key, value and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from tasks.calbench.calendars import Errand, Meeting, read_tasks
from tasks.calbench.sources import pick90, read_public
from tests.shared_data import shared_file


def row(**changes: Any) -> dict[str, Any]:
    """Two agents, three slots, one meeting, optimum 0 in slot 0."""
    fields: dict[str, Any] = {
        "task_id": "t1",
        "calendars": [[None, {"cost": 1, "errand_id": 1}, None], [None, None, None]],
        "meetings": [{"id": 1, "participants": [0, 1], "cost": 1, "duration": 1}],
        "optimal": {"assignments": {"1": 0}, "cost": 0},
    }
    return fields | changes


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "small_full.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def test_reads_a_task_with_a_blocked_errand(tmp_path: Path) -> None:
    calendars = [[None, {"cost": 5, "errand_id": 9, "blocked": True}]]
    task = row(calendars=calendars, meetings=[{"id": 3, "participants": [0]}], optimal=None)
    [read] = read_tasks(write(tmp_path, task))
    assert read.id == "small/t1"
    assert read.calendars == ((None, Errand(9, 5, blocked=True)),)
    assert read.meetings == (Meeting(3, (0,)),)


ERRAND = {"cost": 1, "errand_id": 1}
FAULTS: list[tuple[dict[str, Any], str]] = [
    (row(taskid="x"), "unknown key 'taskid'"),
    (row(params={"nslots": 3}), "params: unknown key 'nslots'"),
    (row(params={"num_slots": 4}), "has 3 slots, expected 4"),
    (row(calendars=[[None, None], [None]]), "calendars[1]: has 1 slots, expected 2"),
    (row(calendars=[[{"cost": 1, "errand": 1}]]), "unknown key 'errand'"),
    (row(calendars=[[{"cost": -1, "errand_id": 1}]]), "cost '-1' is not a whole number"),
    (row(calendars=[[{"cost": True, "errand_id": 1}]]), "cost 'True' is not a whole number"),
    (row(calendars=[[{"cost": 1.5, "errand_id": 1}]]), "cost '1.5' is not a whole number"),
    (row(calendars=[[ERRAND, ERRAND]]), "errand_id 1 is also at calendars[0][0]"),
    (row(calendars=[[{"meeting_id": 1, "cost": 1}, None]]), "standing meeting"),
    (row(calendars=[["busy"]]), "'busy' is not an entry"),
    (row(meetings=[{"id": 1, "participants": [0, 5]}]), "unknown agent 5; agents are 0 to 1"),
    (row(meetings=[{"id": 1, "participants": [True]}]), "unknown agent True"),
    (row(meetings=[{"id": 1, "participants": []}]), "must be a non-empty list"),
    (row(meetings=[{"id": 1, "participants": [0, 0]}]), "names an agent twice"),
    (row(meetings=[{"id": 1, "participants": [0]}] * 2), "not unique"),
    (row(meetings=[{"id": 1, "participants": [0], "duration": 2}]), "duration 2"),
    (row(meetings=[]), "meetings must be a non-empty list"),
    (row(optimal={"assignments": {"1": 3}, "cost": 0}), "slot 3, out of range 0 to 2"),
    (row(optimal={"assignments": {"1": -1}, "cost": 0}), "slot -1, out of range"),
    (row(optimal={"assignments": {"2": 0}, "cost": 0}), "unknown key '2'"),
    (row(task_id=""), "task_id '' is not a name"),
    (row(task_id="t\ud800"), "task_id 't\\ud800' holds half of a surrogate pair"),
    (row(**{"\ud800": 1}), "key '\\ud800' holds half of a surrogate pair"),
    (row(difficulty="\ud800"), "difficulty '\\ud800' is neither a number nor a name"),
    (row(difficulty=["hard"]), "difficulty ['hard'] is neither a number nor a name"),
    (row(params={"num_slots": "3"}), "params.num_slots '3' is not a whole number"),
    (row(params={"total_agents": "five"}), "params.total_agents 'five' is not a whole number"),
    (row(params={"errand_cost_range": 1}), "params.errand_cost_range 1 is not a list"),
    (row(params={"errand_cost_range": [[1]]}), "params.errand_cost_range [[1]] is not a list"),
]


@pytest.mark.parametrize(("task", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_a_fault_names_file_line_and_value(
    tmp_path: Path, task: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, row(task_id="good"), task)
    with pytest.raises(UserError) as caught:
        read_public(path)
    assert str(caught.value).startswith(f"{path}:2")
    assert message in str(caught.value)


def test_a_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'small/t1' is also on line 1"):
        read_tasks(write(tmp_path, row(), row()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"task_id": "caf\xe9"}\n', ":1: byte 0xe9 is not UTF-8"),
        (b"\n[1]\n", ":2: holds list"),
        (b'{"task_id": "a", "task_id": "b"}\n', "key 'task_id' is given twice"),
        (b'{"task_id": NaN}\n', "value NaN is not a number"),
        (b'{"task_id": "a"', ":1: not JSON"),
        (b"", "holds no task"),
        (b'{"task_id": "a", "meetings": []}', "key 'calendars' is missing"),
    ],
)
def test_bytes_that_are_no_task(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_tasks(path)
    assert message in str(caught.value)


def test_no_feasible_plan_and_a_wrong_record_are_refused(tmp_path: Path) -> None:
    full = row(calendars=[[{"cost": 1, "errand_id": 1}], [None]], optimal=None)
    with pytest.raises(UserError, match="'small/t1' has no feasible plan"):
        read_public(write(tmp_path, full))
    wrong = row(optimal={"assignments": {"1": 1}, "cost": 1})
    with pytest.raises(UserError, match=r"records optimal\.cost 1, the exact optimum is 0"):
        read_public(write(tmp_path, wrong))


def test_missing_file_is_one_line() -> None:
    with pytest.raises(UserError, match=r"nowhere\.jsonl: cannot be read \(No such file"):
        read_tasks(Path("nowhere.jsonl"))


def test_public_files_hold_216_tasks_and_pick90_takes_90() -> None:
    files = [shared_file("calbench", f"{kind}_full.jsonl") for kind in ("uniform", "varied")]
    tasks = [task for file in files for task in read_public(file)]
    picked = pick90(tasks)
    assert len(tasks) == 216
    assert len(picked) == 90
    assert sum(task.id.startswith("uniform/") for task in picked) == 45
    assert sum("/5a3p/" in task.group for task in picked) == 54

"""Source tasks of a run: public files, their paper-like selection, and generated tasks."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from configs.data import CalbenchData, PublicTasks
from configs.errors import UserError
from tasks.calbench.calendars import CalendarTask, read_tasks
from tasks.calbench.generate import generated_tasks
from tasks.calbench.solver import plan_cost, plan_table

PICK90_PER_CELL = {"5a3p": 3, "5a5p": 2}  # first tasks of each (cost kind, density, difficulty)


def source_tasks(config: CalbenchData) -> list[CalendarTask]:
    """The source tasks of a data section, public ones first."""
    tasks = [] if config.public is None else public_tasks(config.public)
    if config.generated is not None:
        tasks += generated_tasks(config.generated, config.split)
    return tasks


def public_tasks(config: PublicTasks) -> list[CalendarTask]:
    """The selected tasks of its files, each checked. Raises ``UserError`` naming file and line."""
    tasks = [task for file in config.files for task in read_public(Path(file))]
    ids = [task.id for task in tasks]
    for task_id in ids:
        if ids.count(task_id) > 1:
            raise UserError(f"task {task_id!r} is in two of the files {list(config.files)}")
    if config.select == "all":
        return [task for task in tasks if task.num_agents >= 3]
    test = pick90(tasks)
    if config.select == "pick90":
        if not test:
            raise UserError(f"public.select pick90: no five-agent task in {list(config.files)}")
        return test
    held_out = {task.id for task in test}
    return [task for task in tasks if task.num_agents >= 3 and task.id not in held_out]


def read_public(path: Path) -> list[CalendarTask]:
    """The tasks of one file, each with a feasible plan and the optimum that the file records.

    Raises ``UserError`` naming file, line and task.
    """
    tasks = read_tasks(path)
    for task in tasks:
        table = plan_table(task.calendars, task.meetings)
        if table is None:
            raise UserError(
                f"{task.origin}: task {task.id!r} has no feasible plan; remove or repair it"
            )
        if task.recorded_optimum not in (None, table.optimum):
            raise UserError(
                f"{task.origin}: task {task.id!r} records optimal.cost {task.recorded_optimum}, "
                f"the exact optimum is {table.optimum}; repair the record or delete the key"
            )
        if task.recorded_plan and plan_cost(task.recorded_plan, table) != table.optimum:
            raise UserError(
                f"{task.origin}: task {task.id!r} records an optimal.assignments that is "
                f"infeasible or does not cost {table.optimum}; repair the record or delete the key"
            )
    return tasks


def pick90(tasks: Sequence[CalendarTask]) -> list[CalendarTask]:
    """The paper-like test set: per cost kind, density and difficulty 3 5a3p and 2 5a5p tasks.

    The first ones by id, so that the order of files and lines does not matter.
    """
    taken: dict[str, int] = defaultdict(int)
    picked = []
    for task in sorted(tasks, key=lambda task: task.id.rpartition("/")[2]):
        size = task.group.split("/")[1]
        taken[task.group] += 1
        if taken[task.group] <= PICK90_PER_CELL.get(size, 0):
            picked.append(task)
    return picked

"""The calendar problem as a CP-SAT model: the second optimiser, for tests and the benchmark."""

from ortools.sat.python import cp_model

from tasks.calbench.calendars import CalendarTask


def cp_sat_optimum(task: CalendarTask) -> int | None:
    """The least displacement cost by CP-SAT, one worker, with the room rule; None: infeasible.

    Room: an agent's displaced errands fit into its free slots that no meeting of its takes.
    """
    model = cp_model.CpModel()
    place = [[model.new_bool_var("") for _ in range(task.num_slots)] for _ in task.meetings]
    terms = []
    for row in place:
        model.add_exactly_one(row)
    for agent, entries in enumerate(task.calendars):
        mine = [m for m, meeting in enumerate(task.meetings) if agent in meeting.participants]
        free = [slot for slot, entry in enumerate(entries) if entry is None]
        full = [slot for slot, entry in enumerate(entries) if entry is not None]
        displaced = sum(place[m][slot] for m in mine for slot in full)
        model.add(displaced <= len(free) - sum(place[m][slot] for m in mine for slot in free))
        for slot, entry in enumerate(entries):
            model.add_at_most_one(place[m][slot] for m in mine)
            if entry is not None and entry.blocked:
                model.add(sum(place[m][slot] for m in mine) == 0)
            elif entry is not None:
                terms += [entry.cost * place[m][slot] for m in mine]
    model.minimize(sum(terms))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    return round(solver.objective_value) if status == cp_model.OPTIMAL else None

"""How fast the calendar world, the judge, the runner and our part of a step are, in one run.

    python -m scripts.bench                   # generated: 5 agents x 16 slots x 5 meetings
    python -m scripts.bench --tasks FILE ...  # public CalBench files instead

Prints one row a bar: what, the figure, the bar, and whether it is met. CPU seconds, not wall.
LM_EVAL_PYTHON and INSPECT_PYTHON name Pythons that have lm-evaluation-harness and Inspect, whose
rows then stand below the runner's.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from configs.data import CalbenchData, GeneratedTasks
from configs.errors import run_command
from configs.rewards import RewardConfig
from rewards.composition import score
from scripts.bench_judge import Row, judge_rows
from scripts.bench_runner import runner_rows
from scripts.bench_step import step_rows
from scripts.cp_sat import cp_sat_optimum
from tasks.calbench.answers import Plan, read
from tasks.calbench.calendars import CalendarTask
from tasks.calbench.examples import examples
from tasks.calbench.generate import generated_tasks
from tasks.calbench.reference import Reference, parse
from tasks.calbench.solver import first_optimal_plan, plan_table
from tasks.calbench.sources import read_public

PUBLIC_SIZE = GeneratedTasks(agents=5, slots=16, meetings=5, participants=3, count=144)
REPEATS = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", metavar="FILE", help="public task files (*.jsonl)")
    files: list[str] = parser.parse_args().tasks or []
    tasks = [task for file in files for task in read_public(Path(file)) if task.num_agents == 5]
    tasks = tasks or generated_tasks(PUBLIC_SIZE, "bench")
    rows = [optimum_row(tasks), plan_row(tasks), belief_row()]
    rows += [*judge_rows(), *runner_rows(), *step_rows()]
    print(f"{'what':52} {'measured':>16} {'bar':>12}  met")
    for what, figure, bar, met in rows:
        word = "" if not bar else "yes" if met else "NO"  # other tools have no bar to meet
        print(f"{what:52} {figure:>16} {bar:>12}  {word}")
    return 0 if all(met for *_, met in rows) else 1


def optimum_row(tasks: Sequence[CalendarTask]) -> Row:
    """Our exact optimum, table included, against CP-SAT building and solving the same problem."""
    for task in tasks:
        table = plan_table(task.calendars, task.meetings)
        assert table is not None
        assert table.optimum == cp_sat_optimum(task), task.id
    ours = cpu_seconds(lambda: [plan_table(t.calendars, t.meetings) for t in tasks])
    theirs = cpu_seconds(lambda: [cp_sat_optimum(t) for t in tasks])
    ratio = theirs / ours
    what = f"exact optimum vs CP-SAT, {len(tasks)} tasks ({ours / len(tasks) * 1e6:.0f} us)"
    return what, f"{ratio:.0f} x", "100 x", ratio >= 100


def plan_row(tasks: Sequence[CalendarTask]) -> Row:
    """One parsed plan against a stored table and optimum."""
    config = RewardConfig()
    pairs = [(r, Plan(first_optimal_plan(r.subjective), "", False)) for r in references("direct")]
    rate = per_second(len(pairs) * 20, lambda: [score(*pair, config) for pair in pairs * 20])
    return "plans scored a second, all parts", f"{rate:,.0f}", "300,000", rate >= 300_000


def belief_row() -> Row:
    """Completion text of 80 entries to a composed score."""
    config = RewardConfig()
    made = list(examples(story_data("belief")))
    pairs = [(parse(one.target), one.reference_answer) for one in made]
    rate = per_second(
        len(pairs) * 5, lambda: [score(r, read(text, r), config) for r, text in pairs * 5]
    )
    return "80-entry beliefs read and scored a second", f"{rate:,.0f}", "5,000", rate >= 5_000


def story_data(condition: str) -> CalbenchData:
    return CalbenchData.model_validate(
        {
            "split": "test",
            "generated": PUBLIC_SIZE.model_copy(update={"count": 20}),
            "conditions": (condition,),
        }
    )


def references(condition: str) -> list[Reference]:
    return [parse(one.target) for one in examples(story_data(condition))]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Median process time of ``work`` over ``REPEATS`` runs."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def per_second(count: int, work: Callable[[], object]) -> float:
    return count / cpu_seconds(work)


if __name__ == "__main__":
    run_command(main)

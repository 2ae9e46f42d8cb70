"""Which part of the reward, or of the training, makes the difference?

    python -m train.ablate configs/ablate/tiny_cpu.yaml            # train, ask, score, report
    python -m train.ablate configs/ablate/tiny_cpu.yaml seeds=[0,1] name=two
    python -m train.ablate CONFIG --print                          # the commands, for a cluster
    python -m train.ablate report runs/ablate/tiny_cpu             # the report again, from scores

A cell is a training config with one change (or a combination of changes); every cell is trained
under every seed. The cells of one seed start from the same warm start, so that only GRPO differs.
What is done is skipped, what was stopped goes on; adding seeds or cells later keeps what is there.

    FOLDER/ablation.json            the cells and what they change
           warm-seed0/ full-seed0/  one run folder each, as of `python -m train`
           logs/                    what each run printed
           eval/                    one frozen plan, and every run's answers and scores
           report.html .md .csv .png
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from configs.ablate import Ablation
from configs.errors import run_command
from configs.load import load
from eval.records import write_json
from train.ablate.cells import Run, cells, command, runs, shown, state
from train.ablate.held_out import ask_all, ask_commands, eval_folder, freeze, plan_command
from train.ablate.training import train_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code. Raises ``UserError``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["report"]:
        return _report(_report_parser().parse_args(words[1:]).folder)
    options = _parser().parse_intermixed_args(words)
    ablation = load(options.config, Ablation, options.overrides)
    todo = runs(ablation)
    if options.print:
        print("\n".join(_script(ablation, todo)))
        write_json(ablation.folder / "ablation.json", _record(ablation, todo))  # for the report
        return 0
    return _run(ablation, todo)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.ablate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "config", type=Path, metavar="CONFIG", help="a YAML of configs/ablate, or: report FOLDER"
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="e.g. seeds=[0,1,2]")
    parser.add_argument("--print", action="store_true", help="print the commands, run nothing")
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m train.ablate report")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="an ablation's folder")
    return parser


def _run(ablation: Ablation, todo: Sequence[Run]) -> int:
    plan = freeze(ablation, todo[-1].config)
    write_json(ablation.folder / "ablation.json", _record(ablation, todo))
    code = train_all(ablation, todo)
    if code:
        return code
    if ablation.held_out.engine == "server":
        print("trained. Serve, ask and score them, then write the report:")
        print("\n".join(_held_out_script(ablation, todo)))
        return 0
    return ask_all(plan, todo) or _report(ablation.folder)


def _record(ablation: Ablation, todo: Sequence[Run]) -> dict[str, object]:
    """``ablation.json``: what the report needs to know."""
    return {
        "train": ablation.train,
        "overrides": list(ablation.overrides),
        "seeds": list(ablation.seeds),
        "design": ablation.design,
        "warm_start": any(run.cell is None for run in todo),
        "cells": [
            {"name": cell.name, "overrides": list(cell.overrides)} for cell in cells(ablation)
        ],
    }


def _script(ablation: Ablation, todo: Sequence[Run]) -> list[str]:
    """Every command that is left, in order. Lines of one block may run at the same time."""
    warm = [run for run in todo if run.cell is None]
    trained = [run for run in todo if run.cell is not None]
    lines = ["# 1. the warm start of each seed"] if warm else []
    lines += [_train_line(ablation, run) for run in warm]
    lines += ["# 2. the cells, after the warm start of their seed"]
    lines += [_train_line(ablation, run) for run in trained]
    return [*lines, *_held_out_script(ablation, todo)]


def _train_line(ablation: Ablation, run: Run) -> str:
    found = state(run)
    if found == "done":
        return f"# {run.name}: done"
    return shown(command(ablation, run, resume=found == "started"))


def _held_out_script(ablation: Ablation, todo: Sequence[Run]) -> list[str]:
    held_out, folder = ablation.held_out, ablation.folder
    return [
        "# 3. the same held-out requests for all; each run may be asked on a machine of its own",
        plan_command(held_out, folder),
        *(line for run in todo for line in ask_commands(held_out, folder, run)),
        "# 4. scores and report",
        shown(["python", "-m", "eval", "score", str(eval_folder(folder))]),
        shown(["python", "-m", "train.ablate", "report", str(folder)]),
    ]


def _report(folder: Path) -> int:
    from train.ablate.page import write_report
    from train.ablate.report import gather, lead

    report = gather(folder)
    for text in report.warnings:
        print(f"warning: {text}", file=sys.stderr)
    print(lead(report))
    for path in write_report(folder, report):
        print(path)
    return 0


if __name__ == "__main__":
    run_command(main)

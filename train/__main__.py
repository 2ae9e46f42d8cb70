"""Train a model on belief stories: supervised warm start, then GRPO.

    python -m train configs/train/tiny_cpu.yaml
    python -m train configs/train/tiny_cpu.yaml name=seed1 seed=1 grpo.learning_rate=1.0e-4
    python -m train CONFIG --check      # the config and its data files; no model, no torch
    python -m train CONFIG --dry-run    # writes the resolved config and the plan, trains nothing
    python -m train CONFIG --resume     # goes on with a run that was stopped

The run's folder is described in train/run.py. The config is read before torch is imported, so that
a wrong key costs a second.
"""

import argparse
import os
from pathlib import Path

from configs.data import CalbenchData
from configs.errors import UserError, run_command
from configs.training import Training, load_training


def main() -> int:
    arguments = _parse()
    config = load_training(arguments.config, arguments.overrides)
    _check_output(config.folder)
    _check_data_files(_calendar_data(config), *config.held_out)
    if arguments.check:
        print(f"{arguments.config}: ok; run {config.folder}")
        return 0
    return _start(config, dry_run=arguments.dry_run, resume=arguments.resume)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file of configs/train/")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="e.g. grpo.beta=0.04 seed=3"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="validate the config and stop")
    how.add_argument("--dry-run", action="store_true", help="write config and plan and stop")
    how.add_argument("--resume", action="store_true", help="go on with the run of this name")
    return parser.parse_intermixed_args()


def _check_output(folder: Path) -> None:
    """The run's folder can be made: the nearest thing above it that exists is a folder."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"output: {str(there)!r} is a file, so {folder} cannot be made in it")


def _calendar_data(config: Training) -> CalbenchData:
    if not isinstance(config.data, CalbenchData):
        raise UserError(
            f"data.task: {config.data.task!r} has no reward in training yet; use calbench"
        )
    return config.data


def _check_data_files(*sections: CalbenchData) -> None:
    """Read every public task file, so that a fault costs a second and not a start of torch."""
    from tasks.calbench.sources import public_tasks

    for section in sections:
        if section.public is not None:
            public_tasks(section.public)


def _start(config: Training, *, dry_run: bool, resume: bool) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    # On a CPU, threads that wait for work spin; for long they slow everything beside them, and
    # sleeping at once slows themselves. Read when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if config.wandb is not None:
        os.environ["WANDB_MODE"] = config.wandb
        os.environ["WANDB_DIR"] = str(config.folder)
    from tasks.catalog import TASKS
    from tasks.splits import check_disjoint
    from train.prepare import prepare

    examples = list(TASKS[config.data.task](config.data))
    for section in config.held_out:
        check_disjoint(examples, TASKS[section.task](section))
    prepared = prepare(config, examples)
    for row in prepared.lengths:
        print(f"{row.turns:3} turns: {row.rows} prompts of {row.shortest} to {row.longest} tokens")
    for note in prepared.notes:
        print(note)
    if dry_run:
        from train.folder import write_plan

        write_plan(config, prepared.sft, prepared.grpo)
        return 0
    from train.reward_adapter import PART_NAMES, calendar_scorer
    from train.run import run

    return run(prepared, calendar_scorer(config.reward), PART_NAMES, resume)


if __name__ == "__main__":
    run_command(main)

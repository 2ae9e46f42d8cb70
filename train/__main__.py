"""Train a model on belief stories, BASIS dialogues or both: warm start where asked, then GRPO.

    python -m train configs/train/tiny_cpu.yaml
    python -m train configs/train/tiny_cpu.yaml name=seed1 seed=1 grpo.learning_rate=1.0e-4
    python -m train CONFIG --check      # the config, its data files, BASIS test data kept out
    python -m train CONFIG --dry-run    # config and plan written, memory and hours estimated
    python -m train CONFIG --resume     # goes on with a run that was stopped
    python -m train CONFIG --warm-start # only as far as base/, which other runs may start from

The run's folder is described in train/run.py. The config is read before torch is imported, so that
a wrong key costs a second.
"""

import argparse
import importlib.util
import os
from pathlib import Path

from configs.errors import UserError, run_command
from configs.training import Training, load_training
from train.data import check_basis, check_files, training_examples
from train.rollout_server import check_rollouts, launch_line


def main() -> int:
    arguments = _parse()
    config = load_training(arguments.config, arguments.overrides)
    _check_output(config.folder)
    check_files(config)
    if arguments.check:
        check_basis(config)
        print(f"{arguments.config}: ok; run {config.folder}")
        if config.grpo.vllm is not None and config.grpo.vllm.mode == "server":
            print(f"start the rollout server first: {launch_line(config, config.grpo.vllm)}")
        return 0
    return _start(config, arguments)


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
    parser.add_argument(
        "--warm-start", action="store_true", help="stop where GRPO would start, with base/ made"
    )
    parser.add_argument(
        "--pilot", type=Path, metavar="FILE", help="with --dry-run: pass rates of train.pilot"
    )
    parser.add_argument(
        "--peak-tflops",
        type=float,
        default=990.0,
        metavar="N",
        help="with --dry-run: of one device (default 990: an H100 in bfloat16)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="validate the config and stop")
    how.add_argument("--dry-run", action="store_true", help="write config and plan and stop")
    how.add_argument("--resume", action="store_true", help="go on with the run of this name")
    given = parser.parse_intermixed_args()
    if not given.peak_tflops > 0:
        raise UserError(f"--peak-tflops {given.peak_tflops}: give operations a second above 0")
    return given


def _check_output(folder: Path) -> None:
    """The run's folder can be made: the nearest thing above it that exists is a folder."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"output: {str(there)!r} is a file, so {folder} cannot be made in it")


def _start(config: Training, arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    # On a CPU, threads that wait for work spin; for long they slow everything beside them, and
    # sleeping at once slows themselves. Read when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if config.wandb is not None:
        os.environ["WANDB_MODE"] = config.wandb
        os.environ["WANDB_DIR"] = str(config.folder)
    if config.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise UserError("tensorboard: is not installed; pip install -e .[tensorboard]")
    if not (arguments.dry_run or arguments.warm_start):
        check_rollouts(config)
    from train.prepare import prepare

    prepared = prepare(config, training_examples(config))
    for row in prepared.lengths:
        print(
            f"{row.task} {row.turns:3} turns: {row.rows} prompts of {row.shortest} to "
            f"{row.longest} tokens"
        )
    for note in prepared.notes:
        print(note)
    if arguments.dry_run:
        from train.dry_run import describe
        from train.folder import write_plan

        peak = arguments.peak_tflops * 1e12
        print("\n".join(describe(prepared, peak, arguments.pilot)))
        write_plan(config, prepared.sft, prepared.grpo)
        return 0
    from train.run import run
    from train.scorers import open_scorer, part_names

    with open_scorer(config) as scorer:
        return run(prepared, scorer, part_names(config), arguments.resume, arguments.warm_start)


if __name__ == "__main__":
    run_command(main)

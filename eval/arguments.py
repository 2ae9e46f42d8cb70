"""The command line of an evaluation: its commands, their options, and the help on them.

The parser imports none of what the commands need, so that ``--help`` is quick.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

USAGE = """The commands of an evaluation; each reads files, writes files, and may be repeated.

    python -m eval plan    configs/eval/tiny_cpu.yaml --out runs/eval/tiny
    python -m eval run     runs/eval/tiny --system base --server http://127.0.0.1:8000 --model base
    python -m eval run     runs/eval/tiny --system trained --checkpoint runs/tiny_cpu/final
    python -m eval score   runs/eval/tiny
    python -m eval compare runs/eval/tiny --base base --trained trained
    python -m eval report  runs/eval/tiny --train runs/tiny_cpu
    python -m eval agreement HUMAN.csv
    python -m eval import  runs/eval/tiny --system theirs --log samples_tiny.jsonl

BASIS answers are scored by the judge of the plan; `score` takes another as key=value settings.

Exit codes: 0 done; 1 some requests have no answer yet, run again; 2 something to correct (also
where no reply of the judge is a verdict);
3 the server (or the judge) went away or changed, run again; 130 interrupted, run again.
"""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
RAW = argparse.RawDescriptionHelpFormatter


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of one command, its name under ``command``; None: those of this process.

    Ends the process with its usage and code 2 where they are not understood.
    """
    parser = _parser()
    options, left = parser.parse_known_args(arguments)
    if left:
        if "overrides" not in options or any("=" not in w or w.startswith("-") for w in left):
            parser.error(f"unrecognized arguments: {' '.join(left)}")
        options.overrides = [*options.overrides, *left]  # key=value after an option
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eval", description=USAGE, formatter_class=RAW)
    commands = parser.add_subparsers(dest="command", required=True)
    for add in (
        _add_plan, _add_run, _add_import, _add_score, _add_compare, _add_report, _add_agreement,
    ):  # fmt: skip
        add(commands)
    return parser


def _add_plan(commands: Commands) -> None:
    plan = _command(commands, "plan", "freeze requests, sampling and runs into a folder", None)
    plan.add_argument("config", type=Path, help="a YAML of configs/eval")
    plan.add_argument("overrides", nargs="*", help="key=value, such as sampling.temperature=0.0")
    plan.add_argument("--out", required=True, help="plan folder to write")
    _add_estimate(plan)


def _add_run(commands: Commands) -> None:
    run = _command(commands, "run", "ask one system everything it still owes", "plan folder")
    run.add_argument(
        "overrides", nargs="*", help="transport settings: concurrency=256 timeout_s=60"
    )
    run.add_argument("--system", required=True, help="name of this system in the tables")
    run.add_argument(
        "--server",
        action="append",
        metavar="URL",
        help="base address of an OpenAI-compatible server; again for each that serves the same",
    )
    run.add_argument("--model", help="served model name (with --server)")
    run.add_argument(
        "--checkpoint",
        type=Path,
        help="checkpoint folder: generate in this process; with --server, only fingerprint it",
    )
    run.add_argument(
        "--cache", type=Path, metavar="FILE", help="answers to share with other plans (SQLite)"
    )
    run.add_argument(
        "--different-prompts",
        default="",
        metavar="REASON",
        help="why this system may read its prompts otherwise than the other systems",
    )
    run.add_argument(
        "--no-probe",
        action="store_true",
        help="do not send three prompts twice more at the end, to see if their texts come again",
    )
    _add_estimate(run)


def _add_import(commands: Commands) -> None:
    taken = _command(
        commands, "import", "take the answers in a log of lm-eval or Inspect", "plan folder"
    )
    taken.add_argument("--system", required=True, help="name of this system in the tables")
    taken.add_argument(
        "--log", type=Path, required=True, help="samples_*.jsonl of lm-eval, or Inspect's JSON log"
    )
    taken.add_argument(
        "--assume-finished",
        action="store_true",
        help="no reply was cut off (lm-eval does not record it)",
    )


def _add_score(commands: Commands) -> None:
    score = _command(
        commands, "score", "read and score the responses of every system", "plan folder"
    )
    score.add_argument(
        "overrides", nargs="*", help="judge settings (BASIS only): endpoint=URL model=NAME"
    )
    score.add_argument(
        "--retry-unusable",
        action="store_true",
        help="ask the judge again where its reply was unusable (BASIS only)",
    )
    score.add_argument(
        "--controls",
        action="store_true",
        help="also judge the gold texts and four answers that deserve nothing, once per instance "
        "and request text; the report shows them below the systems (BASIS only)",
    )


def _add_compare(commands: Commands) -> None:
    compare = _command(commands, "compare", "compare systems on matched pairs", "plan folder")
    compare.add_argument(
        "--base",
        default="base",
        metavar="ARM",
        help="SYSTEM, SYSTEM/CONDITION, or the checkpoints of one recipe, seed by seed: "
        "warm=warm-0,warm-1,warm-2 (default: base)",
    )
    compare.add_argument(
        "--trained",
        default=["trained"],
        metavar="ARM",
        nargs="+",
        help="what is compared with the base, one or more (default: trained); checkpoints of a "
        "recipe (grpo=grpo-0,grpo-1,grpo-2) meet the base, or as many of its checkpoints in order",
    )
    compare.add_argument(
        "--margin",
        type=float,
        help='largest difference that still counts as "no difference": 0.02 is 2 points; fix it '
        "before you look",
    )


def _add_report(commands: Commands) -> None:
    report = _command(
        commands, "report", "write the report: a page, tables, a picture", "plan folder"
    )
    report.add_argument("--train", type=Path, help="training run folder, for its learning curve")


def _add_agreement(commands: Commands) -> None:
    agreement = _command(commands, "agreement", "compare the judge with human ratings", None)
    agreement.description = f"{agreement.description}\n\n{_csv_help()}"
    agreement.add_argument("csv", type=Path, help="ratings by a human and by the judge")
    agreement.add_argument(
        "--scale", help="all values in order: 1..5 or low,medium,high (default with criteria: 0,1)"
    )
    agreement.add_argument(
        "--out", type=Path, metavar="FILE", help="default: agreement.json beside the CSV"
    )


def _add_estimate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="estimate tokens and time; ask and write nothing"
    )
    parser.add_argument(
        "--tokens-per-second",
        type=float,
        default=1000.0,
        metavar="N",
        help="answer tokens a second of the server, for the estimate (default 1000)",
    )
    parser.add_argument(
        "--price-per-hour", type=float, default=0.0, metavar="N", help="of the server"
    )


def _csv_help() -> str:
    from eval.ratings import COLUMNS, EXAMPLE

    columns = "\n".join(f"  {name:<10} {text}" for name, text in COLUMNS.items())
    return f"Columns, in any order:\n{columns}\n\nExample:\n{EXAMPLE}"


def _command(
    commands: Commands,
    name: str,
    summary: str,
    folder: str | None,
) -> argparse.ArgumentParser:
    example = next(line.strip() for line in USAGE.splitlines() if f"-m eval {name}" in line)
    parser = commands.add_parser(
        name, help=summary, description=f"{summary}\n\n  {example}", formatter_class=RAW
    )
    if folder:
        parser.add_argument("folder", type=Path, help=folder)
    return parser

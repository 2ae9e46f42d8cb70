"""Has GRPO anything to learn from? k completions per prompt of the starting model, scored.

    python -m train.pilot configs/train/tiny_cpu.yaml --checkpoint runs/tiny_cpu/base
    python -m train.pilot CONFIG --server http://127.0.0.1:8000 --model base --prompts 500
    python -m train.pilot CONFIG --checkpoint FOLDER --completions 16 data.generated.count=100

Asks training prompts as GRPO will (same sampling, same reward, BASIS by the same judge) with the
machinery of `python -m eval`, so it may be stopped and repeated. Writes ``OUT/pass_rates.jsonl``
for `curriculum.pool.file`, and prints for each task, condition and bin of turns the rewards, the
pass rate, each part, and the share of groups expected to be dead: all rewards alike, no advantage.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from configs.errors import UserError, run_command
from configs.evaluation import EvalConfig, Sampling, Transport
from configs.training import Training, load_training
from eval.__main__ import main as eval_command
from eval.openai_server import OpenAIServer
from eval.plan import Plan, write_plan
from eval.records import Scored, read_scores
from eval.scoring import score_path
from rewards.chat_server import ServerChanged, ServerUnreachable
from tasks.example import Example, write_examples
from train.data import check_files, training_examples
from train.pool import PassRate, dead_share, write_rates
from train.turn_bins import Bin, bin_of, draw

SYSTEM = "pilot"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code. Raises ``UserError``."""
    options = _parser().parse_intermixed_args(arguments)
    config = load_training(options.config, options.overrides)
    check_files(config)
    if options.server:
        check_server(options.server, options.model)
    out = options.out or Path("runs") / "pilot" / config.name
    runs = options.completions or config.grpo.num_generations
    rates = []
    for task in config.tasks:
        examples = [one for one in training_examples(config) if one.task == task]
        asked = draw(examples, options.prompts, config.seed)
        plan = frozen(config, asked, out / task, runs)
        code = _ask(plan, options)
        if code:
            return code
        rates += pass_rates(asked, read_scores(score_path(plan, SYSTEM)), options.pass_at)
    write_rates(out / "pass_rates.jsonl", rates)
    print("\n".join(table(rates, config.grpo.num_generations, options.pass_at)))
    print(f"{out / 'pass_rates.jsonl'}: {len(rates)} prompts")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.pilot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file of configs/train/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for python -m train")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--checkpoint", type=Path, help="the starting model, asked in this process")
    who.add_argument("--server", help="base address of an OpenAI-compatible server of it")
    parser.add_argument("--model", help="served model name (with --server)")
    parser.add_argument("--prompts", type=int, default=120, help="of each task (default 120)")
    parser.add_argument("--completions", type=int, help="of each; default grpo.num_generations")
    parser.add_argument("--pass-at", type=float, default=1.0, help="reward that passes (default 1)")
    parser.add_argument("--out", type=Path, help="default: runs/pilot/NAME")
    return parser


def check_server(url: str, model: str | None) -> None:
    """Raise ``UserError`` unless ``model`` is served there; before the prompts are made, which
    takes longer than to see that nobody answers."""
    if model is None:
        raise UserError("--server needs --model: the name under which it serves the checkpoint")

    async def look() -> None:
        async with OpenAIServer([url], model, Transport()) as engine:
            await engine.model_card()

    try:
        asyncio.run(look())
    except (ServerUnreachable, ServerChanged) as error:
        raise UserError(str(error)) from None


def frozen(config: Training, asked: Sequence[Example], folder: Path, runs: int) -> Plan:
    """The prompts as an evaluation plan with GRPO's sampling. Raises ``UserError``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_examples(folder / "examples.jsonl", asked)
    basis = asked[0].task == "basis"
    plan = EvalConfig(
        examples=folder / "examples.jsonl",
        runs=runs,
        sampling=Sampling(
            temperature=config.grpo.temperature,
            top_p=config.grpo.top_p,
            top_k=-1,
            max_tokens=config.grpo.max_completion_length,
            seed=config.seed,
            enable_thinking=config.model.enable_thinking is not False,
        ),
        reward=config.reward,
        judge=config.judge if basis else None,
        rubric=config.rubric,
    )
    return write_plan(plan, folder / "plan")[0]


def _ask(plan: Plan, options: argparse.Namespace) -> int:
    if options.server:
        who = ["--server", options.server, *(["--model", options.model] if options.model else [])]
    else:
        who = ["--checkpoint", str(options.checkpoint)]
    code = eval_command(["run", str(plan.folder), "--system", SYSTEM, *who])
    return code or eval_command(["score", str(plan.folder)])


def pass_rates(
    asked: Sequence[Example], scores: Iterator[Scored], pass_at: float
) -> list[PassRate]:
    """One row a prompt, in the order asked. A completion without a score counts in no rate."""
    by_id: dict[str, list[Scored]] = defaultdict(list)
    for row in scores:
        by_id[row.id].append(row)
    return [_rate(example, by_id[example.id], pass_at) for example in asked]


def _rate(example: Example, rows: Sequence[Scored], pass_at: float) -> PassRate:
    rewards = tuple(row.reward for row in rows if row.reward is not None)
    parts: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.parts.items():
            if value is not None:
                parts[name].append(value)
    return PassRate(
        id=example.id,
        task=example.task,
        condition=example.condition,
        turns=example.turns,
        completions=len(rows),
        rewards=rewards,
        pass_rate=fmean(reward >= pass_at for reward in rewards) if rewards else None,
        parts={name: fmean(values) for name, values in sorted(parts.items())},
        full={name: fmean(one >= 1 for one in values) for name, values in sorted(parts.items())},
    )


def table(rates: Sequence[PassRate], group: int, pass_at: float) -> Iterator[str]:
    """One line for each task, condition and bin of turns, and one for all."""
    yield f"pass: reward >= {pass_at:g}; dead: expected share of groups of {group} without spread"
    kinds: dict[tuple[str, str, Bin], list[PassRate]] = defaultdict(list)
    for rate in rates:
        kinds[(rate.task, rate.condition, bin_of(rate.turns))].append(rate)
    for (task, condition, (low, high)), several in sorted(kinds.items()):
        yield f"{task} {condition}, {low} to {high} turns: {summary(several, group)}"
    yield f"all: {summary(rates, group)}"


def summary(rates: Sequence[PassRate], group: int) -> str:
    """Means over prompts: reward, pass rate, dead share, and each part."""
    scored = [rate for rate in rates if rate.rewards]
    if not scored:
        return f"{len(rates)} prompts, no completion could be scored"
    parts: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for rate in scored:
        for name, value in rate.parts.items():
            parts[name].append((value, rate.full[name]))
    shown = [
        f"{name} {fmean(mean for mean, _ in found):.3f} (whole {fmean(w for _, w in found):.1%})"
        for name, found in parts.items()
    ]
    return (
        f"{len(rates)} prompts, reward {fmean(fmean(rate.rewards) for rate in scored):.3f}, "
        f"pass {fmean(rate.pass_rate or 0.0 for rate in scored):.1%}, "
        f"dead {dead_share(scored, group):.1%}; " + ", ".join(shown)
    )


if __name__ == "__main__":
    run_command(main)

"""The commands of an evaluation, run; ``eval.arguments`` has their options and the help on them."""

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from configs.errors import UserError, run_command
from eval.arguments import parsed

if TYPE_CHECKING:  # the commands import what they need: --help must not pay for it
    from configs.judge import JudgeConfig
    from eval.basis.scoring import Outcome as Scoring
    from eval.engines import Engine
    from eval.estimate import Estimate
    from eval.plan import Plan
    from eval.runner import Outcome

Score: TypeAlias = "Callable[[Plan, str, JudgeConfig, bool], Scoring]"
TAKEN = (".prompts", ".json", ".jsonl", ".part")  # ends of file names beside a system's
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run one command; returns its exit code. Raises ``UserError``."""
    options = parsed(arguments)
    command = {
        "plan": _plan,
        "run": _run,
        "import": _import,
        "score": _score,
        "compare": _compare,
        "report": _report,
        "agreement": _agreement,
    }[options.command]
    return command(options)


def _print_estimate(found: "Estimate", options: argparse.Namespace) -> int:
    if options.tokens_per_second <= 0 or options.price_per_hour < 0:
        raise UserError("--tokens-per-second must be above 0, --price-per-hour not below")
    print("\n".join(found.lines(options.tokens_per_second, options.price_per_hour)))
    return 0


def _plan(options: argparse.Namespace) -> int:
    from configs.evaluation import EvalConfig
    from configs.load import load
    from eval.estimate import estimate
    from eval.plan import planned_examples, write_plan

    config = load(options.config, EvalConfig, options.overrides)
    if options.dry_run:
        owed = ((example, config.runs, None) for example in planned_examples(config))
        return _print_estimate(estimate(owed, config.sampling.max_tokens), options)
    if not options.out:
        raise UserError("--out is empty; name the plan folder to write")
    plan, new = write_plan(config, Path(options.out))
    print(
        f"{options.out}: plan {plan.hash} {'frozen' if new else 'is already there'}, "
        f"{len(plan.ids)} requests x {plan.config.runs} runs"
    )
    return 0


def _run(options: argparse.Namespace) -> int:
    from eval.plan import read_plan

    _check_name(options.system)
    plan = read_plan(options.folder).with_transport(options.overrides)
    if options.dry_run:
        return _print_estimate(asyncio.run(_estimate_and_close(options, plan)), options)
    outcome = asyncio.run(_run_and_close(options, plan))
    states = ", ".join(f"{name} {count}" for name, count in sorted(outcome.states.items()))
    print(
        f"{options.system}: {outcome.planned - outcome.owed} of {outcome.planned} answered"
        f" (this time: {states or 'nothing asked'}; from the cache {outcome.reused})"
    )
    for text in outcome.notes:
        print(f"note: {text}", file=sys.stderr)
    if outcome.stopped or outcome.owed:
        why = outcome.stopped or "some requests failed"
        reason = f" ({outcome.why})" if outcome.why else ""
        print(
            f"{why}{reason}; {outcome.owed} still owed, run the same command again", file=sys.stderr
        )
    return outcome.exit_code


def _import(options: argparse.Namespace) -> int:
    from eval.foreign_logs import import_log
    from eval.plan import read_plan

    _check_name(options.system)
    plan = read_plan(options.folder)
    found = import_log(plan, options.system, options.log, options.assume_finished)
    states = ", ".join(f"{name} {count}" for name, count in sorted(found.states.items()))
    print(
        f"{options.system}: {found.taken} of {len(plan.ids) * plan.config.runs} answers taken "
        f"({states}); {found.unknown} are to nothing in this plan"
    )
    return 0


def _check_name(system: str) -> None:
    """The name stands in file names: those of another system, or of what is no system, are taken.

    ``a.prompts`` and ``a`` would share ``a.prompts.json``.
    """
    if not NAME.fullmatch(system):
        raise UserError(f"--system {system!r}: use letters, digits, '.', '_' and '-'")
    if system.lower().endswith(TAKEN):
        raise UserError(f"--system {system!r}: ends like a file of a plan folder; choose another")


async def _run_and_close(options: argparse.Namespace, plan: "Plan") -> "Outcome":
    from eval.probe import probe
    from eval.runner import run_system

    engine = _engine(options, plan)
    try:
        outcome = await run_system(
            plan,
            options.system,
            engine,
            different_prompts=options.different_prompts,
            cache=options.cache,
        )
        if outcome.states and not outcome.exit_code and not options.no_probe:
            found = await probe(plan, options.system, engine)
            outcome.notes = (*outcome.notes, *([found.words] if found else []))
        return outcome
    finally:
        await engine.close()


async def _estimate_and_close(options: argparse.Namespace, plan: "Plan") -> "Estimate":
    from eval.runner import estimate_run

    engine = _engine(options, plan)
    try:
        return await estimate_run(plan, options.system, engine, options.different_prompts)
    finally:
        await engine.close()


def _engine(options: argparse.Namespace, plan: "Plan") -> "Engine":
    """The engine asked for: a server, or a checkpoint in this process."""
    transport = plan.config.transport
    if options.server:
        from eval.checkpoint import fingerprint
        from eval.openai_server import OpenAIServer

        if not options.model:
            raise UserError("--server needs --model: the name under which it serves the checkpoint")
        known = fingerprint(options.checkpoint) if options.checkpoint else ""
        return OpenAIServer(options.server, options.model, transport, known)
    if options.model or not options.checkpoint:
        raise UserError("say who answers: --server URL --model NAME, or --checkpoint FOLDER")
    from eval.in_process import InProcess

    return InProcess(options.checkpoint, transport.batch_size)


def _score(options: argparse.Namespace) -> int:
    from eval.plan import read_plan
    from eval.scoring import systems

    plan = read_plan(options.folder)
    if not systems(plan):
        raise UserError(
            f"{options.folder}: no responses to score; ask a system first with `python -m eval run`"
        )
    return {"calbench": _score_calendar, "basis": _score_basis}[plan.task](plan, options)


def _score_calendar(plan: "Plan", options: argparse.Namespace) -> int:
    from eval.records import COMPLETE
    from eval.scoring import score_policies, score_system, systems

    if options.overrides or options.retry_unusable or options.controls:
        raise UserError("calendar answers have no judge; score them without judge settings")
    for name in systems(plan):
        tally = score_system(plan, name)
        states = ", ".join(f"{state} {count}" for state, count in tally.states.items())
        complete, total = tally.states.get(COMPLETE, 0), sum(tally.states.values())
        print(f"{name}: {complete}/{total} complete ({states}; {tally.duplicates} duplicates)")
        if plan.config.structured_output and "unparseable" in tally.states:
            print(
                f"note: {name}: {tally.states['unparseable']} whole replies do not follow the "
                "schema sent with them; its server ignores response_format",
                file=sys.stderr,
            )
    score_policies(plan)
    return 0


def _score_basis(plan: "Plan", options: argparse.Namespace) -> int:
    from configs.load import overridden
    from eval.basis.controls import CONTROLS, score_control
    from eval.basis.predictions import write_predictions
    from eval.basis.scoring import score_system
    from eval.scoring import systems

    assert plan.config.judge is not None, "a plan of rubric answers has a judge"
    judge = overridden(plan.config.judge, options.overrides)
    code = 0
    jobs: list[tuple[str, Score, str]] = [(name, score_system, name) for name in systems(plan)]
    if options.controls:
        jobs += [(f"control {name}", score_control, name) for name in CONTROLS]
    for title, score, name in jobs:
        try:
            outcome = score(plan, name, judge, options.retry_unusable)
        except KeyboardInterrupt:
            print(f"{title}: interrupted; run the same command again", file=sys.stderr)
            return 130
        if score is score_system:
            write_predictions(plan, name)
        _print_judged(title, outcome)
        code = max(code, outcome.exit_code)
        if outcome.session.stopped:
            break
    return code


def _print_judged(name: str, outcome: "Scoring") -> None:
    from eval.records import COMPLETE

    states = ", ".join(f"{state} {count}" for state, count in outcome.states.items())
    said, session = outcome.judgements, outcome.session
    failed = sum(said["failed"].values())
    named = ", ".join(f"{reason} {count}" for reason, count in said["failed"].items())
    print(
        f"{name}: {outcome.states.get(COMPLETE, 0)}/{sum(outcome.states.values())} complete "
        f"({states}; {outcome.duplicates} duplicates); judged {said['judged']}, empty "
        f"{said['empty_candidate']}, judge failed {failed} = {said['failing_share']:.1%}"
        f"{f' ({named})' if named else ''}; requests this time {session.counts.requests}"
    )
    if said["owed"] or session.stopped:
        reason = f"{session.stopped}; " if session.stopped else ""
        print(
            f"{name}: {reason}{said['owed']} judgements still owed, run the same command again",
            file=sys.stderr,
        )
    if outcome.unusable:
        none = "none of the judge's replies is a verdict" if not said["judged"] else "no verdict"
        print(
            f"{name}: {none}, {outcome.unusable} times; ask for these again with --retry-unusable, "
            "or name another judge (model=NAME endpoint=URL)",
            file=sys.stderr,
        )


def _compare(options: argparse.Namespace) -> int:
    from eval.basis.compare import compare as compare_basis
    from eval.compare import compare
    from eval.plan import read_plan

    plan = read_plan(options.folder)
    found = {"calbench": compare, "basis": compare_basis}[plan.task](
        plan, options.base, options.trained, options.margin
    )
    for text in found["warnings"]:
        print(f"warning: {text}", file=sys.stderr)
    shown = [one for one in found["contrasts"] if one["primary"] and not found.get("withheld")]
    if shown:
        trained = ", ".join(options.trained)
        print(f"{plan.folder.name}: {trained} against {options.base}, {plan.answer_form}")
    for one in shown:
        print(_contrast_line(one))
    for one in found["recipes"] if shown else ():
        if one["primary"]:
            print(_recipe_line(one))
    return 0


def _recipe_line(one: Mapping[str, Any]) -> str:
    from eval.formatting import p_value, signed
    from eval.paper_checkpoints import each

    shown = [signed(one[name], one["unit"]) for name in ("difference", "low", "high")]
    base, trained = one["arms"]
    df = "n/a" if one["df"] is None else f"{one['df']:.1f}"
    why = f" ({one['reason']})" if one["reason"] else ""
    return (
        f"{trained} - {base} over {len(one['members'])} checkpoints ({each(one)}), {one['label']} "
        f"({one['condition']}): {shown[0]} [{shown[1]}, {shown[2]}] p {p_value(one['p'])} (Holm "
        f"{p_value(one['p_holm'])}), df {df}, n {one['items']}, {one['clusters']} tasks: "
        f"{one['verdict']}{why}"
    )


def _contrast_line(one: Mapping[str, Any]) -> str:
    from eval.formatting import p_value, signed

    shown = [signed(one[name], one["unit"]) for name in ("difference", "low", "high")]
    base, trained = one["arms"]
    words = (
        f"{trained} - {base}, {one['label']} ({one['condition']}): {shown[0]} "
        f"[{shown[1]}, {shown[2]}] p {p_value(one['p'])} (max-T {p_value(one['p_max_t'])}) "
        f"n {one['items']}, {one['clusters']} tasks, {one['cells']}/{one['planned']} cells: "
        f"{one['verdict']}"
    )
    if (test := one["equivalence"]) is not None:
        said = "shown" if test["shown"] else "not shown"
        words += f"; no difference beyond {test['margin']:g}: {said} (p {p_value(test['p'])})"
    return words


def _report(options: argparse.Namespace) -> int:
    from eval.plan import read_plan

    plan = read_plan(options.folder)
    publish = {"calbench": _publish_calendar, "basis": _publish_basis}[plan.task]
    for path in publish(plan, options.train):
        print(path)
    return 0


def _agreement(options: argparse.Namespace) -> int:
    from eval.agreement import agreement, table
    from eval.ratings import parse_scale

    scale = None if options.scale is None else parse_scale(options.scale)
    found = agreement(options.csv, scale, options.out)
    print("\n".join(table(found)))
    return 0


def _publish_calendar(plan: "Plan", train: Path | None) -> list[Path]:
    from eval.publish import write_report
    from eval.report import gather

    return write_report(plan.folder, gather(plan, train))


def _publish_basis(plan: "Plan", train: Path | None) -> list[Path]:
    from eval.basis.publish import write_report
    from eval.basis.report import gather

    return write_report(plan.folder, gather(plan, train))


if __name__ == "__main__":
    run_command(main)

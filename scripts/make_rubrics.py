"""Make rubrics for BASIS instances: gold belief, profile and solution -> atomic yes/no criteria.

    python -m scripts.make_rubrics configs/rubrics/vllm.yaml --data PATH --out runs/rubrics

A generator writes each list; code and a judge check it (the gold meets at least 90 % of it, a text
that says nothing meets none). PATH: BASIS files or folders; rubrics in them are not read. Files
of the output folder::

    made_with.json          models, sampling and limits; another config needs another folder
    rubrics.jsonl           one rubric a line, append-only: accepted, rejected or failed, and why
    instances/DOMAIN.jsonl  the instances with three accepted rubrics, in the one-line form

Run the same command again to resume: what failed is asked for again (a list that only lacks its
judge is judged), what was accepted or rejected is not. Exit codes: 0 all accepted; 1 some rejected
or failed; 2 something to correct; 3 an endpoint went away or failed too often; 130 interrupted.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from configs.errors import UserError, run_command
from configs.load import load
from configs.rubrics import RubricsConfig
from eval.plan import differing
from eval.records import read_json, write_atomically, write_json
from eval.row_log import LineLog
from rewards.criteria import PROMPT_VERSION, Gold
from rewards.rubric_maker import EndpointFailing, Made, RubricMaker
from scripts.rubric_log import Key, append, key, read_log
from tasks.basis.collection import read_instances, sound_instances
from tasks.basis.instances import DIMENSIONS, DOMAINS, Instance, Rubrics
from tasks.basis.oneline import to_record
from tasks.basis.reference import gold_texts

_NAMED = 10  # rubrics named behind each reason


@dataclass(slots=True)
class Run:
    """Rubrics asked for, what became of them, and why the run stopped early, if it did."""

    golds: list[Gold]
    made: dict[Key, Made]
    stopped: str = ""
    requests: int = 0

    @property
    def owed(self) -> list[Gold]:
        """Without a row yet, or with a failed one."""
        done = {name for name, made in self.made.items() if made.state != "failed"}
        return [gold for gold in self.golds if key(gold) not in done]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.make_rubrics",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="YAML of configs.rubrics.RubricsConfig")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="generator.model=NAME")
    parser.add_argument(
        "--data", type=Path, action="append", required=True, metavar="PATH", help="may be repeated"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N instances only")
    options = parser.parse_intermixed_args(arguments)  # key=value after an option
    if options.out.exists() and not options.out.is_dir():
        raise UserError(f"--out {options.out}: is a file; name a folder")
    config = load(options.config, RubricsConfig, options.overrides)
    instances = _instances(options.data, options.limit)
    try:
        run = asyncio.run(make_rubrics(config, instances, options.out))
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    print("\n".join(summary(run)))
    for path, count in write_instances(run, instances, options.out):
        print(f"{path}: {count} instances")
    return _exit_code(run)


def _instances(paths: Sequence[Path], limit: int | None) -> tuple[Instance, ...]:
    if limit is not None and limit < 1:
        raise UserError(f"--limit {limit}: give at least 1")
    collection = read_instances(paths, with_rubrics=False)
    for fault in collection.faults:
        print(f"left out: {fault}", file=sys.stderr)
    return tuple(islice(sound_instances(collection), limit))


def golds_of(instance: Instance) -> Iterator[Gold]:
    """What the three rubrics of an instance are made from."""
    scene = f"{instance.observation}\n{instance.instruction}"
    texts = gold_texts(instance)
    for dimension in DIMENSIONS:
        yield Gold(instance.id, dimension, scene, texts[dimension])


async def make_rubrics(
    config: RubricsConfig, instances: Sequence[Instance], out: Path, progress: bool = True
) -> Run:
    """Make what ``out`` does not hold yet, as far as the endpoints allow; every row is kept.

    Raises ``UserError`` when an endpoint is not there at the start, or ``out`` is of another
    config.
    """
    golds = [gold for instance in instances for gold in golds_of(instance)]
    settle(out / "made_with.json", config)
    path = out / "rubrics.jsonl"
    log = LineLog(path, "scripts.make_rubrics")
    try:
        run = Run(golds, read_log(path, golds))
        if run.owed:
            await _make_owed(config, run, log, progress)
    finally:
        log.close()
    return run


def settle(path: Path, config: RubricsConfig) -> None:
    """Write what decides a rubric the first time; later it must be equal."""
    new = made_with(config)
    if not path.exists():
        write_json(path, new)
        return
    if fields := differing(read_json(path, "remove it to start anew"), new):
        raise UserError(f"{path}: was made otherwise: {', '.join(fields)}; choose another --out")


def made_with(config: RubricsConfig) -> dict[str, Any]:
    """The part of the config that decides a rubric; how requests travel does not."""
    asked = {"model", "revision", "sampling"}
    return {
        "prompt_version": PROMPT_VERSION,
        "generator": config.generator.model_dump(mode="json", include=asked),
        "judge": config.judge.model_dump(mode="json", include=asked | {"mode"}),
        "tries": config.tries,
        "gold_at_least": config.gold_at_least,
    }


async def _make_owed(config: RubricsConfig, run: Run, log: LineLog, progress: bool) -> None:
    """Workers share the stream of owed rubrics; an endpoint that fails stops all of them."""
    owed = run.owed
    stream = iter(owed)
    async with RubricMaker(config) as maker:
        await maker.check()
        with tqdm(
            total=len(run.golds),
            initial=len(run.golds) - len(owed),
            desc="rubrics",
            unit="rubric",
            disable=None if progress else True,
            mininterval=0.5,
        ) as bar:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(config.generator.concurrency, len(owed))):
                        group.create_task(_work(maker, stream, run, log, bar))
            except* EndpointFailing as failures:
                run.stopped = str(failures.exceptions[0])
        run.requests = maker.requests


async def _work(
    maker: RubricMaker, stream: Iterator[Gold], run: Run, log: LineLog, bar: "tqdm[NoReturn]"
) -> None:
    for gold in stream:
        made = await maker.make(gold, run.made.get(key(gold)))
        append(log, made, gold)
        run.made[key(gold)] = made
        bar.update()
        maker.raise_if_failing()


def summary(run: Run) -> Iterator[str]:
    """How many rubrics ended how; by reason, the first names of each."""
    states = Counter(made.state for made in run.made.values())
    missing = len(run.golds) - len(run.made)
    yield (
        f"{len(run.golds)} rubrics: accepted {states['accepted']}, rejected {states['rejected']}, "
        f"failed {states['failed']}, not asked {missing}; {run.requests} requests this time"
    )
    named: dict[tuple[str, str], list[str]] = {}
    for (instance, dimension), made in sorted(run.made.items()):
        if made.state != "accepted":
            named.setdefault((made.state, made.reason), []).append(f"{instance} {dimension}")
    for (state, reason), names in sorted(named.items()):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{state}: {reason}: {len(names)}: {', '.join(names[:_NAMED])}{more}"
    if run.stopped:
        yield f"stopped: {run.stopped}; {len(run.owed)} still owed, run the same command again"


def write_instances(
    run: Run, instances: Sequence[Instance], out: Path
) -> Iterator[tuple[Path, int]]:
    """Write the instances whose three rubrics were accepted; yields each file with its count."""
    for domain in DOMAINS:
        done = [
            replace(instance, rubrics=rubrics)
            for instance in instances
            if instance.domain == domain and (rubrics := _rubrics(instance, run.made))
        ]
        if done:
            path = out / "instances" / f"{domain}.jsonl"
            write_atomically(path, [_line(instance) for instance in done])
            yield path, len(done)


def _line(instance: Instance) -> str:
    return json.dumps(to_record(instance), ensure_ascii=False) + "\n"


def _rubrics(instance: Instance, made: Mapping[Key, Made]) -> Rubrics | None:
    """The three rubrics; None unless all were accepted."""
    found = [made.get((instance.id, dimension)) for dimension in DIMENSIONS]
    accepted = [one.criteria for one in found if one and one.state == "accepted"]
    return Rubrics(*accepted) if len(accepted) == len(DIMENSIONS) else None


def _exit_code(run: Run) -> int:
    if run.stopped:
        return 3
    accepted = sum(made.state == "accepted" for made in run.made.values())
    return 0 if accepted == len(run.golds) else 1


if __name__ == "__main__":
    run_command(main)

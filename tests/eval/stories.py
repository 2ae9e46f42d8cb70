"""Small real inputs for the evaluation tests: calendar requests, plans, and scripted answers."""

from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from configs.data import CalbenchData, GeneratedTasks
from configs.evaluation import EvalConfig, Sampling, Transport
from eval.plan import Plan, write_plan
from eval.records import canonical
from tasks.calbench.examples import examples
from tasks.calbench.reference import Reference, parse
from tasks.example import Example, write_examples
from tests.eval.scripted_server import Body, Script, completion

QUICK = Transport(
    concurrency=8, timeout_s=5.0, max_tries=3, backoff_s=0.01, max_connection_errors=4
)


def data(tasks: int = 8) -> CalbenchData:
    """Belief and direct requests of ``tasks`` small tasks, 16 requests a task."""
    return CalbenchData(
        split="test",
        generated=GeneratedTasks(
            count=tasks, seed=3, agents=4, slots=6, meetings=2, participants=2, density=0.5
        ),
        families=("lock",),
        conditions=("belief", "direct"),
        turns=(2,),
    )


def some(count: int, tasks: int = 8) -> list[Example]:
    """The first ``count`` requests."""
    return list(examples(data(tasks)))[:count]


def make_plan(
    folder: Path,
    asked: list[Example],
    runs: int = 1,
    transport: Transport = QUICK,
    **sampling: object,
) -> Plan:
    """Freeze ``asked`` into ``folder/plan``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_examples(folder / "examples.jsonl", asked)
    config = EvalConfig(
        examples=folder / "examples.jsonl",
        runs=runs,
        transport=transport,
        sampling=Sampling.model_validate({"max_tokens": 64, **sampling}),
    )
    return write_plan(config, folder / "plan")[0]


def by_policy(asked: list[Example], policy: Callable[[Reference], str]) -> Script:
    """A server script that answers every request as ``policy`` would."""
    targets = {canonical(list(one.messages)): one.target for one in asked}

    async def script(body: Body, number: int) -> web.StreamResponse:
        return completion(policy(parse(targets[canonical(body["messages"])])))

    return script

"""Small BASIS plans, scripted candidates and scripted judges over loopback."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from configs.data import BasisData
from configs.evaluation import EvalConfig, Sampling
from configs.judge import JudgeConfig
from eval.openai_server import OpenAIServer
from eval.plan import Plan, write_plan
from eval.runner import Outcome, run_system
from tasks.basis.reference import Reference, parse
from tests.eval.scripted_server import Body, Script, ScriptedServer, completion
from tests.eval.stories import QUICK
from tests.tasks.basis.small_instances import record, write_lines

BASIS = {"swe": "Software Engineering", "culture": "Culture"}
Policy = Callable[[Reference], str]


def criteria(*words: str) -> list[dict[str, str]]:
    return [{"criterion": f'Says "{word}".'} for word in words]


RUBRICS = {
    "latent_belief_explanation": criteria("fuse", "blown"),
    "user_profile_modeling": criteria("retired", "handy", "alone"),
    "correct_resolution": criteria("bulb", "replace", "fine", "test"),
}


def write_instances(folder: Path, count: int = 10) -> Path:
    """``count`` instances of each of two domains; the first of swe leaks from turn 3 on."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, domain in BASIS.items():
        rows = [
            record(f"{prefix}_{2 * n:04d}", domain=domain, rubrics=RUBRICS) for n in range(count)
        ]
        if prefix == "swe":
            rows[0]["trajectory_inline"][2]["observation"] = "The user believes it is the fuse."
        write_lines(folder / f"{prefix}.jsonl", *rows)
    return folder


def make_plan(
    folder: Path,
    settings: dict[str, tuple[int, ...]],
    count: int = 10,
    runs: int = 1,
    judge: JudgeConfig | None = None,
    **changes: Any,
) -> Plan:
    """Freeze the requests of small instances into ``folder/plan``."""
    files = (str(write_instances(folder / "data", count)),)
    data = BasisData.model_validate(
        {"task": "basis", "split": "test", "files": files, "settings": settings, **changes}
    )
    config = EvalConfig(
        data=data,
        runs=runs,
        transport=QUICK,
        sampling=Sampling(max_tokens=64),
        judge=judge or JudgeConfig(endpoint="http://127.0.0.1:1", model="m"),
    )
    return write_plan(config, folder / "plan")[0]


def answer(reference: Reference, belief: str, profile: str, solution: str) -> str:
    """An answer with these texts in the form asked for."""
    texts = {"belief": belief, "profile": profile, "solution": solution}
    if reference.form == "json":
        return json.dumps(texts)
    text = texts[reference.asks[0]]
    return f"Well.\nFinal answer: {text}" if reference.form == "marker" else text


def half(reference: Reference) -> str:
    """Meets 1 of 2, 1 of 3 and 1 of 4 criteria."""
    return answer(reference, "the fuse", "retired", "a new bulb")


def full(reference: Reference) -> str:
    """Meets every criterion."""
    return answer(reference, "fuse blown", "retired handy alone", "bulb: replace, fine, test")


def by_policy(plan: Plan, policy: Policy) -> Script:
    """A candidate server that answers every request as ``policy`` would."""
    targets = {one.messages[-1]["content"]: one.target for one in plan.requests()}

    async def script(body: Body, number: int) -> web.StreamResponse:
        return completion(policy(parse(targets[body["messages"][-1]["content"]])))

    return script


def ask(plan: Plan, system: str, policy: Policy) -> Outcome:
    """Let a scripted candidate answer the whole plan."""

    async def go(url: str) -> Outcome:
        transport = plan.config.transport
        async with OpenAIServer([url], "m", transport, fingerprint=system) as engine:
            return await run_system(plan, system, engine, progress=False)

    with ScriptedServer(by_policy(plan, policy)) as server:
        return asyncio.run(go(server.url))

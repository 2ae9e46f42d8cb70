"""Does the server give one request the same text twice? A probe after a run, and what it says.

Three prompts of the plan are sent twice more with the seed of their first run; texts are compared
byte for byte, with each other and with what the run got. Many servers do not reproduce (the batch
a request falls into changes its arithmetic): then a run cannot be repeated, only drawn again.
"""

from collections.abc import Sequence
from dataclasses import asdict

from eval.determinism import Determinism, probe_path
from eval.engines import Call, Engine
from eval.plan import Plan, seed_for
from eval.records import Key, write_sealed
from eval.responses import read_at, read_index
from eval.structured import response_format
from rewards.chat_server import ServerChanged, ServerUnreachable

PROMPTS = 3
WHOLE = frozenset({"ok", "truncated"})


async def probe(plan: Plan, system: str, engine: Engine) -> Determinism | None:
    """Send the prompts twice and keep what came of it; None when the server went away meanwhile."""
    keys, calls = _calls(plan)
    try:
        first = await engine.complete(calls)
        second = await engine.complete(calls)
    except (ServerUnreachable, ServerChanged):
        return None
    texts = _texts(plan, system, keys)
    both = [
        (one.text, other.text, text)
        for one, other, text in zip(first, second, texts, strict=True)
        if one.state in WHOLE and other.state in WHOLE
    ]
    found = Determinism(
        repeated=len(both),
        same=sum(one == other for one, other, _ in both),
        as_run=sum(one == other == text for one, other, text in both),
    )
    write_sealed(probe_path(plan, system), asdict(found))
    return found


def _calls(plan: Plan) -> tuple[list[Key], list[Call]]:
    """The first requests of the plan in their first run, as the run asked them."""
    keys: list[Key] = []
    calls: list[Call] = []
    for example in plan.requests():
        if len(calls) == PROMPTS:
            break
        held = response_format(example) if plan.config.structured_output else None
        seed = seed_for(plan.config.sampling.seed, example.id, 1)
        keys.append((example.id, 1))
        calls.append(Call(example.messages, plan.config.sampling, seed, held))
    return keys, calls


def _texts(plan: Plan, system: str, keys: Sequence[Key]) -> list[str | None]:
    """What the run got for them."""
    path = plan.folder / "responses" / f"{system}.jsonl"
    offsets = read_index(path, plan.holds).offsets
    with path.open("rb") as log:
        return [read_at(log, offsets[key]).text if key in offsets else None for key in keys]

"""What each system really reads: its rendered prompts, counted and compared before a run.

Two checkpoints whose chat templates differ are asked different questions; one added token can
move a score more than training did. So the token ids of every prompt are hashed and must be equal
for all systems of a plan, unless the user says why not. A prompt that leaves no room for its
answer is found here and not by an error in the middle of a run; nothing is ever cut.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from configs.errors import UserError
from eval.engines import Call, Engine, Served
from eval.plan import Plan
from eval.records import canonical, read_json, sha256, write_json

BATCH = 256


@dataclass(frozen=True, slots=True)
class Prompts:
    """Of each request, in plan order, a hash of its prompt's token ids and how many there are.

    ``probe``: ``prompts_hash`` of who rendered them. ``because``: why they may differ from those
    of other systems; empty: they may not.
    """

    digests: list[str]
    lengths: list[int]
    probe: str
    because: str = ""


def prompts_path(plan: Plan, system: str) -> Path:
    """Where the rendered prompts of a system are counted."""
    return plan.folder / "responses" / f"{system}.prompts.json"


def read_prompts(plan: Plan, system: str) -> Prompts | None:
    """What ``write_prompts`` wrote; None where the server could not render."""
    path = prompts_path(plan, system)
    if not path.exists():
        return None
    raw = read_json(path, "remove it, run again")
    digests, lengths = raw.get("digests"), raw.get("lengths")
    if (
        not isinstance(digests, list)
        or not isinstance(lengths, list)
        or not len(digests) == len(lengths) == len(plan.ids)
        or not all(isinstance(one, int) for one in lengths)
    ):
        raise UserError(f"{path}: not the prompts of this plan; remove it, run again")
    return Prompts(digests, lengths, str(raw.get("probe")), str(raw.get("because", "")))


async def check_prompts(
    plan: Plan, system: str, engine: Engine, served: Served, because: str
) -> Prompts | None:
    """Render every request once, check the lengths, compare with the other systems.

    None where the engine cannot render. Raises ``UserError`` when a prompt does not fit the
    server's context, or differs from another system's for no reason given.
    """
    found = read_prompts(plan, system)
    if found is None or found.probe != served.prompts_hash:
        found = await _render(plan, engine, Prompts([], [], served.prompts_hash))
    if found is None:
        return None
    found = replace(found, because=because or found.because)
    _refuse_too_long(plan, found.lengths, served.max_model_len)
    if not found.because:
        _refuse_difference(plan, system, found)
    return found


def write_prompts(plan: Plan, system: str, found: Prompts) -> None:
    """Keep what ``check_prompts`` found, for the other systems and for a resumed run."""
    write_json(prompts_path(plan, system), asdict(found))


async def _render(plan: Plan, engine: Engine, found: Prompts) -> Prompts | None:
    """``found`` with every request added."""
    batch: list[Call] = []
    for number, example in enumerate(plan.requests(), 1):
        batch.append(Call(example.messages, plan.config.sampling, 0))
        if len(batch) == BATCH or number == len(plan.ids):
            rendered = await engine.render(batch)
            if rendered is None:
                return None
            found.digests.extend(sha256(canonical(ids))[:12] for ids in rendered)
            found.lengths.extend(len(ids) for ids in rendered)
            batch = []
    return found


def _refuse_too_long(plan: Plan, lengths: Sequence[int], limit: int | None) -> None:
    answer = plan.config.sampling.max_tokens
    over = [place for place, length in enumerate(lengths) if limit and length + answer > limit]
    if over:
        longest = max(over, key=lambda place: lengths[place])
        raise UserError(
            f"{len(over)} of {len(lengths)} prompts and max_tokens {answer} exceed the server's "
            f"limit {limit}; the longest, {list(plan.ids)[longest]!r}, has {lengths[longest]} "
            "tokens; plan with less sampling.max_tokens, or serve with more --max-model-len"
        )


def _refuse_difference(plan: Plan, system: str, found: Prompts) -> None:
    for path in sorted((plan.folder / "responses").glob("*.prompts.json")):
        other = path.name.removesuffix(".prompts.json")
        known = None if other == system else read_prompts(plan, other)
        if known is None or known.because:
            continue
        pairs = enumerate(zip(found.digests, known.digests, strict=True))
        differ = [place for place, (ours, theirs) in pairs if ours != theirs]
        if differ:
            raise UserError(
                f"rendered prompts differ from those of {other!r} on {len(differ)} of "
                f"{len(plan.ids)} requests, first {list(plan.ids)[differ[0]]!r}; give both the "
                "same tokenizer and chat template, or say --different-prompts REASON"
            )

"""Ask one system every request of a plan that it still owes, and log the answers.

Before the first request: who is served, whether every prompt fits, whether it reads as it does for
the other systems. Then ``session`` asks. Memory does not grow with the plan, and at most the calls
in flight are lost when the process is killed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from configs.errors import UserError
from eval.answer_cache import AnswerCache
from eval.engines import Call, Engine, Served
from eval.estimate import Estimate, estimate
from eval.plan import Plan, differing
from eval.progress import Progress
from eval.prompts import check_prompts, write_prompts
from eval.records import Identity, read_identity, write_identity
from eval.responses import read_index
from eval.row_log import RowLog
from eval.session import Session
from eval.structured import response_format
from rewards.chat_server import ServerChanged, ServerUnreachable


@dataclass(slots=True)
class Outcome:
    """What one invocation did. ``owed``: calls that still have no final row.

    ``reused``: answers taken from a cache. ``notes``: what the user should know besides.
    """

    system: str
    planned: int
    owed: int
    states: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    why: str = ""
    reused: int = 0
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 all answered; 1 some still owed; 3 the server went away or changed; 130 interrupted."""
        if self.stopped:
            return 130 if self.stopped == "interrupted" else 3
        return 1 if self.owed else 0


def log_path(plan: Plan, system: str) -> Path:
    """Where the responses of ``system`` are."""
    return plan.folder / "responses" / f"{system}.jsonl"


async def run_system(
    plan: Plan,
    system: str,
    engine: Engine,
    progress: bool = True,
    different_prompts: str = "",
    cache: Path | None = None,
) -> Outcome:
    """Run ``system`` to the end of the plan, or as far as it gets; every row is kept.

    ``different_prompts``: why its prompts may read otherwise than those of other systems.
    ``cache``: a file of answers that other plans may share. Raises ``UserError`` before the first
    request when the server is not there, serves another model, cannot hold a prompt, reads prompts
    otherwise, or when the folder holds answers of another identity under this name.
    """
    served, cards = await _describe(plan, engine)
    identity = _identity(plan, system, served)
    answers = None if cache is None else AnswerCache(cache, served.fingerprint)
    rendered = await check_prompts(plan, system, engine, served, different_prompts)
    path = log_path(plan, system)
    log = RowLog(path, "eval run")
    try:
        index = read_index(path, plan.holds)
        _settle_identity(path.with_suffix(".json"), identity, is_new=not index.offsets)
        if rendered is not None:
            write_prompts(plan, system, rendered)
        planned = len(plan.ids) * plan.config.runs
        shown = Progress(system, planned, len(index.final)) if progress else None
        session = Session(plan, engine, log, index.final, cards, shown, answers)
        stopped = await session.work()
    finally:
        log.close()
        if answers is not None:
            answers.close()
    return Outcome(
        system=system,
        planned=planned,
        owed=planned - len(index.final),
        states=session.states,
        stopped=stopped,
        why=session.why,
        reused=session.reused,
        notes=(
            *_notes(served, rendered is not None, engine),
            *([session.why] if session.why and not stopped else []),
        ),
    )


async def estimate_run(
    plan: Plan, system: str, engine: Engine, different_prompts: str = ""
) -> Estimate:
    """What ``run_system`` would ask for; the same checks, no generation, nothing written."""
    served, _ = await _describe(plan, engine)
    rendered = await check_prompts(plan, system, engine, served, different_prompts)
    final = read_index(log_path(plan, system), plan.holds).final
    lengths = [None] * len(plan.ids) if rendered is None else rendered.lengths
    owed = (
        (example, sum((example.id, run) not in final for run in plan.runs), length)
        for example, length in zip(plan.requests(), lengths, strict=True)
    )
    return estimate(owed, plan.config.sampling.max_tokens)


def _notes(served: Served, rendered: bool, engine: Engine) -> list[str]:
    found = []
    if served.fingerprint.startswith("card:"):
        found.append(
            "the server does not say which weights it holds; --checkpoint FOLDER fingerprints them"
        )
    if not rendered:
        found.append("the server has no /tokenize: prompts were neither counted nor compared")
    for lane in range(engine.lanes):
        if engine.allowed(lane) < engine.workers:
            found.append(
                f"server {lane + 1} was overloaded: concurrency fell from {engine.workers} to "
                f"{engine.allowed(lane)}"
            )
    return found


async def _describe(plan: Plan, engine: Engine) -> tuple[Served, list[Mapping[str, str]]]:
    """What is served, seen through the first request of each condition; a model card per lane."""
    try:
        served = await engine.describe(_probes(plan))
        return served, [await engine.model_card(lane) for lane in range(engine.lanes)]
    except (ServerUnreachable, ServerChanged) as error:
        raise UserError(str(error)) from None


def _identity(plan: Plan, system: str, served: Served) -> Identity:
    return Identity(
        system=system,
        plan_hash=plan.hash,
        engine=served.engine,
        model=served.model,
        fingerprint=served.fingerprint,
        prefilled_think=_prefilled(plan, served),
        prompts_hash=served.prompts_hash,
    )


def _probes(plan: Plan) -> list[Call]:
    """The first request of each condition."""
    found: dict[str, Call] = {}
    for example in plan.requests():
        if example.condition not in found:
            held = response_format(example) if plan.config.structured_output else None
            found[example.condition] = Call(example.messages, plan.config.sampling, 0, held)
            if len(found) == len(plan.kinds):
                break
    return list(found.values())


def _prefilled(plan: Plan, served: Served) -> bool:
    declared = plan.config.prefilled_think
    if declared != "auto":
        return declared == "yes"
    if served.prefilled_think is None:
        raise UserError(
            f"model {served.model!r}: the server has no /tokenize, so whether its chat template "
            "opens <think> is unknown; plan with prefilled_think=yes or prefilled_think=no"
        )
    return served.prefilled_think


def _settle_identity(path: Path, identity: Identity, is_new: bool) -> None:
    """Write the identity the first time; later it must be equal."""
    if not path.exists():
        if not is_new:
            raise UserError(f"{path}: gone, so whose the answers beside it are is not known")
        write_identity(path, identity)
        return
    fields = differing(asdict(read_identity(path)), asdict(identity))
    if read_identity(path).plan_hash != identity.plan_hash:
        fields.append("plan_hash")
    if fields:
        raise UserError(
            f"{path}: these answers come from another model or plan; differs in "
            f"{', '.join(fields)}; choose another --system name"
        )

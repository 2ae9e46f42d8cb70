"""Ask one system every request of a plan that it still owes, and log the answers.

Workers share one lazy stream of owed calls, so memory does not grow with the plan, and at most
``workers x batch_size`` calls are lost when the process is killed.
"""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from configs.errors import UserError
from eval.engines import Call, Engine, Served
from eval.plan import Plan, differing, seed_for
from eval.records import FINAL, Identity, Key, Response, read_identity, write_identity
from eval.responses import read_index
from eval.row_log import RowLog
from eval.structured import response_format
from rewards.chat_server import Reply, ServerChanged, ServerUnreachable

Owed = tuple[Key, Call]


@dataclass(slots=True)
class Outcome:
    """What one invocation did. ``owed``: calls that still have no final row."""

    system: str
    planned: int
    owed: int
    states: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    why: str = ""

    @property
    def exit_code(self) -> int:
        """0 all answered; 1 some still owed; 3 the server went away or changed; 130 interrupted."""
        if self.stopped:
            return 130 if self.stopped == "interrupted" else 3
        return 1 if self.owed else 0


def log_path(plan: Plan, system: str) -> Path:
    """Where the responses of ``system`` are."""
    return plan.folder / "responses" / f"{system}.jsonl"


async def run_system(plan: Plan, system: str, engine: Engine, progress: bool = True) -> Outcome:
    """Run ``system`` to the end of the plan, or as far as it gets; every row is kept.

    Raises ``UserError`` before the first request when the server is not there, serves another
    model, or when the folder holds answers of another identity under this name.
    """
    identity, card = await _identify(plan, system, engine)
    path = log_path(plan, system)
    log = RowLog(path, "eval run")
    try:
        index = read_index(path, plan.holds)
        _settle_identity(path.with_suffix(".json"), identity, is_new=not index.offsets)
        session = _Session(plan, engine, log, index.final, card)
        planned = len(plan.ids) * plan.config.runs
        with tqdm(
            total=planned,
            initial=len(index.final),
            desc=system,
            unit="req",
            disable=None if progress else True,
            mininterval=0.5,
        ) as bar:
            session.bar = bar
            stopped = await session.work()
    finally:
        log.close()
    owed = planned - len(index.final)
    return Outcome(system, planned, owed, session.states, stopped, session.why)


async def _identify(plan: Plan, system: str, engine: Engine) -> tuple[Identity, Mapping[str, str]]:
    """Ask the engine what it serves; probe with the first request of each condition."""
    try:
        served = await engine.describe(_probes(plan))
        card = await engine.model_card()
    except (ServerUnreachable, ServerChanged) as error:
        raise UserError(str(error)) from None
    identity = Identity(
        system=system,
        plan_hash=plan.hash,
        engine=served.engine,
        model=served.model,
        fingerprint=served.fingerprint,
        prefilled_think=_prefilled(plan, served),
        prompts_hash=served.prompts_hash,
    )
    return identity, card


def _probes(plan: Plan) -> list[Call]:
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


class _Session:
    """One invocation: the stream of owed calls, the workers, and the watch on the server."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        log: RowLog,
        final: set[Key],
        card: Mapping[str, str],
    ) -> None:
        self._plan = plan
        self._engine = engine
        self._log = log
        self._final = final
        self._card = card
        self._unchecked: list[Key] = []  # answered since the server last proved unchanged
        self._owed = self._stream()
        self.states: Counter[str] = Counter()
        self.why = ""
        self.bar: tqdm[NoReturn] | None = None

    def _stream(self) -> Iterator[Owed]:
        sampling, structured = self._plan.config.sampling, self._plan.config.structured_output
        done = frozenset(self._final)
        for example in self._plan.requests():
            runs = [run for run in self._plan.runs if (example.id, run) not in done]
            held = response_format(example) if runs and structured else None
            for run in runs:
                seed = seed_for(sampling.seed, example.id, run)
                yield (example.id, run), Call(example.messages, sampling, seed, held)

    async def work(self) -> str:
        """Drain the stream. Returns why it stopped early, or an empty string."""
        tasks = [asyncio.create_task(self._worker()) for _ in range(self._engine.workers)]
        watch = asyncio.create_task(self._watch())
        everything = asyncio.gather(*tasks)
        with _interruptible(everything):
            try:
                await _first_failure(everything, watch)
                await self._check_server()
                return ""
            except ServerUnreachable as error:
                self.why = str(error)
                return "server_unreachable"
            except ServerChanged as error:
                self.why = str(error)
                self._void_unchecked()
                return "server_changed"
            except asyncio.CancelledError:
                return "interrupted"
            finally:
                await _cancel([*tasks, watch])

    async def _worker(self) -> None:
        while batch := list(islice(self._owed, self._engine.batch_size)):
            replies = await self._engine.complete([call for _, call in batch])
            for (key, _), reply in zip(batch, replies, strict=True):
                self._keep(key, reply)

    def _keep(self, key: Key, reply: Reply) -> None:
        self._log.append(_response(key, reply))
        self.states[reply.state] += 1
        if reply.state in FINAL:
            self._final.add(key)
            self._unchecked.append(key)
            if self.bar is not None:
                self.bar.update()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._plan.config.transport.check_every_s)
            await self._check_server()

    async def _check_server(self) -> None:
        """Raise unless the server still serves what it served at the start."""
        card = await self._engine.model_card()
        if card != self._card:
            raise ServerChanged(f"the served model was {self._card}, now it is {card}")
        self._unchecked.clear()

    def _void_unchecked(self) -> None:
        """Rows since the last good check may come from another model: none of them counts."""
        for request_id, run in self._unchecked:
            self._log.append(Response(request_id, run, "server_changed", attempts=0))
            self._final.discard((request_id, run))
        self.states["server_changed"] += len(self._unchecked)
        self._unchecked.clear()


def _response(key: Key, reply: Reply) -> Response:
    return Response(
        id=key[0],
        run=key[1],
        state=reply.state,
        text=reply.text,
        finish_reason=reply.finish_reason,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        attempts=reply.attempts,
        seconds=reply.seconds,
        error=reply.error,
    )


async def _first_failure(work: "asyncio.Future[list[None]]", watch: "asyncio.Task[None]") -> None:
    """Wait for the work; a failure of the work or of the watch is raised at once."""
    both: set[asyncio.Future[Any]] = {work, watch}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
    else:
        await watch


async def _cancel(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _interruptible(work: "asyncio.Future[list[None]]") -> Iterator[None]:
    """SIGINT and SIGTERM cancel the work instead of killing it in the middle of a row."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in signals:
            loop.add_signal_handler(number, work.cancel)
    except (ValueError, RuntimeError):  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)

"""One invocation of a run: workers that ask what is owed, and a watch on the servers.

Every attempt is a row of the log, written before the next call is taken. A server that is given up
ends its own lane; the calls it still had go to the others. A model that changes under the run
voids what came since it was last seen unchanged.
"""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from eval.answer_cache import AnswerCache
from eval.dispatch import Dispatch, Owed
from eval.engines import Call, Engine
from eval.ordering import groups
from eval.plan import Plan, request_body, seed_for
from eval.progress import Progress
from eval.records import FINAL, Key, Response
from eval.row_log import RowLog
from eval.structured import response_format
from rewards.chat_server import Reply, ServerChanged, ServerUnreachable
from tasks.example import Example


class Session:
    """``final``: the keys answered already, kept up to date; ``cards``: what each lane serves."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        log: RowLog,
        final: set[Key],
        cards: Sequence[Mapping[str, str]],
        progress: Progress | None = None,
        answers: AnswerCache | None = None,
    ) -> None:
        self._plan = plan
        self._engine = engine
        self._log = log
        self._final = final
        self._cards = cards
        self._progress = progress
        self._answers = answers
        self._unchecked: list[Key] = []  # answered since the servers last proved unchanged
        self._uncached: list[tuple[str, Response]] = []  # the same, with their cache keys
        self._done = frozenset(final)
        self._owed = Dispatch(map(self._calls, groups(plan.requests())), engine.lanes)
        self._open = set(range(engine.lanes))
        self.states: Counter[str] = Counter()
        self.reused = 0
        self.why = ""

    def _calls(self, group: Sequence[Example]) -> Iterator[Owed]:
        """What a group still owes, the runs of one request together."""
        config = self._plan.config
        for example in group:
            runs = [run for run in self._plan.runs if (example.id, run) not in self._done]
            held = response_format(example) if runs and config.structured_output else None
            for run in runs:
                seed = seed_for(config.sampling.seed, example.id, run)
                call = Call(example.messages, config.sampling, seed, held)
                if not self._reuse((example.id, run), call):
                    yield (example.id, run), call

    async def work(self) -> str:
        """Ask everything. Returns why it stopped early, or an empty string."""
        everything = asyncio.create_task(self._lanes())
        beside = [asyncio.create_task(self._watch()), asyncio.create_task(self._show())]
        with _interruptible(everything):
            try:
                await _first_failure(everything, beside[0])
                await self._check_servers()
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
                await _cancel([everything, *beside])
                self._log.sync()
                if self._progress is not None:
                    self._progress.show(last=True)

    async def _lanes(self) -> None:
        """All servers, until nothing is owed; again for what one gave back when it was lost."""
        await asyncio.gather(*map(self._lane, sorted(self._open)))
        while self._owed.returned:
            await asyncio.gather(*map(self._lane, sorted(self._open)))

    async def _lane(self, lane: int) -> None:
        """The workers of one server, until nothing is owed or it is given up.

        Raises ``ServerUnreachable`` when it was the last one.
        """
        workers = [
            asyncio.create_task(self._worker(lane, number))
            for number in range(self._engine.workers)
        ]
        try:
            await asyncio.gather(*workers)
        except ServerUnreachable as error:
            await _cancel(workers)
            self._open.discard(lane)
            if not self._open:
                raise
            self.why = str(error)
        finally:
            await _cancel(workers)

    async def _worker(self, lane: int, number: int) -> None:
        """Ask until nothing is owed, or the lane is to have fewer workers than ``number``."""
        while number < self._engine.allowed(lane):
            batch = self._owed.take(lane, self._engine.batch_size)
            if not batch:
                return
            try:
                calls = [call for _, call in batch]
                failed = partial(self._note_failed, batch)
                replies = await self._engine.complete(calls, lane, failed)
            except (ServerUnreachable, asyncio.CancelledError):
                self._owed.give_back(batch)
                raise
            for (key, call), reply in zip(batch, replies, strict=True):
                self._keep(key, call, reply)

    def _note_failed(self, batch: Sequence[Owed], place: int, reply: Reply) -> None:
        """An attempt that another one follows is a row of its own."""
        self._log.append(_response(batch[place][0], reply))

    def _keep(self, key: Key, call: Call, reply: Reply) -> None:
        response = _response(key, reply)
        self._log.append(response)
        self.states[reply.state] += 1
        final = reply.state in FINAL
        if final:
            self._final.add(key)
            self._unchecked.append(key)
            if self._answers is not None:
                self._uncached.append((self._cache_key(key, call), response))
        if self._progress is not None:
            self._progress.count(reply.state, reply.completion_tokens, final)

    def _cache_key(self, key: Key, call: Call) -> str:
        if self._answers is None:
            return ""
        body = request_body(call.sampling, call.messages, call.seed, call.response_format)
        return self._answers.key(body, key[1])

    def _reuse(self, key: Key, call: Call) -> bool:
        """Take the answer from the cache, if it is there."""
        kept = None if self._answers is None else self._answers.get(self._cache_key(key, call), key)
        if kept is None:
            return False
        self._log.append(kept)
        self._final.add(key)
        self.reused += 1
        if self._progress is not None:
            self._progress.count("from the cache", None, True)
        return True

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._plan.config.transport.check_every_s)
            self._log.sync()
            await self._check_servers()

    async def _show(self) -> None:
        while self._progress is not None:
            await asyncio.sleep(self._progress.period_s)
            self._progress.show()

    async def _check_servers(self) -> None:
        """Raise unless every server still serves what it served at the start."""
        for lane in sorted(self._open):
            try:
                card = await self._engine.model_card(lane)
            except ServerUnreachable:
                if len(self._open) == 1:
                    raise
                continue  # its own lane finds out; the others go on
            if card != self._cards[lane]:
                raise ServerChanged(f"the served model was {self._cards[lane]}, now it is {card}")
        if self._answers is not None:
            self._answers.put(self._uncached)
        self._unchecked.clear()
        self._uncached.clear()

    def _void_unchecked(self) -> None:
        """Rows since the last good check may come from another model: none of them counts."""
        for request_id, run in self._unchecked:
            self._log.append(Response(request_id, run, "server_changed", attempts=0))
            self._final.discard((request_id, run))
        self.states["server_changed"] += len(self._unchecked)
        self._unchecked.clear()
        self._uncached.clear()


def _response(key: Key, reply: Reply) -> Response:
    return Response(
        id=key[0],
        run=key[1],
        state=reply.state,
        text=reply.text,
        finish_reason=reply.finish_reason,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        attempts=1,
        seconds=reply.seconds,
        error=reply.error,
    )


async def _first_failure(work: "asyncio.Task[None]", watch: "asyncio.Task[None]") -> None:
    """Wait for the work; a failure of the work or of the watch is raised at once."""
    await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
    else:
        await watch


async def _cancel(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _interruptible(work: "asyncio.Task[None]") -> Iterator[None]:
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

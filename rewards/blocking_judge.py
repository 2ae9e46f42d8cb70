"""A judge for callers that wait, such as TRL's sync reward functions."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar

from configs.judge import JudgeConfig
from rewards.judge import Judge, Judged, Keep
from rewards.judge_counts import JudgeCounts
from rewards.judgements import Case

ResultT = TypeVar("ResultT")


class BlockingJudge:
    """A ``Judge`` for callers that wait: its event loop runs in a thread of its own.

    TRL calls its sync reward functions one after another, inside no loop of ours. The thread
    starts with the first call, so a process may be forked before that.
    """

    def __init__(self, config: JudgeConfig, nonce_seed: str | None = None) -> None:
        self._judge = Judge(config, nonce_seed)
        self._deadline_s = config.deadline_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def counts(self) -> JudgeCounts:
        """Costs and failures so far."""
        return self._judge.counts

    def check(self) -> None:
        """As ``Judge.check``."""
        self._run(self._judge.check())

    def raise_if_failing(self) -> None:
        """As ``Judge.raise_if_failing``."""
        self._judge.raise_if_failing()

    def judge(self, cases: Sequence[Case], keep: Keep | None = None) -> list[Judged]:
        """As ``Judge.judge``, within the deadline of the config. ``keep`` runs in the thread."""
        return self._run(self._judge.judge(cases, keep, self._deadline_s))

    def close(self) -> None:
        """Close the connections, stop the thread. A closed judge is not used again."""
        self._closed = True
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._judge.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def __enter__(self) -> "BlockingJudge":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        assert not self._closed
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # only matters when the wait was interrupted

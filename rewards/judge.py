"""The judge's client: candidates in, one 0 or 1 per criterion out, or the reason why not.

``Judge`` runs in the caller's event loop (an evaluation); ``rewards.blocking_judge`` wraps it for
callers that are not async (TRL's reward functions).

A judge failure is a judgement without scores, never 0 and never an exception: a candidate is not
to blame for its judge. Two things raise: ``UserError`` from ``check`` and ``JudgeFailing`` from
``raise_if_failing``, which the caller asks when it can stop in good order.
"""

import asyncio
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from configs.judge import JudgeConfig
from rewards.chat_server import (
    ChatServer,
    Reply,
    ServerChanged,
    ServerUnreachable,
    check_served,
    read_api_key,
)
from rewards.judge_cache import JudgeCache, Kept
from rewards.judge_counts import FailingShare, JudgeCounts, JudgeFailing
from rewards.judge_prompts import (
    KEY_NONCE,
    PROMPT_VERSION,
    Sheet,
    fence_nonce,
    messages,
    sheets,
    visible_text,
)
from rewards.judgements import VERDICT_KEYS, Case, Judgement
from rewards.rate_limits import RateLimits
from rewards.verdicts import Unusable, Verdict, read_verdict
from tasks.basis.instances import Dimension

Judged = Mapping[Dimension, Judgement]
"""Dimension -> judgement, of one case."""
Keep = Callable[[Judgement], None]
_REPLIED = ("ok", "truncated", "unknown_finish")


@dataclass(frozen=True, slots=True)
class _Question:
    """A sheet, its cache key, and the cases (by index) that it answers."""

    key: str
    sheet: Sheet
    cases: list[int]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a question ended: a verdict, or the reason for none."""

    verdict: Verdict | None
    reason: str = ""
    reply: str = ""
    error: str = ""
    attempts: int = 0
    cached: bool = False


class _Collected:
    """Judgements as they arrive, by case."""

    def __init__(self, cases: Sequence[Case], keep: Keep | None) -> None:
        self.cases = cases
        self.judged: list[dict[Dimension, Judgement]] = [{} for _ in cases]
        self._keep = keep

    def add(self, index: int, judgement: Judgement) -> None:
        self.judged[index][judgement.dimension] = judgement
        if self._keep:
            self._keep(judgement)

    def has(self, question: _Question) -> bool:
        return question.sheet.criteria.keys() <= self.judged[question.cases[0]].keys()


class Judge:
    """One judge and its cache, counts and limits. Use it in one event loop."""

    def __init__(self, config: JudgeConfig, nonce_seed: str | None = None) -> None:
        """``nonce_seed`` makes the fences the same every time. Raises ``UserError``: no key."""
        self._config = config
        self._server = ChatServer(
            config.endpoint,
            config.model,
            config,
            api_key=read_api_key(config.api_key_env),
            limits=RateLimits(config.rpm, config.tpm),
            silence_counts=True,
        )
        self._slots = asyncio.Semaphore(config.concurrency)
        self._cache = JudgeCache(config.cache) if config.cache else None
        self._secret = nonce_seed or secrets.token_hex(16)
        self._failing = FailingShare(config.max_failing_share, config.window)
        self.counts = JudgeCounts()

    async def __aenter__(self) -> "Judge":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections and the cache."""
        await self._server.close()
        if self._cache:
            self._cache.close()

    async def check(self) -> None:
        """Raise ``UserError`` when the endpoint is not there, refuses the key or lacks the model.

        A server without /v1/models is taken at its word.
        """
        await check_served(self._server, "judge", self._config.api_key_env)

    def raise_if_failing(self) -> None:
        """Raise ``JudgeFailing`` when the failing share of the last judgements is too high."""
        if self._failing.passed:
            raise JudgeFailing(f"judge {self._config.model!r}: {self._failing.message()}")

    async def judge(
        self, cases: Sequence[Case], keep: Keep | None = None, deadline_s: float | None = None
    ) -> list[Judged]:
        """Judge every dimension of every case, in the order of ``cases``.

        ``keep`` gets each judgement as it arrives. Once the failing share has passed its limit
        the rest is not asked: it fails with ``not_asked``. What ``deadline_s`` cuts off fails
        with ``deadline``.
        """
        self._server.forgive()
        collected = _Collected(cases, keep)
        for index, case in enumerate(cases):
            self._score_empty(index, case, collected)
        questions = self._questions(cases)
        owed = [question for question in questions if not self._recall(question, collected)]
        try:
            async with asyncio.timeout(deadline_s):
                await self._ask_all(owed, collected)
        except TimeoutError:
            for question in owed:
                if not collected.has(question):
                    self._settle(question, _Outcome(None, "deadline"), collected)
        return list(collected.judged)

    def _score_empty(self, index: int, case: Case, collected: _Collected) -> None:
        """A candidate that says nothing meets no criterion, and needs no judge to say so."""
        for name, criteria in case.criteria.items():
            if not visible_text(case.texts.get(name)):
                self.counts.empty_candidates += 1
                collected.add(
                    index, Judgement(case.id, name, "empty_candidate", (0,) * len(criteria))
                )

    def _questions(self, cases: Sequence[Case]) -> list[_Question]:
        """What to ask. With a cache, cases with the same sheet share one question."""
        questions: list[_Question] = []
        by_key: dict[str, _Question] = {}
        for index, case in enumerate(cases):
            for sheet in sheets(case, self._config.mode):
                key = self._key(sheet)
                if self._cache and key in by_key:
                    by_key[key].cases.append(index)
                    continue
                by_key[key] = _Question(key, sheet, [index])
                questions.append(by_key[key])
        return questions

    def _key(self, sheet: Sheet) -> str:
        """Hash of what decides the verdict: model, full prompt, sampling, version."""
        asked = {
            "version": PROMPT_VERSION,
            "model": self._config.model,
            "revision": self._config.revision,
            "body": self._body(sheet, KEY_NONCE, attempt=0),
        }
        text = json.dumps(asked, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _body(self, sheet: Sheet, nonce: str, attempt: int) -> dict[str, Any]:
        shown = list(messages(sheet, nonce, strict=attempt > 0))
        return {"messages": shown, **self._config.sampling.fields(attempt)}

    def _recall(self, question: _Question, collected: _Collected) -> bool:
        """Answer from the cache, if it holds a verdict that today's reader accepts."""
        kept = self._cache.get(question.key) if self._cache else None
        if kept is None:
            return False
        verdict = self._read(kept.reply, question.sheet)
        if isinstance(verdict, Unusable):
            return False
        outcome = _Outcome(verdict, reply=kept.reply, attempts=kept.attempts, cached=True)
        self._settle(question, outcome, collected)
        return True

    async def _ask_all(self, owed: Sequence[_Question], collected: _Collected) -> None:
        """Workers share the stream of questions; no more of them than may be in flight."""
        stream = iter(owed)

        async def work() -> None:
            for question in stream:
                async with self._slots:
                    outcome = await self._ask(question)
                self._settle(question, outcome, collected)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._config.concurrency, len(owed))):
                group.create_task(work())

    async def _ask(self, question: _Question) -> _Outcome:
        """Ask until a usable verdict; only an unusable one is asked for again here."""
        outcome = _Outcome(None, "not_asked")
        nonce = fence_nonce(self._secret, question.sheet)
        attempts = 0
        for attempt in range(self._config.verdict_tries):
            if self._failing.passed:
                return replace(outcome, attempts=attempts)
            try:
                reply = await self._send(question.sheet, nonce, attempt)
            except ServerUnreachable as error:
                return _Outcome(None, "unreachable", error=str(error), attempts=attempts)
            except ServerChanged as error:
                return _Outcome(None, "model_not_served", error=str(error), attempts=attempts + 1)
            attempts += reply.attempts
            outcome = replace(self._outcome(reply, question.sheet), attempts=attempts)
            if outcome.verdict:
                self._store(question.key, outcome, reply)
                return outcome
            if reply.state not in _REPLIED:
                return outcome
            if attempt + 1 < self._config.verdict_tries:
                self.counts.retried[outcome.reason] += 1
        return outcome

    async def _send(self, sheet: Sheet, nonce: str, attempt: int) -> Reply:
        body = self._body(sheet, nonce, attempt)
        prompt_characters = sum(len(message["content"]) for message in body["messages"])
        cost = prompt_characters // 4 + self._config.sampling.max_tokens
        try:
            reply = await self._server.complete(body, tokens=cost)
        finally:
            self.counts.requests = self._server.attempts
        self.counts.prompt_tokens += reply.prompt_tokens or 0
        self.counts.completion_tokens += reply.completion_tokens or 0
        return reply

    def _outcome(self, reply: Reply, sheet: Sheet) -> _Outcome:
        if reply.state in ("ok", "unknown_finish"):
            verdict = self._read(reply.text, sheet)
            if isinstance(verdict, Verdict):
                return _Outcome(verdict, reply=reply.text)
            return _Outcome(None, verdict.reason, reply.text)
        return _Outcome(None, _transport_reason(reply), reply.text, reply.error)

    @staticmethod
    def _read(text: str, sheet: Sheet) -> Verdict | Unusable:
        return read_verdict(text, sheet.sizes, candidate="\n".join(sheet.texts.values()))

    def _store(self, key: str, outcome: _Outcome, reply: Reply) -> None:
        if not self._cache:
            return
        tokens = reply.prompt_tokens or 0, reply.completion_tokens or 0
        try:
            self._cache.put(key, self._config.model, Kept(reply.text, outcome.attempts, *tokens))
        except sqlite3.OperationalError:  # a full disk, say: the verdict itself is good
            self.counts.unkept += 1

    def _settle(self, question: _Question, outcome: _Outcome, collected: _Collected) -> None:
        """Give the outcome to every case that shares the question, and count it."""
        for position, index in enumerate(question.cases):
            for name in question.sheet.criteria:
                self._count(outcome, shared=outcome.cached or position > 0)
                collected.add(index, self._judgement(question, name, index, outcome, collected))

    def _count(self, outcome: _Outcome, shared: bool) -> None:
        if outcome.verdict is None:
            self.counts.failures[outcome.reason] += 1
        elif shared:
            self.counts.cached += 1
        else:
            self.counts.judged += 1
        if not shared and outcome.reason not in ("not_asked", "deadline"):
            self._failing.observe(outcome.reason)

    def _judgement(
        self,
        question: _Question,
        dimension: Dimension,
        index: int,
        outcome: _Outcome,
        collected: _Collected,
    ) -> Judgement:
        verdict = outcome.verdict
        return Judgement(
            case=collected.cases[index].id,
            dimension=dimension,
            state="judged" if verdict else "failed",
            scores=verdict.scores[VERDICT_KEYS[dimension]] if verdict else None,
            reason=outcome.reason,
            warnings=verdict.warnings if verdict else (),
            cached=outcome.cached,
            attempts=outcome.attempts,
            reply=outcome.reply,
            error=outcome.error,
            model=self._config.model,
            prompt_hash=question.key,
        )


def _transport_reason(reply: Reply) -> str:
    """A short name to count a failed request under: timeout, http_503, connection ..."""
    if reply.state != "http_error":
        return reply.state
    if reply.status == 200:
        return "not_a_completion"
    return f"http_{reply.status}" if reply.status else "connection"

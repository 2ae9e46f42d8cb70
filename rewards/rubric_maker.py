"""One rubric after another: written by a generator, checked by code, then by a judge.

A judge must find the gold to meet the criteria and a text that says nothing to meet none of them.
The client of the judge scores an empty candidate 0 without a call, which would prove nothing here,
so the judge is shown ``NOTHING``: criteria that ask for something to be absent are found out.
What an endpoint did wrong is a failure and is owed again; a list refused by a check is rejected.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Literal

from configs.rubrics import RubricsConfig
from rewards.chat_server import (
    ChatServer,
    Reply,
    ServerChanged,
    ServerUnreachable,
    check_served,
    read_api_key,
)
from rewards.criteria import Gold, Objection, Unreadable, messages, objections, read_criteria
from rewards.judge import Judge
from rewards.judgements import Case, Dimension, Judgement
from rewards.rate_limits import RateLimits

NOTHING: Final = "I have nothing to say about this."
_GONE: Final = ("unreachable", "model_not_served", "timeout", "connection")
_READ: Final = ("ok", "unknown_finish")


@dataclass(frozen=True, slots=True)
class Made:
    """How one rubric ended. ``criteria``: the last list, also of a rejected rubric.

    ``reason``: the first objection's name, or what an endpoint did. ``gold`` and ``nothing``: 0 or
    1 for each criterion, empty where no judge was asked. ``tries``: lists asked for.
    """

    instance: str
    dimension: Dimension
    state: Literal["accepted", "rejected", "failed"]
    reason: str = ""
    criteria: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()
    gold: tuple[int, ...] = ()
    nothing: tuple[int, ...] = ()
    tries: int = 0
    error: str = ""


class EndpointFailing(Exception):
    """An endpoint went away, or gave nothing usable too often; what has been made stays."""


class RubricMaker:
    """The generator and the judge of one run. Use it in one event loop."""

    def __init__(self, config: RubricsConfig) -> None:
        """Raises ``UserError``: a key is not there."""
        self._config = config
        generator = config.generator
        self._server = ChatServer(
            generator.endpoint,
            generator.model,
            generator,
            api_key=read_api_key(generator.api_key_env),
            limits=RateLimits(generator.rpm, generator.tpm),
            silence_counts=True,
        )
        self._judge = Judge(config.judge)
        self._failures_in_row = 0
        self._silent_judge = 0
        self._failing = ""

    @property
    def requests(self) -> int:
        """Requests to both endpoints so far, retries included."""
        return self._server.attempts + self._judge.counts.requests

    async def __aenter__(self) -> "RubricMaker":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.close()
        await self._judge.close()

    async def check(self) -> None:
        """Raise ``UserError`` unless both endpoints are there and serve their models."""
        await check_served(self._server, "generator", self._config.generator.api_key_env)
        await self._judge.check()

    async def make(self, gold: Gold, before: Made | None = None) -> Made:
        """The rubric of ``gold``, within ``tries`` lists.

        ``before``: how it failed earlier; a list that only lacks its judge is not asked for again.
        Raises ``EndpointFailing`` when the generator has gone.
        """
        if before and before.reason.startswith("judge_"):
            unjudged = replace(before, reason="", error="")
            made, told = await self._judged(gold, unjudged)
            if not told:
                return self._watched(made)
        told = ()
        for attempt in range(self._config.tries):
            try:
                reply = await self._server.complete(self._body(gold, told, attempt))
            except (ServerUnreachable, ServerChanged) as error:
                raise EndpointFailing(f"generator: {error}") from None
            made, told = await self._made(gold, reply)
            made = replace(made, tries=attempt + 1)
            if not told:
                break
        return self._watched(made)

    def raise_if_failing(self) -> None:
        """Raise ``EndpointFailing`` when going on would only make more failures."""
        if self._failing:
            raise EndpointFailing(self._failing)

    def _body(self, gold: Gold, told: Sequence[Objection], attempt: int) -> dict[str, Any]:
        fields = self._config.generator.sampling.fields(attempt)
        return {"messages": list(messages(gold, told)), **fields}

    async def _made(self, gold: Gold, reply: Reply) -> tuple[Made, tuple[Objection, ...]]:
        """What one reply comes to, and what to tell the generator; nothing if that is no use."""
        failed = Made(gold.instance, gold.dimension, "failed", error=reply.error)
        if reply.state not in (*_READ, "truncated"):
            status = f"_{reply.status}" if reply.status else ""
            return replace(failed, reason=f"generator_{reply.state}{status}"), ()
        criteria = read_criteria(reply.text)
        if reply.state == "truncated":
            criteria = Unreadable("truncated")
        if isinstance(criteria, Unreadable):
            told = Objection(criteria.reason, f"no list could be read from it ({criteria.reason})")
            return replace(failed, reason=f"generator_{criteria.reason}"), (told,)
        if found := objections(criteria, gold.dimension):
            return _rejected(replace(failed, criteria=criteria), found), found
        return await self._judged(gold, replace(failed, criteria=criteria))

    async def _judged(self, gold: Gold, made: Made) -> tuple[Made, tuple[Objection, ...]]:
        """``made`` with the judge's scores. Nothing to tell: accepted, or the judge failed."""
        name, criteria = gold.dimension, {gold.dimension: made.criteria}
        cases = [
            Case(f"{gold.instance}/gold", {name: gold.text}, criteria),
            Case(f"{gold.instance}/nothing", {name: NOTHING}, criteria),
        ]
        of_gold, of_nothing = [one[name] for one in await self._judge.judge(cases)]
        if of_gold.scores is None or of_nothing.scores is None:
            broken = of_gold if of_gold.scores is None else of_nothing
            self._watch_judge(broken)
            return replace(made, reason=f"judge_{broken.reason}", error=broken.error), ()
        self._silent_judge = 0
        made = replace(made, gold=of_gold.scores, nothing=of_nothing.scores)
        if found := _refusals(made, self._config.gold_at_least):
            return _rejected(made, found), found
        return replace(made, state="accepted"), ()

    def _watch_judge(self, broken: Judgement) -> None:
        """Each batch of the judge starts afresh; that it has gone shows over several of them."""
        if broken.reason not in _GONE:
            return
        self._silent_judge += 1
        gone = broken.reason in ("unreachable", "model_not_served")
        if gone or self._silent_judge >= self._config.judge.max_connection_errors:
            self._failing = f"judge: {broken.error or broken.reason}"

    def _watched(self, made: Made) -> Made:
        """``made`` itself, counted.

        What fails without a list once the run has been given up raises ``EndpointFailing``
        instead: workers end in the same moment or not, and a run that stops at N failures has N.
        """
        if made.state == "failed" and not made.criteria:
            self.raise_if_failing()
        self._failures_in_row = self._failures_in_row + 1 if made.state == "failed" else 0
        if self._failures_in_row >= self._config.max_failures_in_row and not self._failing:
            self._failing = (
                f"{self._failures_in_row} rubrics in a row without a usable reply, the last for "
                f"{made.reason}"
            )
        return made


def _rejected(made: Made, found: Sequence[Objection]) -> Made:
    texts = tuple(one.text for one in found)
    return replace(made, state="rejected", reason=found[0].name, objections=texts)


def _refusals(made: Made, gold_at_least: float) -> tuple[Objection, ...]:
    """What the judge's scores speak against."""
    found = []
    if sum(made.gold) < gold_at_least * len(made.gold):
        missed = [number for number, met in enumerate(made.gold, 1) if not met]
        found.append(
            Objection("gold_fails", f"the reference itself does not meet criterion {_and(missed)}")
        )
    if any(made.nothing):
        passed = [number for number, met in enumerate(made.nothing, 1) if met]
        found.append(
            Objection("empty_passes", f"a text that says nothing meets criterion {_and(passed)}")
        )
    return tuple(found)


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))

"""What judging cost and how it failed, and when it has failed too often to go on."""

from collections import Counter, deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class JudgeCounts:
    """Sums since the judge was made. Judgements are dimensions of candidates, not requests."""

    judged: int = 0
    cached: int = 0
    empty_candidates: int = 0
    requests: int = 0
    """Attempts over HTTP, retries included."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Judgements that ended without a verdict, by reason."""
    retried: Counter[str] = field(default_factory=Counter)
    """Unusable verdicts that were asked for again, by reason."""
    unkept: int = 0
    """Verdicts that the cache could not store."""

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def failing_share(self) -> float | None:
        """Of the judgements that needed a judge; None before the first."""
        asked = self.judged + self.cached + self.failed
        return self.failed / asked if asked else None

    def as_metrics(self) -> dict[str, float]:
        """Flat, for a log: ``requests``, ``cached``, ``failed/timeout`` ..."""
        plain = {
            "judged": self.judged,
            "cached": self.cached,
            "empty_candidates": self.empty_candidates,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "failed": self.failed,
            "unkept": self.unkept,
        }
        named = {f"failed/{reason}": count for reason, count in sorted(self.failures.items())}
        again = {f"retried/{reason}": count for reason, count in sorted(self.retried.items())}
        return {name: float(count) for name, count in {**plain, **named, **again}.items()}


class JudgeFailing(Exception):
    """Too many of the last judgements failed; going on would train or report on noise."""


class FailingShare:
    """Watches the last ``window`` judgements that were asked for; cached ones do not dilute it."""

    def __init__(self, limit: float, window: int) -> None:
        self._limit = limit
        self._reasons: deque[str] = deque(maxlen=window)

    def observe(self, reason: str) -> None:
        """One judgement; an empty reason is a success."""
        self._reasons.append(reason)

    @property
    def passed(self) -> bool:
        """Is the window full, and its share of failures above the limit?"""
        window = len(self._reasons)
        failed = window - self._reasons.count("")
        return window == self._reasons.maxlen and failed > self._limit * window

    def message(self) -> str:
        """One line that says how much failed, and of what."""
        reasons = Counter(reason for reason in self._reasons if reason)
        named = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        return (
            f"{sum(reasons.values())} of the last {len(self._reasons)} judgements failed "
            f"({named}), more than {self._limit:.0%}"
        )

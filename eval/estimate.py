"""What a plan will cost, before anything is asked: ``--dry-run`` of ``plan`` and of ``run``.

``plan`` counts tokens by the length of texts, ``run`` has the server count the prompts. An answer
is taken to be between a right one and ``max_tokens`` long. Time is answer tokens at the rate given:
take it from the progress line of a short run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eval.progress import duration
from tasks.example import Example

CHARACTERS_A_TOKEN: Final = {"calbench": 2.0, "basis": 4.0}
"""Of Qwen's tokenizers: JSON and calendars (2.0 to 2.2 measured), plain prose."""

Owed = tuple[Example, int, int | None]
"""A request, the runs it still needs, its prompt's tokens where they were counted."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """``calls``: requests times runs. ``answers``: tokens, if all are right, and at most."""

    requests: int
    calls: int
    prompts: int
    counted: bool
    answers: tuple[int, int]

    def lines(self, tokens_per_second: float, price_per_hour: float) -> list[str]:
        """The estimate in words, with the time and what the server costs meanwhile."""
        low, high = self.answers
        times = [tokens / tokens_per_second for tokens in self.answers]
        found = [
            f"{self.requests:,} requests, {self.calls:,} answers to ask for",
            f"prompts: {'' if self.counted else 'about '}{self.prompts:,} tokens",
            f"answers: about {low:,} tokens if they are right ones, at most {high:,}",
            f"time at {tokens_per_second:,.0f} answer tokens a second: "
            f"{duration(times[0])} to {duration(times[1])}",
        ]
        if price_per_hour:
            costs = [seconds / 3600 * price_per_hour for seconds in times]
            found.append(f"cost at {price_per_hour:g} an hour: {costs[0]:,.2f} to {costs[1]:,.2f}")
        return found


def estimate(owed: Iterable[Owed], max_tokens: int) -> Estimate:
    """Over what is owed. Requests without a run left do not count."""
    requests = calls = prompts = right = 0
    counted = True
    for example, runs, length in owed:
        size = CHARACTERS_A_TOKEN[example.task]
        characters = sum(len(message["content"]) for message in example.messages)
        counted = counted and length is not None
        requests += runs > 0
        calls += runs
        prompts += runs * (round(characters / size) if length is None else length)
        right += runs * min(round(len(example.reference_answer) / size), max_tokens)
    return Estimate(requests, calls, prompts, counted, (right, calls * max_tokens))

"""How far a run is, on stderr: done, states, tokens a second, time left.

On a terminal one line that is written over twice a second; elsewhere (a batch job's log) a plain
line now and then and one at the end.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

REDRAW_S, LOG_S = 0.5, 30.0
CLEAR = "\r\x1b[K"


class Progress:
    """The answers of one system. ``done`` of ``planned`` are there from earlier."""

    def __init__(
        self,
        system: str,
        planned: int,
        done: int,
        out: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.states: Counter[str] = Counter()
        self._system, self._planned = system, planned
        self._before = self._done = done
        self._tokens = 0
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._now = now
        self._started = now()

    @property
    def period_s(self) -> float:
        """How often ``show`` is worth calling."""
        return REDRAW_S if self._live else LOG_S

    def count(self, state: str, tokens: int | None, final: bool) -> None:
        """One reply came; ``final``: its request is answered for good."""
        self.states[state] += 1
        self._tokens += tokens or 0
        self._done += final

    def show(self, last: bool = False) -> None:
        """Write the line; ``last``: leave it standing."""
        start, end = (CLEAR, "\n" if last else "") if self._live else ("", "\n")
        self._out.write(f"{start}{self.line()}{end}")
        self._out.flush()

    def line(self) -> str:
        """``base: 120/400 (30 %), ok 118, truncated 2, 310 tok/s, 2.1 req/s, 2 min left``."""
        passed = max(self._now() - self._started, 1e-9)
        rate = (self._done - self._before) / passed
        parts = [f"{self._system}: {self._done:,}/{self._planned:,}"]
        parts[0] += f" ({self._done / max(self._planned, 1):.0%})"
        parts += [f"{state} {count:,}" for state, count in sorted(self.states.items())]
        if self.states:
            parts += [f"{self._tokens / passed:,.0f} tok/s", f"{rate:.1f} req/s"]
        if rate > 0 and self._done < self._planned:
            parts.append(f"{duration((self._planned - self._done) / rate)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """``40 s``, ``3 min``, ``2.5 h``: two figures are enough of what is a guess."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

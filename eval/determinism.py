"""What the probe after a run found (``eval.probe``): does one request get the same text twice?

Apart from what sends it, since reports read it and need no client.
"""

from dataclasses import dataclass
from pathlib import Path

from eval.plan import Plan
from eval.records import read_sealed


@dataclass(frozen=True, slots=True)
class Determinism:
    """``repeated``: prompts answered twice, ``same``: with the same text both times; ``as_run``:
    of those, with the text that the run got too."""

    repeated: int
    same: int
    as_run: int

    @property
    def words(self) -> str:
        """As the report says it."""
        if not self.repeated:
            return "determinism probe: no prompt was answered twice"
        return (
            f"determinism probe: {self.same} of {self.repeated} prompts sent twice with one seed "
            f"got the same text, {self.as_run} the text of the run as well"
        )


def probe_path(plan: Plan, system: str) -> Path:
    """Where the last probe of a system is."""
    return plan.folder / "responses" / f"{system}.probe.json"


def probed(plan: Plan, system: str) -> str:
    """What the last probe of a system found, in words; empty where there was none.

    Raises ``UserError`` for a damaged file.
    """
    path = probe_path(plan, system)
    if not path.is_file():
        return ""
    return Determinism(**read_sealed(path, "remove it")).words

"""Learning curves out of a training run's ``metrics.jsonl``."""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError

SHOWN = ("reward", "entries", "whole_agent", "perspective", "optimality", "incomplete", "loss")


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over the steps of one training phase, in step order."""

    phase: str
    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


def read_curves(run: Path) -> list[Curve]:
    """The curves worth showing. Rows are ``{"phase": ..., "step": ..., NAME: number}``,
    parts of the reward named ``rewards/PART``.

    A step written twice (after a resume) keeps its last row; null means the part did not apply.
    Raises ``UserError`` when the run has no metrics or a line is not a row.
    """
    path = run / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{path}: not there; give --train a folder that `python -m train` wrote")
    points: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            phase, step, row = _row(line, f"{path}:{number}")
            for name in SHOWN:
                found = row.get(name, row.get(f"rewards/{name}"))
                if isinstance(found, (int, float)) and math.isfinite(found):
                    points[(phase, name)][step] = float(found)
    return [
        Curve(phase, name, tuple(sorted(by_step)), tuple(by_step[s] for s in sorted(by_step)))
        for (phase, name), by_step in points.items()
        if len(by_step) > 1
    ]


def _row(line: str, place: str) -> tuple[str, int, dict[str, object]]:
    try:
        row = json.loads(line)
        return str(row["phase"]), int(row["step"]), row
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{place}: not a metrics row with phase and step; remove it") from None

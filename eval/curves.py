"""Learning curves out of a training run's ``metrics.jsonl``."""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from eval.records import read_json

SHOWN = ("reward", "entries", "whole_agent", "perspective", "optimality", "incomplete", "loss")


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over the steps of one training phase, in step order."""

    phase: str
    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    marks: tuple[tuple[int, str], ...] = ()
    """Steps of the phase at which something begins, and what."""


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
    marks = {"grpo": stage_starts(run)}
    return [
        Curve(
            phase,
            name,
            tuple(sorted(by_step)),
            tuple(by_step[s] for s in sorted(by_step)),
            marks.get(phase, ()),
        )
        for (phase, name), by_step in points.items()
        if len(by_step) > 1
    ]


def stage_starts(run: Path) -> tuple[tuple[int, str], ...]:
    """The GRPO step that each stage of the curriculum but the first begins with, and its name.

    One batch of the plan serves ``steps_per_generation * num_iterations`` steps. Empty where the
    folder has no plan. Raises ``UserError`` when the plan or the config is damaged.
    """
    if not (run / "plan.json").is_file():
        return ()
    remedy = "restore it, or give --train another run"
    plan, config = (read_json(run / name, remedy) for name in ("plan.json", "config.json"))
    try:
        grpo = config["grpo"]
        window = int(grpo["steps_per_generation"]) * int(grpo["num_iterations"])
        stages, batch = list(plan["grpo"]["stages"]), int(plan["grpo"]["rows_per_batch"])
        names = sorted(set(stages))[1:]
        starts = [stages.index(name) // batch * window + 1 for name in names]
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise UserError(f"{run}: plan.json and config.json do not fit a run; {remedy}") from None
    return tuple((start, f"stage {name}") for start, name in zip(starts, names, strict=True))


def _row(line: str, place: str) -> tuple[str, int, dict[str, object]]:
    try:
        row = json.loads(line)
        return str(row["phase"]), int(row["step"]), row
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{place}: not a metrics row with phase and step; remove it") from None

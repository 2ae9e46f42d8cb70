"""An ablation as cells, and each cell under each seed as one training run. Needs no torch."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from configs.ablate import Ablation
from configs.errors import UserError
from configs.training import Training, load_training
from eval.plan import differing
from eval.records import read_json

FULL = "full"
State = Literal["new", "started", "done"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels. ``changes``: its levels that are not the full cell's."""

    name: str
    changes: tuple[str, ...]
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One training run. ``cell`` None: the warm start that the cells of ``seed`` share."""

    cell: Cell | None
    seed: int
    config: Training
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def checkpoint(self) -> Path:
        """The servable folder; its presence means: done."""
        return self.config.folder / ("final" if self.cell else "base")


def cells(ablation: Ablation) -> list[Cell]:
    """All cells, the full one first. Raises ``UserError`` when two of them are the same run."""
    axes = [list(levels.items()) for levels in ablation.axes.values()]
    found: list[tuple[list[int], Cell]] = []
    for levels in product(*axes):
        changed = [n for n, level in enumerate(levels) if level != axes[n][0]]
        if ablation.design == "one_at_a_time" and len(changed) > 1:
            continue
        changes = tuple(levels[n][0] for n in changed)
        overrides = tuple(one for _, several in levels for one in several)
        found.append((changed, Cell("-".join(changes) or FULL, changes, overrides)))
    return [cell for _, cell in sorted(found, key=lambda one: (len(one[0]), one[0]))]


def runs(ablation: Ablation) -> list[Run]:
    """Every run, in the order in which one machine takes them: warm start, then the seed's cells.

    Raises ``UserError`` naming the cell whose config is refused, or is that of another cell.
    """
    found = []
    made = cells(ablation)
    for seed in ablation.seeds:
        warm = warm_run(ablation, seed)
        found += [warm] if warm else []
        found += [cell_run(ablation, cell, seed, warm) for cell in made]
    _check_different([run for run in found if run.cell and run.seed == ablation.seeds[0]])
    return found


def warm_run(ablation: Ablation, seed: int) -> Run | None:
    """The run that makes what the cells of a seed start from; None where nothing is made."""
    run = _run(ablation, None, seed, ablation.overrides)
    return run if run.config.sft is not None or run.config.model.tiny is not None else None


def cell_run(ablation: Ablation, cell: Cell, seed: int, warm: Run | None) -> Run:
    start: tuple[str, ...] = ()
    if warm is not None:
        start = ("sft=null", "model.tiny=null", f"model.path={warm.checkpoint}")
    return _run(ablation, cell, seed, (*ablation.overrides, *cell.overrides, *start))


def _run(ablation: Ablation, cell: Cell | None, seed: int, overrides: Sequence[str]) -> Run:
    name = f"{cell.name if cell else 'warm'}-seed{seed}"
    if len(name) > 64:
        raise UserError(f"cell {name!r}: a name of more than 64 characters; shorten its levels")
    whole = (*overrides, f"name={name}", f"output={ablation.folder}", f"seed={seed}")
    try:
        config = load_training(Path(ablation.train), whole)
    except UserError as error:
        raise UserError(f"cell {name}: {error}") from None
    return Run(cell, seed, config, whole)


def _check_different(of_one_seed: Sequence[Run]) -> None:
    seen: dict[str, str] = {}
    for run in of_one_seed:
        content = run.config.model_copy(update={"name": ""}).model_dump_json()
        other = seen.setdefault(content, run.name)
        if other != run.name:
            raise UserError(f"cells {other} and {run.name} are the same run; remove a level")


def command(ablation: Ablation, run: Run, *, resume: bool) -> list[str]:
    """The words that train ``run``."""
    how = ["--resume"] if resume else []
    how += [] if run.cell else ["--warm-start"]
    launch = ablation.launch or (sys.executable,)
    return [*launch, "-m", "train", ablation.train, *run.overrides, *how]


def shown(words: Sequence[str]) -> str:
    """A command as one would type it."""
    return shlex.join(["python" if word == sys.executable else word for word in words])


def state(run: Run) -> State:
    """How far a run is. Raises ``UserError`` when its folder holds a run of another config."""
    folder = run.config.folder
    if not (folder / "manifest.json").exists():
        return "new"
    saved = read_json(folder / "config.json", "remove the folder, its run cannot be gone on with")
    fields = differing(_compared(saved), _compared(json.loads(run.config.model_dump_json())))
    if fields:
        raise UserError(
            f"{folder}: holds a run of another config; differs in {', '.join(fields)}; restore "
            "those values, or give the ablation another name="
        )
    return "done" if run.checkpoint.is_dir() else "started"


def _compared(config: dict[str, Any]) -> dict[str, Any]:
    """What must be equal: all but where metrics are shown."""
    return {name: value for name, value in config.items() if name != "wandb"}

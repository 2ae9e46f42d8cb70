"""The examples of a run, and the proof that none of them is held out. Needs no torch."""

from collections.abc import Sequence
from pathlib import Path

from configs.data import BasisData, BasisFiles, CalbenchData
from configs.errors import UserError
from configs.training import Training
from tasks.basis.collection import read_instances, sound_instances
from tasks.basis.overlap import check_apart
from tasks.calbench.sources import public_tasks
from tasks.catalog import TASKS
from tasks.example import Example
from tasks.splits import check_disjoint
from train.held_out import read_asked


def training_examples(config: Training) -> list[Example]:
    """Every request of every data section, in order; none of them held out.

    Raises ``UserError`` when one is, or when two sections make the same request.
    """
    check_basis(config)
    examples = [one for section in config.sections for one in TASKS[section.task](section)]
    seen: set[str] = set()
    for one in examples:
        if one.id in seen:
            raise UserError(
                f"data: request {one.id!r} is made by two sections; give them different files "
                "or seeds"
            )
        seen.add(one.id)
    calendar = [one for one in examples if one.task == "calbench"]
    for held_out in config.held_out:
        if isinstance(held_out, CalbenchData):
            check_disjoint(calendar, TASKS["calbench"](held_out))
    if config.best is not None:
        _check_best(config, calendar)
    return examples


def _check_best(config: Training, calendar: Sequence[Example]) -> None:
    """What chooses the checkpoint is neither trained on nor named as test data."""
    assert config.best is not None
    asked = read_asked(config.best)
    chooses = list(TASKS["calbench"](asked.data))
    check_disjoint(calendar, chooses, second="best.config")
    for held_out in config.held_out:
        if isinstance(held_out, CalbenchData):
            tested = TASKS["calbench"](held_out)
            check_disjoint(tested, chooses, first="held_out", second="best.config")


def check_files(config: Training) -> None:
    """Read every public calendar file and the YAML of ``best``: a fault costs a second, no torch.

    Raises ``UserError`` naming the file and the line.
    """
    for section in (*config.sections, *config.held_out):
        if isinstance(section, CalbenchData) and section.public is not None:
            public_tasks(section.public)
    if config.best is not None:
        read_asked(config.best)


def check_basis(config: Training) -> None:
    """Raises ``UserError`` when BASIS data to train on overlaps with what is held out.

    All instances of the files count, whatever part of them is trained on. The held-out files are
    read strictly: what cannot be read cannot be kept out.
    """
    trained = [one for one in config.sections if isinstance(one, BasisData)]
    if not trained:
        return
    _refuse_missing(config)
    held_out = [one for one in config.held_out if isinstance(one, BasisFiles)]
    kept_out = read_instances(_paths(held_out), strict=True, with_rubrics=False)
    instances = sound_instances(read_instances(_paths(trained)))
    check_apart(instances, kept_out.instances)


def _refuse_missing(config: Training) -> None:
    """Raises ``UserError`` for BASIS data that is not there, with the key to set and its forms."""
    several = isinstance(config.data, tuple)
    places = [
        *((f"data.{n}" if several else "data", one) for n, one in enumerate(config.sections)),
        *((f"held_out.{n}", one) for n, one in enumerate(config.held_out)),
    ]
    for place, section in places:
        for name in () if isinstance(section, CalbenchData) else section.files:
            if not Path(name).exists():
                whose = "your own training instances, with rubrics"
                if place.startswith("held_out"):
                    whose = "the benchmark's instances, to be kept out"
                raise UserError(
                    f"{place}.files: {name!r}: no such file or folder; set {place}.files=[PATH] to "
                    f"{whose}: *.jsonl (one a line) or *-benchmark.json beside trajectories/"
                )


def _paths(sections: Sequence[BasisData | BasisFiles]) -> list[Path]:
    return [Path(name) for section in sections for name in section.files]

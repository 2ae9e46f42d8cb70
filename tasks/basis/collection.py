"""Paths -> all BASIS instances in them: release layout, one-line form, or folders of either."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from tasks.basis.found import Found
from tasks.basis.instances import Instance
from tasks.basis.oneline import read_oneline
from tasks.basis.release import read_release


@dataclass(frozen=True, slots=True)
class Collection:
    """What was found, file by file, in the order of the paths given and of names in a folder.

    ``ignored``: JSON files of a folder that are of neither form.
    """

    files: tuple[Found, ...]
    ignored: tuple[Path, ...]

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All sound instances."""
        return tuple(instance for file in self.files for instance in file.instances)

    @property
    def faults(self) -> tuple[str, ...]:
        """All faults, one line each."""
        return tuple(fault for file in self.files for fault in file.faults)


def read_instances(
    paths: Sequence[Path], strict: bool = False, with_rubrics: bool = True
) -> Collection:
    """Read files and folders. An id may stand only once in all of them.

    Raises ``UserError`` for a path that is none, and in strict mode on the first fault. Otherwise
    a faulty instance is left out and each of its faults listed. ``with_rubrics`` False: rubrics
    are not read and may be absent.
    """
    files, ignored = _files(paths)
    seen: dict[str, str] = {}
    found = [
        read_oneline(file, seen, strict, with_rubrics)
        if file.suffix == ".jsonl"
        else read_release(file, seen, strict, with_rubrics)
        for file in files
    ]
    return Collection(tuple(found), tuple(ignored))


def sound_instances(collection: Collection) -> tuple[Instance, ...]:
    """The instances that can be used. Raises ``UserError`` with the first fault if none can."""
    if not collection.instances:
        raise UserError(f"no instance can be used; first fault: {collection.faults[0]}")
    return collection.instances


def _files(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    files: list[Path] = []
    ignored: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [*sorted(path.glob("*-benchmark.json")), *sorted(path.glob("*.jsonl"))]
            if not inside:
                raise UserError(f"{path}: holds no *-benchmark.json and no *.jsonl; name the files")
            files += inside
            ignored += sorted(set(path.glob("*.json")) - set(inside))
        elif not path.exists():
            raise UserError(f"{path}: no such file or folder; give BASIS data")
        elif path.suffix in {".json", ".jsonl"}:
            files.append(path)
        else:
            raise UserError(f"{path}: is neither *.json nor *.jsonl; give BASIS data")
    return files, ignored

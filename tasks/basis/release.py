"""The release's layout: `<domain>-benchmark.json` lists beside a folder `trajectories/`.

A record names its trajectory by a path relative to the folder of the list. The path must stay in
that folder's `trajectories/`, links followed.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.basis.documents import shown
from tasks.basis.faults import Faults
from tasks.basis.found import Found
from tasks.basis.instances import Instance, Turn
from tasks.basis.oneline import repeated
from tasks.basis.records import file_domain, read_record, record_id, trajectory_path
from tasks.basis.turns import read_turns
from tasks.documents import parse_json, read_text

FOLDER = "trajectories"


def read_release(
    path: Path, seen: dict[str, str], strict: bool, with_rubrics: bool = True
) -> Found:
    """The instances of a benchmark file. ``seen``: ids read so far and their places; added to.

    Raises ``UserError`` on the first fault in strict mode.
    """
    faults, dropped = Faults(strict), Counter[str]()
    records = _records(path, faults)
    instances: list[Instance] = []
    used: set[Path] = set()
    for index, raw in enumerate(records):
        instance = _instance(raw, path, index, seen, used, dropped, faults, with_rubrics)
        instances += [instance] if instance else []
    return Found(
        path,
        "release",
        tuple(instances),
        dict(dropped),
        tuple(faults.lines),
        tuple(_unreferenced(path, used)) if records else (),
    )


def _records(path: Path, faults: Faults) -> list[Any]:
    try:
        raw = parse_json(read_text(path), str(path))
    except UserError as error:
        faults.add_line(str(error))
        return []
    if not isinstance(raw, list) or not raw:
        faults.add(str(path), f"holds {shown(raw)}, expected a non-empty list of instances")
        return []
    return raw


def _instance(
    raw: Any,
    path: Path,
    index: int,
    seen: dict[str, str],
    used: set[Path],
    dropped: Counter[str],
    faults: Faults,
    with_rubrics: bool,
) -> Instance | None:
    place = f"{path}[{index}]"
    before = len(faults.lines)
    name = record_id(raw, place, faults)
    if name is None:
        return None
    where = f"{place}: {name}"
    named = trajectory_path(raw, where, faults)
    file = None if named is None else _inside(path.parent, named, where, faults)
    if file is not None:
        used.add(file)
    if repeated(name, place, seen, faults):
        return None
    turns = () if file is None else _turns(path.parent / str(named), name, dropped, faults)
    domain = file_domain(path.stem)
    instance = read_record(raw, name, place, domain, turns, dropped, faults, with_rubrics)
    return None if len(faults.lines) > before else instance


def _inside(root: Path, named: str, where: str, faults: Faults) -> Path | None:
    """The trajectory file with links followed; None once a fault is noted."""
    file = (root / named).resolve()
    if file.is_relative_to((root / FOLDER).resolve()):
        return file
    faults.add(f"{where}: trajectory", f"{shown(named)} is not in {root / FOLDER}; move it there")
    return None


def _turns(file: Path, name: str, dropped: Counter[str], faults: Faults) -> tuple[Turn, ...]:
    where = f"{file}: {name}"
    try:
        raw = parse_json(read_text(file), where)
    except UserError as error:
        faults.add_line(str(error))
        return ()
    if not isinstance(raw, dict) or "trajectory" not in raw:
        faults.add(where, f"holds {shown(raw)}, expected an object with key 'trajectory'")
        return ()
    dropped.update(f"trajectory.{key}" for key in sorted(raw.keys() - {"trajectory"}))
    return read_turns(raw["trajectory"], where, dropped, faults)


def _unreferenced(path: Path, used: set[Path]) -> Iterator[str]:
    folder = path.parent / FOLDER / path.stem
    for file in sorted(folder.glob("*.json")):
        if file.resolve() not in used:
            yield f"{FOLDER}/{path.stem}/{file.name}"

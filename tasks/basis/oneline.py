"""The one-line form: a JSON object a line, the release's keys and the turns in the record.

The turns stand under `trajectory_inline`; `trajectory` names the file they came from and is only
checked. Optional keys: `group` (the source item that several instances share) and `source`.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.basis.faults import Faults
from tasks.basis.found import Found
from tasks.basis.instances import Instance
from tasks.basis.records import file_domain, read_record, record_id, trajectory_path
from tasks.basis.rubrics import RUBRIC_KEYS
from tasks.basis.turns import read_turns
from tasks.documents import parse_json, read_text


def read_oneline(
    path: Path, seen: dict[str, str], strict: bool, with_rubrics: bool = True
) -> Found:
    """The instances of a *.jsonl file. ``seen``: ids read so far and their places; added to.

    Raises ``UserError`` on the first fault in strict mode.
    """
    faults, dropped = Faults(strict), Counter[str]()
    instances: list[Instance] = []
    try:
        lines = read_text(path).split("\n")
    except UserError as error:
        faults.add_line(str(error))
        lines = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            instance = _instance(line, path, number, seen, dropped, faults, with_rubrics)
            instances += [instance] if instance else []
    if not instances and not faults.lines:
        faults.add(str(path), "holds no instance; expected one JSON object a line")
    return Found(path, "one-line", tuple(instances), dict(dropped), tuple(faults.lines))


def _instance(
    line: str,
    path: Path,
    number: int,
    seen: dict[str, str],
    dropped: Counter[str],
    faults: Faults,
    with_rubrics: bool,
) -> Instance | None:
    place = f"{path}:{number}"
    try:
        raw = parse_json(line, place)
    except UserError as error:
        faults.add_line(str(error))
        return None
    name = record_id(raw, place, faults)
    if name is None or repeated(name, place, seen, faults):
        return None
    where = f"{place}: {name}"
    before = len(faults.lines)
    trajectory_path(raw, where, faults)
    if "trajectory_inline" in raw:
        turns = read_turns(raw["trajectory_inline"], where, dropped, faults)
    else:
        faults.add(where, "key 'trajectory_inline' is missing; add the turns")
        turns = ()
    domain = file_domain(path.stem)
    instance = read_record(raw, name, place, domain, turns, dropped, faults, with_rubrics)
    return None if len(faults.lines) > before else instance


def to_record(instance: Instance) -> dict[str, Any]:
    """The record of an instance, as ``read_oneline`` reads it back."""
    turns = [
        {"turn": turn.number, "action": turn.action}
        | ({} if turn.observation is None else {"observation": turn.observation})
        for turn in instance.turns
    ]
    rubrics = {
        key: [{"criterion": text} for text in instance.rubrics.of(dimension)]
        for dimension, key in RUBRIC_KEYS.items()
    }
    file = re.sub(r"[^\w-]", "_", instance.id)
    return {
        "id": instance.id,
        "domain": instance.subdomain,
        "group": instance.group,
        "true_latent_state": instance.true_state,
        "user_latent_belief": instance.belief,
        "misconception_type": instance.misconception,
        "root_cause_of_misconception": instance.root_cause,
        "observation": instance.observation,
        "explicit_instruction": instance.instruction,
        "user_profile": instance.profile,
        "trajectory": f"trajectories/{instance.domain}-benchmark/{file}.json",
        "rubrics": rubrics,
        "trajectory_inline": turns,
    }


def repeated(name: str, place: str, seen: dict[str, str], faults: Faults) -> bool:
    """Whether ``name`` was read before, which is a fault; else it is noted as read at ``place``."""
    first = seen.setdefault(name, place)
    if first is place:
        return False
    faults.add(f"{place}: {name}", f"id {name!r} is also at {first}; rename or remove one")
    return True

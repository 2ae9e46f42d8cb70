"""Small BASIS records, written for these tests, and files made of them."""

import json
from pathlib import Path
from typing import Any

from tasks.basis.collection import read_instances
from tasks.basis.instances import Instance

RUBRICS = {
    "latent_belief_explanation": [{"criterion": "Names the fuse."}, {"criterion": "Says why."}],
    "user_profile_modeling": [
        {"criterion": "Says retired."},
        {"criterion": "Says handy."},
        {"criterion": "Says alone."},
    ],
    "correct_resolution": [
        {"criterion": "Names the bulb."},
        {"criterion": "Says to replace it."},
        {"criterion": "Says the fuse is fine."},
    ],
}


def turn(number: int, **changes: Any) -> dict[str, Any]:
    return {"turn": number, "action": f"look {number}", "observation": f"dark {number}"} | changes


def turns(**changes: Any) -> list[dict[str, Any]]:
    """Ten turns; ``t3={...}`` changes the third."""
    return [turn(n, **changes.get(f"t{n}", {})) for n in range(1, 11)]


def record(name: str = "swe_0001", **changes: Any) -> dict[str, Any]:
    """One record of the one-line form."""
    fields: dict[str, Any] = {
        "id": name,
        "domain": "Software Engineering",
        "true_latent_state": f"The bulb of {name} is worn out and nothing else is wrong.",
        "user_latent_belief": f"The fuse of {name} has blown again.",
        "misconception_type": "habit",
        "root_cause_of_misconception": "It was the fuse last time.",
        "observation": f"The lamp of {name} stays dark.",
        "explicit_instruction": f"Find a fuse for {name}.",
        "trajectory": f"trajectories/swe-benchmark/{name}.json",
        "user_profile": f"A retired and handy owner of {name}.",
        "rubrics": RUBRICS,
        "trajectory_inline": turns(),
    }
    return fields | changes


def without(raw: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in keys}


def write_lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))
    return path


def write_release(folder: Path, domain: str, *records: dict[str, Any]) -> Path:
    """The records as a benchmark file, their turns as trajectory files."""
    trajectories = folder / "trajectories" / f"{domain}-benchmark"
    trajectories.mkdir(parents=True, exist_ok=True)
    listed = []
    for one in records:
        path = f"trajectories/{domain}-benchmark/{one['id']}.json"
        (folder / path).write_text(json.dumps({"trajectory": one["trajectory_inline"]}))
        listed.append(without(one, "trajectory_inline") | {"trajectory": path})
    file = folder / f"{domain}-benchmark.json"
    file.write_text(json.dumps(listed))
    return file


def instances(folder: Path, *records: dict[str, Any]) -> tuple[Instance, ...]:
    """The records, read."""
    path = write_lines(folder / "swe.jsonl", *records)
    return read_instances([path], strict=True).instances


def instance(folder: Path, **changes: Any) -> Instance:
    [read] = instances(folder, record(**changes))
    return read

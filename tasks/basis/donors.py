"""Donors: whose belief and profile an instance is shown under ``shuffle``.

A derangement within each domain: every instance gives its notes once and gets another's, never
its own and never a sister's (an instance of the same group). Drawn from a seed, and saved, so that
a later run on more or fewer instances can use the same one.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from configs.errors import UserError
from tasks.basis.instances import Instance
from tasks.documents import parse_json, read_text

_SWAPS_EACH: Final = 20


def donors_for(instances: Sequence[Instance], seed: int, saved: Path | None) -> dict[str, str]:
    """Instance id -> donor id: as saved, else drawn (and saved, where a file is named).

    Raises ``UserError`` when no such assignment exists or the saved one does not fit.
    """
    if saved is not None and saved.exists():
        return read_donors(saved, instances)
    drawn = draw_donors(instances, seed)
    if saved is not None:
        write_donors(saved, drawn)
    return drawn


def draw_donors(instances: Sequence[Instance], seed: int) -> dict[str, str]:
    """The same donors for the same instances and seed, whatever their order."""
    donors: dict[str, str] = {}
    for domain in sorted({one.domain for one in instances}):
        inside = sorted((i for i in instances if i.domain == domain), key=lambda one: one.id)
        donors |= _derangement(inside, random.Random(f"{seed}:shuffle:{domain}"))
    return donors


def _derangement(instances: list[Instance], rng: random.Random) -> dict[str, str]:
    """Start from a rotation that no group can defeat, then exchange donors at random."""
    groups = Counter(one.group for one in instances)
    largest, size = groups.most_common(1)[0]
    if 2 * size > len(instances):
        raise UserError(
            f"settings.shuffle: {size} of the {len(instances)} {instances[0].domain} instances "
            f"belong to {largest!r}, so some would get notes of a sister; load more instances"
        )
    takers = sorted(instances, key=lambda one: (-groups[one.group], one.group, one.id))
    givers = [takers[(place + size) % len(takers)] for place in range(len(takers))]
    for _ in range(_SWAPS_EACH * len(takers)):
        one, other = rng.randrange(len(takers)), rng.randrange(len(takers))
        apart = (
            takers[one].group != givers[other].group and takers[other].group != givers[one].group
        )
        if apart:
            givers[one], givers[other] = givers[other], givers[one]
    return {taker.id: giver.id for taker, giver in zip(takers, givers, strict=True)}


def write_donors(path: Path, donors: Mapping[str, str]) -> None:
    """Save an assignment, in one piece."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(donors.items())), ensure_ascii=False, indent=1)
    part.write_text(text + "\n", encoding="utf-8")
    os.replace(part, path)


def read_donors(path: Path, instances: Sequence[Instance]) -> dict[str, str]:
    """A saved assignment, cut to ``instances``; their donors must be loaded too.

    Raises ``UserError`` naming the file, the instance and what is wrong with its donor.
    """
    raw = parse_json(read_text(path), str(path))
    if not isinstance(raw, dict) or not all(isinstance(donor, str) for donor in raw.values()):
        raise UserError(f"{path}: is not a map of instance ids to donor ids; remove it")
    known = {one.id: one for one in instances}
    given: dict[str, str] = {}
    for name, instance in known.items():
        donor = known.get(raw.get(name, ""))
        if donor is None:
            problem = "has no donor" if name not in raw else f"has donor {raw[name]!r}, not loaded"
        elif donor.domain != instance.domain:
            problem = f"has donor {donor.id!r} of another domain"
        elif donor.group == instance.group:
            problem = f"has donor {donor.id!r}, which is itself or a sister"
        elif donor.id in given:
            problem = f"has donor {donor.id!r}, which {given[donor.id]!r} has too"
        else:
            given[donor.id] = name
            continue
        raise UserError(f"{path}: {name} {problem}; remove the file to draw again")
    return {name: raw[name] for name in known}

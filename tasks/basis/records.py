"""One raw record of a BASIS file -> an Instance; the fields that both file forms share."""

from collections import Counter
from typing import Any, Final, get_args

from tasks.basis.documents import shown, text_field, text_value
from tasks.basis.faults import Faults
from tasks.basis.flags import find_flags
from tasks.basis.instances import DOMAINS, Domain, Instance, Rubrics, Turn, sister_group
from tasks.basis.rubrics import read_rubrics

TEXT_KEYS: Final = (
    "domain",
    "observation",
    "explicit_instruction",
    "user_latent_belief",
    "user_profile",
    "true_latent_state",
    "misconception_type",
    "root_cause_of_misconception",
)
KNOWN_KEYS: Final = frozenset(
    {*TEXT_KEYS, "id", "trajectory", "trajectory_inline", "rubrics", "group", "source"}
)
SUBDOMAINS: Final[dict[str, Domain]] = {
    "Software Engineering": "swe",
    "Preference": "pref",
    "Culture": "culture",
    "Science / Teaching strategies": "education",
    "Science / Assessment": "education",
    "Science / Student understanding": "education",
}


def file_domain(stem: str) -> Domain | None:
    """The domain that a file's name gives: ``swe-benchmark`` and ``swe`` are swe."""
    name = stem.removesuffix("-benchmark")
    return next((domain for domain in get_args(Domain) if domain == name), None)


def record_id(raw: Any, where: str, faults: Faults) -> str | None:
    """The id of a record, an opaque string; None once a fault is noted."""
    if not isinstance(raw, dict):
        faults.add(where, f"holds {shown(raw)}, expected an object")
        return None
    return text_field(raw, "id", where, faults) or None


def trajectory_path(raw: dict[str, Any], where: str, faults: Faults) -> str | None:
    """The `trajectory` of a record, a relative path inside its folder; None once faulty."""
    path = text_field(raw, "trajectory", where, faults)
    parts = path.replace("\\", "/").split("/")
    if path and (".." in parts or parts[0] == "" or ":" in parts[0] or "\0" in path):
        faults.add(f"{where}: trajectory", f"{shown(path)} leaves its folder; give a path below it")
        return None
    return path or None


def read_record(
    raw: dict[str, Any],
    name: str,
    place: str,
    domain: Domain | None,
    turns: tuple[Turn, ...],
    dropped: Counter[str],
    faults: Faults,
    with_rubrics: bool = True,
) -> Instance | None:
    """The instance ``name`` found at ``place``; None where a field is a fault.

    ``domain``: what the file's name says, else None and the record's own text decides.
    """
    where = f"{place}: {name}"
    before = len(faults.lines)
    dropped.update(f"instance.{key}" for key in sorted(raw.keys() - KNOWN_KEYS))
    text = {key: text_field(raw, key, where, faults) for key in TEXT_KEYS}
    rubrics = Rubrics((), (), ())
    if with_rubrics:
        rubrics = read_rubrics(raw.get("rubrics"), where, dropped, faults)
    group = sister_group(name)
    if "group" in raw:
        group = text_value(raw["group"], f"{where}: group", faults) or group
    named = SUBDOMAINS.get(text["domain"])
    known = domain or named
    if known is None:
        faults.add(
            f"{where}: domain",
            f"{shown(text['domain'])} is unknown; name the file <domain>.jsonl with one of "
            f"{', '.join(DOMAINS)}",
        )
    if known is None or len(faults.lines) > before:
        return None
    scene = f"{text['observation']}\n{text['explicit_instruction']}"
    belief, true_state = text["user_latent_belief"], text["true_latent_state"]
    return Instance(
        id=name,
        domain=known,
        subdomain=text["domain"],
        group=group,
        place=place,
        observation=text["observation"],
        instruction=text["explicit_instruction"],
        turns=turns,
        belief=belief,
        profile=text["user_profile"],
        true_state=true_state,
        misconception=text["misconception_type"],
        root_cause=text["root_cause_of_misconception"],
        rubrics=rubrics,
        flags=find_flags(
            scene, turns, belief, true_state, rubrics, other_domain=named not in (None, known)
        ),
    )

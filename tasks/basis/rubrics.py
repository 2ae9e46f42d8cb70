"""The rubrics of an instance: three dimensions, each a list of yes/no criteria."""

from collections import Counter
from typing import Any, Final

from tasks.basis.documents import shown, text_field
from tasks.basis.faults import Faults
from tasks.basis.instances import DIMENSIONS, Dimension, Rubrics

RUBRIC_KEYS: Final[dict[Dimension, str]] = {
    "belief": "latent_belief_explanation",
    "profile": "user_profile_modeling",
    "solution": "correct_resolution",
}


def read_rubrics(raw: Any, where: str, dropped: Counter[str], faults: Faults) -> Rubrics:
    """The criteria of all three dimensions; some are empty once a fault is noted."""
    here = f"{where}: rubrics"
    if not isinstance(raw, dict):
        faults.add(here, f"holds {shown(raw)}, expected an object of three dimensions")
        return Rubrics((), (), ())
    for key in sorted(raw.keys() - set(RUBRIC_KEYS.values())):
        faults.add(here, f"unknown dimension {key!r}; allowed: {', '.join(RUBRIC_KEYS.values())}")
    read = {one: _criteria(raw, RUBRIC_KEYS[one], here, dropped, faults) for one in DIMENSIONS}
    return Rubrics(read["belief"], read["profile"], read["solution"])


def _criteria(
    raw: dict[str, Any], key: str, where: str, dropped: Counter[str], faults: Faults
) -> tuple[str, ...]:
    if key not in raw:
        faults.add(where, f"dimension {key!r} is missing; add it")
        return ()
    here = f"{where}.{key}"
    if not isinstance(raw[key], list) or not raw[key]:
        faults.add(here, f"holds {shown(raw[key])}, expected a non-empty list of criteria")
        return ()
    criteria = []
    for index, one in enumerate(raw[key]):
        if not isinstance(one, dict):
            faults.add(f"{here}[{index}]", f"holds {shown(one)}, expected an object with criterion")
            continue
        dropped.update(f"rubrics.{name}" for name in sorted(one.keys() - {"criterion"}))
        criteria.append(text_field(one, "criterion", f"{here}[{index}]", faults))
    for index, criterion in enumerate(criteria):
        if criterion in criteria[:index]:
            faults.add(f"{here}[{index}]", "repeats an earlier criterion; remove one")
    return tuple(criteria)

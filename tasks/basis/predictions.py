"""Predictions: beliefs and profiles that systems inferred, and which one ``transfer`` shows.

A file holds one JSON object a line: `system`, `instance`, `turns` (the prefix it was inferred
from), `belief`, `profile`, and `belief_score`, `profile_score` (from 0 to 1, or null where the
judge failed). The pick rule ``oracle_best_by_judge`` looks at scores on the test rubrics: it is an
oracle, an upper bound, and no method.
"""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from configs.data import Transfer
from configs.errors import UserError
from tasks.basis.documents import shown, text_field
from tasks.basis.faults import Faults
from tasks.documents import parse_json, read_text
from tasks.extraction import Incomplete, answer_text


@dataclass(frozen=True, slots=True)
class Prediction:
    """What ``system`` inferred about an instance's user from a prefix of ``turns`` turns."""

    system: str
    instance: str
    turns: int
    belief: str
    profile: str
    belief_score: float | None
    profile_score: float | None

    @property
    def mean_score(self) -> float | None:
        """The mean of both scores; None unless both are known."""
        if self.belief_score is None or self.profile_score is None:
            return None
        return (self.belief_score + self.profile_score) / 2


Key: TypeAlias = tuple[str, str, int]  # system, instance, turns
KEYS = frozenset(
    {"system", "instance", "turns", "belief", "profile", "belief_score", "profile_score"}
)


def read_predictions(paths: Iterable[Path]) -> dict[Key, Prediction]:
    """All predictions of the files. Raises ``UserError`` naming file, line and key."""
    found: dict[Key, Prediction] = {}
    for path in paths:
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            one = _prediction(parse_json(line, where), where)
            if found.setdefault((one.system, one.instance, one.turns), one) is not one:
                raise UserError(
                    f"{where}: {one.system} has two predictions for {one.instance} at "
                    f"{one.turns} turns; remove one"
                )
    return found


def _prediction(raw: Any, where: str) -> Prediction:
    if not isinstance(raw, dict) or raw.keys() != KEYS:
        raise UserError(f"{where}: not a prediction; expected the keys {', '.join(sorted(KEYS))}")
    faults = Faults(strict=True)
    texts = {key: text_field(raw, key, where, faults) for key in ("system", "instance")}
    for key in ("belief", "profile"):
        answer = answer_text(text_field(raw, key, where, faults))
        if isinstance(answer, Incomplete) or not answer:
            raise UserError(f"{where}: {key} holds only reasoning; give the answer's text")
        texts[key] = answer
    turns = raw["turns"]
    if type(turns) is not int or not 0 <= turns <= 10:
        raise UserError(f"{where}: turns {shown(turns)} is no whole number from 0 to 10")
    return Prediction(
        system=texts["system"],
        instance=texts["instance"],
        turns=turns,
        belief=texts["belief"],
        profile=texts["profile"],
        belief_score=_score(raw["belief_score"], f"{where}: belief_score"),
        profile_score=_score(raw["profile_score"], f"{where}: profile_score"),
    )


def _score(raw: Any, where: str) -> float | None:
    if raw is None:
        return None
    number = isinstance(raw, (int, float)) and not isinstance(raw, bool)
    if not number or not math.isfinite(raw) or not 0 <= raw <= 1:
        raise UserError(f"{where} {shown(raw)} is no number from 0 to 1, and not null")
    return float(raw)


def pick(
    predictions: Mapping[Key, Prediction], instance: str, turns: int, rule: Transfer
) -> Prediction | None:
    """The prediction that ``rule`` takes for an instance at a prefix; None under rule ``none``.

    Raises ``UserError`` when a system that the rule needs made no such prediction.
    """
    if rule.pick == "none":
        return None
    names = [rule.system or ""] if rule.pick in ("fixed", "self") else list(rule.pool)
    pool = [_needed(predictions, (name, instance, turns)) for name in names]
    if rule.pick == "random":
        return random.Random(f"{rule.seed}:transfer:{instance}:{turns}").choice(pool)
    if rule.pick != "oracle_best_by_judge":
        return pool[0]
    scored = [(score, one) for one in pool if (score := one.mean_score) is not None]
    if not scored:
        raise UserError(
            f"transfer: no prediction for {instance} at {turns} turns has both scores; judge again"
        )
    best = max(score for score, _ in scored)
    return next(one for score, one in scored if score == best)


def _needed(predictions: Mapping[Key, Prediction], key: Key) -> Prediction:
    if key not in predictions:
        system, instance, turns = key
        raise UserError(
            f"transfer: {system!r} made no prediction for {instance} at {turns} turns; add it to "
            "transfer.predictions"
        )
    return predictions[key]

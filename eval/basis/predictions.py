"""What a system inferred of beliefs and profiles -> ``predictions/SYSTEM.jsonl``.

The notes that the setting ``transfer`` of a later plan shows to other systems. They come from run 1
of guided, and of separate where guided was not asked at that prefix.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from eval.basis.scoring import read_replies
from eval.plan import Plan
from eval.records import write_atomically
from eval.scoring import open_responses, read_planned, score_path
from tasks.basis.answers import Answer
from tasks.basis.predictions import Prediction

ORIGINS = ("separate", "guided")  # a later one replaces an earlier one


def write_predictions(plan: Plan, system: str) -> Path:
    """Write what the scored answers of one system give; an empty file if that is nothing."""
    path = plan.folder / "predictions" / f"{system}.jsonl"
    found = predictions(plan, system)
    lines = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found)
    write_atomically(path, lines)
    return path


def predictions(plan: Plan, system: str) -> Iterator[Prediction]:
    """One for each instance and prefix whose belief and profile have texts, in plan order."""
    texts: dict[tuple[str, int], dict[str, dict[str, str]]] = {}
    scores: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    log, identity, index = open_responses(plan, system)
    replies = read_replies(plan, log, index, identity.prefilled_think)
    rows = read_planned(plan, score_path(plan, system), plan.runs)
    for reply, row in zip(replies, rows, strict=True):
        setting = reply.reference.setting
        if row.run != 1 or setting not in ORIGINS or not isinstance(reply.answer, Answer):
            continue
        key = (reply.reference.instance, reply.reference.turns)
        said = {str(name): text for name, text in reply.answer.texts.items()}
        texts.setdefault(key, {}).setdefault(setting, {}).update(said)
        scores.setdefault(key, {}).setdefault(setting, {}).update(row.measures)
    for (instance, turns), by_setting in texts.items():
        for origin in reversed(ORIGINS):
            said = by_setting.get(origin, {})
            measured = scores[(instance, turns)].get(origin, {})
            if said.get("belief") and said.get("profile"):
                yield Prediction(
                    system=system,
                    instance=instance,
                    turns=turns,
                    belief=said["belief"],
                    profile=said["profile"],
                    belief_score=measured.get("belief"),
                    profile_score=measured.get("profile"),
                )
                break

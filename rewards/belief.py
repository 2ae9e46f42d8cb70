"""Belief parts: how much of the holder's belief an answer states.

``entries``: share of the agents x slots entries that are right. ``whole_agent``: 1 when all are.
``perspective``: share right among the entries on which holders of the story differ; None when all
agree, since nothing tells perspectives apart there. A copy of the world has nearly all entries
right and earns no perspective where the holder's belief is stale.
"""

from collections.abc import Mapping

from tasks.calbench.answers import Belief
from tasks.calbench.reference import Reference


def belief_parts(reference: Reference, answer: Belief | None) -> Mapping[str, float | None]:
    """Parts in [0, 1]. ``answer`` None is an incomplete answer: 0 in every part that applies."""
    if answer is None:
        nothing = 0.0 if reference.perspective else None
        return {"entries": 0.0, "whole_agent": 0.0, "perspective": nothing}
    total = len(reference.agents) * reference.num_slots
    wrong = 0
    for stated_row, true_row in zip(answer.entries, reference.belief, strict=True):
        if stated_row != true_row:
            wrong += sum(s != t for s, t in zip(stated_row, true_row, strict=True))
    cells = reference.perspective
    told_apart = sum(answer.entries[a][s] == reference.belief[a][s] for a, s in cells)
    return {
        "entries": (total - wrong) / total,
        "whole_agent": float(wrong == 0 and not answer.fault),
        "perspective": told_apart / len(cells) if cells else None,
    }

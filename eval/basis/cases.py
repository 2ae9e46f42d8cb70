"""Cases of a BASIS plan: a request, the answers, and criterion by criterion what the judge said."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from eval.basis.judgements import Kept, read_judgements
from eval.basis.scoring import Reply, read_replies
from eval.cases import Answer, Case, chosen, outcomes, payload, verdict_of
from eval.metrics import Rows
from eval.plan import Plan
from eval.records import Key, Scored
from eval.scoring import open_responses
from tasks.basis.reference import Reference
from tasks.example import Example


def basis_payload(plan: Plan, systems: Sequence[str], rows: Mapping[str, Rows], judge: str) -> str:
    """The sample of cases. ``judge``: the name of the one whose judgements are shown."""
    base, trained = rows[systems[0]], rows[systems[:2][-1]]
    found = outcomes((key, mean(row), mean(trained[key])) for key, row in base.items())
    keys = chosen(found, base)
    examples: dict[str, tuple[Example, Reference]] = {}
    answers: dict[str, dict[Key, Answer]] = {}
    for system in systems:
        log = plan.folder / "judgements" / judge / f"{system}.jsonl"
        answers[system] = _answers(plan, system, rows[system], set(keys), log, examples)
    cases = [
        Case(
            examples[key[0]][0],
            key[1],
            found[key],
            _lines(examples[key[0]][1]),
            tuple(answers[system][key] for system in systems),
        )
        for key in keys
    ]
    return payload(cases, Counter(found.values()), systems, graded=True)


def mean(row: Scored) -> float | None:
    """The mean share of criteria met over the dimensions asked for; None without a score."""
    shares = [one for name, one in row.measures.items() if not name.endswith("_words")]
    return sum(shares) / len(shares) if shares else None


def _lines(reference: Reference) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (f"{dimension}: {criterion}", ("met",))
        for dimension, criteria in reference.criteria.items()
        for criterion in criteria
    )


def _answers(
    plan: Plan,
    system: str,
    rows: Rows,
    keys: set[Key],
    log: Path,
    examples: dict[str, tuple[Example, Reference]],
) -> dict[Key, Answer]:
    kept = read_judgements(log) if log.is_file() else Kept()
    path, identity, index = open_responses(plan, system)
    found = {}
    for reply in read_replies(plan, path, index, identity.prefilled_think):
        key = (reply.example.id, reply.response.run)
        if key in keys:
            examples[reply.example.id] = (reply.example, reply.reference)
            found[key] = _answer(system, reply, rows[key], kept)
    return found


def _answer(system: str, reply: Reply, row: Scored, kept: Kept) -> Answer:
    score = mean(row)
    words = [] if score is None else [f"{score:.0%} of criteria met"]
    said = {} if reply.candidate is None else kept.of(reply.candidate)
    stated: list[tuple[str, ...]] = []
    for dimension, criteria in reply.reference.criteria.items():
        one = said.get(dimension)
        scores = one.scores if one is not None else None
        if scores is None:
            stated += [("no score",)] * len(criteria)
        else:
            stated += [("met" if met else "not met",) for met in scores]
    marks = tuple((line[0] == "met",) for line in stated)
    verdict = verdict_of(row, words)
    if not said:
        return Answer(system, row.state, verdict, reply.response.text)
    return Answer(system, row.state, verdict, reply.response.text, tuple(stated), marks)

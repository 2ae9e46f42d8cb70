"""Cases of a calendar plan: beliefs and plans entry by entry, with what was right."""

from collections import Counter
from collections.abc import Mapping, Sequence

from eval.cases import Answer, Case, chosen, outcomes, payload, verdict_of
from eval.measures import ALL as MEASURES
from eval.measures import HEADLINE
from eval.metrics import Rows, value
from eval.plan import Plan
from eval.records import COMPLETE, Key, Scored
from eval.responses import read_at
from eval.scoring import open_responses
from rewards.optimality import cost_of
from tasks.calbench.answers import Belief, read
from tasks.calbench.answers import Plan as PlanAnswer
from tasks.calbench.reference import Reference, parse
from tasks.calbench.solver import first_optimal_plan
from tasks.example import Example

Lines = tuple[tuple[str, tuple[str, ...]], ...]


def calendar_payload(plan: Plan, systems: Sequence[str], rows: Mapping[str, Rows]) -> str:
    """The sample of cases, as the page holds it. The first two of ``systems`` are compared.

    A single one (two conditions of it are compared) is shown alone.
    """
    base, trained = rows[systems[0]], rows[systems[:2][-1]]
    found = outcomes(
        (key, _headline(plan, row), _headline(plan, trained[key])) for key, row in base.items()
    )
    keys = chosen(found, base)
    wanted = {name for name, _ in keys}
    examples = {one.id: one for one in plan.requests() if one.id in wanted}
    answers = {
        system: read_answers(plan, system, rows[system], keys, examples) for system in systems
    }
    cases = [
        Case(
            examples[key[0]],
            key[1],
            found[key],
            right_lines(parse(examples[key[0]].target)),
            tuple(answers[system][key] for system in systems),
        )
        for key in keys
    ]
    return payload(cases, Counter(found.values()), systems, graded=False)


def _headline(plan: Plan, row: Scored) -> float | None:
    return value(row, MEASURES[HEADLINE[plan.kinds[row.condition]]])


def read_answers(
    plan: Plan,
    system: str,
    rows: Rows,
    keys: Sequence[Key],
    examples: Mapping[str, Example],
) -> dict[Key, Answer]:
    """What one system wrote in these cases, read again as scoring reads it."""
    path, identity, index = open_responses(plan, system)
    found = {}
    with path.open("rb") as log:
        for key in keys:
            offset = index.offsets.get(key)
            text = "" if offset is None else read_at(log, offset).text
            reference = parse(examples[key[0]].target)
            found[key] = _answer(system, rows[key], text, reference, identity.prefilled_think)
    return found


def _answer(
    system: str, row: Scored, text: str, reference: Reference, prefilled_think: bool
) -> Answer:
    answer = read(text, reference, prefilled_think) if row.state == COMPLETE else None
    stated: tuple[tuple[str, ...], ...] = ()
    marks: tuple[tuple[bool, ...], ...] = ()
    words: list[str] = []
    if isinstance(answer, Belief):
        stated = tuple(tuple(one or "?" for one in line) for line in answer.entries)
        marks = tuple(
            tuple(s == t for s, t in zip(said, true, strict=True))
            for said, true in zip(answer.entries, reference.belief, strict=True)
        )
        wrong = sum(not mark for line in marks for mark in line)
        words = [f"{wrong} of {sum(map(len, marks))} entries wrong"] if wrong else ["all right"]
    elif isinstance(answer, PlanAnswer):
        stated = tuple(("?" if slot is None else str(slot),) for slot in answer.slots)
        right = bool(row.measures["optimal"])
        marks = tuple((right,) for _ in answer.slots)
        words = [_cost(reference, answer)]
    return Answer(system, row.state, verdict_of(row, words), text, stated, marks)


def _cost(reference: Reference, answer: PlanAnswer) -> str:
    cost, optimum = cost_of(reference.subjective, answer), reference.subjective.optimum
    if cost is None:
        return "not feasible for the holder"
    return f"optimal, cost {cost}" if cost == optimum else f"cost {cost}, optimum {optimum}"


def right_lines(reference: Reference) -> Lines:
    """By agent its right entries; by meeting its slot in the first optimal plan."""
    if reference.kind == "belief":
        return tuple(zip(reference.agents, reference.belief, strict=True))
    slots = first_optimal_plan(reference.subjective)
    return tuple((name, (str(n),)) for name, n in zip(reference.meetings, slots, strict=True))

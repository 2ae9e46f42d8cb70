"""Cases of a calendar plan: beliefs and plans entry by entry, with what was right."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from eval.cases import Answer, Case, chosen, outcomes, payload, verdict_of
from eval.measures import ALL as MEASURES
from eval.measures import HEADLINE
from eval.metrics import Rows, value
from eval.pairing import Arm, across
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


def calendar_payload(plan: Plan, arms: Sequence[Arm], rows: Mapping[str, Rows]) -> str:
    """The sample of cases, as the page holds it. The first two of ``arms`` are compared.

    Arms under a condition meet where every one of them has the story, variant, holder and run.
    """
    places = [_places(one, rows[one.system]) for one in arms]
    held = {
        place: rows[arms[0].system][key]
        for place, key in places[0].items()
        if all(place in other for other in places[1:])
    }
    base, trained = rows[arms[0].system], rows[arms[1].system]
    found = outcomes(
        (place, _headline(plan, base[places[0][place]]), _headline(plan, trained[places[1][place]]))
        for place in held
    )
    chosen_places = chosen(found, held)
    examples = _examples(plan, {where[one][0] for where in places for one in chosen_places})
    streams = [
        _read_answers(plan, one, rows[one.system], [where[p] for p in chosen_places], examples)
        for one, where in zip(arms, places, strict=True)
    ]
    settings = _settings(arms[0], arms[1])
    cases = (
        _case(place, found[place], answers, settings)
        for place, *answers in zip(chosen_places, *streams, strict=True)
    )
    names = [one.name for one in arms]
    return payload(cases, Counter(found.values()), names, graded=False)


def _places(arm: Arm, rows: Rows) -> dict[Key, Key]:
    """Where the cells of an arm meet those of others -> its own keys, in plan order."""
    if not arm.condition:
        return {key: key for key in rows}
    return {
        (across(row), row.run): key for key, row in rows.items() if row.condition == arm.condition
    }


def _settings(base: Arm, trained: Arm) -> str:
    """Both conditions as the tables name them; empty where they are the same."""
    if base.condition == trained.condition:
        return ""
    return f"{trained.condition} \N{MINUS SIGN} {base.condition}"


def _case(place: Key, outcome: str, found: Sequence[tuple[Example, Answer]], settings: str) -> Case:
    """One case; answers to other settings than the first bring what they were asked."""
    first = found[0][0]
    answers = tuple(
        answer if example.id == first.id else replace(answer, asked=example.messages)
        for example, answer in found
    )
    lines = right_lines(parse(first.target))
    parse.cache_clear()  # it is for training, which meets its references again
    return Case(first, place[1], outcome, lines, answers, settings)


def _examples(plan: Plan, wanted: Set[str]) -> dict[str, Example]:
    return {one.id: one for one in plan.requests() if one.id in wanted}


def _headline(plan: Plan, row: Scored) -> float | None:
    return value(row, MEASURES[HEADLINE[plan.kinds[row.condition]]])


def _read_answers(
    plan: Plan,
    arm: Arm,
    rows: Rows,
    keys: Sequence[Key],
    examples: Mapping[str, Example],
) -> Iterator[tuple[Example, Answer]]:
    """What one arm was asked and wrote in these cases, read again as scoring reads it."""
    path, identity, index = open_responses(plan, arm.system)
    offsets = [index.offsets.get(key) for key in keys]
    del index  # of every row of the log
    with path.open("rb") as log:
        for key, offset in zip(keys, offsets, strict=True):
            text = "" if offset is None else read_at(log, offset).text
            example = examples[key[0]]
            reference = parse(example.target)
            answer = _answer(arm.name, rows[key], text, reference, identity.prefilled_think)
            yield example, answer


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

"""Every row of the tables of malformed answers of calendar requests, and cases beside them."""

import json
from pathlib import Path

import pytest

from tasks.calbench.answers import Belief, Plan, outcome, read
from tasks.calbench.reference import PlanTable, Reference
from tasks.extraction import Incomplete

CASES = Path(__file__).resolve().parents[3] / ".." / "shared/data/cases/calbench_answers.jsonl"
NO_TABLE = PlanTable((), (), 0, 0)


def reference(kind: str) -> Reference:
    """Five agents, five meetings, sixteen slots; reading needs nothing else."""
    assert kind in ("plan", "belief")
    return Reference(
        kind="plan" if kind == "plan" else "belief",
        agents=("A", "B", "C", "D", "E"),
        meetings=("M1", "M2", "M3", "M4", "M5"),
        num_slots=16,
        initial=(),
        belief=(),
        world=(),
        perspective=(),
        subjective=NO_TABLE,
        objective=NO_TABLE,
        starting=NO_TABLE,
    )


PLAN = reference("plan")
BELIEF = reference("belief")


def read_cases() -> list[dict[str, object]]:
    if not CASES.exists():
        return []
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.skipif(not CASES.exists(), reason="shared/data/cases is not beside this checkout")
def test_the_shared_cases_come_out_as_listed() -> None:
    cases = read_cases()
    assert len(cases) == 58
    for case in cases:
        answer = read(
            str(case["answer"]), reference(str(case["request"])), bool(case["prefilled_think"])
        )
        assert outcome(answer) == case["outcome"], case["id"]


# Plans. `good` is the plan most cases start from.

GOOD = '{"plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}}'
SLOTS = (3, 8, 0, 15, 11)
DRAFT = '{"plan": {"M1": 1, "M2": 2, "M3": 3, "M4": 4, "M5": 5}}'


def with_m2(value: str) -> str:
    """The good plan with another value for M2, as JSON text."""
    return f'{{"plan": {{"M1": 3, "M2": {value}, "M3": 0, "M4": 15, "M5": 11}}}}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,  # p01
        f"Sure! {{my choice}} follows.\n{GOOD}\nHope that helps, {{truly}}.",  # p02
        f"```json\n{GOOD}\n```",  # p03
        f"```\r\n{GOOD}\r\n```\r\n",
        f"<think>{DRAFT}</think>{GOOD}",  # p04
        f"<think>{DRAFT}</think><think>{DRAFT}</think>\n{GOOD}",
        f"{DRAFT}</think>{GOOD}",  # orphan tag
        f"{DRAFT}\nCorrection:\n{GOOD}",  # p12
        f'{GOOD}\n{{"plan": {{"M1": 1, "M2": 2',  # p13
        f"\ufeff{GOOD}\u00a0\u2028",
        with_m2('"8"'),  # p19
        with_m2("8.0"),  # p20
        with_m2("8e0"),
        with_m2('" 8 "'),
        with_m2('"08"'),
        with_m2('"8.0"'),
        with_m2('"slot 8"'),
        with_m2('"Slot 08"'),
        with_m2('"SLOT_8"'),
        '{"plan": {"M1": 3, "M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}}',  # p28
        '{"plan": {"M1": 3, "m1": "3", "M2": 8, "M3": 0, "M4": 15, "M5": 11}}',
        '{"why": "x", "plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}, "cost": 1}',  # p32
        '{"plan": [{"meeting": "M1", "slot": 3}, {"meeting": "M2", "slot": "8"},'
        ' {"meeting": "Meeting 3", "slot": 0}, {"slot": 15, "meeting": 4},'
        ' {"id": "M5", "slot": 11, "cost": 2}]}',  # p33
        '{"plan": [{"M1": 3}, {"M2": 8}, {"M3": {"slot": 0}}, {"M4": 15}, {"M5": 11}]}',  # p33
        '{"plan": {"M1": {"slot": 3}, "M2": {"slot": 8, "cost": 1}, "M3": {"Slot": 0},'
        ' "M4": {"slot": "15"}, "M5": 11}}',  # p34
        f'{{"answer": {GOOD}}}',  # p37
        f"[{GOOD}]",
        '{"plan": {"Meeting 1": 3, "meeting_2": 8, "MEETING 3": 0, "M 4": 15, "M5": 11}}',  # p41
        '{"plan": {"m1": 3, "M02": 8, "Meeting M3": 0, " M4 ": 15, "m-5": 11}}',
        '{"PLAN": {"M5": 11, "M4": 15, "M3": 0, "M2": 8, "M1": 3}}',
        '{"plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}, '
        '"plan": {"M1": "3", "M2": 8.0, "M3": 0, "M4": 15, "M5": 11}}',
        '{"plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11, "M6": null}}',
    ],
)
def test_a_plan_is_read_whatever_its_presentation(text: str) -> None:
    assert read(text, PLAN) == Plan(SLOTS, "", repaired=False)


def test_a_prefilled_think_block_must_close() -> None:  # p07, p08
    assert read(f"{DRAFT} hmm</think>{GOOD}", PLAN, True) == Plan(SLOTS, "", False)
    assert read(f"Let me try {GOOD}", PLAN, True) == Incomplete("unterminated_reasoning")


@pytest.mark.parametrize(
    "text",
    [
        '{"plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11,},}',  # p09
        '{"plan": [{"M1": 3}, {"M2": 8}, {"M3": 0}, {"M4": 15}, {"M5": 11},]}',
    ],
)
def test_trailing_commas_are_repaired(text: str) -> None:
    assert read(text, PLAN) == Plan(SLOTS, "", repaired=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"<think>{GOOD}", "unterminated_reasoning"),  # p05
        (f"{GOOD}<think>{DRAFT}", "unterminated_reasoning"),
        (f"<think>{GOOD}</think>", "no_answer"),  # p06
        (f"{GOOD}</think>", "no_answer"),  # before the block closes all is thinking
        (f"{GOOD}\n<think>{DRAFT}</think>", "no_answer"),
        (f"{GOOD}\n<think>{DRAFT}</think>\nAs said.", "no_answer"),
        (f'{{"x": oops, "draft": {GOOD}}}', "unparseable"),
        (f"{{'draft': {GOOD}}}", "no_answer"),
        ('{"plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, ', "unparseable"),  # p10
        ('{"plan": {"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}', "unparseable"),  # p11
        (f'{{"answer": {GOOD}', "unparseable"),
        ('{"plan": {"M1": 3, "M2": 8, "M3": 0, "M5": 11}}', "missing_entry"),  # p14
        (with_m2("null"), "missing_entry"),  # p15
        (with_m2('""'), "missing_entry"),  # p16
        (with_m2('" \\t"'), "missing_entry"),
        (with_m2('{"slot": null}'), "missing_entry"),
        (with_m2('null, "M2": null'), "missing_entry"),
        ('{"plan": {"M1": 16, "M2": null, "M3": 0, "M4": 15, "M5": 11, "M6": 1}}', "missing_entry"),
        ('{"plan": [3, 8, 0, 15, 11]}', "wrong_shape"),  # p35
        ('{"plan": [{"slot": 3}, {"slot": 8}]}', "missing_entry"),
        ('{"plan": [{"slot": 3, "x": 1}, {"slot": 8, "x": 1}]}', "wrong_shape"),
        ('{"plan": [["M1", 3], ["M2", 8]]}', "wrong_shape"),
        ('{"plan": []}', "missing_entry"),
        ('{"plan": {}}', "missing_entry"),
        ('{"plan": null}', "wrong_shape"),
        (f'{GOOD} {{"plan": null}}', "wrong_shape"),
        ('{"plan": 3}', "wrong_shape"),
        ('{"M1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}', "no_answer"),  # p36
        (f'{{"result": {{"answer": {GOOD}}}}}', "no_answer"),
        (json.dumps({"plan": json.dumps({"M1": 3, "M2": 8})}), "wrong_shape"),  # p38
        (json.dumps(GOOD), "no_answer"),
        (GOOD.replace('"', "'"), "no_answer"),  # p39
        (GOOD.replace('"', "&quot;"), "no_answer"),
        (
            '{"plan": {"3": "M1", "8": "M2", "0": "M3", "15": "M4", "11": "M5"}}',
            "missing_entry",
        ),  # p40
        ('{"plan": {"1": 3, "2": 8, "3": 0, "4": 15, "5": 11}}', "missing_entry"),
        ('{"plan": {"\uff2d1": 3, "M2": 8, "M3": 0, "M4": 15, "M5": 11}}', "missing_entry"),
        ('{"belief": {"A": ["F"]}}', "no_answer"),  # p42
        ("", "no_answer"),  # p43
        ("M1 goes to slot 3, M2 to 8, M3 to 0, M4 to 15 and M5 to 11.", "no_answer"),  # p44
        ("[" * 100_000, "no_answer"),  # p45
        ('{"plan": ' + "[" * 100_000, "unparseable"),
        ("x" * 200_001, "too_long"),
    ],
)
def test_a_plan_with_something_missing_is_incomplete(text: str, reason: str) -> None:
    answer = read(text, PLAN)
    assert answer == Incomplete(reason)  # type: ignore[arg-type]
    assert outcome(answer) == "incomplete"


@pytest.mark.parametrize(
    "value",
    [
        "16",  # p17
        "-1",  # p18
        "8.5",  # p21
        '"8:00"',  # p22
        "true",  # p23
        "false",
        "NaN",  # p24
        "Infinity",
        "1e400",  # p25
        "[8]",  # p26
        "[8, 9]",
        "[]",
        "{}",
        '{"time": null}',
        '{"slot": {}}',
        '{"slot": []}',
        '"\\u00b2"',  # p27
        '"\uff18"',
        '"+8"',
        '"-8"',
        '"slot -8"',
        '"slot-8"',
        '"8.5"',
        '"8 or 9"',
        '"eight"',
        '"16"',
        '"0x8"',
        '"1_0"',
        "9" * 5000,  # p46
        "-" + "9" * 5000,
        f'"{"9" * 5000}"',
        f'"slot {"9" * 5000}"',
        '{"slot": 16}',
        '{"slot": {"slot": 8}}',
        '{"time": 8}',
        '{"M2": 8}',
        '{"start": {"slot": 8}}',
    ],
)
def test_what_is_no_slot_spoils_its_meeting(value: str) -> None:
    answer = read(with_m2(value), PLAN)
    assert answer == Plan((3, None, 0, 15, 11), "", False)
    assert outcome(answer) == "wrong"


@pytest.mark.parametrize(
    ("text", "slots", "fault"),
    [
        (with_m2('8, "M2": 9'), (3, None, 0, 15, 11), "M2 is given twice"),  # p29
        (with_m2('8, "m2": 9'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('8, "Meeting 2": null'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('8, "M02": 16'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('{"slot": 8, "slot": 9}'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('{"slot": 8, "Slot": 9}'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('{"slot": 8, " SLOT ": null}'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('8, "M6": 2'), SLOTS, "unknown meeting 'M6'"),  # p31
        (with_m2('8, "M6": {}'), SLOTS, "unknown meeting 'M6'"),
        (with_m2('8, "M0": 2'), SLOTS, "unknown meeting 'M0'"),
        (with_m2('8, "M6": {"time": 4}'), SLOTS, "unknown meeting 'M6'"),
        (with_m2('8, "M6": {"slot": {"slot": 4}}'), SLOTS, "unknown meeting 'M6'"),
        (with_m2('8, "M6": [4]'), SLOTS, "unknown meeting 'M6'"),
        (with_m2('{"slot": 8}, "M2": {"time": 8}'), (3, None, 0, 15, 11), "M2 is given twice"),
        (with_m2('8, "cost": 14'), SLOTS, "unknown meeting 'cost'"),
        (with_m2('8, "\\ud800": 14'), SLOTS, "unknown meeting '\\ud800'"),
    ],
)
def test_what_is_wrong_with_the_whole_plan_is_a_fault(
    text: str, slots: tuple[int | None, ...], fault: str
) -> None:
    answer = read(text, PLAN)
    assert isinstance(answer, Plan)
    assert answer.slots == slots
    assert answer.fault.startswith(fault)
    assert outcome(answer) == "wrong"


@pytest.mark.parametrize(
    "text",
    [
        f"{GOOD[:-1]}, {DRAFT[1:]}",
        f'{GOOD[:-1]}, "plan": null}}',
        f"{GOOD[:-1]}, {DRAFT[1:].replace('plan', 'Plan')}",
        f"{GOOD[:-1].replace('plan', 'PLAN')}, {DRAFT[1:].replace('plan', ' Plan ')}",
        f'{GOOD[:-1]}, "Plan": "as above"}}',
        f'{{"answer": {GOOD}, "Answer": {DRAFT.replace("plan", "Plan")}}}',
        f'{GOOD[:-1]}, "plan": {{"M1": 3}}}}',
        f'{{"first": {GOOD}, "second": {DRAFT}}}',
        f'{{"answer": {GOOD}, "answer": {DRAFT}}}',
    ],
)
def test_two_different_plans_in_one_object_are_wrong(text: str) -> None:
    answer = read(text, PLAN)
    assert answer == Plan((None,) * 5, "plan is given twice, differently", False)
    assert outcome(answer) == "wrong"


def test_a_listed_meeting_with_something_else_in_place_of_its_slot_is_wrong() -> None:
    others = '{"M2": 8}, {"M3": 0}, {"M4": 15}, {"M5": 11}'
    known = read(f'{{"plan": [{{"meeting": "M1", "time": 3}}, {others}]}}', PLAN)
    assert known == Plan((None, 8, 0, 15, 11), "", False)
    extra = '{"meeting": "M6", "time": 4}'
    unknown = read(f'{{"plan": [{{"M1": 3}}, {others}, {extra}]}}', PLAN)
    assert unknown == Plan(SLOTS, "unknown meeting 'M6'", False)
    absent = read(f'{{"plan": [{{"meeting": "M1"}}, {others}]}}', PLAN)
    assert absent == Incomplete("missing_entry")


@pytest.mark.parametrize("second", ['"meeting": "M2"', '"Meeting": "M2"', '"MEETING": 2'])
def test_a_list_item_that_names_two_meetings_is_wrong_about_both(second: str) -> None:
    others = '{"M3": 0}, {"M4": 15}, {"M5": 11}'
    answer = read(f'{{"plan": [{{"meeting": "M1", {second}, "slot": 3}}, {others}]}}', PLAN)
    assert answer == Plan((None, None, 0, 15, 11), "", False)
    alike = '{"meeting": "M1", "Meeting": "meeting 1", "slot": 3}, {"M2": 8}'
    assert read(f'{{"plan": [{alike}, {others}]}}', PLAN) == Plan(SLOTS, "", False)


def test_two_meetings_in_one_slot_are_for_the_checker_to_judge() -> None:  # p30
    answer = read('{"plan": {"M1": 8, "M2": 8, "M3": 0, "M4": 15, "M5": 11}}', PLAN)
    assert answer == Plan((8, 8, 0, 15, 11), "", False)
    assert outcome(answer) == "scored"


# Beliefs. `ROW` is every agent's row unless a case says otherwise.

ROW = ["F", "M1", "M100", "X", "F", "M1", "M1000", "F", "M1", "F", "M1", "M1", "F", "M100", "F"]
ROW += ["M1"]
TOKENS: tuple[str | None, ...] = tuple(ROW)
MAPPING = {str(slot): token for slot, token in enumerate(ROW)}


def belief(**rows: object) -> str:
    """The belief in which every agent has ROW, with some rows replaced, as JSON text."""
    return json.dumps({"belief": dict.fromkeys("ABCDE", ROW) | rows})


def replaced(slot: int, entry: object) -> list[object]:
    """ROW with one entry replaced."""
    return [*ROW[:slot], entry, *ROW[slot + 1 :]]


@pytest.mark.parametrize(
    "text",
    [
        belief(),  # b01
        f"Here:\n```json\n{belief()}\n```\nDone.",  # b02
        f"<think>{belief(A=['F'] * 16)}</think>{belief()}",  # b03
        belief(C=[f" {token.lower()} " for token in ROW]),  # b16
        belief(C=["M 1" if token == "M1" else token for token in ROW]),
        belief(C=[token.replace("M", "M00") for token in ROW]),  # b17
        belief(C=MAPPING, D=dict(reversed(MAPPING.items()))),  # b18
        belief(C={f"slot {slot}": token for slot, token in MAPPING.items()}),
        belief(C={f"{slot:0>2}": token for slot, token in MAPPING.items()}),
        json.dumps({"belief": {f"agent_{name}": ROW for name in "abcde"}}),  # b22
        json.dumps(
            {"belief": {"a": ROW, "Agent B": ROW, "AGENT-C": ROW, " d": ROW, "agentE": ROW}}
        ),
        belief().replace('"B"', f'"A": {json.dumps(ROW)}, "B"'),  # b27
        belief().replace('"B"', f'"A": {json.dumps(MAPPING)}, "B"'),
        belief(**{"Agent A": ROW, "agent_b": ROW}),
        belief(A=["F"] * 16) + belief(),  # b28
        belief(C=[*ROW, None]),
        belief(F=None),
        f'{{"answer": {belief()}}}',
        json.dumps({"thought": "x", "Belief": dict.fromkeys("ABCDE", ROW)}, indent=4),
        f"{belief()[:-1]}, {belief()[1:]}",
    ],
)
def test_a_belief_is_read_whatever_its_presentation(text: str) -> None:
    assert read(text, BELIEF) == Belief((TOKENS,) * 5, "", repaired=False)


def test_a_trailing_comma_in_a_row_is_repaired() -> None:  # b30
    text = belief().replace('"M1"], "C"', '"M1",], "C"')
    assert read(text, BELIEF) == Belief((TOKENS,) * 5, "", repaired=True)


def test_all_free_is_a_belief() -> None:  # b33
    text = belief(**dict.fromkeys("ABCDE", ["F"] * 16))
    assert read(text, BELIEF) == Belief((("F",) * 16,) * 5, "", False)
    assert outcome(read(text, BELIEF)) == "scored"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps({"belief": dict.fromkeys("ABCE", ROW)}), "missing_entry"),  # b04
        (belief(D=None), "missing_entry"),  # b05
        (belief(D=""), "missing_entry"),
        (belief(D=0), "missing_entry"),
        (belief(C=ROW[:15]), "missing_entry"),  # b06
        (belief(C=[]), "missing_entry"),
        (belief(C=replaced(3, None)), "missing_entry"),  # b08
        (belief(C=replaced(3, "")), "missing_entry"),  # b09
        (belief(C=replaced(3, " ")), "missing_entry"),
        (belief(C=replaced(3, None), F=ROW), "missing_entry"),
        (
            belief(C={str(slot + 1): token for slot, token in enumerate(ROW)}),
            "missing_entry",
        ),  # b19
        (belief(C={"slots": ROW}), "missing_entry"),
        (json.dumps({"belief": [ROW] * 5}), "wrong_shape"),  # b23
        ('{"belief": {"B": {"8": "X"}}}', "missing_entry"),  # b24
        ('{"belief": [{"agent": "B", "slot": 8, "entry": "X"}]}', "wrong_shape"),  # b24
        (belief(C=" ".join(ROW)), "missing_entry"),  # b25
        (belief(C="".join(ROW)), "missing_entry"),
        (belief()[:-40], "unparseable"),  # b29
        (belief()[:-1], "unparseable"),
        (belief(**{name: dict.fromkeys("ABCDE", ROW) for name in "ABCDE"}), "missing_entry"),  # b31
        (GOOD, "no_answer"),  # b32
        (json.dumps(dict.fromkeys("ABCDE", ROW)), "no_answer"),
        ('{"belief": "as above"}', "wrong_shape"),
        ('{"belief": true}', "wrong_shape"),
    ],
)
def test_a_belief_with_something_missing_is_incomplete(text: str, reason: str) -> None:
    answer = read(text, BELIEF)
    assert answer == Incomplete(reason)  # type: ignore[arg-type]
    assert outcome(answer) == "incomplete"


@pytest.mark.parametrize(
    "entry",
    [
        "busy",  # b10
        "unknown",  # b11
        "1",  # b12
        1,
        "M",  # b13
        "M-1",  # b14
        "M1.5",
        "M1.0",
        "M+1",
        -1,
        float("nan"),  # b15
        float("inf"),
        True,
        ["F"],
        [],
        {},
        {"cost": 1},
        "free",
        "F.",
        "F M1",
        "FX",
        "M\uff11",
        "\uff26",
        "M1 M2",
        "M1" + "x" * 10_000,
    ],
)
def test_what_is_no_token_spoils_its_entry_only(entry: object) -> None:
    answer = read(belief(C=replaced(3, entry)), BELIEF)
    spoiled = (*TOKENS[:3], None, *TOKENS[4:])
    assert answer == Belief((TOKENS, TOKENS, spoiled, TOKENS, TOKENS), "", False)
    assert outcome(answer) == "wrong"


def test_a_cost_of_thousands_of_digits_is_a_cost() -> None:
    answer = read(belief(C=replaced(3, "M00" + "9" * 5000)), BELIEF)
    assert isinstance(answer, Belief)
    assert answer.entries[2][3] == "M" + "9" * 5000


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (belief(C=[*ROW, "F"]), "17 entries in a row of 16"),  # b07
        (belief(C=[*ROW, "busy"]), "17 entries in a row of 16"),
        (belief(C=MAPPING | {"16": "F"}), "unknown slot '16'"),  # b20
        (belief(C=MAPPING | {"-1": "F"}), "unknown slot '-1'"),
        (belief(C=MAPPING | {"note": "F"}), "unknown slot 'note'"),
        (belief(F=ROW), "unknown agent 'F'"),  # b21
        (belief(note="done"), "unknown agent 'note'"),
    ],
)
def test_what_does_not_exist_is_a_fault_of_the_whole_belief(text: str, fault: str) -> None:
    answer = read(text, BELIEF)
    assert answer == Belief((TOKENS,) * 5, fault, False)
    assert outcome(answer) == "wrong"


@pytest.mark.parametrize(
    "text",
    [
        belief().replace('"B"', f'"A": {json.dumps(["F"] * 16)}, "B"'),  # b26
        belief(**{"Agent A": replaced(3, "F")}),
        belief(**{"agent_a": ROW[:15]}),
        belief(**{"a": None}),
    ],
)
def test_a_row_given_twice_differently_counts_as_no_row(text: str) -> None:
    answer = read(text, BELIEF)
    nothing = (None,) * 16
    fault = "agent A is given twice, differently"
    assert answer == Belief((nothing, TOKENS, TOKENS, TOKENS, TOKENS), fault, False)
    assert outcome(answer) == "wrong"


def test_a_slot_given_twice_differently_spoils_its_entry() -> None:
    text = belief(C=MAPPING).replace('"3": "X"', '"3": "X", "03": "F"')
    answer = read(text, BELIEF)
    assert isinstance(answer, Belief)
    assert answer.entries[2] == (*TOKENS[:3], None, *TOKENS[4:])
    assert answer.fault == "slot 3 is given twice, differently"


def test_two_different_beliefs_in_one_object_are_wrong() -> None:
    for second in ("belief", "Belief", " BELIEF "):
        other = belief(A=["F"] * 16)[1:].replace("belief", second)
        answer = read(f"{belief()[:-1]}, {other}", BELIEF)
        assert answer == Belief(((None,) * 16,) * 5, "belief is given twice, differently", False)
        assert outcome(answer) == "wrong"


# References of other sizes and names


def test_a_reference_of_another_size_sets_names_and_slots() -> None:
    small = Reference(
        "belief", ("Ann", "Bo"), ("m_10", "m_2"), 2, (), (), (), (), NO_TABLE, NO_TABLE, NO_TABLE
    )
    text = '{"belief": {"agent ann": ["f", "M0"], "BO": {"1": "X", "0": "M7"}}}'
    assert read(text, small) == Belief((("F", "M0"), ("M7", "X")), "", False)
    plan = Reference(
        "plan", ("Ann", "Bo"), ("m_10", "m_2"), 2, (), (), (), (), NO_TABLE, NO_TABLE, NO_TABLE
    )
    assert read('{"plan": {"Meeting 2": 1, "M-10": 0}}', plan) == Plan((0, 1), "", False)


def test_a_spelling_that_fits_two_names_is_none() -> None:
    twins = Reference("plan", (), ("M1", "m-1"), 4, (), (), (), (), NO_TABLE, NO_TABLE, NO_TABLE)
    assert read('{"plan": {"M1": 0, "m-1": 1}}', twins) == Plan((0, 1), "", False)
    assert read('{"plan": {"Meeting 1": 0, "m-1": 1}}', twins) == Incomplete("missing_entry")

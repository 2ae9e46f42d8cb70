"""The JSON schema of a calendar answer: the shape asked for, and nothing of the right answer."""

from tasks.calbench.examples import examples
from tasks.calbench.reference import parse
from tasks.calbench.schema import answer_schema
from tests.eval.stories import data


def test_a_belief_holds_every_agent_with_one_known_token_a_slot() -> None:
    target = '{"kind":"belief","agents":["A","B"],"num_slots":3,"initial":[["F","M2","F"],["M10"]]}'
    row = {
        "type": "array",
        "items": {"enum": ["F", "M2", "M10", "X"]},
        "minItems": 3,
        "maxItems": 3,
    }
    belief = {
        "type": "object",
        "properties": {"A": row, "B": row},
        "required": ["A", "B"],
        "additionalProperties": False,
    }
    assert answer_schema(target) == {
        "type": "object",
        "properties": {"belief": belief},
        "required": ["belief"],
        "additionalProperties": False,
    }
    assert list(answer_schema(target)["properties"]["belief"]["properties"]) == ["A", "B"]


def test_a_plan_holds_a_slot_for_every_meeting() -> None:
    target = '{"kind":"plan","meetings":["M1","M2"],"num_slots":3,"initial":[["F"]]}'
    plan = answer_schema(target)["properties"]["plan"]
    assert plan["properties"] == {"M1": {"enum": [0, 1, 2]}, "M2": {"enum": [0, 1, 2]}}
    assert plan["required"] == ["M1", "M2"]


def test_right_answers_fit_and_the_holders_of_a_story_share_one_schema() -> None:
    schemas: dict[tuple[str, str], object] = {}
    for example in examples(data(tasks=2)):
        schema, right = answer_schema(example.target), parse(example.target)
        shared = schemas.setdefault((example.source, example.condition), schema)
        assert schema == shared  # whoever holds the belief, PUBLIC or PRIVATE
        if right.kind == "belief":
            cells = schema["properties"]["belief"]["properties"]
            for agent, row in zip(right.agents, right.belief, strict=True):
                assert set(row) <= set(cells[agent]["items"]["enum"])
                assert len(row) == cells[agent]["minItems"] == cells[agent]["maxItems"]
    assert len(schemas) == 4

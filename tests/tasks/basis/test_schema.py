"""The JSON schema of a BASIS answer: only the json form has one."""

import json
from pathlib import Path

from tasks.basis.schema import answer_schema
from tests.eval.basis.requests import make_plan


def test_guided_json_is_three_texts_and_free_text_has_no_schema(tmp_path: Path) -> None:
    found = {
        (example.condition, json.loads(example.target)["form"]): answer_schema(example.target)
        for example in make_plan(tmp_path, {"separate": (0,), "guided": (0,)}, 2).requests()
    }
    texts = {key: schema for key, schema in found.items() if schema is not None}
    assert {form for _, form in found} >= {"text", "json"}
    assert {form for _, form in texts} == {"json"}
    for schema in texts.values():
        assert list(schema["properties"]) == schema["required"] == ["belief", "profile", "solution"]

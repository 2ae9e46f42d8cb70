"""The exported dataset: rows that stand alone, and whose reference scores their own answer."""

import json
from pathlib import Path

import pytest

from configs.errors import UserError
from configs.rewards import RewardConfig
from rewards.composition import score
from tasks.calbench.answers import read
from tasks.calbench.reference import parse
from tasks.example import write_examples
from tasks.export import main
from tests.eval.stories import some

CONFIG = """
name: anything
data:
  split: train
  generated: {count: 2, agents: 4, slots: 6, meetings: 2, participants: 2, density: 0.5}
  families: [lock]
  conditions: [belief]
  turns: [2]
"""


def test_every_rows_answer_has_full_reward_under_its_own_reference(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(CONFIG)
    out = tmp_path / "data.jsonl"
    assert main([str(tmp_path / "train.yaml"), "data.generated.count=1", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 8
    for row in rows:
        reference = parse(row["info"]["target"])
        assert score(reference, read(row["answer"], reference), RewardConfig()).value == 1.0
        assert row["completion"] == [{"role": "assistant", "content": row["answer"]}]
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert all(isinstance(value, str) for value in row["info"].values())
    assert {row["info"]["variant"] for row in rows} == {"PUBLIC", "PRIVATE"}


def test_a_file_of_examples_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples.jsonl", some(5))
    for name in ("a", "b"):
        main([str(tmp_path / "examples.jsonl"), "--out", str(tmp_path / name)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len((tmp_path / "a").read_text().splitlines()) == 5
    with pytest.raises(UserError, match="no such file"):
        main([str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "c")])

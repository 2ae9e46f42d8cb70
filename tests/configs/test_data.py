"""A data section is of one task; a section that names none is calendar stories, as ever."""

from pathlib import Path

import pytest

from configs.data import BasisData, CalbenchData
from configs.errors import UserError
from configs.evaluation import EvalConfig
from configs.load import load

CALENDAR = "data:\n  split: test\n  generated: {count: 1}\n"
BASIS = "data:\n  task: basis\n  split: test\n  files: [x]\n  settings: {guided: [0, 5]}\n"


def read(folder: Path, text: str) -> EvalConfig:
    path = folder / "c.yaml"
    path.write_text(text)
    return load(path, EvalConfig)


def test_the_task_decides_the_schema(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path, CALENDAR).data, CalbenchData)
    assert isinstance(read(tmp_path, CALENDAR + "  task: calbench\n").data, CalbenchData)
    basis = read(tmp_path, BASIS)
    assert isinstance(basis.data, BasisData)
    assert basis.data.settings == {"guided": (0, 5)}
    assert EvalConfig.model_validate_json(basis.model_dump_json()) == basis


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CALENDAR + "  task: basics\n", "data.task: 'basics' is refused: expected one of"),
        (CALENDAR + "  turnz: [1]\n", "unknown key data.turnz (value [1]); did you mean turns?"),
        (CALENDAR + "  files: [x]\n", "unknown key data.files"),
        (BASIS + "  turns: [1]\n", "unknown key data.turns (value [1]); "),
        (BASIS + "  per_domain: 0\n", "data.per_domain: 0 is refused"),
        (
            BASIS + "  shuffle: {sed: 1}\n",
            "unknown key data.shuffle.sed (value 1); did you mean seed?",
        ),
        (BASIS.replace("  split: test\n", ""), "key data.split is missing; add it"),
        (BASIS.replace("guided", "guess"), "data.settings.guess"),
        (BASIS.replace("[0, 5]", "[12]"), "leaves the range 0 to 10"),
        ("data: 3\n", "data: 3 is refused"),
    ],
)
def test_refusals_name_the_keys_of_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert ".calbench" not in str(caught.value) and ".basis" not in str(caught.value)

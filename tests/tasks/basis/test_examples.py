"""Examples of a data section: ids, references, gold answers, and what travels with them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from configs.data import BasisData
from configs.errors import UserError
from tasks.basis.answers import Answer, read
from tasks.basis.examples import examples
from tasks.basis.reference import parse
from tasks.catalog import TASKS
from tasks.example import Example, read_examples, write_examples
from tests.shared_data import shared_file
from tests.tasks.basis.small_instances import record, turns, write_lines

EVERY: dict[str, Any] = {
    "separate": (0,),
    "guided": (0, 5, 10),
    "cot": (0,),
    "gt": (0,),
    "belief": (0,),
    "profile": (0,),
    "shuffle": (0,),
}


def data(*files: Path, **changes: Any) -> BasisData:
    fields: dict[str, Any] = {
        "task": "basis",
        "split": "test",
        "files": tuple(str(file) for file in files),
        "settings": EVERY,
    }
    return BasisData.model_validate(fields | changes)


def small(folder: Path, count: int = 4, **changes: Any) -> Path:
    rows = [record(f"swe_{n:04d}", **changes) for n in range(count)]
    return write_lines(folder / "swe.jsonl", *rows)


def test_all_real_instances_in_every_setting_and_at_every_prefix() -> None:
    settings = EVERY | {"guided": tuple(range(11))}
    made = list(examples(data(shared_file("basis", "synchtom"), settings=settings, strict=True)))
    counts = Counter(one.condition for one in made)
    assert counts == {name: 313 * n for name, n in zip(EVERY, (3, 11, 1, 1, 1, 1, 1), strict=True)}
    assert len({one.id for one in made}) == len(made)
    assert len({one.source for one in made}) == 290
    for one in made:
        reference = parse(one.target)
        answer = read(one.reference_answer, reference)
        assert isinstance(answer, Answer)
        assert answer.texts == {name: text.strip() for name, text in reference.gold.items()}
        assert reference.asks == (("belief", "profile", "solution") if one.holder == "all" else (
            one.holder,
        ))  # fmt: skip


def test_an_example_carries_its_cluster_setting_and_flags(tmp_path: Path) -> None:
    noted = turns(t2={"observation": "(Note: x)"}, t9={"observation": "(Note: y)"})
    path = small(tmp_path, 2, trajectory_inline=noted, group="django-1")
    one = next(examples(data(path, settings={"guided": (5,)})))
    assert (one.id, one.task, one.source) == ("swe_0000:guided:all:k5", "basis", "django-1")
    assert (one.story, one.variant, one.condition) == ("swe_0000", "swe", "guided")
    assert (one.holder, one.turns) == ("all", 5)
    reference = parse(one.target)
    assert reference.criteria["belief"] == ("Names the fuse.", "Says why.")
    assert [leak.turns for leak in reference.flags.leaks] == [(2, 9)]
    assert [leak.turns for leak in reference.shown_leaks] == [(2,)]


def test_separate_requests_carry_only_their_own_rubric(tmp_path: Path) -> None:
    made = list(examples(data(small(tmp_path, 1), settings={"separate": (0,)})))
    assert [one.holder for one in made] == ["belief", "profile", "solution"]
    for one in made:
        reference = parse(one.target)
        assert list(reference.criteria) == list(reference.gold) == [one.holder]


def test_notes_name_where_they_come_from(tmp_path: Path) -> None:
    settings = {"gt": (0,), "shuffle": (0,), "separate": (0,)}
    for one in examples(data(small(tmp_path), settings=settings)):
        donor = parse(one.target).notes.donor
        if one.condition == "gt":
            assert donor == one.story
        elif one.condition == "shuffle":
            assert donor not in ("", one.story)
            assert f"The fuse of {donor} has blown again." in one.messages[1]["content"]
        else:
            assert donor == ""


def test_the_oracle_is_called_one(tmp_path: Path) -> None:
    predictions = tmp_path / "predictions"
    predictions.write_text(
        '{"system":"big","instance":"swe_0000","turns":0,"belief":"B","profile":"P",'
        '"belief_score":0.5,"profile_score":1}\n'
    )
    rule = {"pick": "oracle_best_by_judge", "pool": ("big",), "predictions": (str(predictions),)}
    config = data(small(tmp_path, 1), settings={"transfer": (0,)}, transfer=rule)
    [one] = examples(config)
    notes = parse(one.target).notes
    assert (notes.system, notes.oracle, notes.score) == ("big", True, 0.75)
    assert "Belief: B\nProfile: P" in one.messages[1]["content"]
    none = data(
        small(tmp_path, 1), settings={"transfer": (0,), "separate": (0,)}, transfer={"pick": "none"}
    )
    by_name = {f"{one.condition}/{one.holder}": one for one in examples(none)}
    assert by_name["transfer/solution"].messages == by_name["separate/solution"].messages


def test_same_config_same_bytes_through_files(tmp_path: Path) -> None:
    config = data(small(tmp_path))
    write_examples(tmp_path / "a", TASKS["basis"](config))
    write_examples(tmp_path / "b", TASKS["basis"](config))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    back: list[Example] = list(read_examples(tmp_path / "a"))
    assert back == list(examples(config))


def test_prefixes_are_drawn_per_instance(tmp_path: Path) -> None:
    path = small(tmp_path, 40)
    settings = {"guided": tuple(range(11))}
    drawn = [one.turns for one in examples(data(path, settings=settings, prefixes_per_instance=1))]
    again = [one.turns for one in examples(data(path, settings=settings, prefixes_per_instance=1))]
    other = data(path, settings=settings, prefixes_per_instance=1, seed=1)
    assert drawn == again != [one.turns for one in examples(other)]
    assert len(drawn) == 40
    assert set(drawn) == set(range(11))


def test_the_first_of_each_domain_keep_their_donors(tmp_path: Path) -> None:
    path = small(tmp_path, 10)
    config = data(path, settings={"shuffle": (0,)})
    every = {one.story: parse(one.target).notes for one in examples(config)}
    few = {
        one.story: parse(one.target).notes
        for one in examples(config.model_copy(update={"per_domain": 3}))
    }
    assert list(few) == ["swe_0000", "swe_0001", "swe_0002"]
    assert all(every[name] == notes for name, notes in few.items())


def test_faulty_instances_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lines(tmp_path / "swe.jsonl", record("a"), record("b", observation=""))
    config = data(path, settings={"guided": (0,)})
    assert [one.story for one in examples(config)] == ["a"]
    assert (
        capsys.readouterr().err == f"left out: {path}:2: b: observation: is blank; write its text\n"
    )
    with pytest.raises(UserError, match="b: observation: is blank"):
        list(examples(config.model_copy(update={"strict": True})))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {}}, "at least 1 item"),
        ({"settings": {"guess": (0,)}}, "Input should be"),
        ({"settings": {"guided": (11,)}}, "leaves the range 0 to 10"),
        ({"settings": {"guided": ()}}, "must name one prefix or more"),
        ({"settings": {"guided": (0, 0)}}, "each once"),
        ({"settings": {"transfer": (0,)}}, "needs the key transfer"),
        ({"prefixes_per_instance": 2}, "prefixes_per_instance 2 exceeds the 1 of separate"),
        ({"files": ()}, "at least 1 item"),
    ],
)
def test_data_sections_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        data(Path("x"), **changes)

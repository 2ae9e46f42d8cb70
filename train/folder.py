"""The run folder's records: the config, the plan and the manifest, and who may write there."""

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from configs.data import BasisData
from configs.errors import UserError
from configs.training import Training, world_size
from tasks.example import Example
from train.checkpoints import weights_sha256
from train.curriculum import Plan, check_same
from train.held_out import HeldOutPrompts

# Config keys that change what is shown, or how a server is reached, not what is computed.
SHOWN = {"wandb", "tensorboard", "grpo.vllm.host", "grpo.vllm.port", "grpo.vllm.group_port"}
MAY_DIFFER = frozenset(SHOWN) | {
    f"judge.{name}"
    for name in (
        "endpoint", "api_key_env", "rpm", "tpm", "concurrency", "timeout_s", "max_tries",
        "backoff_s", "max_wait_s", "max_connection_errors", "cache", "deadline_s",
        "max_failing_share", "window",
    )
}  # fmt: skip
PACKAGES = (
    "torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "vllm",
    "deepspeed",
)  # fmt: skip


def open_run(
    config: Training,
    examples: Iterable[Example],
    sft: Plan | None,
    grpo: Plan,
    held_out: HeldOutPrompts | None = None,
    *,
    resume: bool,
) -> None:
    """Start the run's folder, or go on in it (after ``check_resumable``).

    Raises ``UserError`` when a run of this name was started and not asked to resume, or with other
    data.
    """
    if not resume:
        write_plan(config, sft, grpo)
    manifest = _manifest(config, examples, sft, grpo)
    manifest["held_out_sha256"] = _sha256([held_out.as_text()]) if held_out else None
    if resume:
        _check_same_data(config.folder / "manifest.json", manifest)
        manifest["attempts"] = attempt(config.folder) + 1
    (config.folder / "completions").mkdir(exist_ok=True)
    write_json(config.folder / "manifest.json", manifest)


def _check_same_data(path: Path, manifest: Mapping[str, Any]) -> None:
    """A plan holds the rows' places; what stands in the rows must be the same as well."""
    saved = read_record(path)
    if saved.get("held_out_sha256") != manifest["held_out_sha256"]:
        raise UserError(
            f"{path}: best.config asks other requests, or otherwise, than when the run was "
            "started; bring it back, or start a run under another name="
        )
    if saved.get("examples_sha256", manifest["examples_sha256"]) == manifest["examples_sha256"]:
        return
    before, now = saved.get("data_sha256", {}), manifest["data_sha256"]
    changed = [name for name in sorted(before | now) if before.get(name) != now.get(name)]
    raise UserError(
        f"{path}: the run was started with other data "
        f"({', '.join(changed) or 'its examples are made otherwise now'}); bring it back, or "
        "start a run under another name="
    )


def write_plan(config: Training, sft: Plan | None, grpo: Plan) -> None:
    """The resolved config and the plan: all that a dry run leaves.

    Raises ``UserError`` when a run of this name was started.
    """
    if (config.folder / "manifest.json").exists():
        raise UserError(
            f"{config.folder}: a run of this name was started; add --resume, or give another name="
        )
    config.folder.mkdir(parents=True, exist_ok=True)
    write_json(config.folder / "config.json", config.model_dump(mode="json"))
    write_json(config.folder / "plan.json", plan_record(config, sft, grpo))


def plan_record(config: Training, sft: Plan | None, grpo: Plan) -> dict[str, Any]:
    """``plan.json``: both phases' rows, and the sizes that decide which step sees which row."""
    return {
        "num_generations": config.grpo.num_generations,
        "world_size": world_size(),
        "sft": sft.to_dict() if sft else None,
        "grpo": grpo.to_dict(),
    }


def check_resumable(config: Training, sft: Plan | None, grpo: Plan) -> None:
    """Raises ``UserError`` naming every key in which the started run differs."""
    if not (config.folder / "manifest.json").exists():
        raise UserError(f"{config.folder}: nothing to resume; start the run without --resume")
    place = config.folder / "config.json"
    try:  # a key that is newer than the run has its default
        started = Training.model_validate_json(json.dumps(read_record(place)))
    except ValidationError:
        raise UserError(
            f"{place}: was written by another version; start a run under another name="
        ) from None
    keys = different_keys(
        json.loads(started.model_dump_json()), json.loads(config.model_dump_json())
    )
    if keys:
        raise UserError(
            f"{place}: the run was started with other values of {', '.join(keys)}; resume with "
            "those, or start a run under another name="
        )
    place = config.folder / "plan.json"
    now = json.loads(json.dumps(plan_record(config, sft, grpo)))
    check_same(_flat(read_record(place)), _flat(now), str(place))


def read_record(path: Path) -> dict[str, Any]:
    """A JSON object that this run wrote. Raises ``UserError`` when it is gone or damaged."""
    remedy = "restore it, or start a run under another name="
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: damaged, it is not JSON; {remedy}") from None
    if not isinstance(record, dict):
        raise UserError(f"{path}: damaged, it holds no JSON object; {remedy}")
    return record


def different_keys(saved: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted keys whose values differ, in order."""
    keys: list[str] = []
    for name in sorted(saved.keys() | now.keys()):
        one, other = saved.get(name), now.get(name)
        if one == other or prefix + name in MAY_DIFFER:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            keys += different_keys(one, other, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """``plan.json`` with the phases' keys beside the others, as ``sft.sha256`` and so on."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        inner = value if isinstance(value, dict) else None
        flat |= {f"{name}.{key}": v for key, v in inner.items()} if inner else {name: value}
    return flat


def attempt(folder: Path) -> int:
    """Which start of this run this is, counted from 1."""
    path = folder / "manifest.json"
    number = read_record(path).get("attempts")
    if not isinstance(number, int):
        raise UserError(f"{path}: damaged, attempts is {number!r}; write the number of starts")
    return number


def record_weights(folder: Path) -> None:
    """Add the hashes of the exported weights to the manifest of a finished run."""
    path = folder / "manifest.json"
    manifest = read_record(path)
    for name in ("base", "best", "final"):
        if (folder / name).is_dir():
            manifest[f"{name}_sha256"] = weights_sha256(folder / name)
    write_json(path, manifest)


def write_json(path: Path, value: object) -> None:
    """The whole file or none of it."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.rename(path)


def _manifest(
    config: Training, examples: Iterable[Example], sft: Plan | None, grpo: Plan
) -> dict[str, Any]:
    return {
        "attempts": 1,
        "versions": versions(),
        "git": git_state(),
        "config_sha256": _sha256([config.model_dump_json()]),
        "sft_plan_sha256": sft.sha256 if sft else None,
        "plan_sha256": grpo.sha256,
        "examples_sha256": _sha256(json.dumps(asdict(example)) for example in examples),
        "data_sha256": {str(path): _file_sha256(path) for path in _data_files(config)},
    }


def versions() -> dict[str, str | None]:
    """Of Python and of what computes; None: not installed, nor needed then."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _data_files(config: Training) -> list[Path]:
    """The files that the data sections name, those of a named folder one by one."""
    named: list[str] = []
    for section in config.sections:
        if isinstance(section, BasisData):
            named += section.files
        elif section.public is not None:
            named += section.public.files
    return [path for name in named for path in _files_in(Path(name))]


def _files_in(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_state() -> dict[str, Any] | None:
    """The commit of this code and whether files differ from it; None outside a repository."""
    root = Path(__file__).resolve().parents[1]
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "modified": bool(_git(root, "status", "--porcelain"))}
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def _sha256(texts: Iterable[str] | Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
        digest.update(b"\n")
    return digest.hexdigest()

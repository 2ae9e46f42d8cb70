"""A checkpoint of a run as a folder to serve: merged weights, tokenizer, template, end tokens.

    python -m train.export runs/qwen3_0.6b exported            # the last whole checkpoint
    python -m train.export runs/qwen3_0.6b exported --step 50

``final/`` of a finished run is such a folder already; this is for what a stopped run reached and
for the steps in between. An adapter is merged in float32, the folder is loaded again, and its
logits are compared with those of the adapter on its base before it gets its name.
"""

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from configs.errors import UserError, run_command
from configs.training import Training

if TYPE_CHECKING:  # --help must not pay for torch
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    AnyModel = PreTrainedModel | PeftModel

FLOAT32_TOLERANCE = 1e-3
"""Largest difference of any logit, merged and saved in float32; rounding alone gives about 1e-5."""
BFLOAT16_TOLERANCE = 0.05
"""The same saved in bfloat16, as a share of the largest logit: its numbers have 8 bits."""

TIED = frozenset({"lm_head", "embed_tokens"})

PROBES = (
    "Five agents keep private calendars of sixteen slots.",
    "Turn 3. B tells only D: B8 is now X.",
    '{"plan": {"M1": 4, "M2": 9}}',
    "What does A believe all calendars are now? Answer with one JSON object.",
)


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. ``difference``: the largest of any logit; ``bound``: what it may be."""

    folder: Path
    step: int
    difference: float
    bound: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m train.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a folder that `python -m train` made"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write; must be new")
    parser.add_argument("--step", type=int, help="of the checkpoint; default: the last whole one")
    options = parser.parse_args()
    found = export_run(options.run, options.out, options.step)
    print(
        f"{found.folder}: step {found.step}; no logit differs by more than {found.difference:.1e} "
        f"from the trained model's (bound {found.bound:.1e})"
    )
    return 0


def export_run(run: Path, out: Path, step: int | None = None) -> Exported:
    """Write ``out``. Raises ``UserError`` when something is missing, or the logits differ."""
    config = read_config(run)
    if out.exists():
        raise UserError(f"{out}: is there already; name a folder that is not")
    return export_checkpoint(config, _checkpoint(run, step), _start(run, config), out)


def export_checkpoint(config: Training, checkpoint: Path, start: str, out: Path) -> Exported:
    """Write ``out``, which must not be there. ``start``: the model the adapter was put on."""
    if config.model.lora is not None:
        check_adapter(checkpoint, start)
    from train.checkpoints import export, step_of
    from train.models import load_folder

    tokenizer = _tokenizer(config, start)
    model = _load(config, checkpoint, start, tokenizer)
    before = logits(model, tokenizer)
    draft = out.with_name(out.name + ".unchecked")
    shutil.rmtree(draft, ignore_errors=True)
    draft.parent.mkdir(parents=True, exist_ok=True)
    export(_as_saved(model, config), tokenizer, draft)
    after = logits(load_folder(str(draft), "float32"), tokenizer)
    difference, bound = float((after - before).abs().max()), _bound(config, before)
    if difference > bound:
        raise UserError(
            f"{draft}: a logit differs by {difference:.1e} from the trained model's, more than "
            f"{bound:.1e}; do not serve it (left there to look at)"
        )
    draft.rename(out)
    return Exported(out, step_of(checkpoint), difference, bound)


def read_config(run: Path) -> Training:
    """The resolved config of a run. Raises ``UserError`` when the folder is none."""
    path = run / "config.json"
    try:
        return Training.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: not there; name a folder that `python -m train` made") from None
    except (ValidationError, UnicodeDecodeError):
        raise UserError(f"{path}: not the config of a run of this version") from None


def _checkpoint(run: Path, step: int | None) -> Path:
    from train.checkpoints import WHOLE, checkpoint_path, last_checkpoint

    folder = run / "checkpoints"
    if step is None:
        found = last_checkpoint(folder)
        if found is None:
            ready = run / "final"
            remedy = f"{ready} is ready to serve" if ready.is_dir() else "train on first"
            raise UserError(f"{folder}: no whole checkpoint there; {remedy}")
        return found
    found = checkpoint_path(folder, step)
    if not (found / WHOLE).is_file():
        there = ", ".join(sorted(path.parent.name for path in folder.glob(f"*/{WHOLE}"))) or "none"
        raise UserError(f"{found}: no whole checkpoint; there are: {there}")
    return found


def _start(run: Path, config: Training) -> str:
    """What GRPO started from: the run's ``base``, or the configured model."""
    if (run / "base").is_dir():
        return str(run / "base")
    if config.model.path is None:
        raise UserError(f"{run / 'base'}: not there, and the config names no other start")
    return config.model.path


def check_adapter(checkpoint: Path, start: str) -> None:
    """Raises ``UserError`` for an adapter that is missing, or would not survive merging."""
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (checkpoint / name).is_file():
            raise UserError(
                f"{checkpoint}: the run trains an adapter, but {name} is missing; export another "
                "--step"
            )
    from transformers import AutoConfig

    adapter = json.loads((checkpoint / "adapter_config.json").read_text(encoding="utf-8"))
    outer = sorted(TIED & {*_names(adapter, "target_modules"), *_names(adapter, "modules_to_save")})
    if outer and AutoConfig.from_pretrained(start).tie_word_embeddings:
        raise UserError(
            f"{checkpoint}: its adapter changes {outer[0]}, which shares its weight with another "
            "layer of this model and would not survive merging; train without it"
        )


def _names(adapter: dict[str, Any], key: str) -> list[str]:
    """The layer names under ``key``, without their path."""
    found = adapter.get(key) or []
    several = [found] if isinstance(found, str) else found
    return [str(name).rpartition(".")[2] for name in several]


def _tokenizer(config: Training, start: str) -> "PreTrainedTokenizerBase":
    from train.models import load_tokenizer

    return load_tokenizer(config.model.model_copy(update={"path": start, "tiny": None}), ())


def _load(
    config: Training, checkpoint: Path, start: str, tokenizer: "PreTrainedTokenizerBase"
) -> "AnyModel":
    """The trained model in float32, with the generation config of its start."""
    from peft import PeftModel

    from train.models import check_end_of_turn, load_folder, template_kwargs

    base = load_folder(start, "float32")
    check_end_of_turn(base, tokenizer, template_kwargs(config.model))
    if config.model.lora is None:
        model = load_folder(str(checkpoint), "float32")
        model.generation_config = base.generation_config
        return model
    adapted: PeftModel = PeftModel.from_pretrained(base, checkpoint)
    _check_whole(adapted, checkpoint)
    return adapted


def _check_whole(adapted: "PeftModel", checkpoint: Path) -> None:
    """peft leaves a weight that the file lacks as it was made, without an error."""
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    with safe_open(checkpoint / "adapter_model.safetensors", framework="pt") as file:
        saved = set(file.keys())
    expected = set(get_peft_model_state_dict(adapted))
    if saved != expected:
        odd = sorted(saved ^ expected)
        raise UserError(
            f"{checkpoint}/adapter_model.safetensors: {len(odd)} weights are missing or unknown "
            f"(first: {odd[0]}); export another --step"
        )


def _as_saved(model: "AnyModel", config: Training) -> "AnyModel":
    """The merged model in the dtype of its run."""
    from peft import PeftModel

    merged: AnyModel = model.merge_and_unload() if isinstance(model, PeftModel) else model
    return merged.bfloat16() if config.model.dtype == "bfloat16" else merged


def logits(model: "AnyModel", tokenizer: "PreTrainedTokenizerBase") -> "torch.Tensor":
    """The logits (tokens of all probes, vocabulary), in float32."""
    import torch

    found = []
    model.eval()
    for text in PROBES:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            found.append(model(input_ids=ids).logits[0].float())
    return torch.cat(found)


def _bound(config: Training, before: "torch.Tensor") -> float:
    if config.model.dtype == "float32":
        return FLOAT32_TOLERANCE
    return BFLOAT16_TOLERANCE * float(before.abs().max())


if __name__ == "__main__":
    run_command(main)

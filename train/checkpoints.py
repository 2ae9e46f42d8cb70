"""Folders a run leaves behind: checkpoints to resume from, and exports to serve.

A folder counts only when it is whole: exports are written beside their place and renamed into it,
checkpoints get a marker file after their last byte.
"""

import hashlib
import re
import shutil
from pathlib import Path

from peft import PeftModel
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

WHOLE = "complete"  # the marker file


class MarkWhole(TrainerCallback):
    """Marks a checkpoint once all its files are written."""

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if state.is_world_process_zero:
            (checkpoint_path(Path(str(args.output_dir)), state.global_step) / WHOLE).touch()


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step}"


def last_checkpoint(folder: Path) -> Path | None:
    """The whole checkpoint of the latest step; half-written ones are passed over."""
    steps = [
        int(match[1])
        for path in folder.glob("checkpoint-*")
        if (match := re.fullmatch(r"checkpoint-(\d+)", path.name)) and (path / WHOLE).is_file()
    ]
    return checkpoint_path(folder, max(steps)) if steps else None


def step_of(checkpoint: Path | None) -> int:
    """Steps done at a checkpoint; 0 without one."""
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0


def export(
    model: PreTrainedModel | PeftModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write a folder that transformers and vLLM load as it is.

    Weights (adapters merged in), tokenizer with its chat template, and a generation config that
    stops where a turn ends.
    """
    whole = model.merge_and_unload() if isinstance(model, PeftModel) else model
    assert whole.generation_config is not None
    whole.generation_config.pad_token_id = tokenizer.pad_token_id
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    whole.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    draft.rename(folder)


def weights_sha256(folder: Path) -> str:
    """One hash over the weight files of an exported folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
    return digest.hexdigest()

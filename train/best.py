"""The checkpoint that earns most on held-out requests, kept as ``RUN/best``, servable.

    RUN/best/best.json    its step, what it earned, and by which requests

It is asked before its step is saved and written after, from the checkpoint on disk; a run that dies
in between asks again when it is resumed from there. Nothing that training draws is touched.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from accelerate.utils import gather_object
from transformers import (
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from configs.errors import UserError
from configs.training import Training
from eval.in_process import sample
from train.callbacks import random_states_kept
from train.checkpoints import checkpoint_path
from train.export import export_checkpoint
from train.folder import read_record, write_json
from train.grpo import BeliefTrainer
from train.held_out import HeldOutPrompts
from train.models import eos_ids
from train.reward_adapter import Completion, Scorer

RECORD = "best.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """Which checkpoint ``RUN/best`` is. ``reward``: the mean over the ``prompts`` of ``config``."""

    step: int
    reward: float
    config: str
    prompts: int


class HeldOutReward:
    """Asks a model the held-out requests, each process its share, and returns the mean reward."""

    def __init__(
        self,
        held_out: HeldOutPrompts,
        tokenizer: PreTrainedTokenizerBase,
        scorer: Scorer,
        prefilled_think: bool,
    ) -> None:
        self._held_out = held_out
        self._tokenizer = tokenizer
        self._scorer = scorer
        self._prefilled_think = prefilled_think

    def __call__(self, model: Any, rank: int, ranks: int) -> float:
        """nan when nothing can be scored. The same on every process."""
        places = list(range(rank, len(self._held_out.examples), ranks))
        was_training = model.training
        model.eval()
        with random_states_kept():
            given = self._answers(model, places)
        model.train(was_training)
        values = [score.value for score in self._scorer(given).scores] if given else []
        found = sorted(gather_object(list(zip(places, values, strict=True))))
        known = [value for _, value in found if value is not None]
        return fmean(known) if known else float("nan")

    def _answers(self, model: Any, places: Sequence[int]) -> list[Completion]:
        size, found = self._held_out.batch_size, []
        for start in range(0, len(places), size):
            found += self._batch(model, places[start : start + size])
        return found

    def _batch(self, model: Any, places: Sequence[int]) -> list[Completion]:
        asked = self._held_out
        prompts = [list(asked.prompts[place]) for place in places]
        seeds = [asked.seeds[place] for place in places]
        written = sample(model, self._tokenizer, prompts, asked.sampling, seeds)
        ends = eos_ids(model, self._tokenizer)
        return [
            Completion(
                text=str(self._tokenizer.decode(ids, skip_special_tokens=True)),
                task=asked.examples[place].task,
                target=asked.examples[place].target,
                truncated=not ids or ids[-1] not in ends,
                prefilled_think=self._prefilled_think,
            )
            for place, ids in zip(places, written, strict=True)
        ]


class KeepBest(TrainerCallback):
    """Asks every ``best.every`` steps and at the last one; writes what earned more than before.

    Of equal ones the earlier stays. ``start``: what GRPO started from, for an adapter's export.
    """

    def __init__(
        self, trainer: BeliefTrainer, reward: HeldOutReward, config: Training, start: str
    ) -> None:
        assert config.best is not None
        self._trainer = trainer
        self._reward = reward
        self._config = config
        self._best = config.best
        self._start = start
        self._earned: Kept | None = None  # of the step that is being saved

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """A step that was saved and perhaps not written here is asked again."""
        if state.global_step and self._due(state):
            self._ask(state)
            self._write(args, state)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._due(state):
            began = time.perf_counter()
            self._trainer.note("held_out/reward", self._ask(state))
            self._trainer.note("time/held_out_s", time.perf_counter() - began)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._due(state):
            self._write(args, state)

    def _due(self, state: TrainerState) -> bool:
        return state.global_step % self._best.every == 0 or state.global_step == state.max_steps

    def _ask(self, state: TrainerState) -> float:
        accelerator = self._trainer.accelerator
        model = accelerator.unwrap_model(self._trainer.model)
        earned = self._reward(model, accelerator.process_index, accelerator.num_processes)
        self._earned = Kept(state.global_step, earned, self._best.config, self._best.prompts)
        return earned

    def _write(self, args: TrainingArguments, state: TrainerState) -> None:
        earned, self._earned = self._earned, None
        if earned is not None and state.is_world_process_zero:
            before = read_kept(self._config.folder)
            if earned.reward > (before.reward if before else float("-inf")):
                checkpoint = checkpoint_path(Path(str(args.output_dir)), earned.step)
                with random_states_kept():
                    _put(self._config, checkpoint, self._start, earned)
        self._trainer.accelerator.wait_for_everyone()


def _put(config: Training, checkpoint: Path, start: str, kept: Kept) -> None:
    """The whole new folder or the whole old one."""
    folder, draft, old = _places(config.folder)
    shutil.rmtree(draft, ignore_errors=True)
    export_checkpoint(config, checkpoint, start, draft)
    write_json(draft / RECORD, asdict(kept))
    if folder.is_dir():
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def read_kept(run: Path) -> Kept | None:
    """The best so far; None before the first. Raises ``UserError`` when the record is damaged."""
    folder, _, old = _places(run)
    if not folder.is_dir() and old.is_dir():  # killed while the two changed places
        old.rename(folder)
    if not folder.is_dir():
        return None
    try:
        return Kept(**read_record(folder / RECORD))
    except TypeError:
        raise UserError(f"{folder / RECORD}: damaged; remove {folder}") from None


def _places(run: Path) -> tuple[Path, Path, Path]:
    """The best checkpoint's folder, where the next one is written, where the last one waits."""
    return run / "best", run / "best.part", run / "best.old"

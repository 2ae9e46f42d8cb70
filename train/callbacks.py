"""What a run shows and records while it goes on, and how it stops when asked to."""

import json
import math
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from configs.errors import UserError

Phase = Literal["sft", "grpo"]


class ProgressBar(TrainerCallback):
    """One bar per phase, with the loss or the mean reward behind it."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._bar: tqdm[Any] | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if state.is_world_process_zero:
            self._bar = tqdm(
                total=state.max_steps, initial=state.global_step, desc=self._phase, unit="step"
            )

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        name = "reward" if self._phase == "grpo" else "loss"
        value = (logs or {}).get(name)
        if self._bar is not None and value is not None:
            self._bar.set_postfix({name: f"{value:.3f}"}, refresh=False)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class MetricsWriter(TrainerCallback):
    """``metrics.jsonl``: one row per logged step, NaN as null."""

    def __init__(self, phase: Phase, path: Path) -> None:
        self._phase = phase
        self._path = path

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: object,
    ) -> None:
        if not state.is_world_process_zero or logs is None or "loss" not in logs:
            return  # the last log of a run sums it up and belongs to no step
        numbers = {name: _number(value) for name, value in logs.items()}
        append_rows(self._path, [{"phase": self._phase, "step": state.global_step, **numbers}])


class LastStep(TrainerCallback):
    """What generating the next batch changes, as it was at the end of the last step.

    A checkpoint of that step needs it when it is written only later, after a batch that was
    generated and could not be judged: the random states of this process, and TRL's token count.
    """

    def __init__(self) -> None:
        self._kept: tuple[Any, ...] | None = None

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        self._kept = (_random_states(), state.num_input_tokens_seen)

    def restore(self, state: TrainerState) -> None:
        """Put it back. There must have been a step."""
        assert self._kept is not None
        states, state.num_input_tokens_seen = self._kept
        _set_random_states(states)


def _random_states() -> tuple[Any, ...]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda


def _set_random_states(states: tuple[Any, ...]) -> None:
    python, numpy, cpu, cuda = states
    random.setstate(python)
    np.random.set_state(numpy)
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)


@contextmanager
def random_states_kept() -> Iterator[None]:
    """What is drawn within leaves no trace in what is drawn after it."""
    states = _random_states()
    try:
        yield
    finally:
        _set_random_states(states)


@dataclass
class StopSignal:
    """Whether somebody asked the run to stop."""

    requested: bool = False


class StopWhenAsked(TrainerCallback):
    """Ends the run after the current step; saves first where the step can be resumed from."""

    def __init__(self, stop: StopSignal, window: int) -> None:
        self._stop = stop
        self._window = window

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._stop.requested:
            control.should_training_stop = True
            if state.global_step % self._window == 0:
                control.should_save = True


@contextmanager
def stop_on_signal() -> Iterator[StopSignal]:
    """Turn the first SIGTERM or Ctrl-C into a request to stop; the second one acts as usual."""
    stop = StopSignal()
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in signals}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.requested = True
        signal.signal(number, before[signal.Signals(number)])

    for number in signals:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number in signals:
            signal.signal(number, before[number])


def append_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Add JSON lines; numbers that JSON does not have must be null already."""
    with path.open("a", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def drop_rows_after(path: Path, phase: Phase, step: int) -> None:
    """Forget the metrics of steps that a resumed run is going to take again."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as lines:
        whole = [line for line in lines if line.endswith("\n")]
    rows = [_metrics_row(line, f"{path}:{number}") for number, line in enumerate(whole, 1)]
    kept = [row for row in rows if row["phase"] != phase or row["step"] <= step]
    draft = path.with_name(path.name + ".part")
    draft.write_text("", encoding="utf-8")
    append_rows(draft, kept)
    draft.rename(path)


def _metrics_row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int) or "phase" not in row:
        raise UserError(f"{place}: damaged, not a row of metrics; remove that line, resume again")
    return row


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None

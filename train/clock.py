"""Where the seconds of a GRPO step go: generation, log-probabilities, update.

Beside them stand ``time/judge_s`` and ``time/reward_s`` of the scoring. On the main process, by the
wall: what other processes make it wait for counts too.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class StepClock(TrainerCallback):
    """Splits a step's seconds; ``note`` takes each name and value before the step is logged.

    ``time/generate_s``: rollouts, with the push of weights to vLLM. ``time/log_probs_s``: the rest
    of making a batch of them (old and reference log-probabilities, advantages). ``time/update_s``:
    the rest of the step (loss, gradients, optimizer). Steps that reuse a generation have zeros.
    """

    def __init__(self, note: Callable[[str, float], None]) -> None:
        self._note = note
        self._began = 0.0
        self._spent: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the seconds within as ``name``: batch, and inside of it generate and rewards."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._spent[name] += time.perf_counter() - began

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        self._began = time.perf_counter()
        self._spent.clear()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        spent = self._spent
        self._note("time/generate_s", spent["generate"])
        self._note("time/log_probs_s", spent["batch"] - spent["generate"] - spent["rewards"])
        self._note("time/update_s", time.perf_counter() - self._began - spent["batch"])

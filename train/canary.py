"""Whether new weights reach the generator: a run that trains on what an old model writes is void.

An adapter that is left out of what is pushed, or a push that the engine drops, gives finite losses
and no error (seen in public: unslothai/unsloth#8701, huggingface/trl#2698). So the weight syncs are
watched until one is known to have arrived. Three things are compared with the first sync: the
trained weights here, what was pushed, and the generator itself (its weights in this process, or the
log-probabilities a server gives to a fixed text). When the first has changed the others must have.
Sums stand for weights; nothing is copied. Under ZeRO-3 the trained weights are not at hand between
steps, so there a sync that arrived is seen and a fault is not.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

Print = tuple[float, ...]
"""A fingerprint of weights or of answers."""

PROBE = "B tells only D: B8 is now X. A, C and E go on planning around the old calendar."
PATIENCE = 5
"""Syncs of changed weights without an effect: one small update may vanish in the engine's dtype."""


class WeightsNotUsed(RuntimeError):
    """The generator goes on with old weights, so what is trained on is not the policy's."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What stood at a sync. ``generator``: after it."""

    trained: Print
    pushed: Print
    generator: Print


def verdict(first: Seen, now: Seen, unmoved: int) -> bool:
    """Whether new weights are known to have arrived; False: not known yet.

    ``unmoved``: syncs so far that pushed other weights and found the generator as at first, this
    one not counted. Raises ``WeightsNotUsed``.
    """
    if now.pushed != first.pushed and now.generator != first.generator:
        return True
    if now.trained == first.trained:
        return False
    if now.pushed == first.pushed:
        raise WeightsNotUsed(
            "the trained weights changed and those pushed to vLLM did not: the adapter is left out "
            "of the push, and every completion is the starting model's"
        )
    if unmoved + 1 >= PATIENCE:
        raise WeightsNotUsed(
            f"{PATIENCE} pushes of changed weights left vLLM as it was: it drops them, and every "
            "completion is the starting model's; restart the server, or leave grpo.vllm out"
        )
    return False


class Canary:
    """Stands in for a generation's ``sync_weights`` until new weights are known to arrive.

    ``generation`` is TRL's ``VLLMGeneration``. ``generator`` gives the fingerprint of what
    generates, on the main process only.
    """

    def __init__(self, generation: Any, generator: Callable[[], Print]) -> None:
        self._generation = generation
        self._generator = generator
        self._sync: Callable[[], None] = generation.sync_weights
        self._walk: Callable[[], Iterator[tuple[str, torch.Tensor]]] = generation._iter_named_params
        self._sums: list[float] = []
        self._first: Seen | None = None
        self._unmoved = 0
        self.arrived = False
        generation.sync_weights = self.sync
        generation._iter_named_params = self._noting

    def sync(self) -> None:
        """Push the weights and judge by what changed. Raises ``WeightsNotUsed``."""
        trained = weight_sums(
            one for one in self._generation.model.parameters() if one.requires_grad
        )
        self._sync()
        if not self._generation.accelerator.is_main_process:
            return
        now = Seen(trained, tuple(self._sums), self._generator())
        if self._first is None:
            self._first = now
            return
        self.arrived = verdict(self._first, now, self._unmoved)
        if now.pushed != self._first.pushed:
            self._unmoved += 1
        if self.arrived:
            log.info("new weights reached vLLM")
            self._generation.sync_weights = self._sync
            self._generation._iter_named_params = self._walk

    def _noting(self) -> Iterator[tuple[str, torch.Tensor]]:
        """TRL's walk over the weights as they are pushed, summed on the way."""
        self._sums = []
        for name, weight in self._walk():
            self._sums.append(_sum(weight))
            yield name, weight


def watch(generation: Any, tokenizer: PreTrainedTokenizerBase) -> Canary:
    """A canary on TRL's vLLM, in either mode."""
    if generation.mode == "server":
        ids = tokenizer(PROBE)["input_ids"]
        return Canary(generation, lambda: _log_probs(generation.vllm_client, ids))
    return Canary(generation, lambda: _engine_sums(generation.llm))


def _log_probs(client: Any, ids: list[int]) -> Print:
    """What the server gives to each token of the probe after the first."""
    found = client.get_sequence_logprobs([ids], [1], top_logprobs=1)
    return tuple(float(one[0]) for one in found["actual_logprobs"][0])


def _engine_sums(llm: Any) -> Print:
    """Of the weights in the engine, found where TRL writes them."""
    worker = llm.llm_engine.model_executor.driver_worker
    return weight_sums(worker.model_runner.model.parameters())


def weight_sums(weights: Iterator[torch.Tensor]) -> Print:
    """One sum a tensor, of what lies on this device."""
    return tuple(_sum(weight) for weight in weights)


def _sum(weight: torch.Tensor) -> float:
    local = weight.to_local() if isinstance(weight, DTensor) else weight
    return float(local.detach().sum(dtype=torch.float64))

"""New weights that do not reach vLLM stop the run: TRL's own sync, into an engine of ours.

python -m pytest tests/train/test_canary.py -v
"""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel
from trl.distributed import DistributedBackend
from trl.generation.vllm_generation import VLLMGeneration

from tests.train.test_models import model_of
from train.canary import PATIENCE, Seen, WeightsNotUsed, verdict, watch


class Engine:
    """Where vLLM keeps a model, with the one method TRL calls on it."""

    def __init__(self, model: PreTrainedModel, drops: bool) -> None:
        self.model = model
        self.drops = drops
        self.loaded = 0

    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        for name, weight in weights:
            self.loaded += 1
            if not self.drops:
                with torch.no_grad():
                    self.model.get_parameter(name).copy_(weight)

    def parameters(self) -> Any:
        return self.model.parameters()


def generation_of(
    model: PreTrainedModel | PeftModel, engine: Engine
) -> Any:  # TRL's, made without a vLLM
    generation = VLLMGeneration.__new__(VLLMGeneration)
    generation.model = model
    generation.accelerator = Accelerator(cpu=True)
    generation._dist = DistributedBackend(generation.accelerator)  # type: ignore[no-untyped-call]
    generation.mode, generation.enable_sleep_mode = "colocate", False
    runner = SimpleNamespace(model=engine)
    executor = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
    generation.llm = SimpleNamespace(
        llm_engine=SimpleNamespace(model_executor=executor), reset_prefix_cache=lambda: None
    )
    return generation


def policy(lora: bool) -> PreTrainedModel | PeftModel:
    model = model_of(0)
    return get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj"])) if lora else model


def update(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for one in model.parameters():
            if one.requires_grad:
                one.add_(1e-3)


@pytest.mark.parametrize("lora", [True, False])
def test_weights_that_arrive_end_the_watch(lora: bool) -> None:
    model, engine = policy(lora), Engine(model_of(0), drops=False)
    generation = generation_of(model, engine)
    canary = watch(generation, model_of)  # type: ignore[arg-type]  # no server, no tokenizer
    generation.sync_weights()
    generation.sync_weights()  # nothing was trained in between
    assert not canary.arrived
    update(model)
    generation.sync_weights()
    assert canary.arrived
    before = engine.loaded
    generation.sync_weights()  # unwatched from here on, and still TRL's
    assert engine.loaded > before
    assert generation.sync_weights.__func__ is VLLMGeneration.sync_weights


@pytest.mark.parametrize("lora", [True, False])
def test_an_engine_that_drops_them_stops_the_run(lora: bool) -> None:
    model, engine = policy(lora), Engine(model_of(0), drops=True)
    generation = generation_of(model, engine)
    watch(generation, model_of)  # type: ignore[arg-type]
    generation.sync_weights()
    for _ in range(PATIENCE - 1):
        update(model)
        generation.sync_weights()
    update(model)
    with pytest.raises(WeightsNotUsed, match="pushes of changed weights left vLLM as it was"):
        generation.sync_weights()


def test_an_adapter_that_is_left_out_of_the_push_stops_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = policy(lora=True)
    generation = generation_of(model, Engine(model_of(0), drops=False))
    watch(generation, model_of)  # type: ignore[arg-type]
    generation.sync_weights()
    update(model)
    monkeypatch.setattr(model.base_model, "merge_adapter", lambda: None)
    monkeypatch.setattr(model.base_model, "unmerge_adapter", lambda: None)
    with pytest.raises(WeightsNotUsed, match="the adapter is left out"):
        generation.sync_weights()


def test_a_server_is_judged_by_the_log_probabilities_it_gives() -> None:
    given = [-1.0, -2.0]
    asked: list[tuple[list[list[int]], list[int]]] = []

    def log_probs(ids: list[list[int]], starts: list[int], top_logprobs: int) -> dict[str, Any]:
        asked.append((ids, starts))
        return {"actual_logprobs": [[[value] for value in given]]}

    model = policy(lora=False)
    generation = generation_of(model, Engine(model_of(0), drops=False))
    generation.mode = "server"
    generation._weight_metadata = None
    generation.vllm_client = SimpleNamespace(
        get_sequence_logprobs=log_probs,
        update_named_params=lambda metadata, weights: list(weights),
        reset_prefix_cache=lambda: None,
    )
    canary = watch(generation, lambda text: {"input_ids": [5, 6, 7]})  # type: ignore[arg-type]
    generation.sync_weights()
    update(model)
    generation.sync_weights()
    assert not canary.arrived
    update(model)
    given[1] = -2.5
    generation.sync_weights()
    assert canary.arrived
    assert asked == [([[5, 6, 7]], [1])] * 3


FIRST = Seen((1.0,), (1.0,), (1.0,))


@pytest.mark.parametrize(
    ("now", "unmoved", "expected"),
    [
        (FIRST, 9, False),
        (Seen((2.0,), (2.0,), (2.0,)), 0, True),
        (Seen((2.0,), (2.0,), (1.0,)), PATIENCE - 2, False),
        (Seen((2.0,), (2.0,), (1.0,)), PATIENCE - 1, "left vLLM as it was"),
        (Seen((2.0,), (1.0,), (2.0,)), 0, "adapter is left out"),
    ],
)
def test_the_verdict(now: Seen, unmoved: int, expected: bool | str) -> None:
    if isinstance(expected, bool):
        assert verdict(FIRST, now, unmoved) is expected
        return
    with pytest.raises(WeightsNotUsed, match=expected):
        verdict(FIRST, now, unmoved)

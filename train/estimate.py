"""What a run will need: memory on each device, and hours, as an order of magnitude.

The formulas are printed beside the numbers, so that a reader can put in better ones.
Memory: weights and gradients in the dtype of the run, AdamW two float32 moments a trained weight;
activations 34 x tokens x hidden bytes a layer in 16 bit (Korthikanti et al. 2022, without the
attention matrix, which is not kept; twice that in float32), with checkpointing 2 x tokens x hidden
a layer and one whole layer; logits three float32 copies. Work: a forward pass takes 2 operations a
weight and token, a backward pass 4 (Kaplan et al. 2020), checkpointing another 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, Qwen3Config

from configs.training import Training, world_size

GIB = 1024**3
UPDATE_SHARE, GENERATION_SHARE = 0.35, 0.03
"""Of a device's peak that updates and generation are taken to reach."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A model by its numbers. ``trained``: the weights that get an update."""

    weights: int
    trained: int
    layers: int
    hidden: int
    vocabulary: int


def shape_of(config: Training, vocabulary: int) -> Shape | None:
    """Counted on a model without memory. None where the model's config is not at hand."""
    found = _model_config(config, vocabulary)
    if found is None:
        return None
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(found)  # type: ignore[no-untyped-call]
    weights = sum(one.numel() for one in model.parameters())
    lora = config.model.lora
    trained = weights
    if lora is not None:
        sizes = [
            lora.rank * (layer.in_features + layer.out_features)
            for name, layer in model.named_modules()
            if isinstance(layer, torch.nn.Linear) and name.rpartition(".")[2] in lora.target_modules
        ]
        trained = sum(sizes)
    return Shape(weights, trained, found.num_hidden_layers, found.hidden_size, found.vocab_size)


def _model_config(config: Training, vocabulary: int) -> PretrainedConfig | None:
    tiny = config.model.tiny
    if tiny is not None:
        return Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=tiny.hidden,
            intermediate_size=tiny.intermediate,
            num_hidden_layers=tiny.layers,
            num_attention_heads=tiny.heads,
            num_key_value_heads=tiny.kv_heads,
            head_dim=tiny.head_dim,
            tie_word_embeddings=True,
        )
    assert config.model.path is not None
    try:
        found: PretrainedConfig = AutoConfig.from_pretrained(config.model.path)
    except (OSError, ValueError):
        return None
    return found


def memory(config: Training, shape: Shape, longest: int) -> Iterator[str]:
    """Lines of the estimate for one device; ``longest``: tokens of the longest prompt."""
    grpo, width = config.grpo, 2 if config.model.dtype == "bfloat16" else 4
    rows = grpo.micro_batch or grpo.prompts_per_step * grpo.num_generations // world_size()
    tokens = rows * (longest + grpo.max_completion_length)
    state = shape.weights * width + shape.trained * (width + 8)
    reference = shape.weights * width if grpo.beta > 0 and config.model.lora is None else 0
    layer = 34 * tokens * shape.hidden * (1 if grpo.bf16 or width == 2 else 2)
    kept = shape.layers * layer
    if grpo.gradient_checkpointing:
        kept = shape.layers * 2 * tokens * shape.hidden + layer
    logits = 3 * 4 * rows * grpo.max_completion_length * shape.vocabulary
    total = state + reference + kept + logits
    yield f"memory a device, about {total / GIB:.2f} GiB, without sharding:"
    yield (
        f"  weights, gradients, AdamW {state / GIB:.2f} = {shape.weights:,} x {width} B + "
        f"{shape.trained:,} trained x {width + 8} B"
    )
    if reference:
        yield f"  reference model (beta > 0) {reference / GIB:.2f} = {shape.weights:,} x {width} B"
    how = "2 B x layers + one whole layer" if grpo.gradient_checkpointing else "34 B x layers"
    yield (
        f"  activations {kept / GIB:.2f}: {rows} completions x ({longest} + "
        f"{grpo.max_completion_length}) tokens x hidden {shape.hidden} x {how} "
        f"({shape.layers} layers{'' if grpo.bf16 or width == 2 else ', twice in float32'})"
    )
    yield (
        f"  logits {logits / GIB:.2f} = 3 x 4 B x {rows} x {grpo.max_completion_length} x "
        f"vocabulary {shape.vocabulary:,}"
    )
    if grpo.vllm is not None and grpo.vllm.mode == "colocate":
        share = grpo.vllm.gpu_memory_utilization
        yield f"  vLLM beside it: {share:.0%} of the card"


def hours(config: Training, shape: Shape, steps: int, mean_prompt: float, peak: float) -> str:
    """One line. ``peak``: of one device, in operations a second."""
    grpo = config.grpo
    longest = mean_prompt + grpo.max_completion_length
    tokens = steps * grpo.prompts_per_step * grpo.num_generations * longest
    per_token = 8 if grpo.gradient_checkpointing else 6
    update = per_token * shape.weights * tokens / (UPDATE_SHARE * peak)
    generated = 2 * shape.weights * tokens / grpo.num_iterations / (GENERATION_SHARE * peak)
    return (
        f"GRPO, all devices together, about {(update + generated) / 3600:.3g} hours, judge apart: "
        f"{tokens:.3g} tokens ({steps} steps x {grpo.prompts_per_step} x {grpo.num_generations} "
        f"completions x ({mean_prompt:.0f} + {grpo.max_completion_length})) x {shape.weights:,} "
        f"weights x ({per_token} / {UPDATE_SHARE:.0%} update + 2 / {grpo.num_iterations} / "
        f"{GENERATION_SHARE:.0%} generation) / {peak:.3g} operations a second"
    )

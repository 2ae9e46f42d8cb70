"""What a training run is: the typed schema behind ``python -m train CONFIG``, without torch.

YAML in ``configs/train/`` holds only what differs from the defaults here. What one key alone
cannot tell (a save that falls inside a generation window, say) is checked in ``load_training``.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from configs.data import BasisData, BasisFiles, CalbenchData, DataMix, HeldOut
from configs.errors import UserError
from configs.judge import JudgeConfig
from configs.load import Frozen, load
from configs.pool import Pool
from configs.rewards import RewardConfig, RubricReward

Name = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


class TinyModel(Frozen):
    """A Qwen3 made from these numbers, with a tokenizer trained on the stories: no download."""

    layers: int = Field(4, ge=1)
    hidden: int = Field(128, ge=8)
    intermediate: int = Field(256, ge=8)
    heads: int = Field(4, ge=1)
    kv_heads: int = Field(4, ge=1)
    head_dim: int = Field(32, ge=4, multiple_of=2)
    """vLLM on CPU serves multiples of 32."""
    rope_theta: float = Field(1.0e6, gt=1)
    vocab_size: int = Field(1024, ge=300)  # an upper bound; 256 bytes and 3 specials are always in


class Lora(Frozen):
    """Adapters instead of full weights; merged into the weights in every exported folder."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: tuple[str, ...] = (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    )  # fmt: skip


class ModelConfig(Frozen):
    """``path`` (a hub id or a local folder) or ``tiny``, never both."""

    path: str | None = None
    tiny: TinyModel | None = None
    context: int = Field(2048, ge=16)  # tokens of prompt and completion together
    dtype: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """How transformers computes attention. On CPU eager decodes a small model faster."""
    lora: Lora | None = None
    enable_thinking: bool | None = None  # the chat template's own switch; null leaves its default


class Optimizer(Frozen):
    """AdamW and its schedule; shared by both phases."""

    learning_rate: float = Field(gt=0)
    muon_learning_rate: float | None = Field(None, gt=0)
    """Muon for the matrices inside the layers, AdamW for the rest; null: AdamW for all."""
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    adam_beta2: float = Field(0.999, gt=0, lt=1)
    max_grad_norm: float = Field(1.0, gt=0)
    bf16: bool = False  # mixed precision in the update: weights stay float32
    gradient_checkpointing: bool = False


Task = Literal["calbench", "basis"]


class Mix(Frozen):
    """How often each kind of row is drawn, as weights; an empty table leaves the data's shares.

    ``tasks`` are shares of all rows; ``turns`` and ``conditions`` then hold within each task.
    """

    tasks: dict[Task, float] = Field(default_factory=dict)
    turns: dict[int, float] = Field(default_factory=dict)
    conditions: dict[str, float] = Field(default_factory=dict)


class Sft(Optimizer):
    """Supervised warm start on reference answers; loss on the answer's tokens only."""

    learning_rate: float = Field(1e-3, gt=0)
    steps: int = Field(ge=1)
    batch: int = Field(32, ge=1)
    micro_batch: int | None = Field(None, ge=1)  # rows of one forward; null: the whole batch
    mix: Mix = Mix()
    save_every: int = Field(100, ge=1)


class Vllm(Frozen):
    """Generation by vLLM, on GPUs: within the training process, or by a server on other ones.

    The server takes its memory share on its own command line; train/rollout_server.py prints it.
    """

    mode: Literal["colocate", "server"] = "colocate"
    gpu_memory_utilization: float = Field(0.3, gt=0, le=1)  # colocate
    sleep: bool = True  # colocate: frees vLLM's memory during the update
    host: str = Field("127.0.0.1", pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")  # server
    port: int = Field(8000, ge=1, le=65535)  # server
    group_port: int = Field(51216, ge=1, le=65535)  # server: where the weights travel
    importance_sampling: Literal[
        "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"
    ] = "token_truncate"


class Grpo(Optimizer):
    """GRPO as TRL has it. How many steps, and on what, is the curriculum's business.

    One step updates the weights once, on ``prompts_per_step * num_generations`` completions. One
    generation serves ``steps_per_generation`` steps, each ``num_iterations`` times.
    """

    learning_rate: float = Field(1e-6, gt=0)
    num_generations: int = Field(8, ge=2)
    prompts_per_step: int = Field(8, ge=1)
    micro_batch: int | None = Field(None, ge=1)  # completions of one forward on one device
    steps_per_generation: int = Field(1, ge=1)
    num_iterations: int = Field(1, ge=1)
    beta: float = Field(0.0, ge=0)
    epsilon: float = Field(0.2, gt=0)
    epsilon_high: float | None = Field(None, gt=0)
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = "dapo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    aggregation: Literal["sum_then_normalize", "normalize_then_sum"] = "sum_then_normalize"
    """How parts become an advantage: weighed, summed and normalized in the group as one number; or
    each normalized in the group by itself, then weighed and summed, and divided by the spread over
    the batch (GDPO). Gates and deductions come first in both: what is normalized is the part as it
    counts, 0 behind a shut gate. A completion without a reward leaves every part's baseline."""
    std_floor: float = Field(0.05, ge=0)
    """normalize_then_sum: a part that spreads less in a group counts as equal there."""
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_completion_length: int = Field(512, ge=1)
    mask_truncated: bool = False
    save_every: int = Field(50, ge=1)
    keep_checkpoints: int | None = Field(None, ge=1)
    vllm: Vllm | None = None
    extra: dict[str, JsonValue] = Field(
        default_factory=dict
    )  # rare GRPOConfig arguments, as named there

    @property
    def window(self) -> int:
        """Steps that one generation serves; nothing may be saved or changed inside a window."""
        return self.steps_per_generation * self.num_iterations

    @property
    def prompts_per_generation(self) -> int:
        return self.prompts_per_step * self.steps_per_generation


class Best(Frozen):
    """Keeps the checkpoint that earns most on held-out requests as ``RUN/best``, beside ``final``.

    Every so many steps the policy answers them in this process; what training draws is not touched.
    To choose a checkpoint by test data is to train on it: name other tasks than those reported on.
    """

    config: str = Field(min_length=1)
    """A YAML of configs/eval with calendar data; of it count the data and how answers are sampled.
    The reward is this run's."""
    overrides: tuple[str, ...] = ()
    """Changes of it, key=value."""
    every: int = Field(ge=1)
    """Steps; a multiple of grpo.save_every. The last step is asked too."""
    prompts: int = Field(64, ge=1)
    """Drawn once, evenly over conditions and bins of turns."""


class Stage(Mix):
    """A stretch of the curriculum. ``steps: null`` takes every row of the stage once."""

    steps: int | None = Field(None, ge=1)


class Curriculum(Frozen):
    """Stages in order. ``pool`` leaves out prompts by what a pilot found of them."""

    stages: tuple[Stage, ...] = Field(min_length=1)
    pool: Pool | None = None


class Training(Frozen):
    """A whole run. It writes into ``output/name`` and nowhere else."""

    name: str = Name
    output: str = Field("runs", min_length=1)
    seed: int = Field(0, ge=0, lt=2**32)
    threads: int | None = Field(None, ge=1)  # of torch; part of the run because sums depend on it
    overlong: Literal["error", "drop"] = "error"
    wandb: Literal["offline", "online"] | None = None
    tensorboard: bool = False  # beside the checkpoints: tensorboard --logdir runs/NAME
    data: DataMix
    held_out: tuple[HeldOut, ...] = ()
    """Test data of which nothing may be in ``data``: no source task by id or content, no BASIS
    instance, sister or near-duplicate of one; checked at start."""
    reward: RewardConfig = RewardConfig()
    """Of calendar answers."""
    judge: JudgeConfig | None = None
    """Who judges BASIS answers; needed with BASIS data and only then."""
    rubric: RubricReward = RubricReward()
    """Of BASIS answers."""
    model: ModelConfig
    sft: Sft | None = None
    grpo: Grpo
    curriculum: Curriculum
    best: Best | None = None

    @property
    def folder(self) -> Path:
        return Path(self.output) / self.name

    @property
    def sections(self) -> tuple[CalbenchData | BasisData, ...]:
        """The data sections, one or more."""
        return self.data if isinstance(self.data, tuple) else (self.data,)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that are trained on, each once, in the order of the sections."""
        return tuple(dict.fromkeys(section.task for section in self.sections))


def load_training(path: Path, overrides: Sequence[str] = ()) -> Training:
    """The config in ``path``, valid in itself. Raises ``UserError`` naming file and key."""
    config = load(path, Training, overrides)
    for problem in (
        _model_problem(config.model, config.grpo),
        _muon_problem(config),
        _window_problem(config.grpo, config.curriculum),
        _batch_problem(config.sft, config.grpo),
        _extra_problem(config.grpo),
        _aggregation_problem(config.grpo),
        _best_problem(config.best, config.grpo),
        _vllm_problem(config.grpo.vllm),
        _weights_problem(config),
        _basis_problem(config),
    ):
        if problem is not None:
            raise UserError(f"{path}: {problem}")
    return config


def world_size() -> int:
    """Processes of this run, as the launcher (torchrun, accelerate) says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def sharded() -> bool:
    """Whether the launcher (accelerate) divides the weights over the processes."""
    engines = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    return any(os.environ.get(engine) == "true" for engine in engines)


def _muon_problem(config: Training) -> str | None:
    """Muon needs each matrix whole."""
    phases: dict[str, Optimizer | None] = {"sft": config.sft, "grpo": config.grpo}
    for name, phase in phases.items():
        if phase is not None and phase.muon_learning_rate is not None and sharded():
            return (
                f"{name}.muon_learning_rate: {phase.muon_learning_rate} needs whole matrices and "
                "this launcher shards them; set it to null, or start with ddp_8gpu.yaml"
            )
    return None


def _model_problem(model: ModelConfig, grpo: Grpo) -> str | None:
    if (model.path is None) == (model.tiny is None):
        return "model: give either model.path or model.tiny, exactly one of them"
    if model.tiny is not None and model.tiny.heads % model.tiny.kv_heads:
        heads, kv_heads = model.tiny.heads, model.tiny.kv_heads
        return f"model.tiny.kv_heads: {kv_heads} does not divide heads {heads}; make it a divisor"
    if model.tiny is not None and sharded():
        return "model.tiny: has nothing to gain from sharding; start it with ddp_8gpu.yaml or alone"
    if grpo.max_completion_length >= model.context:
        return (
            f"grpo.max_completion_length: {grpo.max_completion_length} leaves no room for a prompt "
            f"in model.context {model.context}; lower the one or raise the other"
        )
    if model.lora is None:
        return None
    tied = sorted({"lm_head", "embed_tokens"} & set(model.lora.target_modules))
    if tied:
        return (
            f"model.lora.target_modules: {tied[0]} shares its weight with another layer in small "
            "Qwen models and would not survive merging; leave it out"
        )
    if grpo.vllm is not None and model.dtype == "bfloat16":
        return (
            "model.dtype: bfloat16 under model.lora and grpo.vllm drifts, because the adapter is "
            "merged and unmerged at every generation; use float32 (and grpo.bf16 for speed)"
        )
    return None


def _window_problem(grpo: Grpo, curriculum: Curriculum) -> str | None:
    if grpo.save_every % grpo.window:
        return (
            f"grpo.save_every: {grpo.save_every} falls inside a generation window of {grpo.window} "
            "steps (steps_per_generation * num_iterations), which cannot be resumed; "
            f"use a multiple of {grpo.window}"
        )
    for number, stage in enumerate(curriculum.stages):
        if stage.steps is not None and stage.steps % grpo.window:
            return (
                f"curriculum.stages.{number}.steps: {stage.steps} is not a whole number of "
                f"generation windows of {grpo.window} steps; use a multiple of {grpo.window}"
            )
    return None


def _batch_problem(sft: Sft | None, grpo: Grpo) -> str | None:
    completions, ranks = grpo.prompts_per_step * grpo.num_generations, world_size()
    per_forward = (grpo.micro_batch or 1) * ranks
    if completions % per_forward:
        return (
            f"grpo.micro_batch: {grpo.micro_batch or 1} on {ranks} processes does not divide the "
            f"{completions} completions of a step (prompts_per_step * num_generations)"
        )
    if sft is not None and sft.batch % ((sft.micro_batch or 1) * ranks):
        return (
            f"sft.micro_batch: {sft.micro_batch or 1} on {ranks} processes does not divide "
            f"sft.batch {sft.batch}"
        )
    return None


# Arguments of GRPOConfig that keep the plan's order, exact resume or a named key of ours true.
OWNED = {
    "output_dir", "seed", "data_seed", "max_steps", "num_train_epochs", "shuffle_dataset",
    "learning_rate", "beta", "epsilon", "epsilon_high", "num_generations",
    "per_device_train_batch_size", "gradient_accumulation_steps", "loss_type",
    "generation_batch_size", "steps_per_generation", "num_iterations", "temperature", "top_p",
    "scale_rewards", "bf16", "max_completion_length", "mask_truncated_completions", "save_steps",
    "save_strategy", "save_total_limit", "lr_scheduler_type", "warmup_steps", "weight_decay",
    "adam_beta2", "max_grad_norm", "gradient_checkpointing", "use_cpu", "use_vllm", "vllm_mode",
    "vllm_server_host", "vllm_server_port", "vllm_server_base_url", "vllm_group_port",
    "report_to", "run_name", "logging_steps", "logging_strategy", "disable_tqdm",
    "remove_unused_columns", "ignore_data_skip", "auto_find_batch_size", "reward_weights",
    "multi_objective_aggregation",
    "log_completions", "chat_template_kwargs", "model_init_kwargs", "eval_strategy", "do_eval",
}  # fmt: skip


def _extra_problem(grpo: Grpo) -> str | None:
    owned = sorted(OWNED & grpo.extra.keys())
    if owned:
        return f"grpo.extra.{owned[0]}: is set by this program; use its own key, or leave it out"
    generation = grpo.extra.get("generation_kwargs")
    if isinstance(generation, dict) and "seed" in generation:
        return (
            "grpo.extra.generation_kwargs.seed: would make all completions of a group alike under "
            "vLLM; leave it out and set the run's seed"
        )
    return None


def _aggregation_problem(grpo: Grpo) -> str | None:
    if grpo.aggregation == "normalize_then_sum" and grpo.scale_rewards != "group":
        return (
            f"grpo.scale_rewards: {grpo.scale_rewards} has no meaning under grpo.aggregation "
            "normalize_then_sum, which scales each part in its group; set it to group"
        )
    return None


def _best_problem(best: Best | None, grpo: Grpo) -> str | None:
    if best is None:
        return None
    if best.every % grpo.save_every:
        return (
            f"best.every: {best.every} is no multiple of grpo.save_every {grpo.save_every}; only "
            "a saved step can be kept"
        )
    if sharded():
        return (
            "best: needs whole weights on each card; leave it out, or start with ddp_8gpu.yaml; "
            "`python -m train.export --step` and `python -m eval` compare checkpoints afterwards"
        )
    return None


def _vllm_problem(vllm: Vllm | None) -> str | None:
    if vllm is not None and vllm.mode == "server" and vllm.port == vllm.group_port:
        return (
            f"grpo.vllm.group_port: {vllm.group_port} is grpo.vllm.port too; the weights travel "
            "beside the requests, so give it another port"
        )
    return None


def _weights_problem(config: Training) -> str | None:
    mixes: list[tuple[str, Mix]] = [
        (f"curriculum.stages.{number}", stage)
        for number, stage in enumerate(config.curriculum.stages)
    ]
    if config.sft is not None:
        mixes.append(("sft.mix", config.sft.mix))
    for place, mix in mixes:
        tables: tuple[tuple[str, Mapping[Any, float]], ...] = (
            ("tasks", mix.tasks),
            ("turns", mix.turns),
            ("conditions", mix.conditions),
        )
        for name, table in tables:
            wanted = {key for key, weight in table.items() if weight > 0}
            unknown = sorted(wanted - _offered(config, name))
            if unknown:
                have = ", ".join(str(one) for one in sorted(_offered(config, name)))
                return f"{place}.{name}: {unknown[0]!r} is none that the data can have: {have}"
            if any(weight < 0 for weight in table.values()) or (table and not any(table.values())):
                return f"{place}.{name}: {table} must be weights >= 0, one of them above 0"
    return None


def _offered(config: Training, table: str) -> set[Any]:
    """What a table of a mix may name. Which turns there are, only the examples say."""
    found: set[Any] = set()
    for section in config.sections:
        if table == "tasks":
            found.add(section.task)
        elif table == "turns":
            found |= set(range(11))
        elif isinstance(section, CalbenchData):
            found |= set(section.conditions)
        else:
            found |= set(section.settings)
    return found


def _basis_problem(config: Training) -> str | None:
    """What BASIS data needs beside it, and what has no use without."""
    if "basis" not in config.tasks:
        return "judge: has no use for calendar answers; remove it" if config.judge else None
    if config.judge is None:
        return (
            "judge: BASIS answers are scored by one; add judge.endpoint and judge.model, "
            "or take the basis section out of data"
        )
    if any(section.task == "basis" and section.split != "train" for section in config.sections):
        return "data.split: a basis section of a training run must be of split 'train'"
    if not any(isinstance(section, BasisFiles) for section in config.held_out):
        return (
            "held_out: names no BASIS test instances, so nothing keeps them out of training; add "
            "{task: basis, files: [FOLDER OF THE BENCHMARK]}"
        )
    if config.sft is not None and not (
        config.sft.mix.tasks and not config.sft.mix.tasks.get("basis")
    ):
        return (
            "sft.mix.tasks: BASIS requests have no reference answers to learn from (no instance "
            "comes with a right solution); write {calbench: 1}, or leave sft out"
        )
    return None

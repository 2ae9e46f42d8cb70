"""What the supervised and the GRPO phase hand to their trainers alike."""

from typing import Any

import torch
from peft import LoraConfig

from configs.training import Lora, Optimizer, Training


def shared_arguments(config: Training, phase: Optimizer) -> dict[str, Any]:
    """The trainer arguments that both phases set alike."""
    return {
        "seed": config.seed,
        "learning_rate": phase.learning_rate,
        "lr_scheduler_type": phase.schedule,
        "warmup_steps": phase.warmup_steps,
        "weight_decay": phase.weight_decay,
        "adam_beta2": phase.adam_beta2,
        "max_grad_norm": phase.max_grad_norm,
        "bf16": phase.bf16,
        "gradient_checkpointing": phase.gradient_checkpointing,
        "use_cpu": not torch.cuda.is_available(),
        "logging_steps": 1,
        "disable_tqdm": True,
        "save_strategy": "steps",
        "report_to": loggers(config) or "none",
        "run_name": config.name,
        "remove_unused_columns": False,
    }


def loggers(config: Training) -> list[str]:
    """Where metrics go besides ``metrics.jsonl``."""
    wanted = {"wandb": config.wandb is not None, "tensorboard": config.tensorboard}
    return [name for name, on in wanted.items() if on]


def lora_config(lora: Lora) -> LoraConfig:
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.target_modules),
        task_type="CAUSAL_LM",
    )

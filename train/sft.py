"""The supervised warm start: next-token loss on the reference answers, prompts masked.

transformers' own Trainer, not TRL's SFTTrainer: what is trained is then, token for token, what GRPO
will sample (the same rendered prompt, the answer, the end of the turn), and a step of a tiny model
is not slowed by metrics that nobody reads here.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from configs.training import Sft, Training, world_size
from tasks.example import Example
from train.arguments import lora_config, shared_arguments
from train.checkpoints import step_of
from train.curriculum import Plan
from train.models import Policy, TemplateKwargs, render_prompts
from train.muon import muon
from train.rows import answer_ids

IGNORED = -100  # a label that adds no loss

Row = dict[str, list[int]]


class AnswerRows(torch.utils.data.Dataset[Row]):
    """The plan's examples in order, as token ids with the prompt's labels ignored."""

    def __init__(
        self,
        examples: Sequence[Example],
        plan: Plan,
        tokenizer: PreTrainedTokenizerBase,
        template_kwargs: TemplateKwargs,
        end_of_turn: int,
    ) -> None:
        used = sorted(set(plan.indices))
        rendered = render_prompts(
            tokenizer, [examples[index].messages for index in used], template_kwargs
        )
        prompts = tokenizer(rendered, add_special_tokens=False)["input_ids"]
        answers = answer_ids([examples[index] for index in used], tokenizer, end_of_turn)
        self._rows = {
            index: _row(prompt, answer)
            for index, prompt, answer in zip(used, prompts, answers, strict=True)
        }
        self._order = plan.indices

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, position: int) -> Row:
        return self._rows[self._order[position]]


def _row(prompt: list[int], answer: list[int]) -> Row:
    return {"input_ids": prompt + answer, "labels": [IGNORED] * len(prompt) + answer}


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows padded on the left to (batch, longest), so that all answers stand at the end."""
    longest = max(len(row["input_ids"]) for row in rows)
    return {
        "input_ids": _padded([row["input_ids"] for row in rows], pad_id, longest),
        "labels": _padded([row["labels"] for row in rows], IGNORED, longest),
        "attention_mask": _padded([[1] * len(row["input_ids"]) for row in rows], 0, longest),
    }


def _padded(rows: Sequence[list[int]], value: int, length: int) -> torch.Tensor:
    return torch.tensor([[value] * (length - len(row)) + row for row in rows])


class AnswerTrainer(Trainer):
    """Computes logits where answers stand and nowhere else: a third of a tiny model's time."""

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Cross entropy of the answers' tokens, summed and divided by their number.

        ``num_items_in_batch``: that number over all processes and accumulated forwards; gradients
        are averaged over processes, hence the factor.
        """
        labels = inputs["labels"]
        answered = (labels != IGNORED).any(dim=0).nonzero()
        keep = labels.shape[1] - int(answered[0])
        logits = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            logits_to_keep=keep + 1,
        ).logits
        loss: torch.Tensor = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), labels[:, -keep:].flatten(), reduction="sum"
        )
        if num_items_in_batch is None:
            return loss / (labels != IGNORED).sum()
        num_processes: int = self.accelerator.num_processes
        return loss / num_items_in_batch * num_processes


def run_sft(
    config: Training,
    policy: Policy,
    rows: AnswerRows,
    folder: Path,
    checkpoint: Path | None,
    callbacks: Sequence[TrainerCallback],
) -> Trainer:
    """Train from ``checkpoint`` (None: the start) to the plan's end, or until asked to stop."""
    assert config.sft is not None
    model: PreTrainedModel | PeftModel = policy.model
    if config.model.lora is not None:
        model = get_peft_model(model, lora_config(config.model.lora))
    pad_id = policy.tokenizer.pad_token_id
    assert isinstance(pad_id, int)
    trainer = AnswerTrainer(
        model=model,
        args=training_arguments(config, config.sft, folder),
        train_dataset=rows,
        data_collator=lambda batch: collate(batch, pad_id),
        callbacks=list(callbacks),
        optimizers=(muon(model, config.sft), None),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    assert trainer.state.global_step >= step_of(checkpoint)
    return trainer


def training_arguments(config: Training, sft: Sft, folder: Path) -> TrainingArguments:
    per_device = sft.micro_batch or sft.batch // world_size()
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=sft.steps,
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=sft.batch // (per_device * world_size()),
        train_sampling_strategy="sequential",
        save_steps=sft.save_every,
        save_total_limit=2,
        **shared_arguments(config, sft),
    )

"""GRPO by TRL, with one override: what a batch of rewards means before it becomes advantages.

TRL 1.16 turns a reward of inf into a group of dead advantages, and does not know the parts of a
reward. ``BeliefTrainer`` overrides ``_calculate_rewards``, the one place where a batch's rewards
are all in one tensor and not yet aggregated. The method is private: the version is pinned and a
test fails when its signature changes. A reward of NaN is TRL's own: the completion has advantage
0, and its group's mean and spread are taken over the others.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from peft import PeftModel
from transformers import (
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from configs.errors import UserError, shown
from configs.training import Grpo, Training, world_size
from rewards.judge_counts import JudgeFailing
from rewards.rubric import PART_OF
from train.aggregation import NormalizedSum
from train.arguments import lora_config, shared_arguments
from train.callbacks import LastStep, append_rows
from train.canary import Canary, watch
from train.checkpoints import WHOLE, checkpoint_path
from train.clock import StepClock
from train.models import Policy, template_kwargs
from train.muon import muon
from train.reward_adapter import RewardAdapter, Scored
from train.scorers import part_weights
from train.turn_bins import Bin, bin_of

log = logging.getLogger(__name__)

LONGEST_REFUSAL = 200  # characters; some of TRL's list sixty names
FLAT = 1e-6  # a group whose rewards spread less teaches nothing
MOST_DEAD_BATCHES = 3  # batches in a row with every completion truncated and masked


class BeliefTrainer(GRPOTrainer):
    """TRL's trainer, logging every part of the reward and keeping every completion.

    ``part_names`` are all parts a score may have, the same on every process. ``by_part`` makes the
    advantages in place of TRL, whose rewards and metrics stay those of the composed number.
    """

    def __init__(
        self,
        adapter: RewardAdapter,
        part_names: Sequence[str],
        args: GRPOConfig,
        by_part: NormalizedSum | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(reward_funcs=[adapter], args=args, **kwargs)
        self._adapter = adapter
        self._part_names = list(part_names)
        assert args.num_generations is not None
        self._group_size = args.num_generations
        self._by_part = by_part
        self._advantages_N = torch.empty(0)  # by_part: of the last batch, all processes
        self._mask_truncated = args.mask_truncated_completions
        self._truncated_batches = 0
        self._warned = False
        logging.getLogger("trl.trainer.grpo_trainer").addFilter(_is_news)
        self._last_step = LastStep()
        self.add_callback(self._last_step)
        self._clock = StepClock(self.note)
        self.add_callback(self._clock)
        self.unsaved: list[dict[str, object]] = []
        self._canary: Canary | None = None
        if args.use_vllm:
            self._canary = watch(self.vllm_generation, kwargs["processing_class"])

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        """Rewards of all processes, (completions, 1); NaN where a completion cannot be judged."""
        with self._clock.part("rewards"):
            rewards_N1: torch.Tensor = super()._calculate_rewards(
                inputs, prompts, completions, completion_ids_list
            )
            return self._recorded(inputs, rewards_N1)

    def _generate(self, prompts: list[Any]) -> Any:
        with self._clock.part("generate"):
            return super()._generate(prompts)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Any:
        with self._clock.part("batch"):
            batch = super()._generate_and_score_completions(inputs)
            if self._by_part is not None:
                self._put_advantages(batch, self._advantages_N.nan_to_num(nan=0.0))
            return batch

    def _put_advantages(self, batch: dict[str, Any], advantages_N: torch.Tensor) -> None:
        """Ours for TRL's, in what this process trains on and in what is logged of all."""
        count = len(batch["advantages"])
        first = self.accelerator.process_index * count
        batch["advantages"] = advantages_N[first : first + count]
        logged: Any = self._logs["advantages"]  # a deque
        for _ in range(len(advantages_N)):
            logged.pop()
        logged.extend(advantages_N.tolist())

    def _recorded(
        self, inputs: Sequence[Mapping[str, Any]], rewards_N1: torch.Tensor
    ) -> torch.Tensor:
        """The rewards as they count, with all that is to be said of them noted."""
        self._stop_without_judge()
        infinite_N1 = torch.isinf(rewards_N1)
        rewards_N1 = rewards_N1.masked_fill(infinite_N1, torch.nan)
        rows = gather_object(self._rows(inputs))
        self.note("nonfinite_rewards", float(infinite_N1.sum()))
        for name, value in [*score_metrics(rows, self._part_names), *self._costs()]:
            self.note(name, value)
        if self._canary is not None:
            self.note("weights_arrived", float(self._canary.arrived))
        signal_N = rewards_N1[:, 0]
        if self._by_part is not None:
            counted = gather_object([one.score.counted for one in self._adapter.scored])
            signal_N = self._advantages_N = self._by_part.advantages(counted, signal_N)
        self._note_groups(signal_N, [str(row["completion"]) for row in rows])
        self._refuse_all_truncated(rows)
        if self.accelerator.is_main_process:
            self.unsaved += rows
        return rewards_N1

    def _stop_without_judge(self) -> None:
        """Raises ``JudgeFailing`` on every process when the judge of one of them has failed.

        No weight has changed since the last step, and that step is saved first.
        """
        stops = [stop for stop in gather_object([self._adapter.stop]) if stop]
        if stops:
            self._save_last_step()
            raise JudgeFailing(stops[0])

    def _save_last_step(self) -> None:
        """The checkpoint of the last step as it was then: a resumed run generates this batch again.

        No other step of its generation window can be the last one: judging opens a window.
        """
        folder = checkpoint_path(Path(str(self.args.output_dir)), self.state.global_step)
        if self.state.global_step == 0 or (folder / WHOLE).is_file():
            return
        self._last_step.restore(self.state)
        self._save_checkpoint(self.model, trial=None)  # type: ignore[no-untyped-call]
        self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def _rows(self, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
        step = self.state.global_step + 1
        return [
            completion_row(step, columns, scored)
            for columns, scored in zip(inputs, self._adapter.scored, strict=True)
        ]

    def note(self, name: str, value: float) -> None:
        self._metrics["train"][name].append(value)

    def _costs(self) -> list[tuple[str, float]]:
        """What scoring this batch cost over all processes; of seconds the longest."""
        found: dict[str, list[float]] = defaultdict(list)
        for one in gather_object([self._adapter.costs]):
            for name, value in one.items():
                found[name].append(value)
        return [
            (name, max(values) if name.startswith("time/") else sum(values))
            for name, values in found.items()
        ]

    def _note_groups(self, signal_N: torch.Tensor, texts: Sequence[str]) -> None:
        """``signal_N``: what differs between completions that are told apart; NaN for no reward."""
        distinct = distinct_fraction(texts, self._group_size)
        self.note("unscorable_frac", float(torch.isnan(signal_N).float().mean()))
        self.note("dead_group_frac", dead_fraction(signal_N.view(-1, self._group_size)))
        self.note("distinct_frac", distinct)
        if distinct < 0.5 and not self._warned:
            self._warned = True
            log.warning(
                "step %d: only %.0f %% of a group's completions differ; if this stays, raise "
                "grpo.temperature or lower the learning rate",
                self.state.global_step + 1,
                100 * distinct,
            )

    def _refuse_all_truncated(self, rows: Sequence[Mapping[str, object]]) -> None:
        if not (self._mask_truncated and all(row["truncated"] for row in rows)):
            self._truncated_batches = 0
            return
        self._truncated_batches += 1
        if self._truncated_batches == MOST_DEAD_BATCHES:
            raise UserError(
                f"step {self.state.global_step + 1}: every completion of {MOST_DEAD_BATCHES} "
                f"batches was cut at {self.max_completion_length} tokens and masked, so nothing is "
                "learned; raise grpo.max_completion_length, or set grpo.mask_truncated=false"
            )

    def take_unsaved(self) -> list[dict[str, object]]:
        """The completions of the last generation with their advantages, once."""
        rows, self.unsaved = self.unsaved, []
        if not rows:
            return []
        advantages = list(self._logs["advantages"])[-len(rows) :]
        return [{**row, "advantage": value} for row, value in zip(rows, advantages, strict=True)]


class CompletionsWriter(TrainerCallback):
    """``completions/grpo-ATTEMPT.jsonl``: every completion, whole, with every part of its score."""

    def __init__(self, trainer: BeliefTrainer, path: Path) -> None:
        self._trainer = trainer
        self._path = path

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        append_rows(self._path, self._trainer.take_unsaved())


def _is_news(record: logging.LogRecord) -> bool:
    """TRL prints the whole row, its rubric too, for what is counted here as unscorable."""
    return "All reward functions returned None" not in record.getMessage()


def completion_row(step: int, columns: Mapping[str, Any], scored: Scored) -> dict[str, object]:
    """One line of the completions file, all but the advantage."""
    score = scored.score
    return {
        "step": step,
        "example_id": columns["example_id"],
        "task": columns["task"],
        "condition": columns["condition"],
        "turns": columns["turns"],
        "stage": columns["stage"],
        "plan_pos": columns["plan_pos"],
        "completion": scored.completion.text,
        "truncated": scored.completion.truncated,
        "reward": _finite(score.value),
        "parts": {name: _finite(value) for name, value in score.parts.items()},
        "note": score.note,
        "failures": dict(score.failures),
    }


def score_metrics(
    rows: Sequence[Mapping[str, Any]], part_names: Sequence[str]
) -> list[tuple[str, float]]:
    """What to log of the scores of one batch (``completion_row``), by name.

    ``rewards/PART`` and ``spread/PART``: mean and standard deviation over what has a score.
    ``missing/PART``: on how many completions it does not apply; ``failed/PART``: on what share of
    the others the judge failed. By task the mean ``reward/TASK``, and ``words/TASK`` of an answer.
    ``incomplete/REASON``: how many BASIS answers have not the form asked for. ``truncated_frac``:
    the share that the length limit cut off. ``turns_LOW_HIGH/...``: mean, spread, failures and
    reward again, of each bin of turns that the batch has, for the parts that apply there.
    """
    found = [("truncated_frac", _mean([float(row["truncated"]) for row in rows]))]
    for name in part_names:
        found += part_metrics(rows, name)
    for task in sorted({row["task"] for row in rows}):
        own = [row for row in rows if row["task"] == task]
        found.append((f"reward/{task}", _mean(_rewards(own))))
        found.append((f"words/{task}", _mean([len(row["completion"].split()) for row in own])))
    reasons = Counter(row["note"] for row in rows if row["parts"].get("format") == 0)
    found += [(f"incomplete/{reason}", float(n)) for reason, n in reasons.items()]
    return found + bin_metrics(rows, part_names)


def part_metrics(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[str, float]]:
    failed = sum(name in row["failures"] for row in rows)
    values = [row["parts"][name] for row in rows if row["parts"].get(name) is not None]
    found = [
        (f"rewards/{name}", _mean(values)),
        (f"spread/{name}", stdev(values) if len(values) > 1 else torch.nan),
        (f"missing/{name}", float(len(rows) - len(values) - failed)),
    ]
    if name in PART_OF.values() and (failed or values):
        found.append((f"failed/{name}", failed / (failed + len(values))))
    return found


def bin_metrics(
    rows: Sequence[Mapping[str, Any]], part_names: Sequence[str]
) -> list[tuple[str, float]]:
    by_bin: dict[Bin, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_bin[bin_of(row["turns"])].append(row)
    found = []
    for (low, high), binned in sorted(by_bin.items()):
        for task in sorted({row["task"] for row in binned}):
            own = [row for row in binned if row["task"] == task]
            here = [(f"reward/{task}", _mean(_rewards(own)))]
            for name in part_names:
                here += part_metrics(own, name) if _applies(own, name) else []
            found += [(f"turns_{low}_{high}/{n}", v) for n, v in here if "missing/" not in n]
    return found


def _applies(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(row["parts"].get(name) is not None or name in row["failures"] for row in rows)


def _rewards(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    return [row["reward"] for row in rows if row["reward"] is not None]


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else torch.nan


def dead_fraction(rewards_GK: torch.Tensor) -> float:
    """Share of groups (rows) whose scorable rewards are all alike, or fewer than two."""
    usable_GK = torch.isfinite(rewards_GK)
    highest_G = rewards_GK.masked_fill(~usable_GK, -torch.inf).amax(dim=1)
    lowest_G = rewards_GK.masked_fill(~usable_GK, torch.inf).amin(dim=1)
    alive_G = (highest_G - lowest_G > FLAT) & (usable_GK.sum(dim=1) >= 2)
    return 1.0 - float(alive_G.float().mean())


def distinct_fraction(texts: Sequence[str], group_size: int) -> float:
    """Mean share of different texts within a group of consecutive ones."""
    groups = [texts[start : start + group_size] for start in range(0, len(texts), group_size)]
    return sum(len(set(group)) / len(group) for group in groups) / len(groups)


def grpo_arguments(config: Training, folder: Path) -> GRPOConfig:
    """Our config as TRL's. Raises ``UserError`` for a ``grpo.extra`` that TRL refuses."""
    grpo = config.grpo
    per_device = grpo.prompts_per_step * grpo.num_generations // world_size()
    per_forward = grpo.micro_batch or per_device
    accumulation = per_device // per_forward
    ours: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": 1,
        "shuffle_dataset": False,
        "per_device_train_batch_size": per_forward,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": accumulation * grpo.steps_per_generation,
        "num_generations": grpo.num_generations,
        "num_iterations": grpo.num_iterations,
        "beta": grpo.beta,
        "epsilon": grpo.epsilon,
        "epsilon_high": grpo.epsilon_high,
        "loss_type": grpo.loss_type,
        "scale_rewards": grpo.scale_rewards,
        "temperature": grpo.temperature,
        "top_p": grpo.top_p,
        "max_completion_length": grpo.max_completion_length,
        "mask_truncated_completions": grpo.mask_truncated,
        "chat_template_kwargs": template_kwargs(config.model),
        "save_steps": grpo.save_every,
        "save_total_limit": grpo.keep_checkpoints,
        "log_completions": False,
        **vllm_arguments(config),
        **shared_arguments(config, grpo),
    }
    made = _made(ours, grpo.extra)
    if isinstance(made, GRPOConfig):
        return made
    for name, value in grpo.extra.items():
        alone = _made(ours, {name: value})
        if isinstance(alone, str) and isinstance(_made(ours, {}), GRPOConfig):
            raise UserError(f"grpo.extra.{name}: {shown(value)}: TRL refuses it: {alone}")
    raise UserError(f"grpo: TRL refuses these settings together: {made}")


def _made(ours: Mapping[str, Any], extra: Mapping[str, Any]) -> GRPOConfig | str:
    """The arguments, or in few words why TRL refuses them."""
    try:
        return GRPOConfig(**ours, **extra)
    except (TypeError, ValueError, PackageNotFoundError) as error:
        why = " ".join(str(error).split())
    if "unexpected keyword argument" in why:
        return "GRPOConfig has no such argument; leave it out"
    return why if len(why) <= LONGEST_REFUSAL else f"{why[: LONGEST_REFUSAL - 3]}..."


def vllm_arguments(config: Training) -> dict[str, object]:
    vllm = config.grpo.vllm
    if vllm is None:
        return {"use_vllm": False}
    ours: dict[str, object] = {
        "use_vllm": True,
        "vllm_mode": vllm.mode,
        "vllm_importance_sampling_mode": vllm.importance_sampling,
    }
    if vllm.mode == "server":
        return ours | {
            "vllm_server_host": vllm.host,
            "vllm_server_port": vllm.port,
            "vllm_group_port": vllm.group_port,
        }
    return ours | {
        "vllm_gpu_memory_utilization": vllm.gpu_memory_utilization,
        "vllm_enable_sleep_mode": vllm.sleep,
        "vllm_max_model_length": config.model.context,
    }


def make_trainer(
    config: Training,
    policy: Policy,
    dataset: Dataset,
    adapter: RewardAdapter,
    part_names: Sequence[str],
    folder: Path,
    callbacks: Sequence[TrainerCallback],
) -> BeliefTrainer:
    """A trainer that takes the dataset's rows in order, once. Its total of steps is the plan's."""
    trainer = BeliefTrainer(
        adapter,
        part_names,
        grpo_arguments(config, folder),
        by_part=_by_part(config),
        model=policy.model,
        train_dataset=dataset,
        processing_class=policy.tokenizer,
        peft_config=lora_config(config.model.lora) if config.model.lora else None,
        callbacks=list(callbacks),
    )
    assert isinstance(trainer.model, PreTrainedModel | PeftModel)
    trainer.optimizer = muon(trainer.model, config.grpo)  # after the adapter is in the model
    trainer.remove_callback(PrinterCallback)
    return trainer


def _by_part(config: Training) -> NormalizedSum | None:
    if config.grpo.aggregation == "sum_then_normalize":
        return None
    return NormalizedSum(part_weights(config), config.grpo.num_generations, config.grpo.std_floor)


def total_steps(grpo: Grpo, num_rows: int) -> int:
    """Optimizer steps that a plan of ``num_rows`` prompts takes."""
    return num_rows // grpo.prompts_per_generation * grpo.window


def _finite(value: float | None) -> float | None:
    """``value``, or None where JSON has no number for it."""
    return value if value is not None and abs(value) < float("inf") else None

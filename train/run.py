"""One training run from validated config to servable checkpoint, and its folder.

    runs/NAME/config.json        the resolved config; a resumed run must have the same
              plan.json          the order of every row in both phases, with its SHA-256
              manifest.json      versions, git state, hashes; its presence means: started
              metrics.jsonl      one row per step: {"phase", "step", "loss", "rewards/PART", ...}
              completions/       PHASE-ATTEMPT.jsonl; where two have a step, the later counts
              base/              what GRPO starts from, where this run made it
              sft_checkpoints/   checkpoint-N to resume the warm start from
              checkpoints/       checkpoint-N to resume GRPO from
              best/              where asked for: what earned most on held-out requests, servable
              final/             the trained model, servable; its presence means: done

Bad input is found before the first file is written.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from accelerate import PartialState
from peft import PeftModel
from safetensors import SafetensorError
from transformers import PreTrainedModel, TrainerCallback, set_seed
from transformers.utils.logging import disable_progress_bar

from configs.errors import UserError
from configs.training import Training, sharded
from eval.checkpoint import check_readable
from rewards.judge_counts import JudgeFailing
from train import folder as run_folder
from train.best import HeldOutReward, KeepBest
from train.callbacks import (
    MetricsWriter,
    Phase,
    ProgressBar,
    StopSignal,
    StopWhenAsked,
    drop_rows_after,
    stop_on_signal,
)
from train.checkpoints import MarkWhole, export, last_checkpoint, step_of
from train.curriculum import Plan
from train.export import export_checkpoint
from train.grpo import CompletionsWriter, grpo_arguments, make_trainer, total_steps
from train.models import (
    Policy,
    check_end_of_turn,
    eos_ids,
    load_folder,
    load_model,
    prefilled_think,
    template_kwargs,
)
from train.prepare import Prepared
from train.reward_adapter import RewardAdapter, Scorer
from train.rows import to_dataset
from train.sft import AnswerRows, run_sft

STOPPED = 143  # 128 + SIGTERM: stopped when asked to, can be resumed
JUDGE_FAILING = 3  # stopped because answers could not be judged, can be resumed


def run(
    prepared: Prepared,
    scorer: Scorer,
    part_names: Sequence[str],
    resume: bool = False,
    warm_start_only: bool = False,
) -> int:
    """Train, or go on training.

    Returns the exit code: 0 done, 143 stopped when asked to, 3 stopped because the judge fails.
    ``warm_start_only``: as far as ``base/``; a later ``resume`` without it goes on with GRPO.
    """
    config = prepared.config
    if warm_start_only and config.sft is None and config.model.tiny is None:
        raise UserError(
            "--warm-start: the config has no sft and no model.tiny, so GRPO starts "
            "from model.path as it is; leave the option out"
        )
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    main_process = PartialState(cpu=not torch.cuda.is_available()).is_main_process
    if resume:
        run_folder.check_resumable(config, prepared.sft, prepared.grpo)
        if (config.folder / "final").is_dir():
            _say(f"{config.folder}: this run is complete; see {config.folder / 'final'}")
            return 0
        _check_checkpoints(config)
    disable_progress_bar()  # type: ignore[no-untyped-call]  # of transformers; a run has its own
    grpo_arguments(config, config.folder / "checkpoints")  # refuses what TRL would, before writing
    start = _starting_policy(prepared)
    if main_process:
        run_folder.open_run(
            config,
            prepared.examples,
            prepared.sft,
            prepared.grpo,
            prepared.held_out,
            resume=resume,
        )
    PartialState().wait_for_everyone()
    with stop_on_signal() as stop, _full_disk_explained(config.folder):
        policy = _warm_start(prepared, start, stop)
        del start  # its memory is GRPO's now
        if warm_start_only and policy is not None:
            _say(f"{config.folder / 'base'}: made")
            return 0
        try:
            done = policy is not None and _grpo(prepared, policy, scorer, part_names, stop)
        except JudgeFailing as error:
            saved = step_of(last_checkpoint(config.folder / "checkpoints"))
            _say(f"{config.folder}: stopped after step {saved}: {error}; mend it and --resume")
            return JUDGE_FAILING
    if not done:
        _say(f"{config.folder}: stopped; go on with --resume")
        return STOPPED
    if main_process:
        run_folder.record_weights(config.folder)
    _say(f"{config.folder / 'final'}: trained; serve it with scripts/serve_vllm.sh")
    return 0


@contextmanager
def _full_disk_explained(folder: Path) -> Iterator[None]:
    """A write that failed, of weights, optimizer or records, as one line with the remedy."""
    try:
        yield
    except (SafetensorError, RuntimeError, OSError) as error:
        if not _is_failed_write(error):
            raise
        reason = " ".join(str(error).split())
        raise UserError(
            f"{folder}: a checkpoint or record could not be written ({reason}); what was saved "
            "before is whole: make room and --resume"
        ) from None


def _is_failed_write(error: Exception) -> bool:
    """torch.save reports one as a RuntimeError of its archive writer, without an errno."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, SafetensorError) or "inline_container.cc" in str(error)


def _say(text: str) -> None:
    if PartialState().is_main_process:
        print(text)


def _check_checkpoints(config: Training) -> None:
    """Refuse to resume from a checkpoint that cannot be read, before anything is written."""
    for name in ("sft_checkpoints", "checkpoints"):
        checkpoint = last_checkpoint(config.folder / name)
        if checkpoint is not None:
            check_readable(checkpoint)


def _starting_policy(prepared: Prepared) -> Policy:
    """``base/`` where an earlier attempt made it, else the configured model."""
    config = prepared.config
    base = config.folder / "base"
    if base.is_dir():
        return _from_disk(prepared, str(base))
    model = load_model(config.model, prepared.tokenizer, config.seed)
    check_end_of_turn(model, prepared.tokenizer, template_kwargs(config.model))
    return Policy(model, prepared.tokenizer)


def _from_disk(prepared: Prepared, path: str) -> Policy:
    config = prepared.config
    model = load_folder(path, config.model.dtype, config.model.attention)
    check_end_of_turn(model, prepared.tokenizer, template_kwargs(config.model))
    return Policy(model, prepared.tokenizer)


def _warm_start(prepared: Prepared, start: Policy, stop: StopSignal) -> Policy | None:
    """What GRPO starts from; ``base/`` is made where this run makes one. None when stopped.

    GRPO gets it from disk in every case, so that a first and a resumed start are the same.
    """
    config = prepared.config
    base = config.folder / "base"
    if base.is_dir() or (prepared.sft is None and config.model.tiny is None):
        return start
    model: PreTrainedModel | PeftModel | None = start.model
    if prepared.sft is not None:
        model = _supervised(prepared, prepared.sft, start, stop)
    if model is None:
        return None
    _export(config, model, start, config.folder / "sft_checkpoints", base)
    PartialState().wait_for_everyone()
    return _from_disk(prepared, str(base))


def _supervised(
    prepared: Prepared, plan: Plan, start: Policy, stop: StopSignal
) -> PreTrainedModel | PeftModel | None:
    """The model after the supervised steps; None when stopped before the last of them."""
    config = prepared.config
    checkpoints = config.folder / "sft_checkpoints"
    checkpoint = last_checkpoint(checkpoints)
    if PartialState().is_main_process:
        drop_rows_after(config.folder / "metrics.jsonl", "sft", step_of(checkpoint))
    kwargs = template_kwargs(config.model)
    end = check_end_of_turn(start.model, start.tokenizer, kwargs)
    rows = AnswerRows(prepared.examples, plan, start.tokenizer, kwargs, end)
    set_seed(config.seed)  # a new adapter's weights are drawn when the trainer is made
    callbacks = _callbacks(config, "sft", stop, window=1)
    trainer = run_sft(config, start, rows, checkpoints, checkpoint, callbacks)
    if trainer.state.global_step < trainer.state.max_steps:
        return None
    model: PreTrainedModel | PeftModel = trainer.accelerator.unwrap_model(trainer.model)
    return model


def _grpo(
    prepared: Prepared,
    policy: Policy,
    scorer: Scorer,
    part_names: Sequence[str],
    stop: StopSignal,
) -> bool:
    """Train on the plan and write ``final/``. False when stopped before the plan's end."""
    config = prepared.config
    checkpoints = config.folder / "checkpoints"
    checkpoint = last_checkpoint(checkpoints)
    if PartialState().is_main_process:
        drop_rows_after(config.folder / "metrics.jsonl", "grpo", step_of(checkpoint))
    adapter = RewardAdapter(
        scorer,
        eos_ids(policy.model, policy.tokenizer),
        prefilled_think(policy.tokenizer, template_kwargs(config.model)),
        config.grpo.mask_truncated,
    )
    set_seed(config.seed)
    trainer = make_trainer(
        config,
        policy,
        to_dataset(prepared.examples, prepared.grpo),
        adapter,
        part_names,
        checkpoints,
        _callbacks(config, "grpo", stop, config.grpo.window),
    )
    attempt = run_folder.attempt(config.folder)
    path = config.folder / "completions" / f"grpo-{attempt}.jsonl"
    trainer.add_callback(CompletionsWriter(trainer, path))
    if prepared.held_out is not None:
        prefilled = prefilled_think(policy.tokenizer, template_kwargs(config.model))
        reward = HeldOutReward(prepared.held_out, policy.tokenizer, scorer, prefilled)
        trainer.add_callback(KeepBest(trainer, reward, config, str(policy.model.name_or_path)))
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.state.global_step < total_steps(config.grpo, len(prepared.grpo.indices)):
        return False
    model = trainer.accelerator.unwrap_model(trainer.model)
    _export(config, model, policy, checkpoints, config.folder / "final")
    return True


def _export(
    config: Training,
    model: PreTrainedModel | PeftModel,
    start: Policy,
    checkpoints: Path,
    out: Path,
) -> None:
    """Write the trained model to ``out``.

    Where its weights are sharded no process has them all: they are read back from the checkpoint
    of the last step, which the engine wrote whole.
    """
    if not PartialState().is_main_process:
        return
    checkpoint = last_checkpoint(checkpoints)
    if sharded() and checkpoint is not None:
        export_checkpoint(config, checkpoint, str(start.model.name_or_path), out)
    else:
        export(model, start.tokenizer, out)


def _callbacks(
    config: Training, phase: Phase, stop: StopSignal, window: int
) -> list[TrainerCallback]:
    return [
        ProgressBar(phase),
        MetricsWriter(phase, config.folder / "metrics.jsonl"),
        StopWhenAsked(stop, window),
        MarkWhole(),
    ]

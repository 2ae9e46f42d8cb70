"""The engine that generates with transformers in this process, in batches; no server.

Each row draws from a random generator of its own, seeded by its (request, run): an answer's random
numbers do not depend on which other rows shared its batch. Sampling is exact: the arg max of
filtered log probabilities plus Gumbel noise is a draw from the filtered distribution.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import UserError
from configs.evaluation import Sampling
from eval.checkpoint import LOAD_FAULTS, check_readable, fingerprint
from eval.engines import Call, Served
from eval.records import canonical, sha256
from rewards.chat_server import Reply
from tasks.extraction import opens_thinking

if TYPE_CHECKING:
    import torch


class InProcess:
    """``folder`` is a checkpoint folder with a tokenizer and a chat template."""

    lanes = workers = 1

    def __init__(self, folder: Path, batch_size: int) -> None:
        self._fingerprint = fingerprint(folder)
        self.batch_size = batch_size
        self._folder = folder
        self._tokenizer, self._model = _load(folder)

    def allowed(self, lane: int) -> int:
        """One batch at a time."""
        return self.workers

    async def model_card(self, lane: int = 0) -> Mapping[str, str]:
        """The folder cannot change under a loaded model."""
        return {"id": str(self._folder)}

    async def describe(self, probes: Sequence[Call]) -> Served:
        """Render the probes with the checkpoint's own chat template."""
        refuse_unsupported(probes[0].sampling)
        if any(probe.response_format is not None for probe in probes):
            raise UserError("structured_output: the in-process engine has none; use --server")
        prompts = [self._render(probe) for probe in probes]
        ids = self._ids(prompts)
        return Served(
            engine="in_process",
            model=self._folder.name,
            fingerprint=self._fingerprint,
            prefilled_think=opens_thinking(prompts[0]),
            prompts_hash=sha256(canonical(ids))[:16],
            max_model_len=self._model.config.max_position_embeddings,
        )

    async def render(self, calls: Sequence[Call]) -> list[list[int]]:
        """Token ids of the prompts."""
        return self._ids([self._render(call) for call in calls])

    def _ids(self, prompts: list[str]) -> list[list[int]]:
        return [self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in prompts]

    def _render(self, call: Call) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                list(call.messages),
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=call.sampling.enable_thinking,
            )
        )

    async def complete(
        self,
        calls: Sequence[Call],
        lane: int = 0,
        failed: Callable[[int, Reply], None] | None = None,
    ) -> list[Reply]:
        """Generate for the whole batch in a thread, so that signals are still heard."""
        return await asyncio.to_thread(self._generate, calls)

    async def close(self) -> None:
        """Nothing to let go of: the process ends."""

    def _generate(self, calls: Sequence[Call]) -> list[Reply]:
        started = time.monotonic()
        ids = self._ids([self._render(call) for call in calls])
        limit = self._model.config.max_position_embeddings - calls[0].sampling.max_tokens
        fits = [number for number, row in enumerate(ids) if len(row) <= limit]
        replies = [Reply("context_overflow", error=f"prompt of {len(row)} tokens") for row in ids]
        if fits:
            generated = self._sample([ids[number] for number in fits], [calls[n] for n in fits])
            for number, new in zip(fits, generated, strict=True):
                replies[number] = self._reply(len(ids[number]), new, time.monotonic() - started)
        return replies

    def _sample(self, ids: list[list[int]], calls: Sequence[Call]) -> list[list[int]]:
        seeds = [call.seed for call in calls]
        return sample(self._model, self._tokenizer, ids, calls[0].sampling, seeds)

    def _ends(self) -> frozenset[int]:
        return _end_tokens(self._model, self._tokenizer)

    def _reply(self, prompt_tokens: int, new: list[int], seconds: float) -> Reply:
        ended = bool(new) and new[-1] in self._ends()
        return Reply(
            state="ok" if ended else "truncated",
            text=self._tokenizer.decode(new[:-1] if ended else new, skip_special_tokens=True),
            finish_reason="stop" if ended else "length",
            prompt_tokens=prompt_tokens,
            completion_tokens=len(new),
            seconds=round(seconds, 3),
        )


def sample(
    model: Any, tokenizer: Any, ids: list[list[int]], sampling: Sampling, seeds: list[int]
) -> list[list[int]]:
    """New token ids for each prompt, up to and including its end token.

    Nothing is drawn from torch's global random generator.
    """
    import torch

    ends = _end_tokens(model, tokenizer)
    batch = tokenizer.pad(
        {"input_ids": ids}, padding=True, padding_side="left", return_tensors="pt"
    ).to(model.device)
    with torch.inference_mode():
        output = model.generate(
            **batch,
            logits_processor=_processors(sampling, seeds),
            generation_config=_plain_generation(tokenizer, ends, sampling.max_tokens),
        )
    width = batch["input_ids"].shape[1]
    return [_cut(row, ends) for row in output[:, width:].tolist()]


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    found = model.generation_config.eos_token_id
    several = found if isinstance(found, list) else [found]
    return frozenset(one for one in [*several, tokenizer.eos_token_id] if one is not None)


def _plain_generation(tokenizer: Any, ends: frozenset[int], max_new_tokens: int) -> Any:
    """The checkpoint's end tokens, and none of its sampling defaults."""
    from transformers import GenerationConfig

    make: Any = GenerationConfig  # untyped in transformers
    return make(
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=sorted(ends),
        pad_token_id=tokenizer.pad_token_id,
    )


def _load(folder: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    quiet: Any = disable_progress_bar  # untyped in transformers
    quiet()
    check_readable(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except LOAD_FAULTS as error:
        raise UserError(f"--checkpoint {folder}: no tokenizer loads from it ({error})") from None
    if tokenizer.chat_template is None:
        raise UserError(f"{folder}: its tokenizer has no chat template; save one with it")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    cuda = torch.cuda.is_available()
    dtype = torch.bfloat16 if cuda else torch.float32
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except LOAD_FAULTS as error:
        raise UserError(f"--checkpoint {folder}: no model loads from it ({error})") from None
    return tokenizer, model.to("cuda" if cuda else "cpu").eval()


def refuse_unsupported(sampling: Sampling) -> None:
    """Raises ``UserError`` for what this engine would silently leave out."""
    penalties = {"presence": sampling.presence_penalty, "frequency": sampling.frequency_penalty}
    for name, penalty in penalties.items():
        if penalty:
            raise UserError(
                f"sampling.{name}_penalty: {penalty} is refused: the in-process engine has none; "
                "set 0.0 or use --server"
            )
    if sampling.stop:
        raise UserError("sampling.stop: the in-process engine has none; empty it or use --server")


def _processors(sampling: Sampling, seeds: list[int]) -> Any:
    """Our sampling, in the order transformers applies it; the noise last. Temperature 0: greedy."""
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    chain = LogitsProcessorList()
    if sampling.repetition_penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature == 0:
        return chain
    chain.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k > 0:
        chain.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        chain.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p > 0:
        chain.append(MinPLogitsWarper(sampling.min_p))
    chain.append(_GumbelNoise(seeds))
    return chain


class _GumbelNoise:
    """Adds to each row Gumbel noise from the row's own generator."""

    def __init__(self, seeds: list[int]) -> None:
        import torch

        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """``scores``: (rows, vocabulary)."""
        import torch

        uniform = torch.stack(
            [torch.rand(scores.shape[1], generator=generator) for generator in self._generators]
        )
        noise = -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
        return scores.float() + noise.to(scores.device)


def _cut(row: list[int], ends: frozenset[int]) -> list[int]:
    """``row`` up to and including the first end token; what follows is padding."""
    for number, token in enumerate(row):
        if token in ends:
            return row[: number + 1]
    return row

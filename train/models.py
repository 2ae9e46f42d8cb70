"""The model a run starts from: a hub id, a local folder, or one made from numbers in the config.

The made one is a Qwen3 with random weights and a byte-level BPE tokenizer trained on the run's own
texts, so a whole run works without a hub; the folder it is saved to is an ordinary checkpoint that
transformers and vLLM load.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    set_seed,
)

from configs.errors import UserError
from configs.training import ModelConfig, TinyModel
from eval.checkpoint import LOAD_FAULTS, check_readable, check_weights
from tasks.example import Message
from tasks.extraction import opens_thinking

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

QUESTION = [Message(role="user", content="a question")]

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# What BPE may merge into one token. What the model looks up and copies is one token each, spelled
# alike wherever it stands: cells (B8), entries of a calendar (:M100) and of an answer ("M100",).
# The stock phrases between them become single tokens too, which halves a prompt.
ATOM = r"\b[A-Z]\d*\b|\d|:[A-Z]\d*"
PIECES = "|".join(
    [
        r":[A-Z]\d* ?",  # an entry behind its cell, with the space after it
        r'"[^"\s]{0,16}"[:,]?',  # a quoted name or entry with what follows it
        r"\b[A-Z]\d*\b",  # a cell or an agent
        r"\d+",  # a number
        rf'(?:(?!{ATOM})[^"])+',  # everything up to the next of these: a phrase
        r'"',
    ]
)


TemplateKwargs = dict[str, Any]  # what the chat template is called with besides the messages


@dataclass(frozen=True, slots=True)
class Policy:
    """A model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of at most ``vocab_size`` tokens: every text round-trips.

    Turns end with ``<|im_end|>``, which is also the end of sequence; padding has its own token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHATML
    return fast


def load_tokenizer(config: ModelConfig, texts: Iterable[str]) -> PreTrainedTokenizerBase:
    """The tokenizer of the configured model; ``texts`` are used only where one is made."""
    if config.tiny is not None:
        return train_tokenizer(texts, config.tiny.vocab_size)
    assert config.path is not None
    _check_folder(config.path)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(config.path)
    except LOAD_FAULTS as error:
        raise UserError(f"model.path: {config.path!r}: no tokenizer there ({error})") from None
    if tokenizer.chat_template is None:
        raise UserError(f"model.path: {config.path!r} has no chat template; use an instruct model")
    return tokenizer


def load_model(
    config: ModelConfig, tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    """The configured model, its weights determined by ``seed`` where they are made here."""
    if config.tiny is not None:
        return _make(config, config.tiny, tokenizer, seed)
    assert config.path is not None
    return load_folder(config.path, config.dtype, config.attention)


def load_folder(path: str, dtype: str, attention: str = "sdpa") -> PreTrainedModel:
    """The model in a folder or on the hub. Raises ``UserError`` when there is none."""
    _check_folder(path)
    if Path(path).is_dir():
        check_weights(Path(path))
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            path, dtype=DTYPES[dtype], attn_implementation=attention
        )
    except LOAD_FAULTS as error:
        raise UserError(f"model.path: {path!r}: no model there ({error})") from None
    return model


def _check_folder(path: str) -> None:
    """A path that cannot be a hub id must be a checkpoint folder."""
    folder = Path(path)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UserError(
                f"model.path: {path!r} holds no config.json, so it is not a checkpoint; name the "
                "folder that holds the weights, e.g. runs/NAME/final"
            )
        check_readable(folder)
    elif path.startswith((".", "/", "~")) or path.count("/") > 1 or folder.exists():
        raise UserError(f"model.path: {path!r}: no such checkpoint folder")


def _make(
    model_config: ModelConfig, tiny: TinyModel, tokenizer: PreTrainedTokenizerBase, seed: int
) -> PreTrainedModel:
    set_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=tiny.hidden,
        intermediate_size=tiny.intermediate,
        num_hidden_layers=tiny.layers,
        num_attention_heads=tiny.heads,
        num_key_value_heads=tiny.kv_heads,
        head_dim=tiny.head_dim,
        rope_parameters={"rope_type": "default", "rope_theta": tiny.rope_theta},
        max_position_embeddings=model_config.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, attn_implementation=model_config.attention
    )
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model


def template_kwargs(config: ModelConfig) -> TemplateKwargs:
    """What every rendering of the chat template is called with."""
    if config.enable_thinking is None:
        return {}
    return {"enable_thinking": config.enable_thinking}


def prefilled_think(tokenizer: PreTrainedTokenizerBase, template_kwargs: TemplateKwargs) -> bool:
    """Whether the template itself opens the answer's ``<think>``, so a completion starts inside."""
    rendered = render_prompts(tokenizer, [QUESTION], template_kwargs)[0]
    return opens_thinking(rendered)


def eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every token that ends a completion, as TRL will see it."""
    assert model.generation_config is not None
    given: Any = model.generation_config.eos_token_id
    ids = given if isinstance(given, list) else [given]
    return frozenset(int(i) for i in [*ids, tokenizer.eos_token_id] if i is not None)


def check_end_of_turn(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    template_kwargs: TemplateKwargs,
) -> int:
    """The token that ends a turn in the chat template, which must also end a generation.

    Otherwise every completion runs to its length limit and counts as truncated. Raises
    ``UserError`` naming both tokens.
    """
    answer = "a right answer"
    chat = [*map(_plain, QUESTION), {"role": "assistant", "content": answer}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=False, **template_kwargs)
    tail = str(rendered).rpartition(answer)[2]
    ids = tokenizer(tail, add_special_tokens=False)["input_ids"]
    ends = eos_ids(model, tokenizer)
    if not ids or ids[0] not in ends:
        turn = tokenizer.convert_ids_to_tokens(ids[0]) if ids else "nothing"
        known = ", ".join(str(t) for t in tokenizer.convert_ids_to_tokens(sorted(ends)))
        raise UserError(
            f"model: its chat template ends a turn with {turn}, but generation stops at {known}; "
            f"add {turn} to eos_token_id in the model's generation_config.json"
        )
    return int(ids[0])


def render_prompts(
    tokenizer: PreTrainedTokenizerBase,
    conversations: Sequence[Sequence[Message]],
    template_kwargs: TemplateKwargs,
) -> list[str]:
    """Each conversation as text, up to where the model's answer begins: what GRPO samples from."""
    rendered: Any = tokenizer.apply_chat_template(
        [[_plain(message) for message in one] for one in conversations],
        add_generation_prompt=True,
        tokenize=False,
        **template_kwargs,
    )
    return [str(text) for text in rendered]


def _plain(message: Message) -> dict[str, str]:
    return {"role": message["role"], "content": message["content"]}

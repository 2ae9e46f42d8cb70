"""A random Qwen3 with its own small tokenizer and chat template, written to disk in seconds.

For tests that need a checkpoint folder that transformers and vLLM load as they load a real one,
without a download: config, safetensors, tokenizer, chat template and generation config.

    python -m tests.tiny_checkpoint FOLDER
"""

import sys
from pathlib import Path

PAD = "<|endoftext|>"
START = "<|im_start|>"
END = "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

LINES = [
    "Five agents keep private calendars of sixteen slots.",
    "Ann moved the meeting with Ben from slot 3 to slot 7 and told Cleo; Dan was not there.",
    '{"plan": {"m1": 4, "m2": 9}, "beliefs": {"Ann": [0, 1, 1, 0], "Ben": [1, 0, 0, 1]}}',
    "What does Eve believe about the calendar of Ann? Answer with one JSON object.",
]


def write_tiny_checkpoint(
    folder: Path, *, hidden: int = 64, layers: int = 4, vocabulary: int = 400, seed: int = 0
) -> Path:
    """Write the checkpoint into ``folder`` (made if absent) and return it.

    ``hidden`` is the width, a multiple of 32 (one attention head per 32). Same arguments, same
    weights. The weights are random: the model talks nonsense, but it talks.
    """
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    tokenizer = _tokenizer(vocabulary)
    end, pad = tokenizer.convert_tokens_to_ids([END, PAD])
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 32) * 32,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=max(1, hidden // 64),
        head_dim=32,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=end,
        pad_token_id=pad,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=pad)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(vocabulary: int):  # type: ignore[no-untyped-def]
    """A byte-level BPE tokenizer of at most ``vocabulary`` tokens, trained on ``LINES``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(LINES, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, chat_template=CHAT_TEMPLATE
    )


if __name__ == "__main__":
    print(write_tiny_checkpoint(Path(sys.argv[1])))

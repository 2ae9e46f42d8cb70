"""Generating with transformers in this process, on a random Qwen3 of a few thousand parameters."""

import asyncio
from pathlib import Path

import pytest

from configs.errors import UserError
from configs.evaluation import Sampling
from eval.checkpoint import fingerprint
from eval.engines import Call
from eval.in_process import InProcess
from rewards.chat_server import Reply
from tasks.example import Message

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }} {{ m['content'] }}</s>{% endfor %}"
    "<s>assistant {% if enable_thinking %}<think>\n{% endif %}"
)
SAMPLING = Sampling(max_tokens=12, temperature=1.0, top_p=0.95, top_k=20, min_p=0.01)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder: random weights, a byte-level tokenizer with a chat template."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: n for n, token in enumerate(["</s>", "<s>", "<pad>", *alphabet])}
    inner = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="</s>", bos_token="<s>", pad_token="<pad>"
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(vocab),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=128,
        eos_token_id=0,
        pad_token_id=2,
    )
    transformers.Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def call(text: str, seed: int, sampling: Sampling = SAMPLING) -> Call:
    return Call((Message(role="user", content=text),), sampling, seed)


def generate(engine: InProcess, *calls: Call) -> list[Reply]:
    return asyncio.run(engine.complete(calls))


def test_an_answer_does_not_depend_on_its_batch(checkpoint: Path) -> None:
    engine = InProcess(checkpoint, 4)
    alone = [generate(engine, call(text, seed))[0].text for text, seed in (("a", 1), ("bcd", 2))]
    together = [r.text for r in generate(engine, call("bcd", 2), call("long one", 3), call("a", 1))]
    assert [together[2], together[0]] == alone
    assert generate(engine, call("a", 1))[0].text != generate(engine, call("a", 9))[0].text


def test_temperature_zero_ignores_the_seed(checkpoint: Path) -> None:
    engine = InProcess(checkpoint, 4)
    greedy = SAMPLING.model_copy(update={"temperature": 0.0})
    first, second = generate(engine, call("a", 1, greedy), call("a", 2, greedy))
    assert first.text == second.text


def test_states_and_counts(checkpoint: Path) -> None:
    engine = InProcess(checkpoint, 4)
    fits, too_long = generate(engine, call("abc", 1), call("x" * 200, 1))
    assert fits.state in ("ok", "truncated")
    assert fits.prompt_tokens == 1 + len("user abc") + 1 + 1 + len("assistant ")
    assert (fits.finish_reason == "length") == (fits.completion_tokens == 12)
    assert too_long.state == "context_overflow"


def test_sampling_follows_the_filtered_distribution(checkpoint: Path) -> None:
    engine = InProcess(checkpoint, 500)
    one = SAMPLING.model_copy(update={"max_tokens": 1, "top_k": 2, "top_p": 1.0, "min_p": 0.0})
    texts = [reply.text for reply in generate(engine, *(call("a", n, one) for n in range(500)))]
    assert len(set(texts)) == 2
    assert 150 < max(texts.count(text) for text in set(texts)) < 400


def test_whether_the_template_opens_think_is_seen(checkpoint: Path) -> None:
    engine = InProcess(checkpoint, 4)
    thinking = SAMPLING.model_copy(update={"enable_thinking": True})
    found = [asyncio.run(engine.describe([call("a", 0, s)])) for s in (SAMPLING, thinking)]
    assert [one.prefilled_think for one in found] == [False, True]
    assert found[0].prompts_hash != found[1].prompts_hash


def test_what_the_engine_cannot_do_is_refused(checkpoint: Path) -> None:
    engine = InProcess(checkpoint, 4)
    for change in ({"presence_penalty": 0.5}, {"stop": ("x",)}):
        with pytest.raises(UserError, match="use --server"):
            asyncio.run(engine.describe([call("a", 0, SAMPLING.model_copy(update=change))]))


def test_fingerprint_is_of_contents_and_refuses_other_folders(
    checkpoint: Path, tmp_path: Path
) -> None:
    before = fingerprint(checkpoint)
    weights = checkpoint / "model.safetensors"
    old = weights.read_bytes()
    weights.write_bytes(old[:-1] + bytes([old[-1] ^ 1]))  # same size, one bit
    assert fingerprint(checkpoint) != before
    weights.write_bytes(old)
    assert fingerprint(checkpoint) == before
    with pytest.raises(UserError, match="no such checkpoint"):
        fingerprint(tmp_path / "none")
    with pytest.raises(UserError, match=r"no config\.json"):
        fingerprint(tmp_path)

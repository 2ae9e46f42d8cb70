"""python -m pytest tests/train/test_models.py -v"""

import json
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedModel

from configs.errors import UserError
from configs.training import ModelConfig, TinyModel
from eval.checkpoint import check_readable
from eval.in_process import InProcess
from scripts.servable import find_servable
from tasks.calbench.answers import Plan, read
from tasks.calbench.reference import PlanTable, Reference
from tasks.extraction import Incomplete, opens_thinking
from train.checkpoints import export, last_checkpoint
from train.models import (
    check_end_of_turn,
    eos_ids,
    load_folder,
    load_model,
    load_tokenizer,
    prefilled_think,
    render_prompts,
    train_tokenizer,
)

STORY = "Turn 1. C tells all: B8 is now X.\nB7:F B8:M100 B9:X\n" * 20
ANSWER = '{"belief":{"A":["F","M100","X"],"B":["M100","M100","F"]}}' * 20
TINY = ModelConfig(
    tiny=TinyModel(
        layers=2, hidden=32, intermediate=64, heads=2, kv_heads=1, head_dim=16, vocab_size=400
    ),
    context=256,
)


def model_of(seed: int) -> PreTrainedModel:
    return load_model(TINY, load_tokenizer(TINY, [STORY, ANSWER]), seed)


def test_cells_and_entries_are_single_tokens_and_every_text_round_trips() -> None:
    tokenizer = train_tokenizer([STORY, ANSWER], 400)
    for text in ("B8", '"M100",', ":M100 ", " is now ", " tells all: "):
        assert len(tokenizer(text)["input_ids"]) == 1, text
    for text in (STORY, ANSWER, "Zoë\t ☃ {}\n\n"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer) <= 400


def test_the_same_texts_give_the_same_tokenizer_and_the_same_seed_the_same_weights() -> None:
    first, second = (train_tokenizer([STORY, ANSWER], 400) for _ in range(2))
    assert first.get_vocab() == second.get_vocab()
    one, same, other = model_of(3), model_of(3), model_of(4)
    weights = [model.get_input_embeddings().weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_an_export_loads_as_any_checkpoint_does(tmp_path: Path) -> None:
    tokenizer, model = load_tokenizer(TINY, [STORY, ANSWER]), model_of(0)
    export(model, tokenizer, tmp_path / "final")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    same = AutoTokenizer.from_pretrained(tmp_path / "final")
    ids = torch.tensor([tokenizer(STORY)["input_ids"][:20]])
    assert torch.equal(model(ids).logits, loaded(ids).logits)
    chat = [{"role": "user", "content": "B8?"}]
    rendered = same.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert rendered == "<|im_start|>user\nB8?<|im_end|>\n<|im_start|>assistant\n"
    end = same.convert_tokens_to_ids("<|im_end|>")
    assert loaded.generation_config.eos_token_id == same.eos_token_id == end
    assert loaded.generation_config.pad_token_id == same.pad_token_id != end


def test_a_turn_that_ends_in_no_end_token_is_refused_naming_both() -> None:
    tokenizer, model = load_tokenizer(TINY, [STORY, ANSWER]), model_of(0)
    assert check_end_of_turn(model, tokenizer, {}) == tokenizer.eos_token_id
    tokenizer.eos_token = "<|endoftext|>"
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id)
    with pytest.raises(UserError, match=r"ends a turn with <\|im_end\|>.*stops at <\|endoftext\|>"):
        check_end_of_turn(model, tokenizer, {})


def test_every_end_token_counts() -> None:
    tokenizer, model = load_tokenizer(TINY, [STORY, ANSWER]), model_of(0)
    model.generation_config = GenerationConfig(eos_token_id=[0, 7])
    assert eos_ids(model, tokenizer) == {0, 7, tokenizer.eos_token_id}


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/at/all", "a/b/c"])
def test_a_checkpoint_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(UserError, match="no such checkpoint folder"):
        load_tokenizer(ModelConfig(path=path), [])


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no config\.json"):
        load_tokenizer(ModelConfig(path=str(tmp_path)), [])


def test_a_config_that_leaves_the_sizes_to_a_default_is_refused(tmp_path: Path) -> None:
    tokenizer, model = load_tokenizer(TINY, [STORY, ANSWER]), model_of(0)
    export(model, tokenizer, tmp_path / "final")
    path = tmp_path / "final" / "config.json"
    whole = json.loads(path.read_text())
    for left, missing in (
        ({"model_type": "qwen3"}, "hidden_size, num_hidden_layers, vocab_size"),
        ({k: v for k, v in whole.items() if k != "num_hidden_layers"}, "num_hidden_layers"),
        (whole | {"hidden_size": None}, "hidden_size"),
    ):
        path.write_text(json.dumps(left))
        for load in (
            lambda: load_folder(str(tmp_path / "final"), "float32"),
            lambda: InProcess(tmp_path / "final", 1),
            lambda: find_servable(str(tmp_path / "final")),
        ):
            with pytest.raises(UserError, match=rf"config\.json:? gives no number for {missing}; "):
                load()
    path.write_text(json.dumps({"model_type": "x", "text_config": whole}))
    check_readable(tmp_path / "final")


def test_a_config_without_weights_is_refused(tmp_path: Path) -> None:
    tokenizer, model = load_tokenizer(TINY, [STORY, ANSWER]), model_of(0)
    export(model, tokenizer, tmp_path / "final")
    (tmp_path / "final" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"not a checkpoint; it holds no weights"):
        load_folder(str(tmp_path / "final"), "float32")


def test_half_written_checkpoints_are_passed_over(tmp_path: Path) -> None:
    for step in (2, 10, 12):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert last_checkpoint(tmp_path) is None
    for step in (2, 10):
        (tmp_path / f"checkpoint-{step}" / "complete").touch()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


PLAN = Reference(
    kind="plan",
    agents=("A",),
    meetings=("M1",),
    num_slots=2,
    initial=(("F", "F"),),
    belief=(("F", "F"),),
    world=(("F", "F"),),
    perspective=(),
    subjective=PlanTable(((0, 0),), (), 0, 0),
    objective=PlanTable(((0, 0),), (), 0, 0),
    starting=PlanTable(((0, 0),), (), 0, 0),
)
TEMPLATES = ["qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_5_think", "qwen3_5_nothink",
             "qwen3_6", "qwen3_8", "deepseek_r1_distill"]  # fmt: skip


@pytest.mark.parametrize("enable_thinking", [None, True, False])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_answer_is_found_under_every_template(name: str, enable_thinking: bool | None) -> None:
    tokenizer = train_tokenizer([STORY], 400)
    template = files("trl").joinpath("chat_templates", f"{name}.jinja")
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    kwargs = {} if enable_thinking is None else {"enable_thinking": enable_thinking}
    opened = prefilled_think(tokenizer, kwargs)
    rendered = render_prompts(tokenizer, [[{"role": "user", "content": "q"}]], kwargs)[0]
    assert opened is opens_thinking(rendered)
    for text in ('r\n</think>\n{"plan":{"M1":1}}', '<think>r</think>{"plan":{"M1":1}}'):
        answer = read(text, PLAN, opened)
        assert isinstance(answer, Plan)
        assert answer.slots == (1,)
    if opened:
        assert read('{"plan":{"M1":1}}', PLAN, opened) == Incomplete("unterminated_reasoning")

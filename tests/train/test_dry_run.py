"""What a dry run says: python -m pytest tests/train/test_dry_run.py -v"""

from pathlib import Path

import pytest
import torch

from configs.training import Training
from tasks.catalog import TASKS
from tests.train.conftest import Configure
from train.dry_run import describe
from train.estimate import hours, memory, shape_of
from train.models import load_model
from train.pool import PassRate, write_rates
from train.prepare import Prepared, prepare


def prepared(config: Training) -> Prepared:
    section = config.sections[0]
    return prepare(config, list(TASKS[section.task](section)))


@pytest.fixture(scope="module")
def ready(configure: Configure) -> Prepared:
    return prepared(configure())


def test_weights_are_counted_as_they_are(ready: Prepared, configure: Configure) -> None:
    size = len(ready.tokenizer)
    model = load_model(ready.config.model, ready.tokenizer, 0)
    shape = shape_of(ready.config, size)
    assert shape is not None
    assert shape.weights == shape.trained == sum(one.numel() for one in model.parameters())
    adapted = shape_of(
        configure("sft=null", "model.lora={rank: 4, target_modules: [q_proj]}"), size
    )
    assert adapted is not None
    assert (adapted.weights, adapted.trained) == (shape.weights, 2 * 4 * (32 + 32))
    assert shape_of(configure("model={path: ./nowhere}", "sft=null"), size) is None
    assert not torch.is_grad_enabled() or torch.get_default_device() == torch.device("cpu")


def test_the_formulas_give_what_they_say(ready: Prepared) -> None:
    shape = shape_of(ready.config, len(ready.tokenizer))
    assert shape is not None
    lines = list(memory(ready.config, shape, 100))
    n, rows, tokens = shape.weights, 8, 8 * (100 + 48)
    total = 16 * n + 2 * 2 * 34 * tokens * 32 + 12 * rows * 48 * shape.vocabulary
    assert f"about {total / 1024**3:.2f} GiB" in lines[0]
    line = hours(ready.config, shape, 6, 100.0, 1e9)
    tokens = 6 * 8 * 148
    expected = tokens * n * (6 / 0.35 + 2 / 0.03) / 1e9 / 3600
    assert f"about {expected:.3g} hours" in line


def test_long_prompts_are_named_and_dead_groups_told(
    ready: Prepared, configure: Configure, tmp_path: Path
) -> None:
    first = ready.examples[ready.grpo.indices[0]].id
    rate = PassRate(first, "calbench", "belief", 2, 4, (0.0, 0.0, 0.0, 1.0), 0.25, {}, {})
    write_rates(tmp_path / "rates.jsonl", [rate])
    lines = list(describe(ready, 1e12, tmp_path / "rates.jsonl"))
    assert lines[0].startswith("longest prompt that fits: 464 = context 512 - max_comp")
    assert lines[1] == f"plan {ready.grpo.sha256}: 12 prompts, 6 GRPO steps"
    assert lines[-1].startswith("dead groups of 4: 0.0% expected, from the ")
    longest = max(row.longest for row in ready.lengths)
    dropped = prepared(configure(f"model.context={48 + longest - 1}", "overlong=drop"))
    named = [line for line in describe(dropped, 1e12, None) if "too long and left out: " in line]
    assert len(named) == 1 and named[0].startswith("8 turns, ")
    assert set(named[0].partition("out: ")[2].split(", ")).isdisjoint(
        one.id for one in dropped.examples
    )

"""Checkpoints as folders to serve: python -m pytest tests/train/test_export.py -v"""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from configs.errors import UserError
from configs.training import Training
from scripts.servable import find_servable
from tests.scripts.test_serve_vllm import SERVE, STOP, complete, free_port, vllm_or_skip
from tests.scripts.test_serve_vllm import run as run_script
from tests.train.conftest import Configure
from tests.train.test_run import same_weights, train
from train.export import FLOAT32_TOLERANCE, export_run

LORA = (
    "sft=null",
    "model.lora={rank: 4, alpha: 64}",
    "model.tiny.head_dim=32",  # what vLLM serves on CPU
    "curriculum.stages=[{steps: 4}]",
)


@pytest.fixture(scope="module")
def adapted(configure: Configure) -> Training:
    """A run of four steps that trained an adapter, with checkpoints at 2 and 4."""
    config = configure(*LORA)
    assert train(config) == 0
    return config


def test_an_adapter_is_merged_and_says_what_the_run_says(adapted: Training, tmp_path: Path) -> None:
    found = export_run(adapted.folder, tmp_path / "out")
    assert (found.step, found.bound) == (4, FLOAT32_TOLERANCE)
    assert found.difference < 1e-4
    assert same_weights(tmp_path / "out", adapted.folder / "final")
    assert find_servable(str(tmp_path / "out")).is_folder
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {
        "config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja",
        "generation_config.json",
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_earlier_step_is_another_model(adapted: Training, tmp_path: Path) -> None:
    assert export_run(adapted.folder, tmp_path / "out", 2).step == 2
    assert not same_weights(tmp_path / "out", adapted.folder / "final")
    assert not same_weights(tmp_path / "out", adapted.folder / "base")


def test_full_weights_are_exported_too(configure: Configure, tmp_path: Path) -> None:
    config = configure("sft=null", "curriculum.stages=[{steps: 2}]")
    assert train(config) == 0
    assert export_run(config.folder, tmp_path / "out").difference == 0
    assert same_weights(tmp_path / "out", config.folder / "final")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.chat_template is not None


def copied(config: Training, tmp_path: Path) -> Path:
    return Path(shutil.copytree(config.folder, tmp_path / "run"))


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_config.json"])
def test_a_missing_adapter_is_refused(adapted: Training, tmp_path: Path, name: str) -> None:
    run = copied(adapted, tmp_path)
    (run / "checkpoints" / "checkpoint-4" / name).unlink()
    with pytest.raises(UserError, match=f"checkpoint-4: .*{name} is missing"):
        export_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_adapter_with_a_weight_missing_is_refused(adapted: Training, tmp_path: Path) -> None:
    run = copied(adapted, tmp_path)
    path = run / "checkpoints" / "checkpoint-4" / "adapter_model.safetensors"
    weights = load_file(path)
    first = sorted(weights)[0]
    save_file({name: one for name, one in weights.items() if name != first}, path)
    with pytest.raises(UserError, match=r"1 weights are missing or unknown"):
        export_run(run, tmp_path / "out")


@pytest.mark.parametrize("key", ["target_modules", "modules_to_save"])
def test_an_adapter_of_tied_embeddings_is_refused(
    adapted: Training, tmp_path: Path, key: str
) -> None:
    run = copied(adapted, tmp_path)
    path = run / "checkpoints" / "checkpoint-4" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: ["q_proj", "model.lm_head"]}))
    with pytest.raises(UserError, match="its adapter changes lm_head, which shares its weight"):
        export_run(run, tmp_path / "out")


def test_a_merge_that_changes_the_model_is_refused(
    adapted: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("train.export.FLOAT32_TOLERANCE", -1.0)
    with pytest.raises(UserError, match=r"a logit differs by .* do not serve it"):
        export_run(adapted.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_not_there_or_already_there_is_refused(adapted: Training, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no_run/config\.json: not there"):
        export_run(tmp_path / "no_run", tmp_path / "out")
    with pytest.raises(UserError, match=r"there are: checkpoint-2, checkpoint-4"):
        export_run(adapted.folder, tmp_path / "out", 3)
    with pytest.raises(UserError, match="is there already"):
        export_run(adapted.folder, tmp_path)
    run = copied(adapted, tmp_path)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match="final is ready to serve"):
        export_run(run, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_vllm_serves_the_exported_model(adapted: Training, tmp_path: Path) -> None:
    vllm_or_skip()
    export_run(adapted.folder, tmp_path / "out")
    port, pid_file = free_port(), tmp_path / "server.pid"
    words = ("--port", str(port), "--name", "tiny", "--background", "--pid-file", pid_file)
    started = run_script(
        SERVE, tmp_path / "out", *words, "--log-file", tmp_path / "log", timeout_s=900
    )
    try:
        assert started.returncode == 0, started.stderr
        answer = complete(port, 1, "Belief of A:")
        assert answer["usage"]["completion_tokens"] == 8
    finally:
        run_script(STOP, pid_file)


def test_a_sharded_run_writes_its_final_folder_from_the_last_checkpoint(
    configure: Configure, adapted: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process shards nothing: what is taken for it is switched, and the results compared."""
    start = (f"model.path={adapted.folder / 'base'}", "model.tiny=null", "sft=null")
    short = (*start, "model.lora={rank: 4, alpha: 8}", "curriculum.stages=[{steps: 2}]")
    whole, divided = configure(*short), configure(*short)
    assert train(whole) == 0
    monkeypatch.setattr("train.run.sharded", lambda: True)
    assert train(divided) == 0
    assert same_weights(whole.folder / "final", divided.folder / "final")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(UserError, match=r"model\.tiny: has nothing to gain from sharding"):
        configure()

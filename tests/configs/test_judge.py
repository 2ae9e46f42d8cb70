"""The judge's config refuses what would leak a key, and never shows it."""

from pathlib import Path

import pytest

from configs.errors import UserError
from configs.judge import JudgeConfig
from configs.load import load

SECRET = "sk-abc123"


def loaded(tmp_path: Path, text: str) -> JudgeConfig:
    path = tmp_path / "judge.yaml"
    path.write_text(text)
    return load(path, JudgeConfig)


def test_endpoint_and_model_are_enough(tmp_path: Path) -> None:
    config = loaded(tmp_path, "endpoint: http://127.0.0.1:8000/v1\nmodel: m\n")
    assert (config.mode, config.concurrency, config.verdict_tries) == ("isolated", 16, 2)
    assert config.sampling.temperature == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"endpoint: http://u:{SECRET}@h\nmodel: m\n", "endpoint holds credentials"),
        (f"endpoint: http://h/v1?key={SECRET}\nmodel: m\n", "endpoint holds credentials"),
        (f"endpoint: http://h\nmodel: m\napi_key_env: {SECRET}\n", "not the name of an environ"),
        (f"endpoint: http://h\nmodel: m\napi_key: {SECRET}\n", "api_key has no place in a config"),
        (f"endpoint: http://h\nmodel: m\nheaders: [{SECRET}]\n", "name that in api_key_env"),
        ("endpoint: localhost:8000\nmodel: m\n", "'localhost:8000' is no address; write it as ht"),
        ("endpoint: foo\nmodel: m\n", "endpoint 'foo' is no address; write it as http://HOST:PORT"),
        ("endpoint: http://h:x\nmodel: m\n", "endpoint 'http://h:x' is no address"),
        ("endpoint: http://[h\nmodel: m\n", "endpoint 'http://[h' is no address"),
        (f"endpoint: http://u:{SECRET}@h:x\nmodel: m\n", "endpoint holds credentials"),
        ("endpoint: http://h\nmodel: m\nsampling:\n  extra: {top_p: 1}\n", "extra repeats top_p"),
        ("endpoint: http://h\nmodel: m\nmode: both\n", "mode"),
        ("endpoint: http://h\nmodel: m\nmax_failing_share: 1.5\n", "max_failing_share"),
        ("endpoint: http://h\nmodel: m\nconcurency: 3\n", "did you mean concurrency"),
        ("endpoint: http://h\n", "model is missing"),
    ],
)
def test_refusals_name_the_fault_and_no_secret(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        loaded(tmp_path, text)
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


def test_the_configs_that_ship_load() -> None:
    found = sorted(Path(__file__).resolve().parents[2].glob("configs/judges/*.yaml"))
    assert [path.name for path in found] == ["hosted.yaml", "vllm.yaml"]
    assert all(load(path, JudgeConfig).cache for path in found)

"""A vLLM server for rollouts, asked before a model is loaded; here one that only tells of itself.

python -m pytest tests/train/test_rollout_server.py -v
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from configs.training import Training
from tests.scripts.test_serve_vllm import free_port
from tests.train.conftest import Configure
from tests.train.test_config import ROOT, errors, run_train
from train.folder import different_keys
from train.grpo import vllm_arguments
from train.rollout_server import check_server, launch_line

RIGHT: dict[str, Any] = {
    "weight_transfer_config": {"backend": "nccl"},
    "model_config": {
        "max_model_len": 4096,
        "logprobs_mode": "processed_logprobs",
        "dtype": "torch.bfloat16",
    },
}


class Telling(ThreadingHTTPServer):
    """Answers /health and /server_info as vLLM would; ``told`` None: no development endpoints."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: dict[str, Any] | None = RIGHT
        self.health = 200


class Handler(BaseHTTPRequestHandler):
    server: Telling

    def do_GET(self) -> None:
        if self.path == "/health":
            self._reply(self.server.health, {})
        elif self.path == "/server_info?config_format=json" and self.server.told is not None:
            self._reply(200, {"vllm_config": self.server.told})
        else:
            self._reply(404, {"detail": "Not Found"})

    def _reply(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[Telling]:
    telling = Telling()
    thread = threading.Thread(target=telling.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield telling
    telling.shutdown()
    telling.server_close()
    thread.join(10)


def check(configure: Configure, port: int) -> Training:
    config = configure(f"grpo.vllm={{mode: server, port: {port}}}")
    assert config.grpo.vllm is not None
    check_server(config, config.grpo.vllm)
    return config


def told(**model: object) -> dict[str, Any]:
    return RIGHT | {"model_config": RIGHT["model_config"] | model}


def test_a_server_that_can_take_weights_is_accepted(configure: Configure, server: Telling) -> None:
    assert check(configure, server.server_port).grpo.vllm is not None


@pytest.mark.parametrize(
    ("health", "info", "message"),
    [
        (503, RIGHT, r"is not ready \(HTTP 503 on /health\)"),
        (200, None, r"no development endpoints \(HTTP 404 on /server_info\)"),
        (200, RIGHT | {"weight_transfer_config": None}, "without --weight-transfer-config"),
        (200, told(logprobs_mode="raw_logprobs"), "--logprobs-mode raw_logprobs, which biases"),
        (200, told(max_model_len=256), "takes 256 tokens, fewer than model.context 512"),
        (200, told(dtype="torch.float16"), "computes in float16"),
        (200, {"model": "m"}, "of another version than this program knows"),
    ],
)
def test_what_a_server_lacks_is_told_with_the_line_that_starts_it_right(
    configure: Configure, server: Telling, health: int, info: dict[str, Any] | None, message: str
) -> None:
    server.health, server.told = health, info
    with pytest.raises(UserError, match=message) as caught:
        check(configure, server.server_port)
    line = str(caught.value).partition("start it with: ")[2]
    assert line.startswith("VLLM_SERVER_DEV_MODE=1 vllm serve ")
    assert f"--port {server.server_port} --max-model-len 512" in line
    assert """--weight-transfer-config '{"backend":"nccl"}'""" in line
    assert "--logprobs-mode processed_logprobs --max-logprobs -1" in line


def test_nobody_there_is_told_too(configure: Configure) -> None:
    port = free_port()
    with pytest.raises(UserError, match=f"the server at http://127.0.0.1:{port} does not answer"):
        check(configure, port)


def test_a_made_model_is_served_from_the_folder_that_the_warm_start_makes(
    configure: Configure,
) -> None:
    config = configure("grpo.vllm={mode: server}")
    assert config.grpo.vllm is not None
    line = launch_line(config, config.grpo.vllm)
    assert f"vllm serve {config.folder / 'base'} --host 127.0.0.1 --port 8000" in line
    assert line.endswith("(base/ is made by --warm-start)")


def test_check_only_reads_the_form_and_prints_the_line() -> None:
    vllm = "grpo.vllm={mode: server, host: node-2, port: 9000}"
    done = run_train("configs/train/qwen3_0.6b.yaml", "--check", vllm)
    assert done.returncode == 0
    told = done.stdout.splitlines()[1]
    assert "VLLM_SERVER_DEV_MODE=1 vllm serve Qwen/Qwen3-0.6B --host node-2 --port 9000" in told


@pytest.mark.parametrize(
    ("vllm", "message"),
    [
        ("{mode: remote}", "grpo.vllm.mode: 'remote' is refused"),
        ("{mode: server, host: 'http://x'}", "grpo.vllm.host: 'http://x' is refused"),
        ("{mode: server, port: 70000}", "grpo.vllm.port: 70000 is refused"),
        ("{mode: server, port: 51216}", "grpo.vllm.group_port: 51216 is grpo.vllm.port too"),
    ],
)
def test_a_server_that_cannot_be_is_refused_by_key(
    configure: Configure, vllm: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        configure(f"grpo.vllm={vllm}")


def test_a_run_whose_generator_cannot_be_had_stops_before_anything_is_written(
    tmp_path: Path,
) -> None:
    vllm = f"grpo.vllm={{mode: server, port: {free_port()}}}"
    config = ROOT / "configs" / "train" / "tiny_cpu.yaml"
    done = run_train(str(config), vllm, f"output={tmp_path}", "data.0.generated.count=9")
    assert done.returncode == 2
    assert len(errors(done)) == 1
    assert errors(done)[0].startswith("error: grpo.vllm: ")
    assert " torch" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_trl_is_told_where_the_server_is_and_a_resumed_run_may_have_another(
    configure: Configure,
) -> None:
    one = configure("grpo.vllm={mode: server, host: a, port: 1, group_port: 2}")
    assert vllm_arguments(one) == {
        "use_vllm": True,
        "vllm_mode": "server",
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_server_host": "a",
        "vllm_server_port": 1,
        "vllm_group_port": 2,
    }
    other = configure("grpo.vllm={mode: server, host: b}", "name=small")
    keys = different_keys(one.model_dump(mode="json"), other.model_dump(mode="json"))
    assert keys == ["output"]
    within = vllm_arguments(configure("grpo.vllm={sleep: false}"))
    assert within["vllm_mode"] == "colocate" and within["vllm_enable_sleep_mode"] is False

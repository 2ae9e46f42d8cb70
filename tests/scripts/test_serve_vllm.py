"""Serving a checkpoint: what is refused at once, and one real server from start to end.

The slow test runs vLLM on the CPU (or the GPU, if there is one) through the scripts themselves.
"""

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from scripts import serve
from scripts.servable import find_servable
from scripts.vllm_server import ServerPlan, command, environment, telling_lines
from tests.tiny_checkpoint import write_tiny_checkpoint

ROOT = Path(__file__).resolve().parents[2]
SERVE = str(ROOT / "scripts" / "serve_vllm.sh")
STOP = str(ROOT / "scripts" / "stop_vllm.sh")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def run(*words: str | Path, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def assert_refused(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    """One line on stderr that holds every part, exit code 2, nothing on stdout."""
    assert (result.returncode, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), result.stderr
    for part in parts:
        assert part in lines[0]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert_refused(run(SERVE, tmp_path / "absent"), "no checkpoint folder", "absent", "hub id")


def test_a_mistyped_run_is_not_taken_for_a_hub_model() -> None:
    assert_refused(run(SERVE, "runs/no_such_run"), "no checkpoint folder runs/no_such_run")


def test_a_file_is_refused(checkpoint: Path) -> None:
    assert_refused(run(SERVE, checkpoint / "config.json"), "is a file")


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    assert_refused(run(SERVE, tmp_path), str(tmp_path), "no config.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--timeout", "-1"), "--timeout -1 is not a time; give seconds above 0"),
        (("--timeout", "0"), "--timeout 0 is not a time"),
        (("--timeout", "nan"), "--timeout nan is not a time"),
        (("--timeout", "inf"), "--timeout inf is not a time"),
        (("--max-model-len", "0"), "--max-model-len 0 is not a number of tokens; give 1 or more"),
        (("--max-model-len", "-5"), "--max-model-len -5 is not a number of tokens"),
        (("--port", "0"), "--port 0 is not a port; give a number from 1 to 65535"),
        (("--port", "70000"), "--port 70000 is not a port"),
        (("--port", "-1"), "--port -1 is not a port"),
    ],
)
def test_a_number_that_cannot_be_is_refused(
    checkpoint: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        serve.main(["start", str(checkpoint), *words])
    assert message in str(caught.value)


def test_a_taken_port_is_refused(checkpoint: Path, taken_port: int) -> None:
    result = run(SERVE, checkpoint, "--port", str(taken_port))
    assert_refused(result, f"port {taken_port} cannot be used", "--port")


def test_stopping_needs_a_pid_file_that_holds_a_pid(tmp_path: Path) -> None:
    assert_refused(run(STOP, tmp_path / "absent.pid"), "no pid file")
    (tmp_path / "odd.pid").write_text("yes\n")
    assert_refused(run(STOP, tmp_path / "odd.pid"), "does not hold a pid")


def test_stopping_leaves_a_process_alone_that_is_no_server(tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    with subprocess.Popen(["sleep", "60"]) as bystander:
        pid_file.write_text(f"{bystander.pid}\n")
        result = run(STOP, pid_file)
        still_runs = bystander.poll() is None
        bystander.kill()
    assert result.stdout == f"no vLLM server with pid {bystander.pid} was running\n"
    assert still_runs and not pid_file.exists()


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "no tokenizer"),
        ("chat_template.jinja", "no chat template"),
    ],
)
def test_an_incomplete_checkpoint_is_refused(tmp_path: Path, removed: str, message: str) -> None:
    folder = write_tiny_checkpoint(tmp_path / "tiny", layers=1)
    (folder / removed).unlink()
    with pytest.raises(UserError, match=message):
        find_servable(str(folder))


def test_a_missing_shard_is_named(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"lacks 1 of its 2 weight files.*00002-of-00002"):
        find_servable(str(tmp_path))


def test_an_adapter_alone_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"LoRA adapter.*merge"):
        find_servable(str(tmp_path))


def test_a_config_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        find_servable(str(tmp_path))


def test_a_hub_id_is_taken_as_it_stands() -> None:
    found = find_servable("Qwen/Qwen3-0.6B")
    assert (found.model, found.is_folder) == ("Qwen/Qwen3-0.6B", False)


def plan(checkpoint: Path, *, on_gpu: bool, extra: tuple[str, ...] = ()) -> ServerPlan:
    return ServerPlan(
        checkpoint=find_servable(str(checkpoint)),
        name="tiny",
        port=8000,
        max_model_len=8192,
        extra=extra,
        on_gpu=on_gpu,
        python=Path("python"),
        log_file=Path("log"),
    )


def option(words: list[str], name: str) -> str:
    """The value vLLM would use: the last one given."""
    return words[len(words) - words[::-1].index(name)]


def test_a_float32_checkpoint_stays_float32_on_cpu_and_is_bfloat16_on_gpu(checkpoint: Path) -> None:
    assert option(command(plan(checkpoint, on_gpu=False)), "--dtype") == "float32"
    assert option(command(plan(checkpoint, on_gpu=True)), "--dtype") == "bfloat16"


def test_no_prompt_is_split_on_cpu(checkpoint: Path) -> None:
    words = command(plan(checkpoint, on_gpu=False))
    assert "--no-enable-chunked-prefill" in words
    assert int(option(words, "--max-num-batched-tokens")) >= 8192


def test_arguments_after_the_dashes_win(checkpoint: Path) -> None:
    ours, extra = serve.split_arguments(["start", "DIR", "--", "--dtype", "half", "--", "x"])
    assert (ours, extra) == (["start", "DIR"], ("--dtype", "half", "--", "x"))
    assert option(command(plan(checkpoint, on_gpu=True, extra=extra)), "--dtype") == "half"


def test_the_server_sees_no_hub_no_telemetry_and_not_our_packages(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    variables = environment(plan(checkpoint, on_gpu=False))
    assert "PYTHONPATH" not in variables
    assert variables["HF_HUB_OFFLINE"] == variables["VLLM_NO_USAGE_STATS"] == "1"
    assert variables["OMP_NUM_THREADS"] == "7"  # the caller's choice stands


def test_the_cause_is_picked_out_of_a_log() -> None:
    log = (
        "(APIServer pid=7) INFO loading\n"
        "(EngineCore pid=9) ERROR [core.py:1] ValueError: Not enough memory for the KV cache\n"
        "(EngineCore pid=9) ERROR [core.py:1] ValueError: Not enough memory for the KV cache\n"
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above.\n"
        "nanobind: leaked 4 instances!\n"
    )
    assert telling_lines(log) == ["ValueError: Not enough memory for the KV cache"]
    assert telling_lines("one\n\ntwo\nthree\n") == ["two", "three"]
    assert telling_lines("") == []


def vllm_or_skip() -> None:
    """Skip, with the reason, where vLLM cannot be installed."""
    setup = run(ROOT / "scripts" / "setup.sh", "serve", timeout_s=1500)
    if setup.returncode != 0:
        pytest.skip(f"vLLM cannot be had here: {setup.stderr.splitlines()[-1]}")


def complete(port: int, seed: int, prompt: str) -> dict[str, Any]:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 8,
        "temperature": 1.0,
        "seed": seed,
        "ignore_eos": True,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return dict(json.load(reply))


def processes_of_group(group: int) -> list[str]:
    """The running processes of a group, by their command lines; zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group_id = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # ended meanwhile
            continue
        if int(group_id) == group and state != "Z":
            found.append(words)
    return found


def nothing_listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_server_in_the_background_answers_and_leaves_nothing_behind(
    checkpoint: Path, tmp_path: Path
) -> None:
    vllm_or_skip()
    port, pid_file = free_port(), tmp_path / "server.pid"
    words = ("--port", str(port), "--name", "tiny", "--background", "--pid-file", pid_file)
    started = run(SERVE, checkpoint, *words, "--log-file", tmp_path / "log", timeout_s=600)
    try:
        assert started.returncode == 0, started.stderr
        pid = int(pid_file.read_text())
        ready = f"ready: http://127.0.0.1:{port}/v1 model tiny pid {pid} after "
        assert started.stdout.startswith(ready)
        group = processes_of_group(pid)
        # A seed and a prompt longer than one default step of 2048 tokens: what ends an engine on
        # CPU that splits prompts.
        answers = [complete(port, seed, "x " * 1400) for seed in (1, 1, 2)]
        assert 2048 < answers[0]["usage"]["prompt_tokens"] < 4096
        texts = [answer["choices"][0]["message"]["content"] for answer in answers]
        assert texts[0] == texts[1] != texts[2]
        assert answers[0]["usage"]["completion_tokens"] == 8
    finally:
        stopped = run(STOP, pid_file)
    assert stopped.stdout == f"stopped: pid {pid}\n"
    assert len(group) >= 2 and processes_of_group(pid) == []
    assert not pid_file.exists() and nothing_listens(port)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_server_in_the_foreground_ends_on_sigterm(checkpoint: Path, tmp_path: Path) -> None:
    vllm_or_skip()
    port = free_port()
    words = ["bash", SERVE, str(checkpoint), "--port", str(port), "--log-file", f"{tmp_path}/log"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as script:
        assert script.stdout is not None
        ready = script.stdout.readline().decode()
        script.send_signal(signal.SIGTERM)
        script.wait(60)
    assert ready.startswith(f"ready: http://127.0.0.1:{port}/v1 model {checkpoint} pid ")
    assert script.returncode == 0
    assert processes_of_group(int(ready.split(" pid ")[1].split()[0])) == [] and nothing_listens(
        port
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_server_that_cannot_start_says_why(checkpoint: Path, tmp_path: Path) -> None:
    vllm_or_skip()
    words = ("--port", str(free_port()), "--max-model-len", "99999")
    result = run(SERVE, checkpoint, *words, "--log-file", tmp_path / "log", timeout_s=600)
    assert (result.returncode, result.stdout) == (1, "")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: vLLM ended with code 1: ")
    assert "max_model_len (99999) is greater than" in last

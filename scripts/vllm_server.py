"""One vLLM server process: its command and environment, start, readiness, end.

Standard library only: vLLM itself runs in the Python that is passed in.

Three choices for CPU, with what they gave for a 1M-parameter Qwen3 on two cores (vLLM 0.31):

- Nothing is compiled (``TORCHDYNAMO_DISABLE``). vLLM's sampler is under ``torch.compile``; that
  made the first sampled token take 15 s, and it needs a C++ compiler on the machine.
- The engine runs its worker in its own process (``VLLM_ENABLE_V1_MULTIPROCESSING=0``) instead of
  importing everything once more in another: 20 s to readiness became 12 s, at equal throughput.
- Chunked prefill is off. With it, a request that carries a seed and whose prompt is split over two
  steps ends the engine ("CPU Generator does not use offset"). Greedy answers are the same.

Threads are left unbound and one core is left for the web server: with a thread on every core, two
servers on two cores dropped from 60 requests a second each to 3.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.servable import Servable

STOP_WAIT_S = 20.0
POLL_S = 0.25
CPU_BATCH_TOKENS = 4096
ERROR_LINE = re.compile(r"(?:\b\w*(?:Error|Exception): |\bValue error, |^\S+: error: ).+")
NOT_THE_CAUSE = ("root cause", "stack trace", "EngineDeadError", "leaked")


class ServerFailed(Exception):
    """The server ended, refused the first request, or did not answer in time."""


@dataclass(frozen=True)
class ServerPlan:
    """Everything that decides how a server is started. ``max_model_len`` is in tokens."""

    checkpoint: Servable
    name: str
    port: int
    max_model_len: int
    extra: tuple[str, ...]
    on_gpu: bool
    python: Path
    log_file: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def command(plan: ServerPlan) -> list[str]:
    """The vLLM command line. ``plan.extra`` comes last, so it wins over what is chosen here."""
    words = [str(plan.python), "-P", "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", plan.checkpoint.model, "--served-model-name", plan.name]
    words += ["--host", "127.0.0.1", "--port", str(plan.port)]
    words += ["--max-model-len", str(plan.max_model_len), "--generation-config", "vllm"]
    if plan.on_gpu:
        words += ["--dtype", "bfloat16"]
    else:
        dtype = "float32" if plan.checkpoint.dtype == "float32" else "bfloat16"
        batch_tokens = max(plan.max_model_len, CPU_BATCH_TOKENS)
        words += ["--dtype", dtype, "--enforce-eager", "--no-enable-chunked-prefill"]
        words += ["--max-num-batched-tokens", str(batch_tokens)]
    return [*words, *plan.extra]


def environment(plan: ServerPlan) -> dict[str, str]:
    """The environment of the server: no telemetry, and no hub for a folder.

    What the caller's environment says about CPU memory and threads stands.
    """
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    variables |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if plan.checkpoint.is_folder:
        variables |= {"HF_HUB_OFFLINE": "1"}
    if not plan.on_gpu:
        spare_cores = max(1, len(os.sched_getaffinity(0)) - 1)
        chosen = {
            "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "OMP_NUM_THREADS": str(spare_cores),
            "OMP_WAIT_POLICY": "PASSIVE",
            "TORCHDYNAMO_DISABLE": "1",
        }
        variables = chosen | variables
    return variables


def start(plan: ServerPlan) -> subprocess.Popen[bytes]:
    """Start the server as the leader of a process group of its own, so that it can end whole."""
    plan.log_file.parent.mkdir(parents=True, exist_ok=True)
    with plan.log_file.open("wb") as log:
        return subprocess.Popen(
            command(plan),
            env=environment(plan),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_until_ready(
    server: subprocess.Popen[bytes],
    plan: ServerPlan,
    timeout_s: float,
    progress: Callable[[float], None],
) -> float:
    """Seconds until the model answered a chat request of one token.

    ``progress`` is called about every ten seconds with the seconds waited so far. Raises
    ``ServerFailed`` with the reason; the server may then still be running.
    """
    began = time.monotonic()
    reported = 0.0
    while not _answers(plan):
        waited = time.monotonic() - began
        if server.poll() is not None:
            raise ServerFailed(why_it_ended(server, plan.log_file))
        if waited > timeout_s:
            raise ServerFailed(f"no answer within {timeout_s:.0f} s; its log: {plan.log_file}")
        if waited - reported >= 10:
            reported = waited
            progress(waited)
        time.sleep(POLL_S)
    if server.poll() is not None:  # then another server answered on this port
        raise ServerFailed(why_it_ended(server, plan.log_file))
    return time.monotonic() - began


def why_it_ended(server: subprocess.Popen[bytes], log_file: Path) -> str:
    """One line: how the server ended, its last telling log lines, and where its log is."""
    code = server.returncode
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    if code == -signal.SIGKILL:
        how += " (out of memory?)"
    reasons = telling_lines(log_file.read_text(encoding="utf-8", errors="replace"))
    return f"vLLM {how}: {' | '.join(reasons) or 'its log is empty'} (log: {log_file})"


def telling_lines(log: str) -> list[str]:
    """The last two different error messages of a vLLM log, or its last two lines without any."""
    found = [match.group(0).strip() for match in map(ERROR_LINE.search, log.splitlines()) if match]
    causes = [line for line in found if not any(word in line for word in NOT_THE_CAUSE)]
    lines = causes or found or [line.strip() for line in log.splitlines() if line.strip()]
    return [line[:300] for line in list(dict.fromkeys(lines))[-2:]]


def end(server: subprocess.Popen[bytes]) -> None:
    """End a server that this process started, with all its helpers."""
    if server.poll() is None:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(STOP_WAIT_S)
    _kill_group(server.pid)
    server.wait()


def end_by_pid(pid: int) -> bool:
    """End the server whose process group is ``pid``; False when no vLLM server has that pid."""
    if "vllm" not in _command_line(pid):
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WAIT_S
    while _group_is_alive(pid) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    _kill_group(pid)
    return True


def _answers(plan: ServerPlan) -> bool:
    """Whether the model answers; raises ``ServerFailed`` when the server refuses the request."""
    body = {
        "model": plan.name,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 1,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"{plan.url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=120) as reply:
            return "choices" in json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return False
        text = " ".join(error.read(2000).decode("utf-8", errors="replace").split())
        if error.code >= 500:  # the reply only points to the log
            text = " | ".join(telling_lines(plan.log_file.read_text("utf-8", "replace"))) or text
        raise ServerFailed(
            f"the server refused a chat request with HTTP {error.code}: {text[:300]} "
            f"(log: {plan.log_file})"
        ) from None
    except OSError:
        return False


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").lower()
    except OSError:
        return ""


def _group_is_alive(group: int) -> bool:
    """Whether a process of the group still runs; one that waits to be reaped does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group_id = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group_id) == group and state != "Z":
            return True
    return False


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)

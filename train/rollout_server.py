"""Whether vLLM can generate for a run, asked before the model is loaded.

In server mode TRL sends prompts and new weights to a vLLM server on other GPUs. It needs endpoints
that a server has only when it was started for it, and what is missing would show minutes later or
as a hang. So the server is asked first, and a refusal ends with the command that starts it right:

    python -m train CONFIG --check      # prints that command, asks nobody
"""

import importlib.metadata
import json
import os
import shlex
import urllib.error
import urllib.request
from typing import Any

from configs.errors import UserError
from configs.training import Training, Vllm

TIMEOUT_S = 10.0
OLDEST, NEWEST = (0, 22), (0, 31)
"""Of vLLM, that TRL 1.16 works with (trl/import_utils.py)."""


def launch_line(config: Training, vllm: Vllm) -> str:
    """The shell command of a server for this run, to be given GPUs that the run does not use.

    The model is the one that GRPO starts from in shape; its weights are replaced at the start.
    """
    model = config.model.path or str(config.folder / "base")
    words = ["vllm", "serve", model, "--host", vllm.host, "--port", str(vllm.port)]
    words += ["--max-model-len", str(config.model.context), "--dtype", "bfloat16"]
    words += ["--weight-transfer-config", '{"backend":"nccl"}']
    words += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
    made = "" if config.model.path else " (base/ is made by --warm-start)"
    return f"VLLM_SERVER_DEV_MODE=1 {shlex.join(words)}{made}"


def check_rollouts(config: Training) -> None:
    """vLLM is here and, in server mode, a server answers that can take this run's weights.

    Of several processes the first asks, as it alone talks to the server. Raises ``UserError``.
    """
    vllm = config.grpo.vllm
    if vllm is None or os.environ.get("RANK", "0") != "0":
        return
    _check_installed()
    if vllm.mode == "server":
        check_server(config, vllm)


def check_server(config: Training, vllm: Vllm) -> None:
    """Raises ``UserError`` naming what the server lacks and the command that starts one with it."""
    url = f"http://{vllm.host}:{vllm.port}"
    fault = _fault(url, config.model.context)
    if fault is not None:
        line = launch_line(config, vllm)
        raise UserError(f"grpo.vllm: the server at {url} {fault}; start it with: {line}")


def _fault(url: str, context: int) -> str | None:
    """What is wrong with the server; the endpoints and fields are those that TRL reads."""
    status, _ = _get(f"{url}/health")
    if status != 200:
        return "does not answer" if status is None else f"is not ready (HTTP {status} on /health)"
    status, info = _get(f"{url}/server_info?config_format=json")
    if status == 404:
        return "has no development endpoints (HTTP 404 on /server_info), which weights need"
    if status != 200 or info is None:
        return f"gives no account of itself (HTTP {status} on /server_info)"
    try:
        resolved = info["vllm_config"]
        transfer, model = resolved["weight_transfer_config"], resolved["model_config"]
        longest, mode = int(model["max_model_len"]), model["logprobs_mode"]
        dtype = str(model["dtype"]).removeprefix("torch.")
    except (KeyError, TypeError, ValueError):
        return "is of another version than this program knows (fields missing in /server_info)"
    if transfer is None:
        return "was started without --weight-transfer-config"
    if mode != "processed_logprobs":
        return f"has --logprobs-mode {mode}, which biases the importance ratios"
    if longest < context:
        return f"takes {longest} tokens, fewer than model.context {context}"
    if dtype not in ("bfloat16", "float32"):
        return f"computes in {dtype}, in which weights of a bfloat16 model overflow"
    return None


def _get(url: str) -> tuple[int | None, dict[str, Any] | None]:
    """HTTP status (None: nobody there) and the JSON object of the reply, if it is one."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=TIMEOUT_S) as reply:
            status, body = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, None
    except OSError:
        return None, None
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return status, value if isinstance(value, dict) else None


def _check_installed() -> None:
    """vLLM stands in this environment, of a version that TRL drives; in server mode too."""
    try:
        found = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            "grpo.vllm: vLLM is not installed here; pip install -e .[train,vllm], or leave it out "
            "(grpo.vllm=null), and transformers generates"
        ) from None
    major, minor = (int(part) for part in found.split(".")[:2])
    if not OLDEST <= (major, minor) <= NEWEST:
        raise UserError(
            f"grpo.vllm: vLLM {found} is installed, and TRL 1.16 drives 0.22 to 0.31; "
            "pip install -e .[train,vllm]"
        )

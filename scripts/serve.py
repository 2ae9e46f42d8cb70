"""Serve one checkpoint with vLLM, and say when it answers or why it does not.

Run through the two scripts beside this file, which find a Python for it (standard library only):

    bash scripts/serve_vllm.sh CHECKPOINT [--port 8000] [--name NAME] [--max-model-len 4096]
        [--timeout 900] [--background] [--pid-file FILE] [--log-file FILE] [-- VLLM ARGUMENTS]
    bash scripts/stop_vllm.sh PID_FILE

CHECKPOINT is a folder that ``save_pretrained`` wrote, or a hub id such as Qwen/Qwen3-0.6B. On a
machine with an NVIDIA GPU vLLM runs there in bfloat16; elsewhere it runs on the CPU, in float32 for
a checkpoint stored so and in bfloat16 for all others. It listens on 127.0.0.1 only. What stands
after ``--`` goes to vLLM and wins: two servers share one GPU with
``-- --gpu-memory-utilization 0.4``.

When the model has answered a request, one line is printed:

    ready: http://127.0.0.1:PORT/v1 model NAME pid PID after N s

In the foreground the server lives until Ctrl-C or SIGTERM; with ``--background`` it stays, and its
pid is in the pid file. Exit codes: 0 after a wanted end, 2 for a fault in the input, 1 for a server
that failed, 130 when interrupted before it was ready. After a failure nothing is left running.
"""

import argparse
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from configs.errors import UserError, run_command
from scripts.servable import find_servable
from scripts.vllm_server import (
    ServerFailed,
    ServerPlan,
    end,
    end_by_pid,
    start,
    wait_until_ready,
    why_it_ended,
)

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_MAX_MODEL_LEN = 4096
WANTED_ENDS = (signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Run ``start`` or ``stop``; returns the exit code. Raises ``UserError``."""
    ours, extra = split_arguments(argv)
    options = parser().parse_args(ours)
    if options.verb == "stop":
        return stop_server(options.pid_file)
    return serve(options, extra)


def split_arguments(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """What stands before the first ``--``, and what stands after it."""
    words = list(argv)
    if "--" not in words:
        return words, ()
    cut = words.index("--")
    return words[:cut], tuple(words[cut + 1 :])


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="serve", description="Serve one checkpoint with vLLM.")
    verbs = top.add_subparsers(dest="verb", required=True)
    start_verb = verbs.add_parser("start", prog="serve_vllm.sh", allow_abbrev=False)
    start_verb.add_argument("checkpoint", help="a checkpoint folder, or a hub id")
    start_verb.add_argument("--port", type=int, default=8000)
    start_verb.add_argument("--name", help="the model's name in requests (default: CHECKPOINT)")
    start_verb.add_argument("--max-model-len", type=int, help="tokens (default: 4096 or less)")
    start_verb.add_argument("--timeout", type=float, default=900, help="seconds to readiness")
    start_verb.add_argument("--background", action="store_true", help="return once it is ready")
    start_verb.add_argument("--pid-file", type=Path, help="(default: runs/serve/port-PORT.pid)")
    start_verb.add_argument("--log-file", type=Path, help="(default: runs/serve/port-PORT.log)")
    stop_verb = verbs.add_parser("stop", prog="stop_vllm.sh")
    stop_verb.add_argument("pid_file", type=Path)
    return top


def serve(options: argparse.Namespace, extra: tuple[str, ...]) -> int:
    """Check the input, start the server, wait for its first answer, and stay or return."""
    check_numbers(options.max_model_len, options.timeout)
    servable = find_servable(options.checkpoint)
    check_port(options.port)
    max_model_len = options.max_model_len
    if max_model_len is None:
        max_model_len = min(DEFAULT_MAX_MODEL_LEN, servable.max_positions or DEFAULT_MAX_MODEL_LEN)
    if not servable.is_folder:
        say(f"{options.checkpoint} is no folder here: taken as a hub model")
    on_gpu = has_gpu()
    places = ROOT / "runs" / "serve"
    plan = ServerPlan(
        checkpoint=servable,
        name=options.name or options.checkpoint.rstrip("/"),
        port=options.port,
        max_model_len=max_model_len,
        extra=extra,
        on_gpu=on_gpu,
        python=serving_python(on_gpu),
        log_file=(options.log_file or places / f"port-{options.port}.log").absolute(),
    )
    pid_file = (options.pid_file or places / f"port-{options.port}.pid").absolute()
    return run_server(plan, options.timeout, pid_file, background=options.background)


def check_numbers(max_model_len: int | None, timeout_s: float) -> None:
    """Raises ``UserError`` for a length or a time that can be none."""
    if max_model_len is not None and max_model_len < 1:
        raise UserError(
            f"--max-model-len {max_model_len} is not a number of tokens; give 1 or more"
        )
    if not 0 < timeout_s < math.inf:  # not a number is refused too
        raise UserError(f"--timeout {timeout_s:g} is not a time; give seconds above 0, e.g. 900")


def check_port(port: int) -> None:
    """Raises ``UserError`` when the port is no port or is taken."""
    if not 0 < port < 65536:
        raise UserError(f"--port {port} is not a port; give a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used ({error.strerror}); stop what listens there, or give "
                f"another with --port"
            ) from None


def has_gpu() -> bool:
    """Whether ``nvidia-smi`` lists a GPU."""
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return listing.returncode == 0 and listing.stdout.startswith("GPU ")


def serving_python(on_gpu: bool) -> Path:
    """The Python that has vLLM, installed first if need be. Raises ``UserError`` if that fails."""
    setup = subprocess.run(["bash", str(ROOT / "scripts" / "setup.sh"), "serve"], check=False)
    if setup.returncode != 0:
        raise UserError("vLLM could not be installed (see above); mend that and run this again")
    return ROOT / (".venv" if on_gpu else ".venv-vllm") / "bin" / "python"


def run_server(plan: ServerPlan, timeout_s: float, pid_file: Path, *, background: bool) -> int:
    """Run the server until it fails or is asked to end, or until ready in the background."""
    for wanted_end in WANTED_ENDS:
        signal.signal(wanted_end, _interrupt)
    check_places(plan.log_file, pid_file)
    where = "GPU" if plan.on_gpu else "CPU"
    say(f"starting vLLM on {where} for {plan.checkpoint.model} (log: {plan.log_file})")
    server = start(plan)
    ready = False
    try:
        waited_s = wait_until_ready(
            server, plan, timeout_s, lambda waited: say(f"waiting for vLLM: {waited:.0f} s")
        )
        if background:
            pid_file.write_text(f"{server.pid}\n")
        ready = True
        print(
            f"ready: {plan.url} model {plan.name} pid {server.pid} after {waited_s:.0f} s",
            flush=True,
        )
        if not background:
            server.wait()
            raise ServerFailed(why_it_ended(server, plan.log_file))
        return 0
    except ServerFailed as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("stopping vLLM")
        return 0 if ready else INTERRUPTED
    finally:
        if not (ready and background):
            for impatience in (signal.SIGINT, *WANTED_ENDS):
                signal.signal(impatience, signal.SIG_IGN)
            end(server)


def check_places(*files: Path) -> None:
    """Make the folders of files to be written; ``UserError`` where one cannot be written."""
    for file in files:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{file} cannot be written ({error.strerror}); name another") from None
        if file.is_dir() or not os.access(file.parent, os.W_OK):
            raise UserError(f"{file} cannot be written; name another file")


def stop_server(pid_file: Path) -> int:
    """End the server of a pid file and remove the file; a server already gone is no fault."""
    try:
        pid = int(pid_file.read_text())
    except FileNotFoundError:
        raise UserError(f"no pid file {pid_file}; give the --pid-file of the server") from None
    except ValueError:
        raise UserError(f"{pid_file} does not hold a pid; give the server's --pid-file") from None
    ended = end_by_pid(pid)
    pid_file.unlink(missing_ok=True)
    print(f"stopped: pid {pid}" if ended else f"no vLLM server with pid {pid} was running")
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    run_command(lambda: main(sys.argv[1:]))

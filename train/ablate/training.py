"""Train the runs of an ablation one after another; each is a process of its own with its own log.

A run that is done is skipped and one that was stopped goes on where it was. A killed ablation is
continued by the same command.
"""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from configs.ablate import Ablation
from train.ablate.cells import Run, command, shown, state

TAIL = 5  # lines of a failed run's log that are shown


def train_all(ablation: Ablation, todo: Sequence[Run]) -> int:
    """0 when every run is done; else the exit code of the run that was not."""
    states = {run.name: state(run) for run in todo}  # refuses a foreign folder before any training
    for number, run in enumerate(todo, 1):
        label = f"[{number}/{len(todo)}] {run.name}"
        if states[run.name] == "done":
            print(f"{label}: done before")
            continue
        code = _train(ablation, run, label, resume=states[run.name] == "started")
        if code:
            return code
    return 0


def _train(ablation: Ablation, run: Run, label: str, *, resume: bool) -> int:
    log = ablation.folder / "logs" / f"{run.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"{label}: {'going on' if resume else 'training'} (log: {log})", flush=True)
    words = command(ablation, run, resume=resume)
    start = time.monotonic()
    code = _call(words, log)
    if code:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
        print("\n".join(last))
        print(f"{label}: ended with code {code}; run the same command again to go on from there")
        print(f"its own command was: {shown(words)}")
    else:
        print(f"{label}: done in {time.monotonic() - start:.0f} s", flush=True)
    return code


def _call(words: Sequence[str], log: Path) -> int:
    """Run a command into ``log``; a signal to this process stops the command in its own way."""
    with (
        log.open("ab") as out,
        subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT) as child,
        _passing_on(child),
    ):
        code = child.wait()
    return 128 - code if code < 0 else code


@contextmanager
def _passing_on(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Hand SIGTERM to ``child``; Ctrl-C reaches it by itself, from the terminal."""

    def terminate(number: int, frame: FrameType | None) -> None:
        child.terminate()

    def wait(number: int, frame: FrameType | None) -> None:
        """The run saves what it has and ends."""

    before = {signal.SIGTERM: terminate, signal.SIGINT: wait}
    old = {number: signal.signal(number, handler) for number, handler in before.items()}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)

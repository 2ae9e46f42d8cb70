"""lm-evaluation-harness and Inspect on the requests of ``scripts.bench_runner``, same mock server.

Each runs as its users run it, from the Python that has it: ``LM_EVAL_PYTHON`` and
``INSPECT_PYTHON``, or this one where it is installed beside us. Their CPU is marginal like ours (a
small and a large run), but of one pair and of fewer samples, since they take longer. In flight
needs no such care: the mock server counts.
"""

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench_judge import Row
from scripts.mock_server import cpu_seconds_of, mock_server
from tasks.example import Example
from tasks.export import write_dataset

SMALL, LARGE = 40, 160  # requests; times the runs, samples

LM_EVAL_TASK = """task: bench
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
description: "{{{{prompt[0].content}}}}"
doc_to_text: "{{{{prompt[1].content}}}}"
doc_to_target: "{{{{answer}}}}"
repeats: {runs}
generation_kwargs: {{until: [], max_gen_toks: 256, do_sample: true, temperature: 0.7}}
metric_list: [{{metric: exact_match}}]
"""
INSPECT_TASK = """import json
from pathlib import Path
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.solver import generate

ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser}


@task
def bench(data: str, runs: int) -> Task:
    rows = map(json.loads, Path(data).read_text(encoding="utf-8").splitlines())
    samples = [
        Sample(
            id=row["info"]["id"],
            input=[ROLES[one["role"]](content=one["content"]) for one in row["prompt"]],
        )
        for row in rows
    ]
    return Task(dataset=MemoryDataset(samples), solver=generate(), epochs=runs)
"""


@dataclass(frozen=True, slots=True)
class Harness:
    """``command``: (python, folder with its data and task, server, in flight, runs) -> words."""

    name: str
    module: str
    variable: str
    command: Callable[[str, Path, str, int, int], list[str]]

    @property
    def python(self) -> str:
        """The interpreter that has it; empty where none is known."""
        beside = sys.executable if importlib.util.find_spec(self.module) else ""
        return os.environ.get(self.variable, beside)


def _lm_eval(python: str, folder: Path, url: str, in_flight: int, runs: int) -> list[str]:
    task = LM_EVAL_TASK.format(data=folder / "data.jsonl", runs=runs)
    (folder / "bench.yaml").write_text(task, encoding="utf-8")
    model = f"model=m,base_url={url}/v1/chat/completions,num_concurrent={in_flight}"
    return [
        python, "-m", "lm_eval", "--model", "local-chat-completions", "--apply_chat_template",
        "--model_args", f"{model},tokenized_requests=False", "--tasks", "bench",
        "--include_path", str(folder), "--log_samples", "--output_path", str(folder / "out"),
    ]  # fmt: skip


def _inspect(python: str, folder: Path, url: str, in_flight: int, runs: int) -> list[str]:
    (folder / "bench.py").write_text(INSPECT_TASK, encoding="utf-8")
    return [
        python, "-m", "inspect_ai", "eval", "bench.py", "--model",
        "openai-api/mock/m", "--display", "none", "--log-dir", str(folder / "logs"),
        "--max-connections", str(in_flight), "--max-samples", str(in_flight),
        "-T", f"data={folder / 'data.jsonl'}", "-T", f"runs={runs}",
    ]  # fmt: skip


HARNESSES = (
    Harness("lm-evaluation-harness", "lm_eval", "LM_EVAL_PYTHON", _lm_eval),
    Harness("Inspect", "inspect_ai", "INSPECT_PYTHON", _inspect),
)


def other_rows(
    asked: Sequence[Example], folder: Path, runs: int, in_flight: int
) -> tuple[list[Row], list[str]]:
    """Rows without a bar for each harness there is; a line for each that is not, or failed."""
    rows: list[Row] = []
    absent = []
    for one in HARNESSES:
        if not one.python:
            absent.append(f"{one.name}: not installed; name a Python that has it: {one.variable}")
            continue
        place = folder / one.module
        try:
            cost = _cost(one, asked, place, runs)
            share, peak = _fullness(one, asked, place / "flight", runs, in_flight)
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip() or error.stdout.decode()[-300:]
            absent.append(f"{one.name}: failed with code {error.returncode}: {said[-300:]}")
            continue
        rows.append((f"{one.name}, CPU a sample", f"{cost:.2f} ms", "", True))
        what = f"{one.name}, in flight of {in_flight} at 1 s latency (peak {peak})"
        rows.append((what, f"{share:.2f}", "", True))
    return rows, absent


def _cost(one: Harness, asked: Sequence[Example], folder: Path, runs: int) -> float:
    """Marginal CPU milliseconds a sample at no latency, 64 in flight."""
    with mock_server(0.0) as url:
        small, large = (
            _run(one, asked[:count], folder / str(count), url, 64, runs) for count in (SMALL, LARGE)
        )
    return (large - small) / ((LARGE - SMALL) * runs) * 1e3


def _fullness(
    one: Harness, asked: Sequence[Example], folder: Path, runs: int, in_flight: int
) -> tuple[float, int]:
    """Mean in flight as a share of ``in_flight``, and the most at once."""
    with mock_server(1.0) as url:
        _run(one, asked, folder, url, in_flight, runs)
        with urllib.request.urlopen(f"{url}/stats") as reply:
            stats = json.load(reply)
    return stats["mean"] / in_flight, stats["peak"]


def _run(
    one: Harness, asked: Sequence[Example], folder: Path, url: str, in_flight: int, runs: int
) -> float:
    """CPU seconds of one whole run. Raises ``CalledProcessError``; ``RuntimeError`` if it asked
    another number of times."""
    folder.mkdir(parents=True)
    write_dataset(asked, folder / "data.jsonl")
    before = _asked(url)
    seconds = cpu_seconds_of(
        one.command(one.python, folder, url, in_flight, runs), folder, _environment(url)
    )
    done = _asked(url) - before
    if done != len(asked) * runs:
        raise RuntimeError(f"{one.name} sent {done} requests of {len(asked) * runs}")
    return seconds


def _environment(url: str) -> Mapping[str, str]:
    """Nothing is fetched, and the key that both ask for is of nobody."""
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OPENAI_API_KEY": "none",
        "MOCK_API_KEY": "none",
        "MOCK_BASE_URL": f"{url}/v1",
    }


def _asked(url: str) -> int:
    with urllib.request.urlopen(f"{url}/stats") as reply:
        return int(json.load(reply)["asked"])

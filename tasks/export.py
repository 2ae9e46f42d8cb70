"""Our requests as a dataset that others can train on: chat messages and a reference, JSON lines.

    python -m tasks.export configs/train/tiny_cpu.yaml --out train.jsonl
    python -m tasks.export runs/eval/pick90/requests.jsonl --out test.jsonl

Read is a YAML with a ``data`` section (a training or evaluation config) or a file of Examples.
Each row has what TRL's and verifiers' datasets are made of:

    prompt      list of messages, the last by the user
    completion  one assistant message, a right answer (for supervised training)
    answer      the same answer as text
    task        calbench or basis
    info        strings only: id, source (never split a source over train and test), story, variant,
                condition, holder, turns, and ``target``, JSON text that scores an answer

A reward for a completion: read it with ``tasks.calbench.answers.read`` against
``tasks.calbench.reference.parse(info["target"])``, then ``rewards.composition.score``.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from configs.data import DataConfig
from configs.errors import UserError, run_command
from configs.load import Frozen, load
from tasks.catalog import TASKS
from tasks.example import Example, read_examples


class WithData(Frozen):
    """Any config with a data section; its other sections do not matter here."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    data: DataConfig


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the dataset. Raises ``UserError``."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="a YAML with data, or Examples as JSON lines")
    parser.add_argument("overrides", nargs="*", help="key=value, such as data.split=train")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines to write")
    options = parser.parse_args(arguments)
    count = write_dataset(examples_of(options.source, options.overrides), options.out)
    print(f"{options.out}: {count} rows")
    return 0


def examples_of(source: Path, overrides: Sequence[str] = ()) -> Iterator[Example]:
    """The Examples of a data section or of a file. Raises ``UserError``."""
    if source.suffix not in (".yaml", ".yml"):
        if overrides:
            raise UserError(f"{source}: Examples have no settings; leave out {overrides[0]!r}")
        if not source.is_file():
            raise UserError(f"{source}: no such file; name a YAML config or a requests.jsonl")
        return read_examples(source)
    data = load(source, WithData, overrides).data
    return TASKS[data.task](data)


def dataset_row(example: Example) -> dict[str, Any]:
    """One row; ``info`` holds strings only, so that no library pads it with nulls."""
    answer = example.reference_answer
    return {
        "prompt": list(example.messages),
        "completion": [{"role": "assistant", "content": answer}],
        "answer": answer,
        "task": example.task,
        "info": {
            "id": example.id,
            "source": example.source,
            "story": example.story,
            "variant": example.variant,
            "condition": example.condition,
            "holder": example.holder,
            "turns": str(example.turns),
            "target": example.target,
        },
    }


def write_dataset(examples: Iterable[Example], path: Path) -> int:
    """Write the rows; returns how many. The same examples give the same bytes."""
    count = 0
    try:
        with path.open("w", encoding="utf-8") as out:
            for example in examples:
                out.write(json.dumps(dataset_row(example), ensure_ascii=False) + "\n")
                count += 1
    except OSError as error:
        raise UserError(f"--out {path}: cannot be written ({error.strerror})") from None
    return count


if __name__ == "__main__":
    run_command(main)

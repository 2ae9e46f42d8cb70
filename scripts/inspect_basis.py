"""Print what BASIS files hold, file by file: counts, anomalies with their ids, and faults.

    python -m scripts.inspect_basis ../shared/data/basis/synchtom
    python -m scripts.inspect_basis RELEASE_FOLDER --strict

Only ids and numbers are printed, never a text of an instance. A faulty instance is left out, and
all faults are listed; with --strict the first one ends the command. Exit code 0: something can be
used; 2: nothing can, or a fault with --strict.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from configs.errors import run_command
from tasks.basis.collection import read_instances, sound_instances
from tasks.basis.flags import COUNTED
from tasks.basis.found import Found
from tasks.basis.instances import DIMENSIONS, Instance, Place


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.inspect_basis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file or a folder")
    parser.add_argument("--strict", action="store_true", help="stop at the first fault")
    options = parser.parse_args(arguments)
    collection = read_instances(options.paths, options.strict)
    for file in collection.files:
        print("\n".join(describe(file)))
    for path in collection.ignored:
        print(f"{path}: not read; neither *-benchmark.json nor *.jsonl")
    print(f"in all: {len(collection.instances)} instances, {len(collection.faults)} faults")
    sound_instances(collection)  # none: exit code 2
    return 0


def describe(file: Found) -> Iterator[str]:
    """The lines about one file."""
    found = file.instances
    yield f"{file.path}: {file.form} form, {len(found)} instances"
    if found:
        yield from _sizes(found)
        yield from _oddities(found)
        yield from _leaks(found)
        yield from _criteria(found)
    for key, count in sorted(file.dropped.items()):
        yield f"  dropped key {key}: {count}"
    for name in file.unreferenced:
        yield f"  unreferenced trajectory: {name}"
    for fault in file.faults:
        yield f"  fault: {fault}"


def _sizes(found: Sequence[Instance]) -> Iterator[str]:
    for domain, count in sorted(Counter((one.domain, one.subdomain) for one in found).items()):
        yield f"  domain {domain[0]} ({domain[1]}): {count}"
    groups = Counter(one.group for one in found)
    shared = sum(count > 1 for count in groups.values())
    yield f"  source groups: {len(groups)}, of which {shared} hold sisters"
    for dimension in DIMENSIONS:
        sizes = [len(one.rubrics.of(dimension)) for one in found]
        mean = sum(sizes) / len(sizes)
        yield f"  {dimension} criteria: {min(sizes)} to {max(sizes)}, mean {mean:.2f}"


def _oddities(found: Sequence[Instance]) -> Iterator[str]:
    turns = [(one, turn, turn.observation) for one in found for turn in one.turns]
    yield from _listed(
        "turns without an observation",
        [f"{one.id} ({turn.number})" for one, turn, seen in turns if seen is None],
    )
    yield from _listed(
        "turns with an empty observation",
        [f"{one.id} ({turn.number})" for one, turn, seen in turns if seen == ""],
    )
    yield from _listed(
        "observations with white space at an edge, kept",
        [f"{one.id} ({turn.number})" for one, turn, seen in turns if seen and seen != seen.strip()],
    )
    padded = [one.id for one in found if len(one.id.rpartition("_")[2]) > 4]
    yield from _listed("ids longer than four digits", padded)
    labels = [one.id for one in found if one.flags.option_label]
    yield from _listed("belief or true state is an exam option", labels)
    others = [f"{one.id} ({one.subdomain})" for one in found if one.flags.other_domain]
    yield from _listed("domain text of another domain than the file, which counts", others)
    if any(one.domain == "culture" for one in found):
        yield "  culture scenes may describe an image; none is shipped, the text is all there is"


def _leaks(found: Sequence[Instance]) -> Iterator[str]:
    for kind in (*COUNTED, "comments_on_user"):
        yield from _listed(
            f"leak {kind}",
            [
                f"{one.id} ({', '.join(map(str, leak.turns))})"
                for one in found
                for leak in one.flags.leaks
                if leak.kind == kind
            ],
        )
    flagged = [one for one in found if any(leak.kind in COUNTED for leak in one.flags.leaks)]
    yield f"  instances with a leak of the first five kinds: {len(flagged)} of {len(found)}"


def _criteria(found: Sequence[Instance]) -> Iterator[str]:
    flags = [(one.id, one.flags) for one in found]
    yield from _placed("criteria with an unseen letter", ((i, f.letter_criteria) for i, f in flags))
    yield from _placed("of these unanswerable", ((i, f.unanswerable) for i, f in flags))
    yield from _placed("criteria with an internal term", ((i, f.term_criteria) for i, f in flags))
    yield from _listed(
        "dimensions of two criteria",
        [f"{name} ({', '.join(flag.coarse)})" for name, flag in flags if flag.coarse],
    )


def _placed(title: str, places: Iterable[tuple[str, Sequence[Place]]]) -> Iterator[str]:
    """Criteria by number, from 1."""
    yield from _listed(
        title,
        [
            f"{name} ({', '.join(f'{dimension} {index + 1}' for dimension, index in some)})"
            for name, some in places
            if some
        ],
    )


def _listed(title: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"  {title}: {len(names)}: {', '.join(names)}"


if __name__ == "__main__":
    run_command(main)

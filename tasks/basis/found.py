"""What one BASIS file holds: its instances, and all that was dropped, odd or faulty in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tasks.basis.instances import Instance


@dataclass(frozen=True, slots=True)
class Found:
    """``dropped``: keys that were not copied, by name, with how often. ``faults``: one line each;
    an instance with a fault is not among ``instances``. ``unreferenced``: trajectory files that
    no record names.
    """

    path: Path
    form: Literal["release", "one-line"]
    instances: tuple[Instance, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    unreferenced: tuple[str, ...] = ()

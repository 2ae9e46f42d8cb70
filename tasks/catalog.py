"""The tasks there are: name -> the Examples of a data section."""

from collections.abc import Callable, Iterator
from typing import Any

from tasks.basis.examples import examples as basis_examples
from tasks.calbench.examples import examples as calbench_examples
from tasks.example import Example

# Each takes the data section whose ``task`` is its name.
TASKS: dict[str, Callable[[Any], Iterator[Example]]] = {
    "calbench": calbench_examples,
    "basis": basis_examples,
}

"""The tasks there are: name -> the Examples of a data section."""

from collections.abc import Callable, Iterator

from configs.data import DataConfig
from tasks.calbench.examples import examples as calbench_examples
from tasks.example import Example

TASKS: dict[str, Callable[[DataConfig], Iterator[Example]]] = {"calbench": calbench_examples}

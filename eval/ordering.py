"""In which order requests are asked: what begins alike stands together.

A server such as vLLM keeps the work on a prompt's beginning and uses it again for the next prompt
that begins alike (prefix caching), as long as it has not thrown it away. So the requests of one
source (the variants and holders of its stories, the prefixes of one dialogue) form a group, which
one server gets; within it prompts stand in the order of their text, and runs of one follow it.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from tasks.example import Example


def groups(requests: Iterable[Example]) -> Iterator[list[Example]]:
    """The requests of each source that stand together, in the order of their prompts' text."""
    for _, group in groupby(requests, key=lambda example: example.source):
        yield sorted(group, key=prompt_text)


def prompt_text(example: Example) -> list[str]:
    """What the rendered prompt is made of, in its order."""
    return [message["content"] for message in example.messages]

"""Train and test never share a source task: checked by id and by content."""

from collections.abc import Iterable

from configs.errors import UserError
from tasks.example import Example


def check_disjoint(
    train: Iterable[Example], test: Iterable[Example], first: str = "training", second: str = "test"
) -> None:
    """Raises ``UserError`` naming the first source task that training and test data share.

    ``first``, ``second``: what the two are called in the message.

    Two tasks are the same when their ids are equal, or their contents under different ids.
    """
    by_hash = {example.source_hash: example.source for example in train}
    ids = set(by_hash.values())
    for example in test:
        if example.source in ids:
            raise UserError(
                f"source task {example.source!r} is in {first} and in {second} data; "
                "use another select, seed or split"
            )
        if example.source_hash in by_hash:
            twin = by_hash[example.source_hash]
            raise UserError(
                f"{second} task {example.source!r} has the content of {first} task {twin!r}; "
                "leave one of them out"
            )

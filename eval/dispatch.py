"""Which call goes to which server: groups that share beginnings stay together.

A lane is one server. It takes the next group when it has none left, and near the end helps with
the groups of others, so that no lane waits while another has work. Calls that a lane could not
finish come back and are taken first. Nothing is read ahead of need.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from eval.engines import Call
from eval.records import Key

Owed = tuple[Key, Call]


class Dispatch:
    """Hands out the owed calls of ``groups`` to ``lanes`` lanes, each call once."""

    def __init__(self, groups: Iterator[Iterator[Owed]], lanes: int) -> None:
        self._groups = groups
        self._own: list[Iterator[Owed]] = [iter(()) for _ in range(lanes)]
        self._returned: deque[Owed] = deque()

    def take(self, lane: int, count: int) -> list[Owed]:
        """Up to ``count`` calls for a lane; none when all are handed out."""
        taken: list[Owed] = []
        while len(taken) < count:
            if self._returned:
                taken.append(self._returned.popleft())
                continue
            more = list(islice(self._own[lane], count - len(taken)))
            taken += more
            if not more and not self._refill(lane):
                break
        return taken

    @property
    def returned(self) -> bool:
        """Whether something given back waits to be taken."""
        return bool(self._returned)

    def give_back(self, owed: list[Owed]) -> None:
        """These were taken and not answered; another lane may have them."""
        self._returned.extend(owed)

    def _refill(self, lane: int) -> bool:
        """The next group becomes the lane's own; without one, the lane shares another's."""
        group = next(self._groups, None)
        if group is not None:
            self._own[lane] = group
            return True
        for other in self._own:
            call = next(other, None)
            if call is not None:
                self._returned.append(call)
                return True
        return False

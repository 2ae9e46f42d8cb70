"""Which training instances are test instances, their sisters, or copies with words changed.

Checked by id, by group (the source item), by the hash of the texts, and by words: a shared run of
13 words in one text, or word trigrams of which more than 0.3 are shared (Jaccard) in the scene, the
belief, the profile, the true state or the turns. Among the 313 instances of the SynchToM files at
hand, unrelated pairs reach 0.30 in one scene, else 0.25, and one pair of all shares such a run. A
paraphrase is not found, nor is a sister without its group: those share hardly a trigram.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from configs.errors import UserError
from tasks.basis.instances import Instance, plain

RUN: Final = 13  # words
MOST_SHARED: Final = 0.3  # Jaccard of trigrams

Grams = set[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Overlap:
    """A training instance that must not be trained on; it ``how`` the test instance."""

    trained: Instance
    held_out: Instance
    how: str


@dataclass(frozen=True, slots=True)
class _Text:
    """One text of a held-out instance: its place in the list, and its number of trigrams."""

    held_out: int
    trigrams: int


class _Index:
    """The held-out instances, by everything that tells one of them."""

    def __init__(self, held_out: Sequence[Instance]) -> None:
        self.held_out = held_out
        self.ids = {one.id: one for one in held_out}
        self.groups = {one.group: one for one in held_out}
        self.hashes = {one.fingerprint(): one for one in held_out}
        self.runs: dict[tuple[str, ...], Instance] = {}
        self.trigrams: dict[tuple[str, tuple[str, ...]], list[_Text]] = defaultdict(list)
        for number, one in enumerate(held_out):
            for name, text in texts(one).items():
                words = plain(text).split()
                found = grams(words, 3)
                self.runs |= dict.fromkeys(grams(words, RUN), one)
                for gram in found:
                    self.trigrams[name, gram].append(_Text(number, len(found)))

    def overlap(self, trained: Instance) -> Overlap | None:
        """The first reason why ``trained`` must stay out; None: there is none."""
        for name, found in (
            ("has the same id as", self.ids.get(trained.id)),
            ("comes from the same source item as", self.groups.get(trained.group)),
            ("has the same texts as", self.hashes.get(trained.fingerprint())),
        ):
            if found is not None:
                return Overlap(trained, found, name)
        return self._near(trained)

    def _near(self, trained: Instance) -> Overlap | None:
        for name, text in texts(trained).items():
            words = plain(text).split()
            for run in grams(words, RUN):
                if run in self.runs:
                    how = f"shares a run of {RUN} words of its {name} with"
                    return Overlap(trained, self.runs[run], how)
            found, share = self._closest(name, grams(words, 3))
            if found is not None and share > MOST_SHARED:
                how = f"is a near-duplicate ({share:.0%} of the word trigrams of its {name}) of"
                return Overlap(trained, found, how)
        return None

    def _closest(self, name: str, trigrams: Grams) -> tuple[Instance | None, float]:
        """The held-out instance whose text of this name shares most, and how much."""
        shared = Counter(text for gram in trigrams for text in self.trigrams.get((name, gram), ()))
        best, most = None, 0.0
        for text, count in shared.items():
            jaccard = count / (len(trigrams) + text.trigrams - count)
            if jaccard > most:
                best, most = self.held_out[text.held_out], jaccard
        return best, most


def overlaps(trained: Sequence[Instance], held_out: Sequence[Instance]) -> Iterator[Overlap]:
    """Every training instance that overlaps with a held-out one, in order."""
    index = _Index(held_out)
    for one in trained:
        found = index.overlap(one)
        if found is not None:
            yield found


def check_apart(trained: Sequence[Instance], held_out: Sequence[Instance]) -> None:
    """Raises ``UserError`` with the first overlap, both ids, and how many there are."""
    found = list(overlaps(trained, held_out))
    if not found:
        return
    first = found[0]
    others = f" (one of {len(found)} such instances)" if len(found) > 1 else ""
    raise UserError(
        f"{first.trained.place}: training instance {first.trained.id!r} {first.how} test instance "
        f"{first.held_out.id!r}{others}; take it out of the training data"
    )


def texts(instance: Instance) -> Mapping[str, str]:
    """What is compared, by name. All turns are one text."""
    turns = (f"{turn.action} {turn.observation or ''}" for turn in instance.turns)
    return {
        "scene": f"{instance.observation} {instance.instruction}",
        "belief": instance.belief,
        "profile": instance.profile,
        "true state": instance.true_state,
        "turns": " ".join(turns),
    }


def grams(words: Sequence[str], size: int) -> Grams:
    """All runs of ``size`` words."""
    return set(zip(*(words[start:] for start in range(size)), strict=False))

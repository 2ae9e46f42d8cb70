"""BASIS instances: what a model may see of a user, what is hidden, and the rubrics.

Visible: the scene, the instruction and the turns. Everything else is hidden: it is the gold, or
it gives the gold away. ``root_cause`` states the truth beside its cause, so it is never used as a
belief.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

Domain: TypeAlias = Literal["swe", "pref", "culture", "education"]
Dimension: TypeAlias = Literal["belief", "profile", "solution"]

DOMAINS: Final[tuple[Domain, ...]] = get_args(Domain)
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
NUM_TURNS: Final = 10

Place: TypeAlias = tuple[Dimension, int]  # a criterion: its dimension, its index from 0

LeakKind: TypeAlias = Literal[
    "leaks_truth",  # the generator's instruction, or the whole true state, stands in an observation
    "red_herring_note",  # an action calls itself a red herring
    "author_note",  # a note of the author stands in an observation
    "narrates_belief",  # an observation says what the user believes
    "says_true_state",  # an observation uses the words "true state"
    "comments_on_user",  # an observation speaks of the user's mind in other words
]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user did and what the user then saw; ``number`` counts from 1.

    ``observation`` None: none was recorded. Empty: nothing was to be seen, which is evidence.
    """

    number: int
    action: str
    observation: str | None


@dataclass(frozen=True, slots=True)
class Rubrics:
    """The criteria of each dimension, in order; a score is the share of them that is met."""

    belief: tuple[str, ...]
    profile: tuple[str, ...]
    solution: tuple[str, ...]

    def of(self, dimension: Dimension) -> tuple[str, ...]:
        """The criteria of one dimension."""
        if dimension == "belief":
            return self.belief
        return self.profile if dimension == "profile" else self.solution


@dataclass(frozen=True, slots=True)
class Leak:
    """Author-only text that shows in the turns with these numbers."""

    kind: LeakKind
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Flags:
    """Anomalies that stay in the data and travel with it, so that means come with and without.

    ``letter_criteria`` name an answer letter that is nowhere visible; those among them that offer
    no other wording are ``unanswerable``. ``term_criteria`` ask for the benchmark's own term.
    ``coarse``: dimensions of two criteria. ``option_label``: belief or true state is an exam
    option, not a sentence. ``other_domain``: the record's own text names another domain than its
    file, which counts.
    """

    leaks: tuple[Leak, ...] = ()
    letter_criteria: tuple[Place, ...] = ()
    unanswerable: tuple[Place, ...] = ()
    term_criteria: tuple[Place, ...] = ()
    coarse: tuple[Dimension, ...] = ()
    option_label: bool = False
    other_domain: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """One user in one situation.

    ``group`` is the statistical cluster: instances made from one source item share it.
    ``subdomain`` is the file's own domain text. ``place``: the file (and line) it was read from.
    """

    id: str
    domain: Domain
    subdomain: str
    group: str
    place: str
    observation: str
    instruction: str
    turns: tuple[Turn, ...]
    belief: str
    profile: str
    true_state: str
    misconception: str
    root_cause: str
    rubrics: Rubrics
    flags: Flags

    def fingerprint(self) -> str:
        """SHA-256 of the texts without case, spaces and punctuation: equal ones show."""
        texts = [self.observation, self.instruction, self.belief, self.true_state]
        return hashlib.sha256(json.dumps([plain(text) for text in texts]).encode()).hexdigest()


def plain(text: str) -> str:
    """The words of a text in lower case, single spaces between them."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def sister_group(instance_id: str) -> str:
    """The group of an instance whose file names none.

    Culture ids 2k and 2k+1 of the release are one query set in two cultures; every other instance
    is a group of its own.
    """
    match = re.fullmatch(r"culture_(0*)([0-9]+)", instance_id)
    if not match or len(match[2]) > 9:
        return instance_id
    first = int(match[2]) // 2 * 2
    return f"culture_{first:04d}+{first + 1:04d}"

"""What a pilot found of each prompt, and which prompts GRPO draws from because of it. No torch."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb, nan
from pathlib import Path
from statistics import fmean

from configs.errors import UserError
from configs.pool import Pool
from train.curriculum import Plan

FLAT = 1e-6  # rewards that differ less are alike, as in train.grpo


@dataclass(frozen=True, slots=True)
class PassRate:
    """One prompt. ``rewards``: of the completions that could be scored; ``completions``: of all.

    ``pass_rate``: the share of ``rewards`` that reach the bar; None where nothing was scored.
    ``parts``: for each part its mean over the completions it applies to; ``full``: the share of
    them that earn it whole.
    """

    id: str
    task: str
    condition: str
    turns: int
    completions: int
    rewards: tuple[float, ...]
    pass_rate: float | None
    parts: Mapping[str, float]
    full: Mapping[str, float]

    def dead_share(self, group: int) -> float | None:
        return expected_dead(self.rewards, group) if self.rewards else None


def expected_dead(rewards: Sequence[float], group: int) -> float:
    """The chance that ``group`` completions of a prompt all earn the same.

    With k >= group rewards at hand: the share of its subsets of that size that are all alike, which
    is unbiased. With fewer: sum over values of share^group; for two values that is
    p^group + (1-p)^group.
    """
    counts = Counter(round(reward / FLAT) for reward in rewards).values()
    known = len(rewards)
    if known >= group:
        return sum(comb(count, group) for count in counts) / comb(known, group)
    return sum((count / known) ** group for count in counts)


def dead_share(rates: Iterable[PassRate], group: int) -> float:
    """The mean over the prompts that have scores; nan without any."""
    found = [share for rate in rates if (share := rate.dead_share(group)) is not None]
    return fmean(found) if found else nan


def write_rates(path: Path, rates: Sequence[PassRate]) -> None:
    """One JSON line a prompt."""
    lines = [json.dumps(asdict(rate), ensure_ascii=False) + "\n" for rate in rates]
    draft = path.with_name(path.name + ".part")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.rename(path)


def read_rates(path: Path) -> dict[str, PassRate]:
    """By prompt. Raises ``UserError`` naming the line that is not one of ours."""
    if not path.is_file():
        raise UserError(f"{path}: no such file of pass rates; `python -m train.pilot` writes one")
    found = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                rate = PassRate(**{**row, "rewards": tuple(row["rewards"])})
            except (ValueError, TypeError, KeyError):
                raise UserError(f"{path}:{number}: not a pass rate; run the pilot again") from None
            found[rate.id] = rate
    return found


def chosen(ids: Sequence[str], pool: Pool) -> tuple[list[int], str]:
    """The places of the prompts to draw from, and a note. Raises ``UserError`` for none."""
    rates = read_rates(Path(pool.file))
    places = [place for place, name in enumerate(ids) if _keeps(pool, rates.get(name))]
    asked = sum(name in rates for name in ids)
    if not places or not asked:
        raise UserError(
            f"curriculum.pool: {pool.file} knows {asked} of the {len(ids)} prompts and leaves "
            f"{len(places)} to draw from; widen at_least and at_most, or run the pilot on this data"
        )
    return places, f"pool: {len(places)} of {len(ids)} prompts ({asked} asked by the pilot)"


def _keeps(pool: Pool, rate: PassRate | None) -> bool:
    if rate is None or rate.pass_rate is None:
        return pool.unknown == "keep"
    alike = max(rate.rewards) - min(rate.rewards) <= FLAT
    if alike and len(rate.rewards) > 1 and pool.dead == "drop":
        return False
    return pool.at_least <= rate.pass_rate <= pool.at_most


def over(plan: Plan, places: Sequence[int], note: str) -> Plan:
    """A plan made for the rows at ``places``, as one for all rows."""
    indices = tuple(places[index] for index in plan.indices)
    return replace(plan, indices=indices, notes=(note, *plan.notes))

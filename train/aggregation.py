"""Advantages from the parts of a reward, each normalized in its group by itself.

GDPO (Group reward-Decoupled Normalization Policy Optimization): the sum of the parts makes answers
alike that are good in different ways. TRL 1.16 has it as ``normalize_then_sum``, without a floor: a
part that is constant but for a jitter of 0.01 then outweighs one that tells right from wrong. Here
such a part counts as equal. A completion that lacks a part which its siblings have, or has no
reward, leaves every baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from trl.trainer.utils import nanstd

EPSILON = 1e-4  # TRL's, added to every spread that divides


@dataclass(frozen=True, slots=True)
class NormalizedSum:
    """``weights``: of the parts that count, all above 0, by name."""

    weights: Mapping[str, float]
    group_size: int
    std_floor: float

    def advantages(
        self, counted: Sequence[Mapping[str, float | None]], rewards_N: torch.Tensor
    ) -> torch.Tensor:
        """Of completions in groups of consecutive ones; NaN where there is none.

        ``counted``: each one's parts after gates. ``rewards_N``: NaN where it has no reward.
        """
        known = [[one.get(name) for name in self.weights] for one in counted]
        values_NP = torch.tensor(
            [[torch.nan if value is None else value for value in row] for row in known],
            device=rewards_N.device,
        )
        values_NP = values_NP.masked_fill(torch.isnan(rewards_N)[:, None], torch.nan)
        weights_P = torch.tensor(list(self.weights.values()), device=rewards_N.device)
        return normalized_sum(values_NP, weights_P, self.group_size, self.std_floor)


def normalized_sum(
    values_NP: torch.Tensor, weights_P: torch.Tensor, group_size: int, std_floor: float
) -> torch.Tensor:
    """(completions,) from (completions, parts); NaN: the part does not apply, or is not known.

    The weights of the parts that apply to a group are made to sum to 1, as in a reward. The mean
    over the batch is 0 as it is: every part's is, in every group.
    """
    values_GKP = values_NP.view(-1, group_size, len(weights_P))
    known_GKP = ~torch.isnan(values_GKP)
    applies_G1P = known_GKP.any(dim=1, keepdim=True)
    whole_GK1 = (known_GKP | ~applies_G1P).all(dim=2, keepdim=True) & applies_G1P.any(2, True)
    values_GKP = values_GKP.masked_fill(~whole_GK1, torch.nan)
    centred_GKP = values_GKP - values_GKP.nanmean(dim=1, keepdim=True)
    std_G1P = nanstd(values_GKP, dim=1, keepdim=True)
    scores_GKP = (centred_GKP / (std_G1P + EPSILON)).nan_to_num(nan=0.0)
    scores_GKP = scores_GKP.masked_fill(~(std_G1P >= std_floor), 0.0)  # nor where there is one row
    weights_G1P = weights_P * applies_G1P
    share_G1P = weights_G1P / weights_G1P.sum(dim=2, keepdim=True).clamp(min=EPSILON)
    sums_GK = (scores_GKP * share_G1P).sum(dim=2).masked_fill(~whole_GK1[:, :, 0], torch.nan)
    return (sums_GK / (nanstd(sums_GK).nan_to_num(nan=0.0) + EPSILON)).view(-1)

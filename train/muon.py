"""Muon for the matrices inside the layers, AdamW for embeddings and norms, as one optimizer.

A tiny model learns in minutes what AdamW alone leaves on a plateau: to look up, from a calendar
cell, what the story says about it. Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon)
makes all directions of an update equally large, the rare ones too. torch.optim.Muon iterates in
bfloat16; on a CPU without bfloat16 instructions that takes longer than the rest of a small model's
step, so the iteration here is in the weights' own precision.
"""

from collections.abc import Callable
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from configs.training import Optimizer

# of the quintic iteration (Jordan et al. 2024): steep at 0, so that few rounds are enough
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, for matrices; torch.optim.Muon but for the precision.

    A tall matrix (m > n) moves sqrt(m / n) times as far. Weight decay is decoupled.
    """

    def __init__(
        self, matrices: list[torch.nn.Parameter], learning_rate: float, weight_decay: float
    ) -> None:
        super().__init__(matrices, {"lr": learning_rate, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every matrix with a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            for same in _by_shape(moving):
                self._move(same, group["lr"], group["weight_decay"])
        return loss

    def _move(
        self, matrices: list[torch.nn.Parameter], learning_rate: float, weight_decay: float
    ) -> None:
        updates = orthogonal(torch.stack([self._momentum(matrix) for matrix in matrices]))
        rows, columns = matrices[0].shape
        rate = learning_rate * max(1.0, rows / columns) ** 0.5
        for matrix, update in zip(matrices, updates, strict=True):
            matrix.mul_(1 - learning_rate * weight_decay)
            matrix.add_(update, alpha=-rate)

    def _momentum(self, matrix: torch.nn.Parameter) -> torch.Tensor:
        assert matrix.grad is not None
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        buffer: torch.Tensor = state["momentum_buffer"]
        buffer.lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(buffer, MOMENTUM)


def orthogonal(matrices_BMN: torch.Tensor) -> torch.Tensor:
    """(B, M, N): each matrix with its singular values brought near 1 (0.7 to 1.2, about)."""
    tall = matrices_BMN.shape[-2] > matrices_BMN.shape[-1]
    x = matrices_BMN.mT if tall else matrices_BMN
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _by_shape(matrices: list[torch.nn.Parameter]) -> list[list[torch.nn.Parameter]]:
    groups: dict[torch.Size, list[torch.nn.Parameter]] = {}
    for matrix in matrices:
        groups.setdefault(matrix.shape, []).append(matrix)
    return list(groups.values())


class MuonAdamW(torch.optim.Optimizer):
    """Steps both; its param groups are theirs, so one schedule scales both learning rates."""

    def __init__(
        self, model: PreTrainedModel | PeftModel, muon_learning_rate: float, adamw: dict[str, Any]
    ) -> None:
        matrices, others = split_parameters(model)
        self.muon = Muon(matrices, muon_learning_rate, adamw["weight_decay"])
        self.adamw = torch.optim.AdamW(others, **{**adamw, "weight_decay": 0.0})
        super().__init__(self._groups(), defaults={})

    def _groups(self) -> list[dict[str, Any]]:
        return [*self.muon.param_groups, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter with a gradient."""
        loss = None if closure is None else closure()
        self.muon.step()
        self.adamw.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Both states, under ``muon`` and ``adamw``."""
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inverse of ``state_dict``; loading makes new groups, which are taken over."""
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        self.param_groups = self._groups()


def muon(model: PreTrainedModel | PeftModel, phase: Optimizer) -> MuonAdamW | None:
    """Muon where the phase asks for it; None leaves the optimizer to the trainer (AdamW)."""
    if phase.muon_learning_rate is None:
        return None
    adamw = {
        "lr": phase.learning_rate,
        "betas": (0.9, phase.adam_beta2),
        "weight_decay": phase.weight_decay,
    }
    return MuonAdamW(model, phase.muon_learning_rate, adamw)


def split_parameters(
    model: PreTrainedModel | PeftModel,
) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """Trainable matrices inside the layers; and all else: embeddings, the output head, vectors."""
    embeddings = (model.get_input_embeddings(), model.get_output_embeddings())
    outer = {id(p) for module in embeddings if module is not None for p in module.parameters()}
    trainable = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trainable if p.ndim == 2 and id(p) not in outer]
    inner = {id(p) for p in matrices}
    return matrices, [p for p in trainable if id(p) not in inner]

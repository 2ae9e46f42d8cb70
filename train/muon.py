"""Muon for the matrices inside the layers, AdamW for embeddings and norms, as one optimizer.

A tiny model learns in minutes what AdamW alone leaves on a plateau: to look up, from a calendar
cell, what the story says about it. Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon)
makes all directions of an update equally large, the rare ones too.
"""

from collections.abc import Callable
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel


class MuonAdamW(torch.optim.Optimizer):
    """Steps both; its param groups are theirs, so one schedule scales both learning rates."""

    def __init__(
        self, model: PreTrainedModel | PeftModel, muon_learning_rate: float, adamw: dict[str, Any]
    ) -> None:
        matrices, others = split_parameters(model)
        self.muon = torch.optim.Muon(
            matrices, lr=muon_learning_rate, weight_decay=adamw["weight_decay"]
        )
        self.adamw = torch.optim.AdamW(others, **{**adamw, "weight_decay": 0.0})
        super().__init__(self._groups(), defaults={})

    def _groups(self) -> list[dict[str, Any]]:
        return [*self.muon.param_groups, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter with a gradient."""
        loss = None if closure is None else closure()
        self.muon.step()  # type: ignore[no-untyped-call]
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

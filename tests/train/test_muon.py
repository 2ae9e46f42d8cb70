"""Muon in float32: the same update as torch's, whose iteration is in bfloat16."""

import pytest
import torch

from train.muon import Muon, orthogonal


def test_singular_values_come_near_one() -> None:
    # singular values 3, 1 and 0.1 of a diagonal matrix: directions stay, sizes become alike
    (found,) = orthogonal(torch.diag(torch.tensor([3.0, 1.0, 0.1]))[None])
    assert torch.allclose(found, torch.diag(found.diagonal()), atol=1e-6)
    assert all(0.65 < value < 1.25 for value in found.diagonal().tolist())


def test_a_tall_matrix_is_treated_as_its_transpose() -> None:
    wide = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    assert torch.allclose(orthogonal(wide.T[None])[0], orthogonal(wide[None])[0].T)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_two_steps_are_those_of_torch(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    start, *gradients = (torch.randn(*shape, generator=generator) for _ in range(3))
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    mine = Muon([ours], learning_rate=0.1, weight_decay=0.01)
    reference = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.01)
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        mine.step()
        reference.step()
    assert not torch.allclose(ours, start, atol=0.05)
    assert torch.allclose(ours, theirs, atol=0.005)  # bfloat16 has three digits


def test_a_matrix_without_gradient_stays() -> None:
    still = torch.nn.Parameter(torch.ones(2, 2))
    Muon([still], learning_rate=0.1, weight_decay=0.1).step()
    assert still.tolist() == [[1.0, 1.0], [1.0, 1.0]]

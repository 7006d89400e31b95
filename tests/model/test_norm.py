"""Batch norm as torch has it, and batch renorm: what it equals, when, and what it lets through."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from dfstrans.model.norm import LARGEST_CORRECTION, STEPS_OF_BATCH_NORM, STEPS_OF_TRANSITION, ChannelNorm

SETTLED = STEPS_OF_BATCH_NORM + STEPS_OF_TRANSITION


def settled_norm(steps: int, *, renormalise: bool) -> ChannelNorm:
    torch.manual_seed(0)
    norm = ChannelNorm(3, renormalise=renormalise)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    norm.num_batches_tracked.fill_(steps)
    return norm


def batch(seed: int = 1) -> Tensor:
    return torch.randn(8, 3, 5, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def applied(norm: ChannelNorm, x: Tensor) -> Tensor:
    """By the numbers that a block of the CNN is given."""
    gamma, beta, mean, scale = (values[:, None] for values in norm.normalisation(x))
    return gamma * (x - mean) * scale + beta


@pytest.mark.parametrize("training", [True, False])
def test_without_renorm_it_is_torch_s_batch_norm(training: bool) -> None:
    norm = settled_norm(SETTLED, renormalise=False).train(training)
    plain = nn.BatchNorm1d(3)
    plain.load_state_dict(norm.state_dict())
    x = batch()
    assert_close(applied(norm, x), plain.train(training)(x))
    assert_close(norm.state_dict(), plain.state_dict())


def test_renorm_begins_as_batch_norm() -> None:
    x = batch()
    begun = settled_norm(STEPS_OF_BATCH_NORM, renormalise=True)
    assert_close(begun(x), settled_norm(0, renormalise=False)(x))


def test_settled_renorm_trains_on_what_prediction_gives() -> None:
    norm, x = settled_norm(SETTLED, renormalise=True), batch()
    predicted = norm.eval()(x)
    assert_close(norm.train()(x), predicted)
    assert (settled_norm(SETTLED, renormalise=False)(x) - predicted).abs().max() > 0.1


def test_a_block_of_the_cnn_is_given_the_same_renorm() -> None:
    x = batch()
    assert_close(
        applied(settled_norm(SETTLED, renormalise=True), x),
        settled_norm(SETTLED, renormalise=True)(x),
        atol=1e-5,
        rtol=0,
    )


def test_renorm_lets_no_gradient_shift_or_stretch_a_batch_and_so_keeps_batch_norm_s_guard() -> None:
    norm, x = settled_norm(SETTLED, renormalise=True), batch()
    (norm(x) * torch.randn(8, 3, 5, generator=torch.Generator().manual_seed(2))).sum().backward()
    centred = x.detach() - x.detach().mean(dim=(0, 2), keepdim=True)
    assert_close(x.grad.sum(dim=(0, 2)), torch.zeros(3), atol=1e-4, rtol=0)
    assert_close((x.grad * centred).sum(dim=(0, 2)), torch.zeros(3), atol=1e-3, rtol=0)
    assert norm.weight.grad.abs().min() > 0


def test_a_batch_unlike_all_before_is_corrected_only_so_far() -> None:
    norm = settled_norm(SETTLED, renormalise=True)
    gamma, beta, _, _ = norm.normalisation(batch() * 1e6 + 1e9)
    assert_close(gamma.abs(), norm.weight.abs() * LARGEST_CORRECTION)
    assert_close(beta, norm.bias + norm.weight * LARGEST_CORRECTION)


def test_both_move_the_running_statistics_and_count_the_batches() -> None:
    for renormalise in (False, True):
        norm, x = settled_norm(7, renormalise=renormalise), batch()
        before = norm.running_mean.clone()
        norm(x)
        assert norm.num_batches_tracked == 8
        assert_close(norm.running_mean, torch.lerp(before, x.detach().mean(dim=(0, 2)), norm.momentum))


def test_one_value_per_channel_cannot_be_normalised_in_training() -> None:
    with pytest.raises(ValueError, match="more than one value per channel"):
        settled_norm(0, renormalise=True)(torch.zeros(1, 3, 1))

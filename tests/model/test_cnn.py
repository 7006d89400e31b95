"""The network per sensor and its norms: worked by hand, against torch's own layers, and in their properties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from dfstrans.model.cnn import BATCH_NORM_STEPS, LARGEST_CORRECTION, TRANSITION_STEPS, ChannelNorm, SensorCNN


def randomise_norms(module: nn.Module) -> None:
    """Give each batch norm random weights and statistics, so that none is at its harmless default."""
    for norm in (one for one in module.modules() if isinstance(one, nn.BatchNorm1d)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        norm.running_mean.normal_(0, 0.3)
        norm.running_var.uniform_(0.5, 2)


def random_cnn(
    seed: int, *, n_sensors: int = 3, blocks: int = 2, filters: int = 4, renormalise: bool = False
) -> SensorCNN:
    torch.manual_seed(seed)
    cnn = SensorCNN(n_sensors=n_sensors, blocks=blocks, filters=filters, kernel=3, renormalise=renormalise)
    randomise_norms(cnn)
    return cnn.double()


def slow_cnn(cnn: SensorCNN, segments: Tensor, filters: int) -> Tensor:
    """Sensor by sensor with torch's own layers, in the order convolution, max-pooling, ReLU, batch norm."""
    embedded = []
    for s in range(segments.shape[1]):
        own = slice(s * filters, (s + 1) * filters)
        x = segments[:, s : s + 1]
        for convolution, norm in zip(cnn.convolutions, cnn.norms, strict=True):
            x = functional.conv1d(x, convolution.weight[own], convolution.bias[own], padding="same")
            x = functional.relu(functional.max_pool1d(x, 2, 2))
            statistics = (None, None) if cnn.training else (norm.running_mean[own], norm.running_var[own])
            x = functional.batch_norm(x, *statistics, norm.weight[own], norm.bias[own], training=cnn.training)
        embedded.append(x.flatten(1))
    return torch.stack(embedded, dim=1)


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(8, 21), st.integers(1, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_all_sensors_at_once_equal_a_loop_over_sensors(
    seed: int, n_sensors: int, segment_length: int, blocks: int, training: bool
) -> None:
    cnn = random_cnn(seed, n_sensors=n_sensors, blocks=blocks).train(training)
    segments = torch.randn(5, n_sensors, segment_length, dtype=torch.float64)
    expected = slow_cnn(cnn, segments, filters=4)
    assert_close(cnn(segments), expected)
    assert expected.shape == (5, n_sensors, 4 * (segment_length // 2**blocks))


def test_one_block_worked_by_hand() -> None:
    # kernel (0, 1, 0) with weight ±1: the two filters see u and −u; pooling takes the larger of each pair, ReLU cuts
    # at 0, and an untrained batch norm in evaluation divides by √(1 + 1e-5)
    cnn = SensorCNN(n_sensors=1, blocks=1, filters=2, kernel=3).eval()
    with torch.no_grad():
        cnn.convolutions[0].weight.copy_(torch.tensor([[[0.0, 1, 0]], [[0.0, -1, 0]]]))
        cnn.convolutions[0].bias.zero_()
    segment = torch.tensor([[[1.0, 3, -4, -2, 9]]])  # the fifth point has no pair
    assert_close(cnn(segment)[0, 0], torch.tensor([3.0, 0, 0, 4]) / (1 + 1e-5) ** 0.5)


# ---- batch norm and batch renorm ----------------------------------------------------------------------------------

AFTER_TRANSITION = BATCH_NORM_STEPS + TRANSITION_STEPS


def random_norm(steps: int, *, renormalise: bool) -> ChannelNorm:
    torch.manual_seed(0)
    norm = ChannelNorm(3, renormalise=renormalise)
    randomise_norms(norm)
    norm.num_batches_tracked.fill_(steps)
    return norm


def batch() -> Tensor:
    return torch.randn(8, 3, 5, generator=torch.Generator().manual_seed(1), requires_grad=True)


@pytest.mark.parametrize("renormalise", [False, True])
def test_running_statistics_update_like_torch_batch_norm(renormalise: bool) -> None:
    norm, x = random_norm(7, renormalise=renormalise), batch()
    plain = nn.BatchNorm1d(3, momentum=norm.momentum)
    plain.load_state_dict(norm.state_dict())
    assert_close(norm(x), plain(x))  # renorm begins as batch norm
    assert_close(norm.state_dict(), plain.state_dict())


def test_renorm_trains_on_prediction_outputs_after_its_transition() -> None:
    norm, x = random_norm(AFTER_TRANSITION, renormalise=True), batch()
    predicted = norm.eval()(x)
    assert_close(norm.train()(x), predicted)
    assert (random_norm(AFTER_TRANSITION, renormalise=False)(x) - predicted).abs().max() > 0.1


def test_renorm_gradient_neither_shifts_nor_scales_a_batch() -> None:
    norm, x = random_norm(AFTER_TRANSITION, renormalise=True), batch()
    (norm(x) * torch.randn(8, 3, 5, generator=torch.Generator().manual_seed(2))).sum().backward()
    centred = x.detach() - x.detach().mean(dim=(0, 2), keepdim=True)
    assert_close(x.grad.sum(dim=(0, 2)), torch.zeros(3), atol=1e-4, rtol=0)
    assert_close((x.grad * centred).sum(dim=(0, 2)), torch.zeros(3), atol=1e-3, rtol=0)
    assert norm.weight.grad.abs().min() > 0


def test_the_correction_of_renorm_is_limited() -> None:
    norm = random_norm(AFTER_TRANSITION, renormalise=True)
    gamma, beta = norm.update(torch.full((3,), 1e9), torch.full((3,), 1e12), count=40)
    assert_close(gamma.abs(), norm.weight.abs() * LARGEST_CORRECTION)
    assert_close(beta, norm.bias + norm.weight * LARGEST_CORRECTION)


def test_one_value_per_channel_cannot_be_normalised_in_training() -> None:
    with pytest.raises(ValueError, match="more than one value per channel"):
        random_norm(0, renormalise=True)(torch.zeros(1, 3, 1))

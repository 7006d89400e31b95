"""The parts of the network: worked by hand, against torch's own layers, and in their properties."""

from __future__ import annotations

import math

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from dfstrans.model.network import (
    BATCH_NORM_STEPS,
    LARGEST_CORRECTION,
    LEAST_VARIANCE,
    TRANSITION_STEPS,
    Attention,
    ChannelNorm,
    SegmentProjection,
    SensorCNN,
    pool,
    segment_share,
)


def randomise_norms(module: nn.Module) -> None:
    """Give each batch norm random weights and statistics, so that none is at its harmless default."""
    for norm in (one for one in module.modules() if isinstance(one, nn.BatchNorm1d)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        norm.running_mean.normal_(0, 0.3)
        norm.running_var.uniform_(0.5, 2)


# ---- attention ----------------------------------------------------------------------------------------------------


def random_attention(seed: int, d_model: int = 6, heads: int = 2) -> Attention:
    torch.manual_seed(seed)
    return Attention(d_model, heads).double().requires_grad_(False)


def identity_attention(d_model: int, heads: int, *, uniform: bool = False) -> Attention:
    """Query, key and value are the input itself; or query 0, so that all keys weigh the same."""
    attention = Attention(d_model, heads).requires_grad_(False)
    for project in (attention.query, attention.key, attention.value):
        project.weight.copy_(torch.eye(d_model))
        project.bias.zero_()
    if uniform:
        attention.query.weight.zero_()
    return attention


def test_two_items_worked_by_hand_with_the_scale_of_the_equations() -> None:
    # M = 4 and one head: logits x·x'/2 = (2, 0) for the first item and (0, 8) for the second
    x = torch.tensor([[2.0, 0, 0, 0], [0, 4, 0, 0]])
    context, weights = identity_attention(4, 1)(x[None, None])
    a, b = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-8))
    assert_close(weights[0, 0, 0], torch.tensor([[a, 1 - a], [1 - b, b]]))
    assert_close(context[0, 0], torch.tensor([[2 * a, 4 * (1 - a), 0, 0], [2 * (1 - b), 4 * b, 0, 0]]))


@given(st.integers(0, 1000), st.sampled_from([1, 2, 3, 6]), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_explicit_attention_equals_torch_s_fused_one(seed: int, heads: int, n_items: int) -> None:
    attention = random_attention(seed, 6, heads)
    x = torch.randn(2, 3, n_items, 6, dtype=torch.float64)
    valid = torch.rand(2, n_items) < 0.6
    valid[:, 0] = True

    def split(y: Tensor) -> Tensor:
        return rearrange(y, "a b n (h m) -> a b h n m", h=heads)

    fused = functional.scaled_dot_product_attention(
        split(attention.query(x)),
        split(attention.key(x)),
        split(attention.value(x)),
        attn_mask=rearrange(valid, "a k -> a 1 1 1 k"),
    )
    found = attention(x, valid=valid)
    assert_close(found.context, rearrange(fused, "a b h n m -> a b n (h m)"))
    assert_close(found.weights.sum(-1), torch.ones(2, 3, heads, n_items, dtype=torch.float64))
    assert not found.weights[~valid[:, None, None, None].expand_as(found.weights)].any()


def test_dropped_weight_is_not_compensated_by_the_others() -> None:
    # all weights are 1/4; without key 0 the context is the sum of the three others, still divided by 4
    x = torch.arange(8.0).reshape(1, 1, 4, 2)
    keep = torch.tensor([0.0, 1, 1, 1])
    context, weights = identity_attention(2, 1, uniform=True)(x, keep=keep)
    assert_close(weights, torch.tensor([0, 0.25, 0.25, 0.25]).expand(1, 1, 1, 4, 4))
    assert_close(context, torch.tensor([(2 + 4 + 6) / 4, (3 + 5 + 7) / 4]).expand(1, 1, 4, 2))


def test_large_inputs_give_finite_weights() -> None:
    assert random_attention(3).float()(1e4 * torch.randn(1, 1, 4, 6)).weights.isfinite().all()


# ---- embedding ----------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("tanh", [False, True])
def test_a_projection_is_one_matrix_for_all_sensors(tanh: bool) -> None:
    segments, embed = torch.randn(4, 3, 11), SegmentProjection(11, 8, tanh=tanh)
    (matrix,) = embed.parameters()
    expected = segments @ matrix.T
    assert_close(embed(segments), expected.tanh() if tanh else expected)


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


# ---- pooling ------------------------------------------------------------------------------------------------------


def test_mean_and_deviation_of_real_segments_worked_by_hand() -> None:
    x = torch.tensor([[[1.0, 5.0], [3.0, 5.0], [100.0, 100.0]]])  # an episode of two segments and a padded one
    share = segment_share(x, torch.tensor([[True, True, False]]))
    assert_close(share, torch.tensor([[0.5, 0.5, 0.0]]))
    assert_close(pool(x, share, "mean"), torch.tensor([[2.0, 5.0]]))
    expected = torch.tensor([[2.0, 5.0, (1 + LEAST_VARIANCE) ** 0.5, LEAST_VARIANCE**0.5]])
    assert_close(pool(x, share, "mean+deviation"), expected)
    assert_close(pool(x[:, :2], None, "mean+deviation"), expected)


def test_the_deviation_of_one_segment_has_a_gradient() -> None:
    x = torch.ones(1, 1, 2, requires_grad=True)
    pool(x, None, "mean+deviation").sum().backward()
    assert x.grad.isfinite().all()

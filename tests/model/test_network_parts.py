"""The parts of the network: worked by hand, against torch's own layers, and in their properties."""

from __future__ import annotations

import math

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from dfstrans.model.network import (
    LEAST_VARIANCE,
    Attention,
    SegmentProjection,
    pool,
    segment_share,
)

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


@pytest.mark.parametrize("tanh", [False, True])
def test_a_projection_is_one_matrix_for_all_sensors(tanh: bool) -> None:
    segments, embed = torch.randn(4, 3, 11), SegmentProjection(11, 8, tanh=tanh)
    (matrix,) = embed.parameters()
    expected = segments @ matrix.T
    assert_close(embed(segments), expected.tanh() if tanh else expected)


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

"""The attention mechanism: by hand, against torch's fused one, and its masks."""

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

from dfstrans.model.attention import Attention


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


def test_each_head_sees_its_own_part_of_the_vector_and_has_the_scale_of_its_width() -> None:
    # two heads of width 2: the first sees (1, 0) and (0, 1), the second (0, 0) and (3, 0)
    x = torch.tensor([[1.0, 0, 0, 0], [0, 1, 3, 0]])
    weights = identity_attention(4, 2)(x[None, None]).weights[0, 0]
    a, b = 1 / (1 + math.exp(-1 / math.sqrt(2))), 1 / (1 + math.exp(-9 / math.sqrt(2)))
    assert_close(weights[0], torch.tensor([[a, 1 - a], [1 - a, a]]))
    assert_close(weights[1], torch.tensor([[0.5, 0.5], [1 - b, b]]))


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
    assert_close(attention(x, valid=valid).context, rearrange(fused, "a b h n m -> a b n (h m)"))


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_rows_sum_to_one_over_the_valid_keys_and_padded_keys_get_nothing(seed: int) -> None:
    attention = random_attention(seed)
    valid = torch.tensor([[True, True, False, True], [True, False, False, False]])
    weights = attention(5 * torch.randn(2, 3, 4, 6, dtype=torch.float64), valid=valid).weights
    assert weights.shape == (2, 3, 2, 4, 4)
    assert_close(weights.sum(-1), torch.ones(2, 3, 2, 4, dtype=torch.float64))
    assert (weights[0, ..., 2] == 0).all()
    assert (weights[1, ..., 1:] == 0).all()
    assert (weights[0, ..., [0, 1, 3]] > 0).all()


def test_padded_items_change_no_other_item() -> None:
    attention = random_attention(0)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    padded = torch.cat([x, 1e3 * torch.randn(2, 3, 2, 6, dtype=torch.float64)], dim=2)
    valid = torch.tensor([True] * 4 + [False] * 2).expand(2, 6)
    assert_close(attention(padded, valid=valid).context[:, :, :4], attention(x).context)


def test_a_dropped_weight_is_not_made_up_for_by_the_others() -> None:
    # all weights are 1/4; without key 0 the context is the sum of the three others, still divided by 4
    x = torch.arange(8.0).reshape(1, 1, 4, 2)
    keep = torch.tensor([0.0, 1, 1, 1])
    context, weights = identity_attention(2, 1, uniform=True)(x, keep=keep)
    assert_close(weights, torch.tensor([0, 0.25, 0.25, 0.25]).expand(1, 1, 1, 4, 4))
    assert_close(context, torch.tensor([(2 + 4 + 6) / 4, (3 + 5 + 7) / 4]).expand(1, 1, 4, 2))


def test_a_keep_mask_of_ones_changes_nothing_and_of_zeros_leaves_no_context() -> None:
    attention = random_attention(1)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    plain = attention(x)
    kept, dropped = attention(x, keep=torch.ones(2, 3, 2, 4, 4)), attention(x, keep=torch.zeros(1, 1, 1, 1, 1))
    assert_close(kept.context, plain.context, rtol=0, atol=0)
    assert_close(kept.weights, plain.weights, rtol=0, atol=0)
    assert not dropped.context.any()
    assert not dropped.weights.any()


def test_permuted_items_have_permuted_contexts() -> None:
    attention = random_attention(2)
    x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    plain, permuted = attention(x), attention(x[:, :, order])
    assert_close(permuted.context, plain.context[:, :, order])
    assert_close(permuted.weights, plain.weights[..., order, :][..., order])


def test_the_last_axis_is_the_key_that_is_attended_to() -> None:
    attention = identity_attention(2, 1)
    x = torch.tensor([[1.0, 0], [1, 0], [50, 0]])  # every item finds the third one the most alike
    assert (attention(x[None, None]).weights[0, 0, 0, :, 2] > 0.99).all()


def test_there_is_no_output_projection() -> None:
    assert dict(Attention(6, 2).named_children()).keys() == {"query", "key", "value"}


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_large_inputs_give_finite_weights(scale: float) -> None:
    attention = random_attention(3).float()
    weights = attention(scale * torch.randn(1, 1, 4, 6)).weights
    assert weights.isfinite().all()

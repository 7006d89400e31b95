"""`FastDFSTrans` and its parts against the plain network: values, gradients, statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from dfstrans.model import fast
from dfstrans.model.cnn import BATCH_NORM_STEPS, TRANSITION_STEPS
from dfstrans.model.detector import Batch, Mixing
from dfstrans.model.fast import Dropout, FastAttention, FastDFSTrans, FastFeedForward, FastSensorCNN, episodes_at_once
from dfstrans.model.network import Attention, DFSTrans, FeedForward
from dfstrans.settings import NetworkShape
from tests.model.test_cnn import random_cnn, randomise_norms

N_EPISODES, N_SEGMENTS, N_SENSORS, POINTS = 5, 4, 3, 19
LABELS = torch.tensor([0.0, 1, 0, 1, 1])
VALID = torch.arange(N_SEGMENTS) < torch.tensor([[2], [4], [4], [3], [4]])
SIZES = {"n_sensors": N_SENSORS, "segment_length": POINTS, "filters": 4, "heads": 2, "feedforward": 8, "head_width": 6}
STATISTICS = {"embedding": "statistics", "width": 8, "quantile_features": 3, "machine_features": True}
VARIANTS: list[dict[str, Any]] = [
    {},
    {**STATISTICS, "filters": None, "readout": "both", "pooling": "mean+deviation"},
    {"layers": 2, "encoding": "vanilla", "filters": 6},
    {"pooling": "mean+deviation", "quantile_features": 3, "norm": "renorm"},
    {"embedding": "tanh", "filters": 8},
    {"filters": 1, "segment_length": 64},
]


def both(part_episodes: int = 2, **changes: Any) -> tuple[FastDFSTrans, DFSTrans]:
    """A fast and a plain network with the same random weights and statistics, after the transition to renorm."""
    shape = NetworkShape.paper(**{**SIZES, "dropout": 0, **changes})
    torch.manual_seed(0)
    plain = DFSTrans(shape)
    randomise_norms(plain)
    for norm in (module for module in plain.modules() if isinstance(module, nn.BatchNorm1d)):
        norm.num_batches_tracked.fill_(BATCH_NORM_STEPS + TRANSITION_STEPS)
    values = 1
    while episodes_at_once(shape, N_SEGMENTS, values) < part_episodes:
        values += 1
    network = FastDFSTrans(shape, part_values=values)
    network.load_state_dict(plain.state_dict())
    return network, plain


def random_segments(points: int = POINTS) -> Tensor:
    return torch.randn(N_EPISODES, N_SEGMENTS, N_SENSORS, points, generator=torch.Generator().manual_seed(1))


def entropy(logits: Tensor, rows: slice) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits.float(), LABELS[rows], reduction="sum")


def assert_same_gradients(one: nn.Module, other: nn.Module, *, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    for (name, mine), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        assert_close(mine.grad, theirs.grad, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}")
    assert sum(float(parameter.grad.abs().sum()) for parameter in one.parameters()) > 0.1


# ---- the whole network ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_fast_network_starts_with_the_weights_of_the_plain_one(changes: dict[str, Any]) -> None:
    shape = NetworkShape.paper(**{**SIZES, **changes})
    states = [torch.manual_seed(3) and kind(shape).state_dict() for kind in (FastDFSTrans, DFSTrans)]
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*(state.values() for state in states), strict=True))


@pytest.mark.parametrize("valid", [None, VALID], ids=["whole", "padded"])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@torch.inference_mode()
def test_predictions_in_parts_are_those_of_the_plain_network(changes: dict[str, Any], valid: Tensor | None) -> None:
    network, plain = (one.eval() for one in both(**changes))
    segments = random_segments(plain.settings.segment_length)
    found = network(segments, valid, return_attention=True)
    expected = plain(segments, valid, return_attention=True)
    for mine, theirs in zip((*found, *found.attention), (*expected, *expected.attention), strict=True):
        if isinstance(mine, Tensor):
            assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert expected.logit.std() > 1e-3
    assert_close(network(segments, valid).logit, found.logit)


@pytest.mark.parametrize("part_episodes", [1, 2, 5, 9])
@pytest.mark.parametrize("valid", [None, VALID], ids=["whole", "padded"])
@pytest.mark.parametrize("changes", VARIANTS[:3], ids=str)
def test_a_training_step_in_parts_is_that_of_the_plain_network(
    changes: dict[str, Any], valid: Tensor | None, part_episodes: int
) -> None:
    network, plain = both(part_episodes, **changes)
    mixing = Mixing(torch.tensor(0.3), torch.tensor([4, 3, 2, 0, 1])) if part_episodes == 2 else None
    losses = [
        one.train().training_loss(Batch(random_segments(), valid, LABELS), entropy, mixing) for one in (network, plain)
    ]
    assert_close(*losses)
    for loss in losses:
        (3 * loss).backward()  # a factor of the loss reaches every gradient
    assert_same_gradients(network, plain, rtol=1e-3, atol=1e-4)
    assert_close(network.state_dict(), plain.state_dict())


def test_in_bf16_gradients_stay_near_those_of_32_bits() -> None:
    rough, exact = both(layers=2)[0], both(layers=2)[0]
    exact.training_loss(Batch(random_segments(), None, LABELS), entropy).backward()
    with torch.autocast("cpu", torch.bfloat16):
        loss = rough.training_loss(Batch(random_segments(), None, LABELS), entropy)
    loss.backward()
    for (name, mine), theirs in zip(rough.named_parameters(), exact.parameters(), strict=True):
        assert mine.grad.dtype == torch.float32
        assert float((mine.grad - theirs.grad).norm()) <= 0.1 * float(theirs.grad.norm()) + 1e-3, name


def test_frozen_layers_get_no_gradient() -> None:
    network, _ = both()
    network.head.requires_grad_(False)
    network.embedding.convolutions[0].requires_grad_(False)
    network.training_loss(Batch(random_segments(), None, LABELS), entropy).backward()
    assert network.head.weight.grad is None
    assert network.embedding.convolutions[0].weight.grad is None
    assert all(parameter.grad is not None for parameter in network.embedding.norms.parameters())
    assert network.logit.weight.grad is not None


def test_a_second_backward_pass_is_refused() -> None:
    loss = both()[0].training_loss(Batch(random_segments(), None, LABELS), entropy)
    loss.backward(retain_graph=True)
    with pytest.raises(TypeError):
        loss.backward()


def test_chunks_hold_fewer_episodes_if_each_is_large() -> None:
    slim = {"n_sensors": 38, "segment_length": 50, "filters": 8, "heads": 8}
    assert episodes_at_once(NetworkShape.paper(n_sensors=20, segment_length=100), 80) == 1
    assert episodes_at_once(NetworkShape.paper(**slim), 10) == 12
    assert episodes_at_once(NetworkShape.paper(**slim, layers=5), 10) == 2
    assert episodes_at_once(NetworkShape.paper(**{**slim, "segment_length": 512, "blocks": 8}), 10) < 4
    assert episodes_at_once(NetworkShape.paper(**slim), 1000) == 1


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_codes_of_parts_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, precision: torch.dtype) -> None:
    network, plain = both(**{**STATISTICS, "filters": None})
    segments, baseline = random_segments().flatten(0, 1), torch.rand(20, N_SENSORS, 2, 8, dtype=torch.float64) + 0.5
    monkeypatch.setattr(fast, "CACHED_VALUES", 3 * N_SENSORS * POINTS)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        found = network.codes(segments, baseline)
    for mine, theirs in zip(found, plain.codes(segments, baseline), strict=True):
        assert theirs.float().std() > 0.1
        assert torch.equal(mine, theirs.to(precision))


# ---- attention ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_items", [1, 5, 15, 16, 20])
@pytest.mark.parametrize("scale", [1.0, 60.0, 1000.0])
def test_weights_of_attention_are_a_softmax_also_of_extreme_numbers(scale: float, n_items: int) -> None:
    torch.manual_seed(0)
    logits = scale * torch.randn(6, 4, n_items, dtype=torch.float64)
    logits[0, :, n_items // 2 + 1 :] = -torch.inf  # padded
    logits[1] -= 10 * scale
    wanted = torch.rand_like(logits)
    attention, given = FastAttention(Attention(4, 2)), [logits.clone().requires_grad_() for _ in range(2)]
    weights = attention.softmax(given[0]), given[1].softmax(dim=-1)
    for one in weights:
        (one * wanted).sum().backward()
    assert_close(*weights)
    assert_close(*(one.grad for one in given))


def test_weights_of_attention_have_32_bits_in_bf16() -> None:
    for n_items in (5, 20):
        logits = torch.randn(6, n_items).bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            assert_close(FastAttention(Attention(4, 2)).softmax(logits), logits.float().softmax(dim=-1))


# ---- the CNN --------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 1000),
    st.integers(1, 4),
    st.integers(8, 21),
    st.integers(1, 3),
    st.sampled_from([1, 4, 8, 9]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_the_fast_cnn_equals_the_plain_one(
    seed: int, n_sensors: int, length: int, blocks: int, filters: int, renormalise: bool, training: bool
) -> None:
    sizes = {"n_sensors": n_sensors, "blocks": blocks, "filters": filters, "renormalise": renormalise}
    quick, plain = FastSensorCNN(random_cnn(seed, **sizes)).train(training), random_cnn(seed, **sizes).train(training)
    segments = torch.randn(6, n_sensors, length, dtype=torch.float64)
    weight = torch.randn(6, n_sensors, filters * (length // 2**blocks), dtype=torch.float64)
    found, expected = quick(segments), plain(segments)
    # the autograd function computes in 64 bits here, as nothing is cast without autocast
    assert_close(found, expected)
    for embedded in (found, expected):
        (embedded * weight).sum().backward()
    for mine, theirs in zip(quick.parameters(), plain.parameters(), strict=True):
        assert_close(mine.grad, theirs.grad)
    assert_close(quick.state_dict(), plain.state_dict())


def test_blocks_of_the_cnn_work_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = torch.randn(7, 3, 11, dtype=torch.float64)
    whole, parted = (FastSensorCNN(random_cnn(0, renormalise=True)) for _ in range(2))
    expected = whole(segments)
    expected.square().sum().backward()
    monkeypatch.setattr(fast, "CACHED_VALUES", 300)  # two segments of the first block
    found = parted(segments)
    found.square().sum().backward()
    assert_close(found, expected)
    for mine, theirs in zip(parted.parameters(), whole.parameters(), strict=True):
        assert_close(mine.grad, theirs.grad)


def test_cnn_gives_an_input_gradient_on_request() -> None:
    segments = torch.randn(4, 3, 11, dtype=torch.float64, requires_grad=True)
    grads = [
        torch.autograd.grad(cnn(segments).square().sum(), segments)[0]
        for cnn in (FastSensorCNN(random_cnn(0)), random_cnn(0))
    ]
    assert_close(*grads)


# ---- the feed-forward network ---------------------------------------------------------------------------------------

D, WIDTH = 4, 12


def feedforwards(block_rows: int, dtype: torch.dtype = torch.float32) -> tuple[FastFeedForward, FeedForward]:
    torch.manual_seed(0)
    plain, copied = FeedForward(D, WIDTH).to(dtype), FeedForward(D, WIDTH).to(dtype)
    copied.load_state_dict(plain.state_dict())
    return FastFeedForward(copied, block_rows=block_rows), plain


@pytest.mark.parametrize("block_rows", [1, 3, 5, 15, 1024])
@pytest.mark.parametrize("shape", [(15, D), (3, 5, D), (1, D), (16, D), (2, 7, D)])
def test_the_blocked_feed_forward_network_equals_the_plain_one(shape: tuple[int, ...], block_rows: int) -> None:
    blocked, plain = feedforwards(block_rows)
    x, weight = torch.randn(shape), torch.randn(shape)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [one(own) for one, own in zip((blocked, plain), inputs, strict=True)]
    assert_close(*outputs)
    for output in outputs:
        (output * weight).sum().backward()
    assert_close(inputs[0].grad, inputs[1].grad)
    assert_same_gradients(blocked, plain)
    with torch.inference_mode():
        assert torch.equal(blocked(x), outputs[0])


def test_gradients_of_the_feed_forward_network_equal_finite_differences() -> None:
    blocked, _ = feedforwards(2, torch.float64)
    x = torch.randn(5, D, dtype=torch.float64, requires_grad=True)
    # the gradients of the weights are summed in single precision, which these tolerances allow for
    assert torch.autograd.gradcheck(lambda x, *_: blocked(x), (x, *blocked.parameters()), eps=1e-6, atol=1e-4)


def test_inputs_that_are_not_contiguous_are_accepted() -> None:
    blocked, plain = feedforwards(4)
    x = torch.randn(3, D, 5).transpose(1, 2)
    assert_close(blocked(x), plain(x.contiguous()))


# ---- dropout --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(400, 501), (7,), (3, 1, 5)])
def test_dropout_keeps_the_mean_and_passes_gradients(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    dropped = Dropout(0.3).train()(x)
    dropped.sum().backward()
    assert_close(x.grad, dropped.detach())
    kept = dropped[dropped != 0].detach()
    assert_close(kept, torch.full_like(kept, 1 / 0.7), rtol=1e-4, atol=0)
    if x.numel() > 1000:
        zeros = (dropped == 0).float()
        assert float(zeros.mean()) == pytest.approx(0.3, abs=0.005)
        assert float((zeros[:, 1:] * zeros[:, :-1]).mean()) == pytest.approx(0.09, abs=0.004)  # independent neighbours


def test_dropout_is_seeded_and_inactive_in_evaluation() -> None:
    x, dropout = torch.ones(50, 50), Dropout(0.5)
    first, second = (torch.manual_seed(3) and dropout(x) for _ in range(2))
    assert torch.equal(first, second)
    assert dropout.eval()(x) is x

"""A loss taken part by part against the plain forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dfstrans.model import network as network_module
from dfstrans.model.mixing import Mixing
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkShape

N_EPISODES, N_SEGMENTS, N_SENSORS = 5, 4, 3
LABELS = torch.tensor([0.0, 1, 0, 1, 1])
VALUES_OF_AN_EPISODE = N_SEGMENTS * N_SENSORS * 2 * (8 + 2 * (N_SEGMENTS + N_SENSORS))  # layers, d_model, heads × axes


def random_network(**changes: int) -> DFSTrans:
    torch.manual_seed(0)
    shape = {"segment_length": 16, "filters": 4, "heads": 2, "feedforward": 8, "head_width": 6, "layers": 2}
    return DFSTrans(NetworkShape.paper(n_sensors=N_SENSORS, dropout=0, **shape, **changes)).train()


@pytest.fixture
def network() -> DFSTrans:
    return random_network()


@pytest.fixture
def segments() -> Tensor:
    return torch.randn(N_EPISODES, N_SEGMENTS, N_SENSORS, 16, generator=torch.Generator().manual_seed(1))


def entropy(logits: Tensor, rows: slice) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits.float(), LABELS[rows], reduction="sum")


def gradients(network: DFSTrans, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    network.zero_grad()
    loss().backward()
    return {name: parameter.grad.clone() for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("episodes_at_once", [1, 2, 5, 9])
@pytest.mark.parametrize("padded", [False, True])
def test_loss_and_gradients_are_those_of_the_whole_batch(
    network: DFSTrans, segments: Tensor, monkeypatch: pytest.MonkeyPatch, episodes_at_once: int, padded: bool
) -> None:
    monkeypatch.setattr(network_module, "PART_VALUES", episodes_at_once * VALUES_OF_AN_EPISODE)
    assert network.episodes_at_once(segments) == episodes_at_once
    valid = torch.ones(N_EPISODES, N_SEGMENTS, dtype=torch.bool)
    valid[0, 2:] = valid[3, 3:] = not padded
    whole = gradients(network, lambda: entropy(network(segments, valid).logit, slice(None)))
    by_parts = gradients(network, lambda: network.training_loss(segments, valid, LABELS, entropy))
    for name, expected in whole.items():
        torch.testing.assert_close(
            by_parts[name], expected, rtol=1e-4, atol=1e-6, msg=lambda m, name=name: f"{name}: {m}"
        )
    assert sum(float(grad.abs().sum()) for grad in whole.values()) > 0.1
    torch.testing.assert_close(
        network.training_loss(segments, valid, LABELS, entropy), entropy(network(segments, valid).logit, slice(None))
    )


@pytest.mark.parametrize("episodes_at_once", [1, 2, 5])
def test_pairs_mixed_after_the_embedding_have_the_gradients_of_the_whole_batch(
    segments: Tensor, monkeypatch: pytest.MonkeyPatch, episodes_at_once: int
) -> None:
    network, mixing = random_network(quantile_features=3), Mixing(torch.tensor(0.3), torch.tensor([4, 3, 2, 0, 1]))
    monkeypatch.setattr(network_module, "PART_VALUES", episodes_at_once * VALUES_OF_AN_EPISODE)
    assert network.episodes_at_once(segments) == episodes_at_once
    valid = torch.ones(N_EPISODES, N_SEGMENTS, dtype=torch.bool)
    valid[0, 2:] = valid[3, 3:] = False

    def loss_at_once() -> Tensor:
        mixed = mixing.of_segments(network.embed(segments, valid), valid)
        return entropy(network.attend(mixed, valid).logit, slice(None))

    whole = gradients(network, loss_at_once)
    by_parts = gradients(network, lambda: network.training_loss(segments, valid, LABELS, entropy, mixing))
    assert float(whole["quantile_features.weight"].abs().sum()) > 0.01
    for name, expected in whole.items():
        torch.testing.assert_close(
            by_parts[name], expected, rtol=1e-4, atol=1e-6, msg=lambda m, name=name: f"{name}: {m}"
        )


def test_a_factor_of_the_loss_reaches_every_gradient(network: DFSTrans, segments: Tensor) -> None:
    once = gradients(network, lambda: network.training_loss(segments, None, LABELS, entropy))
    thrice = gradients(network, lambda: 3 * network.training_loss(segments, None, LABELS, entropy))
    for name, grad in once.items():
        torch.testing.assert_close(thrice[name], 3 * grad)


def test_in_bf16_gradients_stay_near_those_of_32_bits(
    network: DFSTrans, segments: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_module, "PART_VALUES", 2 * VALUES_OF_AN_EPISODE)
    exact = gradients(network, lambda: network.training_loss(segments, None, LABELS, entropy))
    with torch.autocast("cpu", torch.bfloat16):
        loss = network.training_loss(segments, None, LABELS, entropy)
    rounded = gradients(network, lambda: loss)
    for name, grad in rounded.items():
        assert grad.dtype == torch.float32
        assert float((grad - exact[name]).norm()) <= 0.1 * float(exact[name].norm()) + 1e-3, name


def test_frozen_layers_are_left_alone(network: DFSTrans, segments: Tensor) -> None:
    network.head.requires_grad_(False)
    network.embedding.convolutions[0].requires_grad_(False)
    network.training_loss(segments, None, LABELS, entropy).backward()
    assert network.head.weight.grad is None
    assert network.embedding.convolutions[0].weight.grad is None
    assert all(parameter.grad is not None for parameter in network.embedding.norms.parameters())
    assert network.logit.weight.grad is not None


def test_a_second_backward_pass_is_refused(network: DFSTrans, segments: Tensor) -> None:
    loss = network.training_loss(segments, None, LABELS, entropy)
    loss.backward(retain_graph=True)
    with pytest.raises(TypeError):
        loss.backward()

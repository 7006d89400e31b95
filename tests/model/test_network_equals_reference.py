"""The network against the same network written as loops over sensors and segments."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.reference import LoopNetwork, copy_weights, is_per_sensor, names_in_reference
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkSettings

N_SEGMENTS = 5


VARIANTS = [
    {"layers": 1, "heads": 1},
    {"layers": 1, "heads": 4},
    {"layers": 2, "heads": 4},
    {"layers": 1, "heads": 4, "pooling": "mean+deviation"},
]


@pytest.fixture(params=VARIANTS, ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[DFSTrans, LoopNetwork]:
    settings = NetworkSettings(
        n_sensors=3, segment_length=19, filters=4, feedforward=32, head_width=16, dropout=0, **request.param
    )
    torch.manual_seed(0)
    network = DFSTrans(settings)
    for norm in (module for module in network.modules() if isinstance(module, torch.nn.BatchNorm1d)):
        norm.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
        norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    reference = LoopNetwork(settings, N_SEGMENTS)
    copy_weights(network, reference)
    return network, reference


@pytest.fixture
def segments() -> Tensor:
    return torch.randn(6, N_SEGMENTS, 3, 19, generator=torch.Generator().manual_seed(1))


def test_logits_equal_those_of_the_loops(pair: tuple[DFSTrans, LoopNetwork], segments: Tensor) -> None:
    network, reference = (model.eval() for model in pair)
    with torch.inference_mode():
        expected = reference(segments)
        torch.testing.assert_close(network(segments).logit, expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 1e-3  # the episodes are told apart, so equality says something


def test_gradients_equal_those_of_the_loops(pair: tuple[DFSTrans, LoopNetwork], segments: Tensor) -> None:
    network, reference = (model.train() for model in pair)
    labels = torch.tensor([0.0, 1, 0, 0, 1, 1])
    functional.binary_cross_entropy_with_logits(network(segments).logit, labels).backward()
    functional.binary_cross_entropy_with_logits(reference(segments), labels).backward()
    theirs = dict(reference.named_parameters())
    for name, parameter in network.named_parameters():
        copies = [theirs[copy].grad for copy in names_in_reference(name, reference)]
        expected = torch.cat(copies) if is_per_sensor(name) else torch.stack(copies).sum(0)
        torch.testing.assert_close(
            parameter.grad, expected, rtol=1e-3, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}"
        )


def test_batch_norm_learns_the_statistics_of_the_loops(pair: tuple[DFSTrans, LoopNetwork], segments: Tensor) -> None:
    network, reference = (model.train() for model in pair)
    network(segments)
    reference(segments)
    theirs = reference.state_dict()
    for name, value in network.state_dict().items():
        if "running" in name:
            expected = torch.cat([theirs[copy] for copy in names_in_reference(name, reference)])
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6)

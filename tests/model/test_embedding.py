"""Embeddings: each sensor by itself, equal to an obvious loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from dfstrans.model.embedding import SegmentProjection, SensorCNN, build_embedding
from dfstrans.settings import NetworkShape


def tiny(**changes: object) -> NetworkShape:
    return NetworkShape.paper(
        **{"n_sensors": 3, "segment_length": 11, "blocks": 2, "filters": 4, "kernel": 3, "heads": 2, **changes}
    )


def random_cnn(seed: int, **changes: object) -> SensorCNN:
    torch.manual_seed(seed)
    cnn = SensorCNN(tiny(**changes))
    for norm in cnn.norms:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
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
    cnn = random_cnn(seed, n_sensors=n_sensors, segment_length=segment_length, blocks=blocks).train(training)
    segments = torch.randn(5, n_sensors, segment_length, dtype=torch.float64)
    expected = slow_cnn(cnn, segments, filters=4)
    assert_close(cnn(segments), expected)
    assert expected.shape == (5, n_sensors, 4 * (segment_length // 2**blocks))


def test_gradients_equal_those_of_the_loop() -> None:
    segments = torch.randn(6, 3, 11, dtype=torch.float64)
    fast, slow = random_cnn(0), random_cnn(0)
    weights = torch.randn(6, 3, 8, dtype=torch.float64)
    (fast(segments) * weights).sum().backward()
    (slow_cnn(slow, segments, filters=4) * weights).sum().backward()
    for (name, one), other in zip(fast.named_parameters(), slow.parameters(), strict=True):
        assert one.grad.abs().sum() > 0 or name.endswith("bias")
        assert_close(one.grad, other.grad)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("embedding", ["cnn", "linear", "tanh"])
@pytest.mark.parametrize("changed", [0, 1, 2])
def test_a_sensor_s_embedding_sees_only_that_sensor(embedding: str, changed: int, training: bool) -> None:
    torch.manual_seed(0)
    embed = build_embedding(tiny(embedding=embedding)).train(training)
    segments = torch.randn(4, 3, 11)
    other = segments.clone()
    other[:, changed] = torch.randn(4, 11)
    differs = (embed(segments) != embed(other)).any(dim=2).any(dim=0)
    assert differs.tolist() == [s == changed for s in range(3)]


def test_each_sensor_has_weights_of_its_own() -> None:
    cnn = random_cnn(0).eval()
    same = torch.randn(4, 1, 11, dtype=torch.float64).expand(4, 3, 11)
    embedded = cnn(same)
    assert not torch.allclose(embedded[:, 0], embedded[:, 1])
    assert not torch.allclose(embedded[:, 1], embedded[:, 2])


def test_linear_and_tanh_embeddings_are_one_matrix_for_all_sensors() -> None:
    segments = torch.randn(4, 3, 11)
    for name, function in (("linear", lambda x: x), ("tanh", torch.tanh)):
        embed = build_embedding(tiny(embedding=name))
        assert isinstance(embed, SegmentProjection)
        (matrix,) = embed.parameters()
        assert matrix.shape == (8, 11)
        assert_close(embed(segments), function(segments @ matrix.T))


def test_one_block_worked_by_hand() -> None:
    # kernel (0, 1, 0) with weight ±1: the two filters see u and −u; pooling takes the larger of each pair, ReLU cuts
    # at 0, and an untrained batch norm in evaluation divides by √(1 + 1e-5)
    cnn = SensorCNN(NetworkShape.paper(n_sensors=1, segment_length=5, blocks=1, filters=2, kernel=3, heads=1)).eval()
    with torch.no_grad():
        cnn.convolutions[0].weight.copy_(torch.tensor([[[0.0, 1, 0]], [[0.0, -1, 0]]]))
        cnn.convolutions[0].bias.zero_()
    segment = torch.tensor([[[1.0, 3, -4, -2, 9]]])  # the fifth point has no pair
    assert_close(cnn(segment)[0, 0], torch.tensor([3.0, 0, 0, 4]) / (1 + 1e-5) ** 0.5)

"""Statistics of a segment, coded by quantiles of the training part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dfstrans.model.quantile_features import QuantileFeatures, statistics
from dfstrans.settings import NetworkShape

S, P, D = 3, 8, 8  # sensors, points in a segment, d_model


def slow_features(features: QuantileFeatures, segments: Tensor) -> Tensor:
    """(segment, sensor, point) → (segment, sensor, d_model), number by number."""
    n, s, _ = segments.shape
    embedded = segments.new_zeros(n, s, features.weight.shape[-1])
    steps = features.edges.shape[-1] - 1
    for i in range(n):
        for sensor in range(s):
            x = segments[i, sensor].numpy()
            moves = np.abs(np.diff(x))
            values = (x.mean(), x.std(), x.min(), x.max(), moves.mean(), moves.max())
            for k, value in enumerate(values):
                for step in range(steps):
                    low, high = features.edges[sensor, k, step : step + 2].tolist()
                    passed = min(max((value - low) / max(high - low, 1e-4), 0.0), 1.0)
                    embedded[i, sensor] += passed * features.weight[sensor, k * steps + step].detach()
    return embedded


def random_features(steps: int = 4) -> QuantileFeatures:
    torch.manual_seed(0)
    shape = {"n_sensors": S, "segment_length": P, "blocks": 2, "filters": 4, "heads": 2}
    return QuantileFeatures(NetworkShape.paper(**shape, quantile_features=steps)).double()


def random_part(n_batches: int, size: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches of `size` episodes of two segments, the second of each last episode padded."""
    torch.manual_seed(1)
    part = []
    for _ in range(n_batches):
        valid = torch.ones(size, 2, dtype=torch.bool)
        valid[-1, 1] = False
        segments = torch.rand(size, 2, S, P, dtype=torch.float64)
        segments[~valid] = torch.nan
        part.append((segments, valid, torch.zeros(size)))
    return part


def test_features_equal_a_loop_whatever_axes_come_first() -> None:
    features = random_features()
    features.fit(random_part(3, 5))
    segments = 1.5 * torch.rand(2, 3, S, P, dtype=torch.float64) - 0.25  # also outside of what was seen
    with torch.no_grad():
        found = features(segments)
    assert_close(found.flatten(0, 1), slow_features(features, segments.flatten(0, 1)))


def test_steps_end_at_the_quantiles_of_the_training_part() -> None:
    features = random_features(10)
    part = random_part(4, 6)
    features.fit(part)
    seen = torch.cat([statistics(segments[valid]) for segments, valid, _ in part])  # (n, s, k)
    assert len(seen) == 4 * 11
    expected = np.quantile(seen.numpy(), np.linspace(0, 1, 11), axis=0).transpose(1, 2, 0)
    assert_close(features.edges, torch.as_tensor(expected))


def test_every_batch_of_a_large_training_part_is_sampled() -> None:
    part = [(torch.full((10, 2, S, P), float(n)), torch.ones(10, 2, dtype=torch.bool), torch.zeros(10)) for n in (0, 1)]
    features = random_features(2)
    features.fit(part, most_segments=12)
    assert_close(features.edges[0, 0], torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))


def test_a_sensor_that_never_moved_in_training_has_features_of_zero() -> None:
    features = random_features(4)
    still = torch.zeros(20, 1, S, P, dtype=torch.float64)
    features.fit([(still, torch.ones(20, 1, dtype=torch.bool), torch.zeros(20))])
    moved = still[:1].clone()
    moved[..., 3] = 0.01
    with torch.no_grad():
        at_rest, after = features(still[:1]), features(moved)
    assert not at_rest.any()
    assert not after.any()  # nothing could teach their weights; the convolutions see the move


@pytest.mark.parametrize(("n_batches", "size", "segments"), [(40, 8, 10), (400, 4, 5)])
def test_segments_are_sampled_from_the_whole_training_part(n_batches: int, size: int, segments: int) -> None:
    place = torch.arange(float(segments))[:, None, None].expand(size, segments, S, P)  # the level is the place
    features = random_features(2)
    features.fit(
        [(place, torch.ones(size, segments, dtype=torch.bool), torch.zeros(size))] * n_batches, most_segments=300
    )
    low, middle, high = features.edges[0, 0].tolist()
    assert (low, high) == (0, segments - 1)
    assert middle == pytest.approx((segments - 1) / 2, abs=1)


def test_a_constant_segment_has_a_finite_gradient() -> None:
    features = random_features()
    segments = torch.zeros(2, S, P, dtype=torch.float64, requires_grad=True)
    features(segments).sum().backward()
    assert segments.grad.isfinite().all()

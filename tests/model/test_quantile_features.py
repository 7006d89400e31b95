"""Statistics of a segment, coded by quantiles of the training part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dfstrans.model import quantile_features as features_module
from dfstrans.model.quantile_features import STATISTICS, QuantileFeatures, statistics
from dfstrans.settings import NetworkShape

S, P, D = 3, 8, 8  # sensors, points in a segment, d_model


def slow_levels(levels: QuantileFeatures, segments: Tensor) -> Tensor:
    """(segment, sensor, point) → (segment, sensor, d_model), number by number."""
    n, s, _ = segments.shape
    embedded = segments.new_zeros(n, s, levels.weight.shape[-1])
    steps = levels.edges.shape[-1] - 1
    for i in range(n):
        for sensor in range(s):
            x = segments[i, sensor].numpy()
            moves = np.abs(np.diff(x))
            values = (x.mean(), x.std(), x.min(), x.max(), moves.mean(), moves.max())
            for k, value in enumerate(values):
                for step in range(steps):
                    low, high = levels.edges[sensor, k, step : step + 2].tolist()
                    passed = min(max((value - low) / max(high - low, 1e-4), 0.0), 1.0)
                    embedded[i, sensor] += passed * levels.weight[sensor, k * steps + step].detach()
    return embedded


def random_levels(steps: int = 4) -> QuantileFeatures:
    torch.manual_seed(0)
    shape = {"n_sensors": S, "segment_length": P, "blocks": 2, "filters": 4, "heads": 2}
    return QuantileFeatures(NetworkShape.paper(**shape, quantile_features=steps)).double()


def random_part(n_batches: int, size: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches of `size` episodes of two segments, the second of each last episode padded with nothing."""
    torch.manual_seed(1)
    part = []
    for _ in range(n_batches):
        valid = torch.ones(size, 2, dtype=torch.bool)
        valid[-1, 1] = False
        segments = torch.rand(size, 2, S, P, dtype=torch.float64)
        segments[~valid] = torch.nan
        part.append((segments, valid, torch.zeros(size)))
    return part


def test_levels_equal_a_loop_whatever_axes_come_first() -> None:
    levels = random_levels()
    levels.fit(random_part(3, 5))
    segments = 1.5 * torch.rand(2, 3, S, P, dtype=torch.float64) - 0.25  # also outside of what was seen
    with torch.no_grad():
        found = levels(segments)
    assert_close(found.flatten(0, 1), slow_levels(levels, segments.flatten(0, 1)))


def test_steps_end_at_the_quantiles_of_each_sensor_and_statistic_of_the_training_part() -> None:
    levels = random_levels(10)
    part = random_part(4, 6)
    levels.fit(part)
    seen = torch.cat([statistics(segments[valid]) for segments, valid, _ in part])  # (n, s, k)
    assert len(seen) == 4 * 11
    expected = np.quantile(seen.numpy(), np.linspace(0, 1, 11), axis=0).transpose(1, 2, 0)
    assert_close(levels.edges, torch.as_tensor(expected))


def test_a_statistic_at_its_median_has_passed_half_of_the_steps() -> None:
    levels = random_levels(4)
    levels.fit(random_part(20, 10))
    with torch.no_grad():
        levels.weight.fill_(1.0)
    # with weights of one, what comes out is how many steps all statistics together have passed
    segments = torch.cat([segments[valid] for segments, valid, _ in random_part(20, 10)])
    passed = levels(segments)[..., 0].detach()
    assert passed.mean() == pytest.approx(STATISTICS * 4 / 2, rel=0.02)


def test_of_a_large_training_part_some_segments_of_every_batch_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_module, "MOST_SEGMENTS", 12)
    part = [(torch.full((10, 2, S, P), float(n)), torch.ones(10, 2, dtype=torch.bool), torch.zeros(10)) for n in (0, 1)]
    levels = random_levels(2)
    levels.fit(part)
    assert_close(levels.edges[0, 0], torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))


def test_a_sensor_that_never_moved_has_nothing_to_say() -> None:
    levels = random_levels(4)
    still = torch.zeros(20, 1, S, P, dtype=torch.float64)
    levels.fit([(still, torch.ones(20, 1, dtype=torch.bool), torch.zeros(20))])
    moved = still[:1].clone()
    moved[..., 3] = 0.01
    with torch.no_grad():
        at_rest, after = levels(still[:1]), levels(moved)
    assert not at_rest.any()
    assert not after.any()  # what a move means nothing could teach; the convolutions see it


@pytest.mark.parametrize(("n_batches", "size", "segments"), [(40, 8, 10), (400, 4, 5)])
def test_segments_of_a_large_training_part_are_drawn_from_all_places(
    n_batches: int, size: int, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features_module, "MOST_SEGMENTS", 300)
    place = torch.arange(float(segments))[:, None, None].expand(size, segments, S, P)  # the level is the place
    levels = random_levels(2)
    levels.fit([(place, torch.ones(size, segments, dtype=torch.bool), torch.zeros(size))] * n_batches)
    low, middle, high = levels.edges[0, 0].tolist()
    assert (low, high) == (0, segments - 1)
    assert middle == pytest.approx((segments - 1) / 2, abs=1)


def test_the_input_of_a_still_segment_has_a_gradient() -> None:
    levels = random_levels()
    segments = torch.zeros(2, S, P, dtype=torch.float64, requires_grad=True)
    levels(segments).sum().backward()
    assert segments.grad.isfinite().all()

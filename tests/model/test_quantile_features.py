"""Statistics of a segment, coded by quantiles of the training part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dfstrans.data.coupling import Coupling
from dfstrans.data.statistics import segment_statistics
from dfstrans.model.detector import Batch
from dfstrans.model.quantile_features import MachineFeatures, QuantileFeatures, draw_segments, statistics
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


def embedded(features: QuantileFeatures | MachineFeatures, *found: Tensor | None) -> Tensor:
    return features(features.code(*found))


def random_features(steps: int = 4) -> QuantileFeatures:
    torch.manual_seed(0)
    shape = {"n_sensors": S, "segment_length": P, "blocks": 2, "filters": 4, "heads": 2}
    return QuantileFeatures(NetworkShape.paper(**shape, quantile_features=steps)).double()


def random_part(n_batches: int, size: int) -> list[Batch]:
    """Batches of `size` episodes of two segments, the second of each last episode padded."""
    torch.manual_seed(1)
    part = []
    for _ in range(n_batches):
        valid = torch.ones(size, 2, dtype=torch.bool)
        valid[-1, 1] = False
        segments = torch.rand(size, 2, S, P, dtype=torch.float64)
        segments[~valid] = torch.nan
        part.append(Batch(segments, valid, torch.zeros(size)))
    return part


def drawn_statistics(part: list[Batch], **limits: int) -> Tensor:
    return statistics(torch.cat([segments for segments, _ in draw_segments(part, **limits)]))


def test_features_equal_a_loop_whatever_axes_come_first() -> None:
    features = random_features()
    features.fit(drawn_statistics(random_part(3, 5)))
    segments = 1.5 * torch.rand(2, 3, S, P, dtype=torch.float64) - 0.25  # also outside of what was seen
    with torch.no_grad():
        found = embedded(features, statistics(segments))
    assert_close(found.flatten(0, 1), slow_features(features, segments.flatten(0, 1)))


def test_steps_end_at_the_quantiles_of_the_training_part() -> None:
    features = random_features(10)
    part = random_part(4, 6)
    features.fit(drawn_statistics(part))
    seen = torch.cat([statistics(one.segments[one.valid]) for one in part])  # (n, s, k)
    assert len(seen) == 4 * 11
    expected = np.quantile(seen.numpy(), np.linspace(0, 1, 11), axis=0).transpose(1, 2, 0)
    assert_close(features.edges, torch.as_tensor(expected))


def test_every_batch_of_a_large_training_part_is_sampled() -> None:
    full, valid = torch.full((10, 2, S, P), 1.0), torch.ones(10, 2, dtype=torch.bool)
    features = random_features(2)
    part = [Batch(level * full, valid, torch.zeros(10)) for level in (0, 1)]
    features.fit(drawn_statistics(part, most_segments=12))
    assert_close(features.edges[0, 0], torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64))


def test_a_sensor_that_never_moved_in_training_has_features_of_zero() -> None:
    features = random_features(4)
    still = torch.zeros(20, 1, S, P, dtype=torch.float64)
    features.fit(statistics(still[:, 0]))
    moved = still[:1].clone()
    moved[..., 3] = 0.01
    with torch.no_grad():
        at_rest, after = (embedded(features, statistics(one)) for one in (still[:1], moved))
    assert not at_rest.any()
    assert not after.any()  # nothing could teach their weights; the convolutions see the move


@pytest.mark.parametrize(("n_batches", "size", "segments"), [(40, 8, 10), (400, 4, 5)])
def test_segments_are_sampled_from_the_whole_training_part(n_batches: int, size: int, segments: int) -> None:
    place = torch.arange(float(segments))[:, None, None].expand(size, segments, S, P)  # the level is the place
    features = random_features(2)
    part = [Batch(place, torch.ones(size, segments, dtype=torch.bool), torch.zeros(size))] * n_batches
    features.fit(drawn_statistics(part, most_segments=300))
    low, middle, high = features.edges[0, 0].tolist()
    assert (low, high) == (0, segments - 1)
    assert middle == pytest.approx((segments - 1) / 2, abs=1)


def test_a_constant_segment_has_a_finite_gradient() -> None:
    features = random_features()
    segments = torch.zeros(2, S, P, dtype=torch.float64, requires_grad=True)
    embedded(features, statistics(segments)).sum().backward()
    assert segments.grad.isfinite().all()


# ---- each machine against itself ------------------------------------------------------------------------------------


def machine_features() -> MachineFeatures:
    torch.manual_seed(0)
    shape = {"n_sensors": S, "segment_length": P, "blocks": 2, "filters": 4, "heads": 2, "quantile_features": 4}
    return MachineFeatures(NetworkShape.paper(**shape)).double()


def with_residual() -> Tensor:
    """Random statistics of 40 segments, those of residuals last: (40, s, 8)."""
    return torch.cat([statistics(torch.rand(40, S, P, dtype=torch.float64)), torch.rand(40, S, 2).double()], dim=-1)


def test_a_machine_at_another_level_looks_the_same_beside_its_own_baseline() -> None:
    features, found = machine_features(), with_residual()
    scale, level = 3.0, torch.tensor([5.0, 0, 5, 5, 0, 0, 0, 0])  # mean, deviation, minimum, maximum, steps, residual
    centre, spread = found.median(dim=0).values, found.std(dim=0)
    own = torch.stack([centre, spread], dim=1).expand(40, S, 2, -1)
    other = torch.stack([scale * centre + level, scale * spread], dim=1).expand(40, S, 2, -1)
    features.fit(found, own)
    with torch.no_grad():
        assert_close(embedded(features, scale * found + level, other), embedded(features, found, own))
        assert not torch.allclose(embedded(features, scale * found + level, own), embedded(features, found, own))


def test_a_machine_without_a_baseline_is_compared_with_the_fleet() -> None:
    features, found = machine_features(), with_residual()
    features.fit(found, None)
    unknown = torch.full((40, S, 2, found.shape[-1]), torch.nan, dtype=torch.float64)
    with torch.no_grad():
        assert_close(embedded(features, found, unknown), embedded(features, found, None))
    middle = features.deviations(found, None).median(dim=0).values
    assert_close(middle, torch.zeros_like(middle), atol=0.2, rtol=0)


def test_all_sensors_share_what_is_learned_from_deviations() -> None:
    features, found = machine_features(), with_residual()
    features.fit(found, None)
    order = [2, 0, 1]
    baseline = torch.rand(40, S, 2, found.shape[-1], dtype=torch.float64) + 0.5
    with torch.no_grad():
        assert_close(
            embedded(features, found[:, order], baseline[:, order]), embedded(features, found, baseline)[:, order]
        )


def test_residuals_are_those_that_the_trees_see() -> None:
    features, segments = machine_features(), torch.rand(4, S, P)
    rng = np.random.default_rng(0)
    coupling = Coupling(rng.normal(size=(S, S)), rng.normal(size=S))
    features.coupling.copy_(torch.from_numpy(np.c_[coupling.weights, coupling.centre]))
    found = features.with_residual(statistics(segments), segments)
    assert_close(found, torch.from_numpy(segment_statistics(segments.numpy(), coupling)))

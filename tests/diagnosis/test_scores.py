from __future__ import annotations

import numpy as np
import pytest

from dfstrans.diagnosis import scores

# two sensors, two segments; the last axis is what is attended to
TEMPORAL = np.array([[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.5, 0.5]]])
SPATIAL = np.array([[[0.2, 0.8], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])


def test_temporal_relevance_is_the_column_sum_worked_by_hand() -> None:
    np.testing.assert_allclose(scores.temporal_relevance(TEMPORAL), [[1.5, 0.5], [1.0, 1.0]])


def test_global_temporal_scores_are_means_over_sensors_worked_by_hand() -> None:
    np.testing.assert_allclose(scores.global_temporal_attention(TEMPORAL), [[0.7, 0.3], [0.55, 0.45]])
    np.testing.assert_allclose(scores.global_temporal_relevance(TEMPORAL), [1.25, 0.75])


def test_spatial_relevance_is_the_column_sum_worked_by_hand() -> None:
    np.testing.assert_allclose(scores.spatial_relevance(SPATIAL), [[0.3, 1.7], [1.0, 1.0]])


def test_global_spatial_scores_weigh_each_moment_by_its_relevance_worked_by_hand() -> None:
    weight = np.array([1.25, 0.75])
    expected = (1.25 * SPATIAL[0] + 0.75 * SPATIAL[1]) / 2
    np.testing.assert_allclose(scores.global_spatial_attention(SPATIAL, weight), expected)
    np.testing.assert_allclose(scores.global_spatial_relevance(SPATIAL, weight), [0.5625, 1.4375])


@pytest.mark.parametrize(("n_sensors", "n_segments"), [(1, 1), (3, 5), (7, 2)])
def test_relevances_sum_to_the_number_of_items(n_sensors: int, n_segments: int) -> None:
    rng = np.random.default_rng(0)
    temporal = rng.dirichlet(np.ones(n_segments), (n_sensors, n_segments))
    spatial = rng.dirichlet(np.ones(n_sensors), (n_segments, n_sensors))
    moment = scores.global_temporal_relevance(temporal)
    np.testing.assert_allclose(scores.temporal_relevance(temporal).sum(axis=1), n_segments)
    np.testing.assert_allclose(scores.spatial_relevance(spatial).sum(axis=1), n_sensors)
    np.testing.assert_allclose(scores.global_spatial_relevance(spatial, moment).sum(), n_sensors)

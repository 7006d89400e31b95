from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.diagnosis.habits import NormalCourse, level_in_range, smooth_range
from dfstrans.diagnosis.recordings import cell_statistics
from dfstrans.diagnosis.scores import BY_SEGMENT, SCORES, EpisodeScores, bands_by_segment, pooled_band


def scores_of(temporal: np.ndarray, spatial: np.ndarray) -> EpisodeScores:
    """Scores with these attentions and nothing else."""
    t, s = len(spatial), len(temporal)
    cells = np.zeros((t, s))
    return EpisodeScores(temporal, spatial, 0.0, np.zeros((t, s, 2)), np.zeros((t, 2)), cells, np.zeros(1))


def drawn(n_segments: int, n_sensors: int = 3, seed: int = 0) -> EpisodeScores:
    random = np.random.default_rng(seed)
    return scores_of(
        random.dirichlet(np.ones(n_segments), (n_sensors, n_segments)),
        random.dirichlet(np.ones(n_sensors), (n_segments, n_sensors)),
    )


def test_segment_band_spans_the_median_to_the_99th_percentile() -> None:
    episodes = [scores_of(np.full((1, 1, 1), n / 100), np.ones((1, 1, 1))) for n in range(101)]
    band = bands_by_segment(episodes)["temporal_attention"]
    assert (band.centre.item(), band.edge.item()) == pytest.approx((0.5, 0.99))
    np.testing.assert_allclose(band.excess(np.array([0.5, 0.99, 1.48])).ravel(), [0, 1, 2])


def test_an_even_spread_is_usual_at_every_length() -> None:
    even = [scores_of(np.full((2, t, t), 1 / t), np.full((t, 2, 2), 0.5)) for t in (2, 4, 8)]
    for name in ("temporal_attention", "global_temporal_attention"):
        band = pooled_band(name, even)
        assert band.centre == pytest.approx(1)
        np.testing.assert_allclose(band.fit_length(name, 5).centre, 1 / 5)
        np.testing.assert_allclose(band.fit_length(name, 4).excess(getattr(even[1], name)), 0, atol=1e-9)


def test_a_pooled_band_by_hand() -> None:
    one = scores_of(np.array([[[0.9, 0.1], [0.5, 0.5]]]), np.ones((2, 1, 1)))
    relevance = pooled_band("temporal_relevance", [one])  # column sums 1.4 and 0.6
    assert relevance.centre.shape == (1, 1)
    assert (relevance.centre.item(), relevance.edge.item()) == pytest.approx((1, 0.6 + 0.99 * 0.8))
    attention = pooled_band("temporal_attention", [one])  # twice 0.1, 0.5, 0.5, 0.9
    assert attention.centre.shape == (1, 1, 1)
    assert (attention.centre.item(), attention.edge.item()) == pytest.approx((1, 1 + 0.97 * 0.8))


@pytest.mark.parametrize("name", SCORES)
def test_a_pooled_band_fits_episodes_of_any_length(name: str) -> None:
    band = pooled_band(name, [drawn(4, seed=1), drawn(7, seed=2)])
    for n_segments in (1, 4, 9):
        values = getattr(drawn(n_segments, seed=3), name)
        assert band.fit_length(name, n_segments).excess(values).shape == values.shape


def test_a_limited_sample_is_drawn_from_all_episodes_alike() -> None:
    lengths = (50, 50, 50, 400)
    episodes = [scores_of(np.full((1, t, t), n * 5 / t), np.ones((t, 1, 1))) for n, t in enumerate(lengths, start=1)]
    everything = pooled_band("global_temporal_relevance", episodes)  # 5, 10, 15 and, often, 20
    some = pooled_band("global_temporal_relevance", episodes, max_samples=100)  # 25 segments of each
    assert everything.centre == pytest.approx(20)
    assert (float(some.centre), float(some.edge)) == pytest.approx((12.5, 20))


def test_large_matrix_is_only_kept_pooled() -> None:
    assert list(bands_by_segment([drawn(4)])) == list(BY_SEGMENT)
    kept = bands_by_segment([drawn(4)], max_size=40)
    assert set(BY_SEGMENT) - set(kept) == {"temporal_attention"}  # 3 · 4 · 4 numbers


# ---- signals --------------------------------------------------------------------------------------------------------


def test_statistics_of_a_cell_by_hand() -> None:
    values = np.array([[1, 3, np.nan, 5, 7], [0, 0, np.nan, np.nan, 2]], dtype=np.float32)
    cells = cell_statistics(values, 2)
    np.testing.assert_allclose(cells[:, 0], [[2, 1, 3, 1], [5, 0, 5, 5], [7, 0, 7, 7]])
    np.testing.assert_allclose(cells[:, 1], [[0, 0, 0, 0], [np.nan] * 4, [2, 0, 2, 2]])


def test_normal_range_follows_the_course_of_a_signal_over_time() -> None:
    random = np.random.default_rng(0)
    ramp = np.linspace(0, 30, 120)
    values = ramp + random.normal(size=(60, 2, 120))
    course = NormalCourse.fit(Episodes.from_arrays(values), segment_length=40, n_segments=3)
    low, high = np.moveaxis(course.of_length(120, 40, usual=3), -1, 0)  # (place, sensor)
    assert len(low) == 120  # a place for each point, not one block per segment
    assert 0.98 < ((values >= low.T) & (values <= high.T)).mean() < 1
    assert (high - low).max() < 10
    other = course.of_length(200, 40, usual=3)
    assert other.shape == (5, 2, 2)
    assert (other == other[0]).all()
    assert (other[0, :, 0] < 1).all()
    assert (other[0, :, 1] > 29).all()


def test_normal_range_of_recordings_of_all_lengths_follows_their_course() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(70, 200, size=60)
    ramps = [np.linspace(0, 30, length) + random.normal(size=(2, length)) for length in lengths]
    course = NormalCourse.fit(Episodes.from_arrays(ramps), segment_length=40, n_segments=0)
    for length in (75, 120, 400):
        found = course.of_length(length, 40, usual=0)
        assert len(found) % -(-length // 40) == 0
        middle = found.mean(axis=2)[:, 0]
        assert np.ptp(middle) > 25
        assert (found[..., 1] - found[..., 0]).max() < 10


def test_points_below_the_range_make_a_cell_low_though_its_mean_is_within() -> None:
    course = np.tile([[[0.0, 10.0]]], (2, 1, 1))
    values = np.full((1, 20), 6, dtype=np.float32)
    values[0, :3] = -5
    assert level_in_range(values, 10, course)[:, 0].tolist() == pytest.approx([-1.3, 0.2])
    values[0, 5:7] = 15
    assert abs(level_in_range(values, 10, course)[0, 0]) < 1  # on both sides: another shape


def test_a_place_without_normal_values_has_no_range() -> None:
    values = np.zeros((2, 1, 12), dtype=np.float32)
    values[1] = 10
    values[:, :, 8:] = np.nan
    course = NormalCourse.fit(Episodes.from_arrays(values), segment_length=4, n_segments=3).of_length(12, 4, usual=3)
    np.testing.assert_allclose(course[:8, 0], [[0.1, 9.9]] * 8)
    assert np.isnan(course[8:]).all()


@pytest.mark.parametrize("reach", [0, 1, 2])
def test_smoothing_never_narrows_the_range(reach: int) -> None:
    low = np.repeat([0.0, 10.0, 0.0], 10)
    course = np.stack([low, low + 1], axis=-1)[:, None]
    smooth = smooth_range(course, reach)
    assert (smooth[..., 0] <= course[..., 0]).all()
    assert (smooth[..., 1] >= course[..., 1]).all()
    assert (smooth == course).all() == (reach == 0)


def test_level_is_the_place_of_the_mean_in_the_normal_range() -> None:
    course = np.tile([[[0.0, 10.0], [5.0, 5.0], [np.nan, np.nan]]], (4, 1, 1))  # two places in each of two segments
    values = np.array([[5, 5, 20, 10], [5, 5, 6, 6], [1, 1, 1, 1]], dtype=np.float32)
    np.testing.assert_allclose(level_in_range(values, 2, course), [[0, 0, 0], [2, 1000, 0]])
    values[0, 2:] = np.nan
    assert level_in_range(values, 2, course)[1, 0] == 0

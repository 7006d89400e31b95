from __future__ import annotations

import numpy as np
import pytest

from dfstrans.diagnosis import bands as usual
from dfstrans.diagnosis.bands import (
    BANDS,
    BY_MOMENT,
    SCORES,
    fitted_to,
    kept_by_moment,
    usual_by_moment,
    usual_over_moments,
)
from dfstrans.diagnosis.scores import EpisodeScores


def scores_of(temporal: np.ndarray, spatial: np.ndarray) -> EpisodeScores:
    """Scores with these attentions and nothing else."""
    t, s = len(spatial), len(temporal)
    embedding, encoding, cells = np.zeros((t, s, 2)), np.zeros((t, 2)), np.zeros((t, s))
    return EpisodeScores(0.0, temporal, spatial, embedding, encoding, cells, cells, np.zeros(1))


def drawn(n_segments: int, n_sensors: int = 3, seed: int = 0) -> EpisodeScores:
    random = np.random.default_rng(seed)
    temporal, spatial = (
        random.random((n_sensors, n_segments, n_segments)),
        random.random((n_segments, n_sensors, n_sensors)),
    )
    return scores_of(temporal / temporal.sum(-1, keepdims=True), spatial / spatial.sum(-1, keepdims=True))


def test_a_band_by_moment_reaches_from_the_median_to_what_99_of_100_episodes_have() -> None:
    episodes = [scores_of(np.full((1, 1, 1), n / 100), np.ones((1, 1, 1))) for n in range(101)]
    band = usual_by_moment("temporal", episodes)
    assert band.centre.item() == pytest.approx(0.5)
    assert band.edge.item() == pytest.approx(0.99)
    np.testing.assert_allclose(band.strangeness(np.array([0.5, 0.99, 1.48])).ravel(), [0, 1, 2])


def test_over_moments_an_even_spread_is_as_usual_whatever_the_length() -> None:
    even = [scores_of(np.full((2, t, t), 1 / t), np.full((t, 2, 2), 0.5)) for t in (2, 4, 8)]
    for name in ("temporal", "global_temporal"):
        band = usual_over_moments(name, even, seed=0)
        assert band.centre == pytest.approx(1)
        np.testing.assert_allclose(fitted_to(band, name, 5).centre, 1 / 5)
        np.testing.assert_allclose(fitted_to(band, name, 4).strangeness(getattr(even[1], name)), 0, atol=1e-9)


def test_a_band_over_moments_worked_by_hand() -> None:
    one = scores_of(np.array([[[0.9, 0.1], [0.5, 0.5]]]), np.ones((2, 1, 1)))
    relevance = usual_over_moments("temporal_relevance", [one], seed=0)  # column sums 1.4 and 0.6
    assert relevance.centre.shape == (1, 1)
    assert relevance.centre.item() == pytest.approx(1)
    assert relevance.edge.item() == pytest.approx(0.6 + 0.99 * 0.8)
    attention = usual_over_moments("temporal", [one], seed=0)  # twice 0.1, 0.5, 0.5, 0.9
    assert attention.centre.shape == (1, 1, 1)
    assert attention.centre.item() == pytest.approx(1)
    assert attention.edge.item() == pytest.approx(1 + 0.97 * 0.8)


@pytest.mark.parametrize("name", SCORES)
def test_a_band_over_moments_fits_episodes_of_any_length(name: str) -> None:
    band = usual_over_moments(name, [drawn(4, seed=1), drawn(7, seed=2)], seed=0)
    for n_segments in (1, 4, 9):
        values = getattr(drawn(n_segments, seed=3), name)
        assert fitted_to(band, name, n_segments).strangeness(values).shape == values.shape


def test_of_many_moments_as_many_as_are_needed_are_drawn_from_all_episodes_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths = (50, 50, 50, 400)
    episodes = [scores_of(np.full((1, t, t), n * 5 / t), np.ones((t, 1, 1))) for n, t in enumerate(lengths, start=1)]
    everything = usual_over_moments("segment", episodes, seed=0)  # 5, 10, 15 and, often, 20
    monkeypatch.setattr(usual, "MOST_SAMPLES", 100)
    some = usual_over_moments("segment", episodes, seed=0)
    assert everything.centre == pytest.approx(20)
    assert some.centre == pytest.approx(12.5)  # 25 moments of each
    assert some.edge == pytest.approx(20)


def test_a_matrix_too_large_to_keep_by_moment_is_compared_over_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_by_moment([drawn(4)]) == [*BANDS, *BY_MOMENT]
    monkeypatch.setattr(usual, "MOST_BY_MOMENT", 40)
    assert set(BANDS) - set(kept_by_moment([drawn(4)])) == {"temporal"}  # 3 · 4 · 4 numbers
    assert kept_by_moment([]) == []

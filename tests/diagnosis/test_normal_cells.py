"""The z-score ranking: each cell against the same cell of normal episodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.metrics import NormalCells
from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float64]


def test_scores_by_hand() -> None:
    normal = Episodes.from_arrays(np.array([[[1.0, 1, 10, 10]], [[3.0, 3, 10, 10]]]))
    cells = NormalCells.fit(normal, segment_length=2)
    # first segment: mean, maximum and minimum 2 ± 1, deviation 0; second: 10 without deviation, so 0.001 · (10 − 1)
    np.testing.assert_allclose(cells.mean[:, 0], [[2, 0, 2, 2], [10, 0, 10, 10]])
    np.testing.assert_allclose(cells.deviation[:, 0], [[1, 0.009, 1, 1], [0.009] * 4])
    (scores,) = cells.scores(Episodes.from_arrays(np.array([[[6.0, 6, 10, 10]]])))
    np.testing.assert_allclose(scores, [[np.sqrt((4**2 + 0 + 4**2 + 4**2) / 4)], [0]])


def slow_scores(normal: Episodes, values: Array, segment_length: int) -> Array:
    """The same with loops, for cells that two normal episodes have."""
    spans = np.array([np.nanmax(one) - np.nanmin(one) for one in np.moveaxis(np.asarray(normal.values), 1, 0)])
    n_segments = -(-values.shape[1] // segment_length)
    found = np.zeros((n_segments, len(values)))
    for segment in range(n_segments):
        here = slice(segment * segment_length, (segment + 1) * segment_length)
        for sensor in range(len(values)):
            usual = [one.values[sensor, here].astype(float) for one in normal]
            z = []
            for statistic in (np.nanmean, np.nanstd, np.nanmax, np.nanmin):
                own = [statistic(one) for one in usual if not np.isnan(one).all()]
                deviation = max(np.std(own), 0.001 * spans[sensor])
                z.append(abs(statistic(values[sensor, here].astype(float)) - np.mean(own)) / deviation)
            found[segment, sensor] = np.sqrt(np.mean(np.square(z)))
    return found


def test_scores_equal_a_slow_loop_with_missing_values() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(9, 3, 23)).astype(np.float32) + 100
    values[rng.random(values.shape) < 0.2] = np.nan
    values[4, 1, 5:10] = np.nan  # a whole cell
    normal, other = Episodes.from_arrays(values[:8]), Episodes.from_arrays(values[8:])
    (scores,) = NormalCells.fit(normal, 5).scores(other)
    np.testing.assert_allclose(scores, slow_scores(normal, values[8], 5), rtol=1e-9)


def test_rare_cell_is_compared_with_all_cells_of_its_sensor() -> None:
    normal = Episodes.from_arrays([np.array([[0.0, 0, 4, 4]]), np.array([[2.0, 2]])])
    cells = NormalCells.fit(normal, 2)
    np.testing.assert_allclose(cells.mean[:, 0, 0], [1, 2])  # the second segment: the mean of 0, 2 and 4
    np.testing.assert_allclose(cells.deviation[1, 0, 0], np.std([0, 2, 4]))
    (longer,) = cells.scores(Episodes.from_arrays(np.full((1, 1, 7), 2.0)))
    assert longer.shape == (4, 1)
    np.testing.assert_allclose(longer[1:], 0)
    (shorter,) = cells.scores(Episodes.from_arrays(np.full((1, 1, 1), 1.0)))
    np.testing.assert_allclose(shorter, [[0]])


def test_missing_cells_score_zero() -> None:
    values = np.random.default_rng(0).normal(size=(5, 2, 8))
    values[:4, 1] = np.nan  # never seen in normal episodes
    values[4, 0, :4] = np.nan
    (scores,) = NormalCells.fit(Episodes.from_arrays(values[:4]), 4).scores(Episodes.from_arrays(values[4:]))
    assert scores[0, 0] == 0
    assert scores[1, 0] > 0
    assert scores[:, 1].tolist() == [0, 0]


def test_a_sensor_that_never_moved_is_compared_in_its_own_unit() -> None:
    cells = NormalCells.fit(Episodes.from_arrays(np.full((3, 1, 4), 7.0)), 2)
    still, moved = cells.scores(Episodes.from_arrays(np.array([[[7.0] * 4], [[7.5] * 4]])))
    assert still.tolist() == [[0], [0]]
    assert (moved > 100).all()


def test_other_sensors_too_few_episodes_and_infinite_values_are_refused() -> None:
    normal = Episodes.from_arrays(np.zeros((2, 2, 8)), sensors=["a", "b"])
    with pytest.raises(DfstransError, match="at least two normal episodes to compare with, got 1"):
        NormalCells.fit(normal[:1], 4)
    cells = NormalCells.fit(normal, 4)
    with pytest.raises(DfstransError, match="sensors of the normal episodes, a, b, got b, a"):
        list(cells.scores(normal.select_sensors(["b", "a"])))
    with pytest.raises(DfstransError, match="infinite values in episode 'episode_0'"):
        list(cells.scores(Episodes.from_arrays(np.full((1, 2, 8), np.inf), sensors=["a", "b"])))

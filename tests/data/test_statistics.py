import tracemalloc

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.coupling import Coupling
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.statistics import N_STATISTICS, OF_RESIDUAL, OF_SEGMENT, OVER_SEGMENTS, episode_statistics
from tests.tiny import tiny_episodes


def one_at_a_time(values: np.ndarray, segment_length: int) -> list[float]:
    """The statistics of one sensor without gaps, in the plainest way."""
    pieces = [values[start : start + segment_length] for start in range(0, len(values), segment_length)]
    pieces = [piece for piece in pieces if 2 * len(piece) >= segment_length]
    rows = []
    for piece in pieces:
        padded = np.r_[piece, [piece[-1]] * (segment_length - len(piece))]
        step = np.abs(np.diff(padded))
        rows.append([padded.mean(), padded.std(), padded.min(), padded.max(), step.mean(), step.max()])
    table = np.array(rows)
    return [*table.mean(0), *table.min(0), *table.max(0), *table.std(0)]


@pytest.mark.parametrize("length", [40, 47, 53, 12])
def test_statistics_equal_a_loop(length: int) -> None:
    rng = np.random.default_rng(length)
    episodes = Episodes.from_arrays(rng.normal(size=(3, 2, length)))
    scaler = SensorScaler.fit(episodes)
    found = episode_statistics(episodes, scaler, 10)
    assert found.shape == (3, 2, N_STATISTICS) == (3, 2, len(OF_SEGMENT) * len(OVER_SEGMENTS))
    scaled = scaler.transform(np.asarray(episodes.values)).astype(np.float64)
    expected = [[one_at_a_time(sensor, 10) for sensor in episode] for episode in scaled]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_statistics_of_an_episode_do_not_depend_on_its_batch() -> None:
    rng = np.random.default_rng(0)
    episodes = Episodes.from_arrays([rng.normal(size=(3, n)) for n in (48, 20, 33, 48)])
    scaler = SensorScaler.fit(episodes)
    for coupling in (None, Coupling.fit(episodes, scaler, 8)):
        whole = episode_statistics(episodes, scaler, 8, coupling)
        for row in range(len(episodes)):
            np.testing.assert_array_equal(episode_statistics(episodes[[row]], scaler, 8, coupling)[0], whole[row])


def test_residuals_show_a_sensor_that_leaves_the_others() -> None:
    rng = np.random.default_rng(0)
    course = rng.normal(size=(40, 1, 64)) + np.array([[0], [0], [1]])  # three sensors that move as one
    values = course + 0.01 * rng.normal(size=course.shape)
    normal = Episodes.from_arrays(values)
    scaler = SensorScaler.fit(normal)
    coupling = Coupling.fit(normal, scaler, 16)
    np.testing.assert_allclose(np.diag(coupling.weights), 1)
    left = values[:1].copy()
    left[0, 2, 16:32] += 0.2  # far within its range
    before, after = (episode_statistics(Episodes.from_arrays(one), scaler, 16, coupling) for one in (values[:1], left))
    assert before.shape == (1, 3, N_STATISTICS + len(OF_RESIDUAL) * len(OVER_SEGMENTS))
    np.testing.assert_array_equal(before[..., :N_STATISTICS], episode_statistics(normal[[0]], scaler, 16))
    largest = N_STATISTICS + 2 * len(OF_RESIDUAL) + OF_RESIDUAL.index("largest")  # over all segments
    assert after[0, 2, largest] > 5 * before[0, 2, largest]


def test_memory_for_statistics_does_not_grow_with_the_number_of_episodes() -> None:
    peaks = []
    for n_episodes in (16, 64):
        episodes = Episodes.from_arrays(np.random.default_rng(0).normal(size=(n_episodes, 10, 2000)))
        scaler = SensorScaler.fit(episodes)
        tracemalloc.start()
        episode_statistics(episodes, scaler, 100)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_only_a_sensor_without_any_value_has_no_statistics() -> None:
    episodes = tiny_episodes()
    values = np.array(episodes.values)
    values[0, 1] = np.nan  # a whole sensor
    values[1, :, :5] = np.nan
    found = episode_statistics(Episodes.from_arrays(values), SensorScaler.fit(episodes), 16)
    expected = np.zeros(found.shape[:2], dtype=bool)
    expected[0, 1] = True
    np.testing.assert_array_equal(np.isnan(found).all(axis=2), expected)
    assert np.isfinite(found[~expected]).all()

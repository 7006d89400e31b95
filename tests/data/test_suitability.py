import numpy as np

from dfstrans.data.suitability import assess_baseline

SENSORS = ["a", "b", "c"]


def test_baseline_suffices_when_its_median_no_longer_moves() -> None:
    rng = np.random.default_rng(1)
    steady, drifting = rng.normal(size=(60, 3, 4)), rng.normal(size=(60, 3, 4))
    drifting[::2] += 5
    assert assess_baseline(steady, SENSORS).sufficient
    for too_little in (drifting, steady[:5], steady[:8]):
        found = assess_baseline(too_little, SENSORS)
        assert not found.sufficient
        assert "recordings" in found.note
    assert assess_baseline(np.zeros((20, 3, 4)), SENSORS).sufficient  # at rest all the time
    stable = [assess_baseline(rng.normal(size=(10, 3, 4)), SENSORS).sufficient for _ in range(50)]
    assert np.mean(stable) > 0.9


def test_recordings_in_which_each_sensor_is_silent_once_are_not_called_enough() -> None:
    statistics = np.random.default_rng(0).normal(size=(12, 3, 4))
    statistics[range(3), range(3)] = np.nan
    found = assess_baseline(statistics, SENSORS)
    assert (found.sufficient, found.change) == (False, None)
    assert "silent" in found.note


def test_slow_drift_is_found_and_named() -> None:
    rng = np.random.default_rng(3)
    one = rng.normal(size=(30, 3, 4))
    one[:, 1] += np.linspace(0, 10, 30)[:, None]
    found = assess_baseline(one, SENSORS)
    assert (found.drifting, found.sufficient) == (("b",), True)
    assert "30 recordings are enough for the sensors that are steady, but b drifted from the first third" in found.note
    every = rng.normal(size=(30, 3, 4)) + np.linspace(0, 10, 30)[:, None, None]
    found = assess_baseline(every, SENSORS)
    assert (found.drifting, found.sufficient) == (("a", "b", "c"), False)
    assert "30 recordings are not from a steady period: a, b, c drifted" in found.note
    assert found.note.endswith("use recordings from after the change, or repair these sensors")
    assert assess_baseline(rng.permutation(every), SENSORS).drifting == ()


def test_without_times_no_sensor_is_said_to_drift() -> None:
    rising = np.random.default_rng(3).normal(size=(30, 3, 4)) + np.linspace(0, 10, 30)[:, None, None]
    found = assess_baseline(rising, SENSORS, by_time=False)
    assert (found.drifting, found.sufficient) == ((), True)
    assert "drift" not in found.note


def test_sensors_with_two_states_are_rarely_said_to_drift() -> None:
    """Journeys go up or down, which moves all statistics of most sensors together."""
    rng, false = np.random.default_rng(4), 0
    for _ in range(200):
        up = rng.random(23) < 0.5
        recordings = (
            0.1 * rng.normal(size=(23, 10, 8)) + np.where(up[:, None, None], 1.0, -1.0) * (np.arange(10) < 8)[:, None]
        )
        false += bool(assess_baseline(recordings, [f"s{i}" for i in range(10)]).drifting)
    assert false <= 0.05 * 200


def test_slow_drift_is_found_beside_two_states() -> None:
    rng, found = np.random.default_rng(5), 0
    for _ in range(20):
        up = rng.random(30) < 0.5
        recordings = rng.normal(size=(30, 10, 8)) + np.where(up[:, None, None], 10.0, -10.0)
        recordings[:, 2] = rng.normal(size=(30, 8)) + np.linspace(0, 6, 30)[:, None]
        found += assess_baseline(recordings, [f"s{i}" for i in range(10)]).drifting == ("s2",)
    assert found >= 18


def test_sensor_without_values_is_not_assessed() -> None:
    statistics = np.random.default_rng(2).normal(size=(20, 2, 3))
    statistics[:10, 1] = np.nan
    assert assess_baseline(statistics, SENSORS[:2]).n_recordings == 20

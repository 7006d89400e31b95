import numpy as np
import pytest

from dfstrans.data.baselines import (
    RELIED_ON,
    RESTING,
    SMALLEST_SPREAD,
    Baseline,
    Baselines,
)


def column(*values: float) -> np.ndarray:
    """Recordings with one sensor and one statistic."""
    return np.array(values, dtype=np.float64)[:, None, None]


def test_deviation_counts_usual_spreads_of_the_own_machine() -> None:
    quiet, loud = column(*range(101)) / 100, 10 + column(*range(101))
    groups = np.repeat(["quiet", "loud"], 101)
    baselines = Baselines.fit(np.concatenate([quiet, loud]), groups)
    assert set(baselines.machines) == {"quiet", "loud"}
    found = baselines.deviations(column(1.5, 60.0), np.array(["quiet", "loud"])).ravel()
    spread = np.sqrt((101 * 0.5**2 + 5 * 25.25**2) / 106)  # mostly the machine's own, a little the typical one
    np.testing.assert_allclose(found, np.arcsinh([1.0 / spread, 0.0]))


def test_without_a_baseline_nothing_deviates_and_nothing_is_relied_on() -> None:
    baselines = Baselines.fit(column(1, 2, 3, 4, 5, 6), np.array(["a"] * 4 + ["b"] * 2))  # too few of b
    assert set(baselines.machines) == {"a"}
    for groups in (np.array(["b", "new"]), None):
        assert not baselines.deviations(column(100, 200), groups).any()
        assert not baselines.weights(groups, 2).any()


def test_more_recordings_are_relied_on_more() -> None:
    baselines = Baselines.fit(column(*range(33)), np.array(["few"] * 3 + ["many"] * 30))
    few, many = baselines.weights(np.array(["few", "many"]), 2)
    np.testing.assert_allclose([few, many], [3 / (3 + RELIED_ON), 30 / (30 + RELIED_ON)])


def test_a_statistic_that_rested_over_many_recordings_deviates_far_when_it_moves() -> None:
    groups = np.array(["still"] * RESTING + ["lively"] * 20 + ["short"] * (RESTING - 1))
    values = np.concatenate([np.zeros(RESTING), np.linspace(0, 1, 20), np.zeros(RESTING - 1)])
    baselines = Baselines.fit(column(*values), groups)
    still, short = baselines.deviations(column(0.1, 0.1), np.array(["still", "short"])).ravel()
    assert still == pytest.approx(np.arcsinh(0.1 / SMALLEST_SPREAD))
    assert 0 < short <= still


def test_a_quarter_of_anomalous_recordings_does_not_move_a_baseline() -> None:
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(40, 2, 3))
    polluted = np.concatenate([clean, 100 + rng.normal(size=(10, 2, 3))])
    one, other = Baseline.of(clean), Baseline.of(polluted)
    assert np.abs(one.median - other.median).max() < 1
    assert other.spread.max() < 4


def test_added_machine_leaves_the_others_as_they_are() -> None:
    before = Baselines.fit(column(1, 2, 3, 4), np.array(["a"] * 4))
    after = before.add("b", column(5, 6, 7))
    assert set(before.machines) == {"a"}
    assert set(after.machines) == {"a", "b"}
    assert after.machines["b"].median.item() == 6


def test_a_machine_keeps_a_threshold_of_its_own() -> None:
    baselines = Baselines.fit(column(1, 2, 3, 4, 5, 6), np.array(["a"] * 3 + ["b"] * 3)).with_thresholds({"b": 0.9})
    groups = np.array(["a", "b", "new"])
    assert baselines.thresholds(groups, 3, 0.4).tolist() == [0.4, 0.9, 0.4]
    assert baselines.thresholds(None, 2, 0.4).tolist() == [0.4, 0.4]


def test_sensor_without_values_deviates_from_nothing() -> None:
    rng = np.random.default_rng(2)
    statistics = rng.normal(size=(20, 2, 3))
    statistics[:, 1] = np.nan  # one machine never records the second sensor
    statistics[10:, 1] = rng.normal(size=(10, 3))
    statistics[12, 0] = np.nan
    groups = np.repeat(["without", "with"], 10)
    baselines = Baselines.fit(statistics, groups)
    found = baselines.deviations(statistics, groups)
    assert np.isfinite(found).all()
    assert not found[:10, 1].any()
    assert not found[12, 0].any()
    assert found[10:, 1].any()

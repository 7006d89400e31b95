from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.health import HealthReference, symptom_shares

RNG = np.random.default_rng(0)


def normal_episodes(n: int = 30) -> Episodes:
    """Sensor a is lively; b rests at 0 for half of the time, as it always does."""
    values = RNG.normal(size=(n, 2, 100))
    values[:, 1, :50] = 0.0
    return Episodes.from_arrays(values, sensors=("a", "b"))


@pytest.fixture(scope="module")
def scaler() -> SensorScaler:
    return SensorScaler.fit(normal_episodes())


@pytest.fixture(scope="module")
def reference(scaler: SensorScaler) -> HealthReference:
    return HealthReference.fit(normal_episodes(), scaler)


def lively() -> np.ndarray:
    values = RNG.uniform(-1, 1, size=(2, 100)).astype(np.float32)
    values[1, :50] = 0.0
    return values


def test_a_normal_episode_is_healthy(scaler: SensorScaler, reference: HealthReference) -> None:
    assert reference.examine(lively(), scaler) == ()


@pytest.mark.parametrize(
    ("spoil", "symptom", "share"),
    [
        (lambda v: v[0].__setitem__(slice(20, 60), np.nan), "missing", 0.4),
        (lambda v: v[0].__setitem__(slice(30, None), 0.25), "stuck", 0.7),
        (lambda v: v[0].__setitem__(slice(None), np.where(np.arange(100) % 10 < 4, 1.5, v[0])), "clipped", 0.4),
        (lambda v: v[0].__setitem__(slice(0, 30), v[0, :30] + 50), "out of training range", 0.3),
    ],
)
def test_each_symptom_is_found_and_named(spoil, symptom, share, scaler, reference) -> None:  # type: ignore[no-untyped-def]
    values = lively()
    spoil(values)
    finding = reference.examine(values, scaler)[0]
    assert (finding.sensor, finding.symptom) == ("a", symptom)
    assert finding.share == pytest.approx(share)


def test_a_sensor_that_always_rests_is_not_stuck(scaler: SensorScaler, reference: HealthReference) -> None:
    values = lively()
    assert symptom_shares(values, scaler)[1, 1] == pytest.approx(0.5)
    assert not reference.examine(values, scaler)


def test_a_constant_sensor_is_stuck_and_not_clipped(scaler: SensorScaler) -> None:
    shares = symptom_shares(np.zeros((2, 50), dtype=np.float32), scaler)
    np.testing.assert_allclose(shares[:, 0], [0, 1, 0, 0])


def test_all_missing_and_empty_episodes_have_shares(scaler: SensorScaler) -> None:
    np.testing.assert_allclose(symptom_shares(np.full((2, 10), np.nan, dtype=np.float32), scaler)[:, 0], [1, 0, 0, 0])
    assert np.isfinite(symptom_shares(np.zeros((2, 0), dtype=np.float32), scaler)).all()

from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.health import HealthReference, symptom_shares


@pytest.fixture(scope="module")
def normal() -> Episodes:
    """Sensor a is lively; b always rests at 0 for half of the time."""
    values = np.random.default_rng(0).normal(size=(30, 2, 100))
    values[:, 1, :50] = 0.0
    return Episodes.from_arrays(values, sensors=("a", "b"))


def lively() -> np.ndarray:
    values = np.random.default_rng(1).uniform(-1, 1, size=(2, 100)).astype(np.float32)
    values[1, :50] = 0.0
    return values


def held_at_the_top(row: np.ndarray) -> None:
    row[np.arange(100) % 10 < 4] = 1.5


@pytest.mark.parametrize(
    ("spoil", "symptom", "share"),
    [
        (lambda row: row[20:60].fill(np.nan), "missing", 0.4),
        (lambda row: row[30:].fill(0.25), "stuck", 0.7),
        (held_at_the_top, "clipped", 0.4),
        (lambda row: np.add(row[:30], 50, out=row[:30]), "out of training range", 0.3),
    ],
)
def test_each_symptom_is_found_unless_it_is_usual(spoil, symptom, share, normal) -> None:  # type: ignore[no-untyped-def]
    scaler = SensorScaler.fit(normal)
    reference = HealthReference.fit(normal, scaler)
    values = lively()
    assert symptom_shares(values, scaler)[1, 1] == pytest.approx(0.5)  # b rests
    assert reference.examine(values, scaler) == ()
    spoil(values[0])
    finding = reference.examine(values, scaler)[0]
    assert (finding.sensor, finding.symptom, finding.share) == ("a", symptom, pytest.approx(share))


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        (np.zeros((2, 50)), [0, 1, 0, 0]),  # constant: stuck, not clipped
        (np.full((2, 10), np.nan), [1, 0, 0, 0]),
        (np.zeros((2, 0)), [0, 0, 0, 0]),
    ],
)
def test_shares_of_constant_missing_and_empty_sensors(
    values: np.ndarray, shares: list[float], normal: Episodes
) -> None:
    np.testing.assert_allclose(symptom_shares(values.astype(np.float32), SensorScaler.fit(normal))[:, 0], shares)

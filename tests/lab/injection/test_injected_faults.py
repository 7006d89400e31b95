"""What each kind of fault does to a sensor, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dfstrans.data.episodes import Episodes
from dfstrans.lab.injection.faults import InjectedFault, NormalSensors, with_fault

NAN = np.nan
RAMP = [1.0, 2.0, 3.0, 4.0]
OTHER = [30.0, 10.0, 20.0, 20.0]


def read(kind: str, strength: float, series: Any, *, start: int = 0, other: Any = None, switch: bool = False) -> Any:
    """The readings of one sensor, centre 2, standard deviation 1, with a fault from `start` to the end."""
    values = np.array([series], dtype=np.float32)
    normal = NormalSensors(
        ("a",), np.array([2.0]), np.ones(1), np.array([switch]), np.array([switch]), np.zeros(1, int), np.ones(1)
    )
    fault = InjectedFault(kind, strength, 0, start, values.shape[1], -1, 0, (0,))
    donors = Episodes.from_arrays(np.array([[series if other is None else other]], dtype=np.float32))
    return with_fault(values, fault, normal, donors)[0, start:]


@pytest.mark.parametrize(
    ("kind", "strength", "series", "expected"),
    [
        ("spike", 2.5, [1.0], [-1.5]),
        ("level-shift", 2.5, [1.0, NAN], [-1.5, NAN]),
        ("drift", 4, RAMP, [0, 0, 0, 0]),  # off by the strength at the end
        ("gain", 1, RAMP, [0, 2, 4, 6]),  # twice the distance from the centre
        ("gain", 3, [3.0], [6]),  # a value one standard deviation away moves by `strength` of them
        ("stuck", 10, RAMP, [1, 1, 1, 1]),
        ("stuck", 10, [NAN, 7.0, NAN, 9.0], [NAN, 7, NAN, 7]),
        ("dropout", 10, [7.0, NAN, -3.0], [0, NAN, 0]),
    ],
)
def test_a_fault_by_hand(kind: str, strength: float, series: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(read(kind, strength, series), expected)


def test_a_lag_shows_earlier_readings() -> None:
    np.testing.assert_array_equal(read("lag", 3, np.arange(8.0), start=4), [1, 2, 3, 4])


def test_a_noise_burst_has_the_strength_as_deviation_and_no_bias() -> None:
    added = read("noise-burst", 2.0, np.zeros(40_000))
    assert abs(added.std() - 2.0) < 0.03
    assert abs(added.mean()) < 0.03


@pytest.mark.parametrize(
    ("strength", "series", "other", "expected"),
    [
        (100, RAMP, OTHER, [12.5, -7.5, 2.5, 2.5]),  # moves like the other episode, around its own mean
        (50, RAMP, OTHER, [6.75, -2.75, 2.75, 3.25]),
        (100, [1.0, 2.0, NAN], [NAN, 5.0, 6.0], [1, 2, NAN]),  # missing in one of the two
        (100, [1.0, 2.0], [NAN, NAN], [1, 2]),
    ],
)
def test_a_decoupled_sensor_by_hand(strength: float, series: Any, other: Any, expected: Any) -> None:
    np.testing.assert_array_equal(read("coupling-loss", strength, series, other=other), expected)


def test_a_decoupled_switch_takes_points_of_the_other_episode() -> None:
    own, other = np.zeros(1000), np.ones(1000)
    found = read("coupling-loss", 30, own, other=other, switch=True)
    assert set(found) == {0.0, 1.0}
    assert 0.25 < found.mean() < 0.35
    np.testing.assert_array_equal(read("coupling-loss", 100, own, other=other, switch=True), other)

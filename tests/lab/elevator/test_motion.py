"""The course of a journey: S-curve, schedule, brake and control loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfstrans.lab.elevator.motion import (
    brake_closure,
    current_loop,
    longest_duration,
    mtpa_currents,
    s_curve,
    schedule,
    speed_loop,
)
from tests.lab.elevator.journeys import journey

CURVES = [(14.0, 0.75, 0.8), (22.4, 0.95, 1.2), (16.8, 0.8437, 0.9719)]


@pytest.mark.parametrize(("distance", "acceleration", "jerk"), CURVES)
def test_the_curve_ends_exactly_there_and_at_rest(distance: float, acceleration: float, jerk: float) -> None:
    curve = s_curve(distance, 1.6, acceleration, jerk)
    np.testing.assert_allclose(curve.path[0], 0)
    np.testing.assert_allclose(curve.path[-1], [distance, 0, 0], atol=1e-10)
    assert len(curve.path) == round(curve.duration * 1000) + 1


@pytest.mark.parametrize(("distance", "acceleration", "jerk"), CURVES)
def test_the_curve_keeps_speed_acceleration_and_jerk(distance: float, acceleration: float, jerk: float) -> None:
    position, speed, pull = s_curve(distance, 1.6, acceleration, jerk).path.T
    assert speed.max() == pytest.approx(1.6, rel=2e-3)  # parts of whole ms
    assert np.abs(pull).max() == pytest.approx(acceleration, rel=2e-3)
    assert np.abs(np.diff(pull)).max() / 1e-3 == pytest.approx(jerk, rel=2e-3)
    np.testing.assert_allclose(np.diff(position) / 1e-3, (speed[1:] + speed[:-1]) / 2, atol=1e-6)
    np.testing.assert_allclose(np.diff(speed) / 1e-3, (pull[1:] + pull[:-1]) / 2, atol=1e-9)


def test_a_distance_too_short_for_full_speed_is_refused() -> None:
    with pytest.raises(ValueError, match="too short to reach"):
        s_curve(2.8, 1.6, 0.75, 0.8)


def test_the_schedule_by_hand() -> None:
    times = schedule(on=0.5, moving=10.0)
    np.testing.assert_allclose(times, [0.5, 0.8, 1.1, 11.1, 11.45, 11.70, 11.95])


def test_the_longest_journey_ends_before_the_recording() -> None:
    moving = 22.4 / 1.6 + 1.6 / 0.75 + 0.75 / 0.8  # the slowest installation that may be drawn
    assert longest_duration(8) == pytest.approx(
        0.6 + 0.3 + 0.3 + moving + 0.35 + 0.25 + 0.25, abs=5e-3
    )  # parts of whole ms
    assert longest_duration(8) < 20


def test_the_brake_opens_and_closes_in_120_ms() -> None:
    times = schedule(on=0.5, moving=10.0)
    for t, closed in ((0.0, 1.0), (0.8, 1.0), (0.86, 0.5), (0.92, 0.0), (5.0, 0.0), (11.48, 0.25), (11.6, 1.0)):
        assert brake_closure(times, t) == pytest.approx(closed, abs=1e-9)


@pytest.mark.parametrize("torque", [-600.0, -20.0, 5.0, 350.0, 1500.0])
def test_a_torque_is_given_by_the_least_current(torque: float) -> None:
    """To a thousandth: the closed formula takes i_q as if all torque were the magnets'."""
    drive = journey(0).drive
    i_d, i_q = mtpa_currents(drive, torque)

    def needed_q(direct: np.ndarray) -> np.ndarray:
        return torque / (15 * (2.1825 + (0.026 - 0.038) * direct))

    assert i_q == pytest.approx(float(needed_q(np.array(i_d))))
    others = np.linspace(-60, 20, 8001)
    assert math.hypot(i_d, i_q) <= np.hypot(others, needed_q(others)).min() * 1.001
    assert i_d < 0


def test_the_current_loop_by_hand() -> None:
    drive = journey(0).drive._replace(
        current_gain_d=20.0, current_gain_q=30.0, current_integral=800.0, pole_pairs=10.0, flux=2.0,
        inductance_d=0.02, inductance_q=0.04, max_voltage=300.0,
    )  # fmt: skip
    v_d, v_q, x_d, x_q = current_loop(drive, -1.0, 11.0, -2.0, 10.0, 8.0, 0.5, 0.25)
    assert v_d == pytest.approx(20 + 0.5 - 80 * 0.04 * 10)
    assert v_q == pytest.approx(30 + 0.25 + 80 * (0.02 * -2 + 2))
    assert (x_d, x_q) == pytest.approx((0.5 + 0.2, 0.25 + 0.2))


def test_voltage_limit_keeps_the_direction_and_stops_integrators() -> None:
    drive = journey(0).drive
    free = current_loop(drive._replace(max_voltage=1e9), -3.0, 40.0, 0.0, 0.0, 8.0, 1.0, 2.0)
    v_d, v_q, x_d, x_q = current_loop(drive._replace(max_voltage=100.0), -3.0, 40.0, 0.0, 0.0, 8.0, 1.0, 2.0)
    assert math.hypot(v_d, v_q) == pytest.approx(100)
    assert v_d / v_q == pytest.approx(free[0] / free[1])
    assert (x_d, x_q) == (1.0, 2.0)


def test_the_speed_loop_by_hand() -> None:
    drive = journey(0).drive._replace(
        direction=-1.0, radius=0.2, pre_torque=50.0, feedforward=100.0, speed_gain=1000.0, speed_integral=4000.0,
        position_gain=1.5, max_torque=1500.0,
    )  # fmt: skip
    reference = np.array([0.2, 0.4, 0.1])  # m, m/s, m/s²: −1 rad, −2 rad/s, −0.5 rad/s²
    torque, integral = speed_loop(drive, reference, 7.0, -0.9, -1.9)
    error = -2 + 1.5 * (-1 + 0.9) + 1.9
    assert integral == pytest.approx(7 + 4000 * error * 1e-3)
    assert torque == pytest.approx(50 - 50 + 1000 * error + integral)
    assert speed_loop(drive, reference, 7.0, 5.0, 5.0)[0] == -1500

"""The drive: its brake and its loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfstrans.lab.elevator.motion import brake_closure, current_loop, schedule, speed_loop, torque_per_ampere
from tests.lab.elevator.journeys import journey


def test_the_brake_opens_and_closes_in_120_ms() -> None:
    times = schedule(on=0.5, moving=10.0)
    for t, closed in ((0.0, 1.0), (0.8, 1.0), (0.86, 0.5), (0.92, 0.0), (5.0, 0.0), (11.48, 0.25), (11.6, 1.0)):
        assert brake_closure(times, t) == pytest.approx(closed, abs=1e-9)


@pytest.mark.parametrize("torque", [-600.0, -20.0, 5.0, 350.0, 1500.0])
def test_a_torque_is_given_by_the_least_current(torque: float) -> None:
    """To a thousandth: the closed formula takes i_q as if all torque were the magnets'."""
    drive = journey(0).drive
    i_d, i_q = torque_per_ampere(drive, torque)

    def needed_q(direct: np.ndarray) -> np.ndarray:
        return torque / (15 * (2.1825 + (0.026 - 0.038) * direct))

    assert i_q == pytest.approx(float(needed_q(np.array(i_d))))
    others = np.linspace(-60, 20, 8001)
    assert math.hypot(i_d, i_q) <= np.hypot(others, needed_q(others)).min() * 1.001
    assert i_d < 0


def test_the_current_loop_by_hand() -> None:
    drive = journey(0).drive._replace(
        current_gain_d=20.0, current_gain_q=30.0, current_integral=800.0, pole_pairs=10.0, flux=2.0,
        inductance_d=0.02, inductance_q=0.04, largest_voltage=300.0,
    )  # fmt: skip
    v_d, v_q, x_d, x_q = current_loop(drive, -1.0, 11.0, -2.0, 10.0, 8.0, 0.5, 0.25)
    assert v_d == pytest.approx(20 + 0.5 - 80 * 0.04 * 10)
    assert v_q == pytest.approx(30 + 0.25 + 80 * (0.02 * -2 + 2))
    assert (x_d, x_q) == pytest.approx((0.5 + 0.2, 0.25 + 0.2))


def test_at_the_voltage_limit_the_direction_is_kept_and_the_integrators_wait() -> None:
    drive = journey(0).drive
    free = current_loop(drive._replace(largest_voltage=1e9), -3.0, 40.0, 0.0, 0.0, 8.0, 1.0, 2.0)
    v_d, v_q, x_d, x_q = current_loop(drive._replace(largest_voltage=100.0), -3.0, 40.0, 0.0, 0.0, 8.0, 1.0, 2.0)
    assert math.hypot(v_d, v_q) == pytest.approx(100)
    assert v_d / v_q == pytest.approx(free[0] / free[1])
    assert (x_d, x_q) == (1.0, 2.0)


def test_the_speed_loop_by_hand() -> None:
    drive = journey(0).drive._replace(
        direction=-1.0, radius=0.2, pre_torque=50.0, feedforward=100.0, speed_gain=1000.0, speed_integral=4000.0,
        position_gain=1.5, largest_torque=1500.0,
    )  # fmt: skip
    reference = np.array([0.2, 0.4, 0.1])  # m, m/s, m/s²: −1 rad, −2 rad/s, −0.5 rad/s²
    torque, integral = speed_loop(drive, reference, 7.0, -0.9, -1.9)
    error = -2 + 1.5 * (-1 + 0.9) + 1.9
    assert integral == pytest.approx(7 + 4000 * error * 1e-3)
    assert torque == pytest.approx(50 - 50 + 1000 * error + integral)
    assert speed_loop(drive, reference, 7.0, 5.0, 5.0)[0] == -1500

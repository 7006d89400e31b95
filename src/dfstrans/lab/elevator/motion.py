"""The course of a journey: shaft, S-curve, schedule, and the control loops of the drive."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

# As in numpy, division by zero gives inf without a check. Division by a constant may become a multiplication, and a
# multiplication and an addition one instruction; inf and NaN keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"arcp", "contract"}}

compiled = njit(**_OPTIONS)
inlined = njit(inline="always", **_OPTIONS)  # keeps the state of a step in registers: 20 % faster
entry_point = njit(nogil=True, cache=True, **_OPTIONS)

N_FLOORS = 10
FLOOR_HEIGHT = 2.8  # m
TRAVEL = FLOOR_HEIGHT * (N_FLOORS - 1)  # m
SPEED = 1.6  # m/s
ACCELERATIONS = (0.75, 0.95)  # m/s², range over installations
JERKS = (0.8, 1.2)  # m/s³, range over installations
LATEST_START = 0.6  # s, latest power-on

CURRENT_TICK = 0.25e-3  # s, period of the current loop, and the integration step
TICKS_PER_SPEED_TICK = 4
SPEED_TICK = CURRENT_TICK * TICKS_PER_SPEED_TICK  # s, period of the speed loop, and the grid of the S-curve
TICKS_PER_SAMPLE = 10  # a sample is their mean, as with an integrating converter
SAMPLING_RATE = round(1 / (CURRENT_TICK * TICKS_PER_SAMPLE))  # Hz, internal rate of the simulator

PRE_TORQUE_RAMP = 0.25  # s
BRAKE_DELAY = 0.30  # s, from power-on to the opening of the brake
BRAKE_TIME = 0.12  # s, for the brake to open or close
START_DELAY = 0.30  # s, from the opening of the brake to the start
HOLD = 0.35  # s, from standstill to the closing of the brake
RELEASE_DELAY = 0.25  # s, from the closing of the brake to the release of the torque
RELEASE_RAMP = 0.25  # s


class Schedule(NamedTuple):
    """The events of a journey, in s from the start of the recording."""

    on: float
    brake_opens: float
    go: float
    end: float
    brake_closes: float
    release: float
    off: float


class SCurve(NamedTuple):
    """A motion with bounded jerk.

    Shape:
        path (n, 3): position, speed and acceleration every ms
    """

    path: npt.NDArray[np.float64]
    jerk_time: float  # s, T_j
    acceleration_time: float  # s, T_a, at constant acceleration
    cruise_time: float  # s, T_v

    @property
    def duration(self) -> float:
        """Seconds from standstill to standstill."""
        return 4 * self.jerk_time + 2 * self.acceleration_time + self.cruise_time

    @property
    def ramp_time(self) -> float:
        """Seconds from standstill to full speed."""
        return 2 * self.jerk_time + self.acceleration_time


def s_curve(distance: float, speed: float, acceleration: float, jerk: float) -> SCurve:
    """Seven phases of constant jerk, each a whole number of ms; the jerk is adjusted to make the distance exact."""
    t_j = round(acceleration / jerk, 3)
    t_a = round(speed / acceleration - acceleration / jerk, 3)
    t_v = round(distance / speed - speed / acceleration - acceleration / jerk, 3)
    if min(t_j, t_a, t_v) < 0:
        raise ValueError(f"{distance} m are too short to reach {speed} m/s at {acceleration} m/s² and {jerk} m/s³")
    exact = distance / (t_j * (t_j + t_a) * (2 * t_j + t_a + t_v))
    steps = [round(t / SPEED_TICK) for t in (t_j, t_a, t_j, t_v, t_j, t_a, t_j)]
    jerks = np.repeat(exact * np.array([1, 0, -1, 0, -1, 0, 1]), steps)
    dt = SPEED_TICK
    a = np.concatenate([[0.0], np.cumsum(jerks) * dt])
    v = np.concatenate([[0.0], np.cumsum(a[:-1] * dt + jerks * dt**2 / 2)])
    s = np.concatenate([[0.0], np.cumsum(v[:-1] * dt + a[:-1] * dt**2 / 2 + jerks * dt**3 / 6)])
    return SCurve(np.stack([s, v, a], axis=1), t_j, t_a, t_v)


def schedule(on: float, moving: float) -> Schedule:
    """The events that follow from the moment of power-on and the duration of the motion."""
    opens = on + BRAKE_DELAY
    go = opens + START_DELAY
    end = go + moving
    closes = end + HOLD
    release = closes + RELEASE_DELAY
    return Schedule(on, opens, go, end, closes, release, release + RELEASE_RAMP)


def longest_duration(floors: int) -> float:
    """Seconds of recording that a journey over some floors needs in any installation."""
    slowest = max(s_curve(floors * FLOOR_HEIGHT, SPEED, a, j).duration for a in ACCELERATIONS for j in JERKS)
    return schedule(LATEST_START, slowest).off


class Drive(NamedTuple):
    """The controller with its nominal motor data (hats in docs/reference/elevator.md)."""

    schedule: Schedule
    direction: float  # +1 up, −1 down
    radius: float  # m
    pre_torque: float  # Nm
    feedforward: float  # kg m², J_ff
    pole_pairs: float
    flux: float  # Wb
    inductance_d: float  # H
    inductance_q: float  # H
    current_gain_d: float  # Ω
    current_gain_q: float  # Ω
    current_integral: float  # V/(A s)
    speed_gain: float  # Nms/rad
    speed_integral: float  # Nm/rad
    position_gain: float  # 1/s
    max_torque: float  # Nm
    max_voltage: float  # V


@compiled
def brake_closure(times: Schedule, t: float) -> float:
    """From 1, closed, to 0, open."""
    opening = 1.0 - (t - times.brake_opens) / BRAKE_TIME
    closing = (t - times.brake_closes) / BRAKE_TIME
    return min(1.0, max(0.0, opening, closing))


@compiled
def mtpa_currents(drive: Drive, torque: float):  # type: ignore[no-untyped-def]
    """The smallest currents for a torque (maximum torque per ampere), by nominal motor data: (i_d, i_q)."""
    saliency = drive.inductance_q - drive.inductance_d
    i_0 = torque / (1.5 * drive.pole_pairs * drive.flux)
    root = math.sqrt(drive.flux * drive.flux + 4 * saliency * saliency * i_0 * i_0)
    i_d = (drive.flux - root) / (2 * saliency)
    return i_d, torque / (1.5 * drive.pole_pairs * (drive.flux - saliency * i_d))


@compiled
def speed_loop(drive: Drive, reference, integral: float, phi: float, omega_f: float):  # type: ignore[no-untyped-def]
    """Position and speed loop, once per ms: (torque, integral); `reference` is a row of `SCurve.path`."""
    per_radius = drive.direction / drive.radius
    error = per_radius * reference[1] + drive.position_gain * (per_radius * reference[0] - phi) - omega_f
    integral += drive.speed_integral * error * SPEED_TICK
    torque = drive.pre_torque + drive.feedforward * per_radius * reference[2] + drive.speed_gain * error + integral
    return min(max(torque, -drive.max_torque), drive.max_torque), integral


@compiled
def current_loop(drive: Drive, target_d, target_q, i_d, i_q, omega, x_d, x_q):  # type: ignore[no-untyped-def]
    """Current loop with decoupling and anti-windup, once per tick: (v_d, v_q, x_d, x_q)."""
    w_e = drive.pole_pairs * omega
    error_d, error_q = target_d - i_d, target_q - i_q
    v_d = drive.current_gain_d * error_d + x_d - w_e * drive.inductance_q * i_q
    v_q = drive.current_gain_q * error_q + x_q + w_e * (drive.inductance_d * i_d + drive.flux)
    magnitude = math.sqrt(v_d * v_d + v_q * v_q)
    if magnitude > drive.max_voltage:
        scale = drive.max_voltage / magnitude
        return v_d * scale, v_q * scale, x_d, x_q
    grown = drive.current_integral * CURRENT_TICK
    return v_d, v_q, x_d + grown * error_d, x_q + grown * error_q

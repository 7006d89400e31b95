"""How a journey goes: the shaft, the ticks, the S-curve of the movement, and what the drive does when."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Metre = Annotated[float, "m"]
SquareMetre = Annotated[float, "m²"]
CyclesPerMetre = Annotated[float, "1/m"]
Second = Annotated[float, "s"]
Kilogram = Annotated[float, "kg"]
KilogramPerMetre = Annotated[float, "kg/m"]
KilogramMetre = Annotated[float, "kg m"]
Inertia = Annotated[float, "kg m²"]
Newton = Annotated[float, "N"]
NewtonMetre = Annotated[float, "Nm"]
Stiffness = Annotated[float, "N/m"]
Damping = Annotated[float, "Ns/m"]
RotaryStiffness = Annotated[float, "Nm/rad"]
RotaryDamping = Annotated[float, "Nms/rad"]
Speed = Annotated[float, "m/s"]
Acceleration = Annotated[float, "m/s²"]
Jerk = Annotated[float, "m/s³"]
Radian = Annotated[float, "rad"]
RotarySpeed = Annotated[float, "rad/s"]
RotaryAcceleration = Annotated[float, "rad/s²"]
PerSecond = Annotated[float, "1/s"]
Hertz = Annotated[float, "Hz"]
Ohm = Annotated[float, "Ω"]
OhmPerSecond = Annotated[float, "V/(A s)"]
Ampere = Annotated[float, "A"]
AmperePerSecond = Annotated[float, "A/s"]
Henry = Annotated[float, "H"]
Weber = Annotated[float, "Wb"]
Volt = Annotated[float, "V"]
Celsius = Annotated[float, "°C"]
Kelvin = Annotated[float, "K"]
PerKelvin = Annotated[float, "1/K"]
Ratio = Annotated[float, "1"]


# A division by zero gives inf, as in numpy, without a check for each. A division by what does not change may become a
# product, and a product with a sum one instruction; inf and NaN keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"arcp", "contract"}}

compiled = njit(**_OPTIONS)
inlined = njit(inline="always", **_OPTIONS)  # the step itself: its numbers stay in registers, a fifth of the time saved
entry_point = njit(nogil=True, cache=True, **_OPTIONS)


N_FLOORS = 10
FLOOR_HEIGHT: Metre = 2.8
TRAVEL: Metre = FLOOR_HEIGHT * (N_FLOORS - 1)
SPEED: Speed = 1.6
ACCELERATIONS: tuple[Acceleration, Acceleration] = (0.75, 0.95)  # from … to, over installations
JERKS: tuple[Jerk, Jerk] = (0.8, 1.2)
LATEST_START: Second = 0.6  # of the drive's switching on

CURRENT_TICK: Second = 0.25e-3  # of the current loop, and the step of the machine
TICKS_PER_SPEED_TICK = 4
SPEED_TICK: Second = CURRENT_TICK * TICKS_PER_SPEED_TICK  # of the speed loop, and the grid of the movement
TICKS_PER_SAMPLE = 10  # each sample is their mean, as of an integrating converter
SAMPLING_RATE = round(1 / (CURRENT_TICK * TICKS_PER_SAMPLE))  # Hz, the simulator's own

PRE_TORQUE_RAMP: Second = 0.25
BRAKE_DELAY: Second = 0.30  # from power on to the opening of the brake
BRAKE_TIME: Second = 0.12  # that the brake takes to open or close
START_DELAY: Second = 0.30  # from the opening of the brake to the start
HOLD: Second = 0.35  # from standstill to the closing of the brake
RELEASE_DELAY: Second = 0.25  # from the closing of the brake to the end of the torque
RELEASE_RAMP: Second = 0.25


class Schedule(NamedTuple):
    """The moments of a journey, in s from the start of the recording."""

    on: Second
    brake_opens: Second
    go: Second
    end: Second
    brake_closes: Second
    release: Second
    off: Second


class SCurve(NamedTuple):
    """A movement with bounded jerk, on a grid of 1 ms: position, speed, acceleration (n, 3), and its parts in s."""

    path: npt.NDArray[np.float64]
    jerking: Second  # T_j
    accelerating: Second  # T_a, at constant acceleration
    cruising: Second  # T_v

    @property
    def duration(self) -> Second:
        """From standstill to standstill."""
        return 4 * self.jerking + 2 * self.accelerating + self.cruising

    @property
    def speeding_up(self) -> Second:
        """From standstill to full speed."""
        return 2 * self.jerking + self.accelerating


def s_curve(distance: Metre, speed: Speed, acceleration: Acceleration, jerk: Jerk) -> SCurve:
    """Seven parts of constant jerk, each a whole number of ms; the jerk is adapted so that the distance is exact."""
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


def schedule(on: Second, moving: Second) -> Schedule:
    """The moments that follow from switching on and from how long the movement takes."""
    opens = on + BRAKE_DELAY
    go = opens + START_DELAY
    end = go + moving
    closes = end + HOLD
    release = closes + RELEASE_DELAY
    return Schedule(on, opens, go, end, closes, release, release + RELEASE_RAMP)


def longest_duration(floors: int) -> Second:
    """How long a recording has to be for a journey over some floors in any installation."""
    slowest = max(s_curve(floors * FLOOR_HEIGHT, SPEED, a, j).duration for a in ACCELERATIONS for j in JERKS)
    return schedule(LATEST_START, slowest).off


class Drive(NamedTuple):
    """The controller, with nominal motor data (hats in docs/elevator.md)."""

    schedule: Schedule
    direction: Ratio  # +1 up, −1 down
    radius: Metre
    pre_torque: NewtonMetre
    feedforward: Inertia  # J_ff
    pole_pairs: Ratio
    flux: Weber
    inductance_d: Henry
    inductance_q: Henry
    current_gain_d: Ohm
    current_gain_q: Ohm
    current_integral: OhmPerSecond
    speed_gain: RotaryDamping
    speed_integral: RotaryStiffness
    position_gain: PerSecond
    largest_torque: NewtonMetre
    largest_voltage: Volt


@compiled
def brake_closure(times: Schedule, t: float) -> float:
    """1 closed … 0 open."""
    opening = 1.0 - (t - times.brake_opens) / BRAKE_TIME
    closing = (t - times.brake_closes) / BRAKE_TIME
    return min(1.0, max(0.0, opening, closing))


@compiled
def torque_per_ampere(drive: Drive, torque: float):  # type: ignore[no-untyped-def]
    """The currents that give a torque with the least current (MTPA), by nominal motor data: (i_d, i_q)."""
    saliency = drive.inductance_q - drive.inductance_d
    i_0 = torque / (1.5 * drive.pole_pairs * drive.flux)
    root = math.sqrt(drive.flux * drive.flux + 4 * saliency * saliency * i_0 * i_0)
    i_d = (drive.flux - root) / (2 * saliency)
    return i_d, torque / (1.5 * drive.pole_pairs * (drive.flux - saliency * i_d))


@compiled
def speed_loop(drive: Drive, reference, integral: float, phi: float, omega_f: float):  # type: ignore[no-untyped-def]
    """Position and speed loop, once per ms: (torque, integral). `reference` is position, speed, acceleration."""
    per_radius = drive.direction / drive.radius
    error = per_radius * reference[1] + drive.position_gain * (per_radius * reference[0] - phi) - omega_f
    integral += drive.speed_integral * error * SPEED_TICK
    torque = drive.pre_torque + drive.feedforward * per_radius * reference[2] + drive.speed_gain * error + integral
    return min(max(torque, -drive.largest_torque), drive.largest_torque), integral


@compiled
def current_loop(drive: Drive, wanted_d, wanted_q, i_d, i_q, omega, x_d, x_q):  # type: ignore[no-untyped-def]
    """Current loop with decoupling, once per tick; the integrators wait while the voltage is at its limit.

    Gives (v_d, v_q, x_d, x_q).
    """
    w_e = drive.pole_pairs * omega
    error_d, error_q = wanted_d - i_d, wanted_q - i_q
    v_d = drive.current_gain_d * error_d + x_d - w_e * drive.inductance_q * i_q
    v_q = drive.current_gain_q * error_q + x_q + w_e * (drive.inductance_d * i_d + drive.flux)
    magnitude = math.sqrt(v_d * v_d + v_q * v_q)
    if magnitude > drive.largest_voltage:
        scale = drive.largest_voltage / magnitude
        return v_d * scale, v_q * scale, x_d, x_q
    grown = drive.current_integral * CURRENT_TICK
    return v_d, v_q, x_d + grown * error_d, x_q + grown * error_q

"""The drive: its position, speed and current loops."""

from __future__ import annotations

import math
from typing import NamedTuple

from dfstrans.elevator.compiling import compiled
from dfstrans.elevator.motion import BRAKE_TIME, CURRENT_TICK, SPEED_TICK, Schedule
from dfstrans.elevator.units import (
    Henry,
    Inertia,
    Metre,
    NewtonMetre,
    Ohm,
    OhmPerSecond,
    PerSecond,
    Ratio,
    RotaryDamping,
    RotaryStiffness,
    Volt,
    Weber,
)


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

"""The energy of the machine, written out from the equations and from nothing of the kernel but its trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.kernel import Setup
from tests.lab.elevator.journeys import Trace

G = 9.81
LONGEST_ROPE = 4.0 + 25.2  # m
SHOES = 3.2  # m
GRID = 0.004  # m


class Balance(NamedTuple):
    """In J: what is left over of each step, summed up, and how much went through the machine."""

    residual: npt.NDArray[np.float64]  # (n_steps,)
    turnover: float

    @property
    def worst(self) -> float:
        return float(np.abs(self.residual).max())


def mechanical_balance(setup: Setup, trace: Trace) -> Balance:
    """Energy at the end − energy at the start − work of everything that is not a spring or a weight."""
    plant = setup.plant
    was = {name: trace.before(name) for name in setup.state._fields}
    now = {name: getattr(trace, name) for name in setup.state._fields}
    mean = {name: (was[name] + now[name]) / 2 for name in now}
    h = trace.step

    heads = {"x": ("guide_x", "guide_damping_x", "roll", 0), "y": ("guide_y", "guide_damping_y", "pitch", 2)}
    arms = ((plant.above, SHOES), (-plant.below, 0.0))

    def rail(column: int, height: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.interp(height, np.arange(len(setup.rail)) * GRID, setup.rail[:, column])

    def energy(s: dict[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        kinetic = 0.5 * (
            plant.sling_inertia * s["v_s"] ** 2
            + plant.body * (s["v_s"] + s["v_b"]) ** 2
            + plant.weight_inertia * s["v_w"] ** 2
            + plant.machine * s["v_p"] ** 2
            + plant.inertia * s["omega"] ** 2
            + plant.lateral_mass * (s["v_x"] ** 2 + s["v_y"] ** 2)
            + plant.roll_inertia * s["v_roll"] ** 2
            + plant.pitch_inertia * s["v_pitch"] ** 2
        )
        rope = plant.rope * 33.2  # kg
        height = G * (
            plant.body * (s["z_s"] + s["z_b"])
            + plant.sling * s["z_s"]
            + plant.rope * (LONGEST_ROPE * s["z_s"] - s["z_s"] ** 2 / 2) / 2
            + plant.compensation * s["z_s"] ** 2 / 2
            + plant.cable * s["z_s"] ** 2 / 4
            + plant.weight * s["z_w"]
            + plant.rope * (LONGEST_ROPE * s["z_w"] - s["z_w"] ** 2 / 2) / 2
            + plant.compensation * s["z_w"] ** 2 / 2
            + (plant.machine + rope / 2) * s["z_p"]
        )
        springs = 0.5 * (plant.isolation * s["z_b"] ** 2 + plant.support * s["z_p"] ** 2)
        springs = springs + 0.5 * (stiffness(s["z_s"]) * s["e_c"] ** 2 + stiffness(s["z_w"]) * s["e_w"] ** 2)
        for axis, (spring, _, angle, place) in heads.items():
            k = getattr(plant, spring)
            for arm, above in arms:
                d = s[axis] + arm * s[angle] - rail(place, s["z_s"] + above)
                springs = springs + k * (d**2 / 2 + d**4 / (4 * plant.guide_hardening**2))
        return kinetic + height + springs

    def stiffness(height: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return 1 / ((LONGEST_ROPE - height) / plant.rope_tension + 1 / plant.hitch)

    k_c, k_w = stiffness(was["z_s"]), stiffness(was["z_w"])
    r = plant.radius * (1 + plant.run_out * np.cos(was["phi"] + plant.phase_run_out))
    strain = np.where(was["omega"] > 0, k_c * was["e_c"], k_w * was["e_w"]) / plant.rope_tension
    creep = r * strain * mean["omega"]
    imbalance = plant.radius * G * plant.rope * (was["z_w"] - was["z_s"]) / 2
    motor = (trace.reading_torque + trace.reading_ripple) * mean["omega"]
    power = (
        motor
        - (trace.reading_brake + imbalance) * mean["omega"]
        - trace.reading_friction_cabin * mean["v_s"]
        - trace.reading_friction_weight * mean["v_w"]
        - plant.isolation_damping * was["v_b"] * mean["v_b"]
        - plant.support_damping * was["v_p"] * mean["v_p"]
        # a rope that creeps over the pulley arrives shorter than it was pulled
        - (trace.reading_rope_cabin - trace.reading_rope_weight) * creep
        + trace.push_z * (mean["v_s"] + mean["v_b"])
    )
    for force, elongation, k in (("rope_cabin", "e_c", k_c), ("rope_weight", "e_w", k_w)):
        damping = getattr(trace, f"reading_{force}") - k * was[elongation]
        power = power - damping * (now[elongation] - was[elongation]) / h
    for axis, (_, damper, angle, place) in heads.items():
        push = getattr(trace, f"push_{axis}")
        offset = getattr(plant, f"offset_{axis}")
        felt = G + trace.reading_a_body
        power = power + push * (mean[f"v_{axis}"] - 0.2 * plant.floor * mean[f"v_{angle}"])
        power = power + offset * felt * mean[f"v_{angle}"]
        for arm, above in arms:
            slope = rail(place + 1, was["z_s"] + above)
            rate = {
                at: s[f"v_{axis}"] + arm * s[f"v_{angle}"] - slope * s["v_s"]
                for at, s in (("was", was), ("mean", mean))
            }
            power = power - getattr(plant, damper) * rate["was"] * rate["mean"]
    # springs that become stiffer as the rope becomes shorter
    stiffening = 0.5 * (
        was["e_c"] ** 2 * (stiffness(now["z_s"]) - k_c) + was["e_w"] ** 2 * (stiffness(now["z_w"]) - k_w)
    )
    residual = np.cumsum(energy(now) - energy(was) - power * h - stiffening)
    return Balance(residual, float(np.sum(np.abs(motor)) * h))


def electrical_balance(setup: Setup, trace: Trace) -> Balance:
    """What the inverter gives − copper and dead time − stored in the windings − mechanical power."""
    motor = setup.plant.motor
    was_d, was_q, omega, phi = (trace.before(name) for name in ("i_d", "i_q", "omega", "phi"))
    on = trace.powered > 0
    i_d, i_q = (was_d + trace.i_d) / 2, (was_q + trace.i_q) / 2
    size = np.hypot(i_d, i_q)
    given = 1.5 * (trace.v_d * i_d + trace.v_q * i_q)
    heat = 1.5 * (motor.resistance + motor.dead_time / (size + 0.3)) * size**2
    w_e, angle = motor.pole_pairs * omega, 2 * motor.pole_pairs * phi
    wound = motor.asymmetry * w_e
    uneven = (
        1.5
        * wound
        * (
            motor.inductance_d * (i_d * np.sin(angle) + i_q * np.cos(angle)) * i_d
            + motor.inductance_q * (i_d * np.cos(angle) - i_q * np.sin(angle)) * i_q
        )
    )
    stored = 0.75 * (motor.inductance_d * (trace.i_d**2 - was_d**2) + motor.inductance_q * (trace.i_q**2 - was_q**2))
    rest = (given - heat - uneven - trace.reading_torque * omega) * trace.step - stored
    return Balance(np.cumsum(np.where(on, rest, 0.0)), float(np.sum(np.abs(given)) * trace.step))

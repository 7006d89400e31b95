"""One journey: its machine, drive and start put together, simulated, and remade at will."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.elevator import kernel
from dfstrans.elevator.drive import Drive
from dfstrans.elevator.equilibrium import at_rest
from dfstrans.elevator.faults import ElevatorFault, on_plant, on_rails
from dfstrans.elevator.fleet import ROPE_MASS, Conditions, FleetMember, Installation, Trip
from dfstrans.elevator.motion import SPEED, TRAVEL, Schedule, SCurve, s_curve, schedule
from dfstrans.elevator.plant import (
    GRAVITY,
    ROPE_ABOVE,
    SHOE_DISTANCE,
    Friction,
    Motor,
    Plant,
    Rail,
    State,
    Wave,
    counterweight_weight,
    rope_imbalance,
    sling_weight,
)
from dfstrans.elevator.rails import Rails, rail_grid
from dfstrans.elevator.units import NewtonMetre

RADIUS = 0.20  # m, of the pulley
POLE_PAIRS = 10.0
NOMINAL_FLUX = 2.1825  # Wb, of a motor at its usual temperature
NOMINAL_INDUCTANCE_D, NOMINAL_INDUCTANCE_Q = 0.026, 0.038  # H
CURRENT_BANDWIDTH = 2 * math.pi * 120  # rad/s
NOMINAL_INERTIA = 108.0  # kg m², all that moves, seen from the pulley

PHASES = ("idle", "start", "accelerating", "cruising", "decelerating", "stop")


class Setup(NamedTuple):
    """All that the kernel needs."""

    plant: Plant
    drive: Drive
    state: State
    rail: Rail
    curve: SCurve
    movements: npt.NDArray[np.float64]

    @property
    def schedule(self) -> Schedule:
        """The moments of the journey."""
        return self.drive.schedule

    def run(self, n_samples: int, substeps: int = 1) -> npt.NDArray[np.float64]:
        """The clean signals at 400 Hz: (n_samples, 20)."""
        return kernel.run(
            self.plant, self.drive, self.state, self.rail, self.curve.path, self.movements,
            n_samples=n_samples, substeps=substeps,
        )  # fmt: skip

    def trace(self, n_samples: int, substeps: int = 1) -> npt.NDArray[np.float64]:
        """Everything of every step, for verification."""
        return kernel.trace(
            self.plant, self.drive, self.state, self.rail, self.curve.path, self.movements,
            n_samples=n_samples, substeps=substeps,
        )  # fmt: skip


def set_up(member: FleetMember, trip: Trip, conditions: Conditions, fault: ElevatorFault | None = None) -> Setup:
    """Put a journey together; with a fault, everything else stays as it is without."""
    own = member.installation
    rails = _rails_of_the_day(member.rails, conditions)
    plant = _plant(own, trip, conditions)
    if fault is not None:
        rails, plant = on_rails(fault, rails), on_plant(fault, plant)
    curve = s_curve(trip.distance, SPEED, own.acceleration, own.jerk)
    rail = rail_grid(rails)
    drive = _drive(own, trip, conditions, plant, schedule(trip.on, curve.duration))
    state = at_rest(plant, rail, trip.start, conditions.locked_cabin, conditions.locked_weight)
    movements = conditions.movements.copy()
    movements[:, 0] = drive.schedule.go + movements[:, 0] * curve.duration
    return Setup(plant, drive, state, rail, curve, movements)


def phases(setup: Setup, times: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """The phase at each moment, as an index into PHASES."""
    schedule, curve = setup.schedule, setup.curve
    bounds = [
        schedule.on,
        schedule.go + 0.35,
        schedule.go + curve.speeding_up,
        schedule.end - curve.speeding_up,
        schedule.end - 0.30,
        schedule.off + 0.1,
    ]
    return (np.searchsorted(bounds, times, side="right") % len(PHASES)).astype(np.int8)  # after the last: idle again


def _rails_of_the_day(rails: Rails, conditions: Conditions) -> Rails:
    return rails._replace(
        x=rails.x * conditions.rail_amplitude,
        y=rails.y * conditions.rail_amplitude,
        factor_cabin=rails.factor_cabin + conditions.fresh_cabin,
        factor_weight=rails.factor_weight + conditions.fresh_weight,
    )


def _plant(own: Installation, trip: Trip, day: Conditions) -> Plant:
    rope_mass = ROPE_MASS * (TRAVEL + 2 * ROPE_ABOVE)
    compensation = own.compensation * TRAVEL / 2
    lateral_mass = own.sling + own.body + trip.load
    below = own.below - 0.15 * trip.load / 630
    static = own.sliding * own.static_over_sliding * day.static
    viscous = own.viscous * math.exp(-0.025 * (day.ambient - 20))
    stribeck_speed = own.stribeck_speed * day.stribeck_speed
    return Plant(
        motor=_motor(own, trip, day),
        cabin_friction=Friction(
            own.sliding * day.lubrication_cabin, static * day.lubrication_cabin, stribeck_speed, viscous, 4e5
        ),
        weight_friction=Friction(
            own.sliding * day.lubrication_weight, static * day.lubrication_weight, stribeck_speed, 0.8 * viscous, 3e5
        ),
        sling=own.sling,
        sling_inertia=own.sling + rope_mass / 4 + compensation + own.cable * TRAVEL / 4,
        body=own.body + trip.load,
        weight=own.weight,
        weight_inertia=own.weight + rope_mass / 4 + compensation,
        machine=own.machine,
        rope=ROPE_MASS,
        compensation=own.compensation,
        cable=own.cable,
        rope_tension=own.rope_tension,
        hitch=own.hitch,
        rope_damping=own.rope_damping,
        support=own.support,
        support_damping=2 * own.support_damping_ratio * math.sqrt(own.support * own.machine),
        isolation=own.isolation,
        isolation_damping=2 * own.isolation_damping_ratio * math.sqrt(own.isolation * (own.body + 189)),
        radius=RADIUS,
        inertia=own.pulley_inertia + RADIUS**2 * rope_mass / 2,
        run_out=own.run_out,
        phase_run_out=own.phase_run_out + trip.start / RADIUS,
        bearing=own.bearing,
        bearing_viscous=own.bearing_viscous,
        brake=1600.0,
        brake_stiffness=3e5,
        brake_damping=250.0,
        speed_filter=600.0,
        lateral_mass=lateral_mass,
        roll_inertia=0.75 * lateral_mass,
        pitch_inertia=0.80 * lateral_mass,
        guide_x=own.guide_x,
        guide_y=own.guide_y,
        guide_damping_x=own.guide_damping_ratio * math.sqrt(2 * own.guide_x * 1100),
        guide_damping_y=own.guide_damping_ratio * math.sqrt(2 * own.guide_y * 1100),
        guide_hardening=0.004,
        above=SHOE_DISTANCE - below,
        below=below,
        floor=below - 0.25,
        offset_x=trip.offset_x,
        offset_y=trip.offset_y,
        preload_x=own.preload_x * day.wear,
        preload_y=own.preload_y * day.wear,
        preload_weight=own.preload_weight * day.wear,
        gauge_cabin=own.gauge_cabin,
        gauge_weight=own.gauge_weight,
    )


def _motor(own: Installation, trip: Trip, day: Conditions) -> Motor:
    magnet = day.ambient + 0.7 * (day.winding - day.ambient)
    turned = trip.start / RADIUS  # the ripple belongs to the pulley, not to the journey
    return Motor(
        pole_pairs=POLE_PAIRS,
        flux=own.flux_20 * (1 - 0.0011 * (magnet - 20)),
        inductance_d=own.inductance_d,
        inductance_q=own.inductance_q,
        resistance=own.resistance_20 * (1 + 0.0039 * (day.winding - 20)),
        asymmetry=0.0,
        dead_time=0.009 * day.supply,
        cogging=_wave(own.cogging, own.phase_cogging + 12 * POLE_PAIRS * turned),
        ripple_6=_wave(own.ripple_6, own.phase_6 + 6 * POLE_PAIRS * turned),
        ripple_1=_wave(own.ripple_1, own.phase_1 + POLE_PAIRS * turned),
    )


def _wave(amplitude: float, phase: float) -> Wave:
    return Wave(amplitude * math.cos(phase), amplitude * math.sin(phase))


def _drive(own: Installation, trip: Trip, day: Conditions, plant: Plant, times: Schedule) -> Drive:
    bandwidth = 2 * math.pi * own.speed_bandwidth
    speed_gain = NOMINAL_INERTIA * bandwidth
    moving = plant.inertia + RADIUS**2 * (plant.sling_inertia + plant.body + plant.weight_inertia)
    return Drive(
        schedule=times,
        direction=float(trip.direction),
        radius=RADIUS,
        pre_torque=_pre_torque(own, trip, day, plant),
        feedforward=0.97 * moving,
        pole_pairs=POLE_PAIRS,
        flux=NOMINAL_FLUX,
        inductance_d=NOMINAL_INDUCTANCE_D,
        inductance_q=NOMINAL_INDUCTANCE_Q,
        current_gain_d=CURRENT_BANDWIDTH * NOMINAL_INDUCTANCE_D,
        current_gain_q=CURRENT_BANDWIDTH * NOMINAL_INDUCTANCE_Q,
        current_integral=CURRENT_BANDWIDTH * 1.2,
        speed_gain=speed_gain,
        speed_integral=speed_gain * bandwidth / 3,
        position_gain=1.5,
        largest_torque=1500.0,
        largest_voltage=day.supply / math.sqrt(3),
    )


def _pre_torque(own: Installation, trip: Trip, day: Conditions, plant: Plant) -> NewtonMetre:
    """The torque that would hold the cabin, by the load that the load cell shows."""
    shown = trip.load * day.load_gain + day.load_offset
    z_w = TRAVEL - trip.start
    hanging = sling_weight(plant, trip.start) + GRAVITY * (own.body + shown) - counterweight_weight(plant, z_w)
    return RADIUS * float(hanging) + float(rope_imbalance(plant, trip.start, z_w))

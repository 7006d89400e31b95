"""One journey: its machine, drive and start put together, simulated, and remade at will."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator import kernel, machine
from dfstrans.lab.elevator.equilibrium import at_rest
from dfstrans.lab.elevator.faults import ElevatorFault, on_plant, on_rails
from dfstrans.lab.elevator.fleet import Conditions, FleetMember, Installation, Trip
from dfstrans.lab.elevator.motion import SPEED, TRAVEL, Drive, NewtonMetre, Schedule, SCurve, Second, s_curve, schedule
from dfstrans.lab.elevator.plant import (
    GRAVITY,
    ROPE_LENGTH,
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
from dfstrans.lab.elevator.rails import Rails, rail_grid

PHASES = ("idle", "start", "accelerating", "cruising", "decelerating", "stop")
START_LASTS: Second = 0.35  # after the first movement
STOP_BEGINS: Second = 0.30  # before standstill
STOP_LASTS: Second = 0.1  # after the end of power


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
        schedule.go + START_LASTS,
        schedule.go + curve.speeding_up,
        schedule.end - curve.speeding_up,
        schedule.end - STOP_BEGINS,
        schedule.off + STOP_LASTS,
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
    rope_mass = machine.ROPE_MASS * ROPE_LENGTH
    compensation = own.compensation * TRAVEL / 2
    lateral_mass = own.sling + own.body + trip.load
    below = own.below - machine.LOWERED_BY_LOAD * trip.load / machine.RATED_LOAD
    static = own.sliding * own.static_over_sliding * day.static
    viscous = own.viscous * math.exp(-machine.VISCOSITY_FALLS * (day.ambient - machine.REFERENCE_TEMPERATURE))
    stribeck_speed = own.stribeck_speed * day.stribeck_speed
    return Plant(
        motor=_motor(own, trip, day),
        cabin_friction=Friction(
            sliding=own.sliding * day.lubrication_cabin,
            static=static * day.lubrication_cabin,
            stribeck_speed=stribeck_speed,
            viscous=viscous,
            bristle=machine.BRISTLE_CABIN,
        ),
        weight_friction=Friction(
            sliding=own.sliding * day.lubrication_weight,
            static=static * day.lubrication_weight,
            stribeck_speed=stribeck_speed,
            viscous=machine.VISCOUS_SHARE_WEIGHT * viscous,
            bristle=machine.BRISTLE_WEIGHT,
        ),
        sling=own.sling,
        sling_inertia=own.sling + rope_mass / 4 + compensation + own.cable * TRAVEL / 4,
        body=own.body + trip.load,
        weight=own.weight,
        weight_inertia=own.weight + rope_mass / 4 + compensation,
        machine=own.machine,
        rope=machine.ROPE_MASS,
        compensation=own.compensation,
        cable=own.cable,
        rope_tension=own.rope_tension,
        hitch=own.hitch,
        rope_damping=own.rope_damping,
        support=own.support,
        support_damping=2 * own.support_damping_ratio * math.sqrt(own.support * own.machine),
        isolation=own.isolation,
        isolation_damping=2 * own.isolation_damping_ratio * math.sqrt(own.isolation * (own.body + machine.USUAL_LOAD)),
        radius=machine.RADIUS,
        inertia=own.pulley_inertia + machine.RADIUS**2 * rope_mass / 2,
        run_out=own.run_out,
        phase_run_out=own.phase_run_out + trip.start / machine.RADIUS,
        bearing=own.bearing,
        bearing_viscous=own.bearing_viscous,
        brake=machine.BRAKE,
        brake_stiffness=machine.BRAKE_STIFFNESS,
        brake_damping=machine.BRAKE_DAMPING,
        speed_filter=machine.SPEED_FILTER,
        lateral_mass=lateral_mass,
        roll_inertia=machine.ROLL_INERTIA_PER_MASS * lateral_mass,
        pitch_inertia=machine.PITCH_INERTIA_PER_MASS * lateral_mass,
        guide_x=own.guide_x,
        guide_y=own.guide_y,
        guide_damping_x=own.guide_damping_ratio * math.sqrt(2 * own.guide_x * machine.GUIDED_MASS),
        guide_damping_y=own.guide_damping_ratio * math.sqrt(2 * own.guide_y * machine.GUIDED_MASS),
        guide_hardening=machine.GUIDE_HARDENING,
        above=SHOE_DISTANCE - below,
        below=below,
        floor=below - machine.FLOOR_OVER_SHOE,
        offset_x=trip.offset_x,
        offset_y=trip.offset_y,
        preload_x=own.preload_x * day.wear,
        preload_y=own.preload_y * day.wear,
        preload_weight=own.preload_weight * day.wear,
        gauge_cabin=own.gauge_cabin,
        gauge_weight=own.gauge_weight,
    )


def _motor(own: Installation, trip: Trip, day: Conditions) -> Motor:
    magnet = day.ambient + machine.MAGNET_SHARE * (day.winding - day.ambient)
    turned = trip.start / machine.RADIUS  # the ripple belongs to the pulley, not to the journey
    return Motor(
        pole_pairs=machine.POLE_PAIRS,
        flux=own.flux_20 * (1 - machine.FLUX_FALLS * (magnet - machine.REFERENCE_TEMPERATURE)),
        inductance_d=own.inductance_d,
        inductance_q=own.inductance_q,
        resistance=own.resistance_20 * (1 + machine.RESISTANCE_RISES * (day.winding - machine.REFERENCE_TEMPERATURE)),
        asymmetry=0.0,
        dead_time=machine.DEAD_TIME_SHARE * day.supply,
        cogging=_wave(own.cogging, own.phase_cogging + machine.COGGING_ORDER * machine.POLE_PAIRS * turned),
        ripple_6=_wave(own.ripple_6, own.phase_6 + machine.RIPPLE_ORDER * machine.POLE_PAIRS * turned),
        ripple_1=_wave(own.ripple_1, own.phase_1 + machine.POLE_PAIRS * turned),
    )


def _wave(amplitude: float, phase: float) -> Wave:
    return Wave(amplitude * math.cos(phase), amplitude * math.sin(phase))


def _drive(own: Installation, trip: Trip, day: Conditions, plant: Plant, times: Schedule) -> Drive:
    bandwidth = 2 * math.pi * own.speed_bandwidth
    speed_gain = machine.NOMINAL_INERTIA * bandwidth
    moving = plant.inertia + machine.RADIUS**2 * (plant.sling_inertia + plant.body + plant.weight_inertia)
    return Drive(
        schedule=times,
        direction=float(trip.direction),
        radius=machine.RADIUS,
        pre_torque=_pre_torque(own, trip, day, plant),
        feedforward=machine.FEEDFORWARD_SHARE * moving,
        pole_pairs=machine.POLE_PAIRS,
        flux=machine.NOMINAL_FLUX,
        inductance_d=machine.NOMINAL_INDUCTANCE_D,
        inductance_q=machine.NOMINAL_INDUCTANCE_Q,
        current_gain_d=machine.CURRENT_BANDWIDTH * machine.NOMINAL_INDUCTANCE_D,
        current_gain_q=machine.CURRENT_BANDWIDTH * machine.NOMINAL_INDUCTANCE_Q,
        current_integral=machine.CURRENT_BANDWIDTH * machine.NOMINAL_RESISTANCE,
        speed_gain=speed_gain,
        speed_integral=speed_gain * bandwidth / machine.SPEED_INTEGRAL_SLOWER,
        position_gain=machine.POSITION_GAIN,
        largest_torque=machine.LARGEST_TORQUE,
        largest_voltage=day.supply / math.sqrt(3),
    )


def _pre_torque(own: Installation, trip: Trip, day: Conditions, plant: Plant) -> NewtonMetre:
    """The torque that would hold the cabin, by the load that the load cell shows."""
    shown = trip.load * day.load_gain + day.load_offset
    z_w = TRAVEL - trip.start
    hanging = sling_weight(plant, trip.start) + GRAVITY * (own.body + shown) - counterweight_weight(plant, z_w)
    return machine.RADIUS * float(hanging) + float(rope_imbalance(plant, trip.start, z_w))

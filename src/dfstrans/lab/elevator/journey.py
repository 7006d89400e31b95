"""One journey prepared for simulation: its machine, drive, rails and initial state."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator import machine
from dfstrans.lab.elevator.faults import ElevatorFault, apply_to_plant, apply_to_rails
from dfstrans.lab.elevator.fleet import Conditions, FleetMember, Installation, Trip
from dfstrans.lab.elevator.kernel import Setup
from dfstrans.lab.elevator.motion import SPEED, TRAVEL, Drive, Schedule, s_curve, schedule
from dfstrans.lab.elevator.plant import (
    FACTOR_CABIN,
    FACTOR_WEIGHT,
    GAUGE_CABIN,
    GAUGE_WEIGHT,
    GRAVITY,
    ROPE_ABOVE,
    ROPE_LENGTH,
    SHOE_DISTANCE,
    SLOPE_X,
    SLOPE_Y,
    W_X,
    W_Y,
    Friction,
    Motor,
    Plant,
    Rail,
    State,
    Wave,
    cabin_normal_force,
    counterweight_weight,
    friction_bound,
    locate,
    rail_at,
    rope_imbalance,
    rope_on_machine,
    rope_stiffness,
    sling_weight,
    weight_normal_force,
)
from dfstrans.lab.elevator.rails import Rails, rail_grid

PHASES = ("idle", "start", "accelerating", "cruising", "decelerating", "stop")
START_LASTS = 0.35  # s, after go
STOP_BEGINS = 0.30  # s, before standstill
STOP_LASTS = 0.1  # s, after the end of power


def set_up(member: FleetMember, trip: Trip, conditions: Conditions, fault: ElevatorFault | None = None) -> Setup:
    """Prepare a journey; a fault changes nothing but itself."""
    own = member.installation
    rails = _rails_today(member.rails, conditions)
    plant = _plant(own, trip, conditions)
    if fault is not None:
        rails, plant = apply_to_rails(fault, rails), apply_to_plant(fault, plant)
    curve = s_curve(trip.distance, SPEED, own.acceleration, own.jerk)
    rail = rail_grid(rails)
    drive = _drive(own, trip, conditions, plant, schedule(trip.on, curve.duration))
    state = equilibrium(plant, rail, trip.start, conditions.locked_cabin, conditions.locked_weight)
    movements = conditions.movements.copy()
    movements[:, 0] = drive.schedule.go + movements[:, 0] * curve.duration
    return Setup(plant, drive, state, rail, curve, movements)


def phases(setup: Setup, times: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """The phase at each time, as an index into PHASES."""
    events, curve = setup.schedule, setup.curve
    bounds = [
        events.on,
        events.go + START_LASTS,
        events.go + curve.ramp_time,
        events.end - curve.ramp_time,
        events.end - STOP_BEGINS,
        events.off + STOP_LASTS,
    ]
    return (np.searchsorted(bounds, times, side="right") % len(PHASES)).astype(np.int8)  # after the last: idle again


def equilibrium(plant: Plant, rail: Rail, height: float, locked_cabin: float, locked_weight: float) -> State:
    """The initial state at rest, with the brake closed: every acceleration is zero.

    `locked_*` is the friction left in the guides, relative to the static bound.
    """
    lower, upper = locate(height), locate(height + SHOE_DISTANCE)
    tilt_x = _tilt(plant, plant.guide_x, plant.offset_x, rail_at(rail, *upper, W_X), rail_at(rail, *lower, W_X))
    tilt_y = _tilt(plant, plant.guide_y, plant.offset_y, rail_at(rail, *upper, W_Y), rail_at(rail, *lower, W_Y))
    gauges = rail_at(rail, *upper, GAUGE_CABIN), rail_at(rail, *lower, GAUGE_CABIN)
    normal = cabin_normal_force(plant, *gauges, -tilt_x.force, tilt_x.force, -tilt_y.force, tilt_y.force)
    factor = rail_at(rail, *locate(height + SHOE_DISTANCE / 2), FACTOR_CABIN)
    f_c = locked_cabin * friction_bound(plant.cabin_friction, normal, factor, 0.0)
    z_w = TRAVEL - height
    beside = locate(z_w)
    normal_w = weight_normal_force(plant, rail_at(rail, *beside, GAUGE_WEIGHT))
    f_w = locked_weight * friction_bound(plant.weight_friction, normal_w, rail_at(rail, *beside, FACTOR_WEIGHT), 0.0)
    change_x = rail_at(rail, *lower, SLOPE_X) - rail_at(rail, *upper, SLOPE_X)
    change_y = rail_at(rail, *lower, SLOPE_Y) - rail_at(rail, *upper, SLOPE_Y)
    on_slopes = -tilt_x.force * change_x - tilt_y.force * change_y
    F_c = sling_weight(plant, height) + GRAVITY * plant.body + f_c - on_slopes
    F_w = counterweight_weight(plant, z_w) + f_w
    k_c = rope_stiffness(plant, ROPE_ABOVE + TRAVEL - height)
    k_w = rope_stiffness(plant, ROPE_ABOVE + TRAVEL - z_w)
    r = plant.radius * (1 + plant.run_out * math.cos(plant.phase_run_out))
    torque = plant.motor.cogging.cosine - r * (F_c - F_w) - rope_imbalance(plant, height, z_w)
    nothing_moves = State(*[0.0] * len(State._fields))
    return nothing_moves._replace(
        z_s=height,
        z_b=-plant.body * GRAVITY / plant.isolation,
        z_w=z_w,
        z_p=-(plant.machine * GRAVITY + rope_on_machine(plant) + F_c + F_w) / plant.support,
        e_c=F_c / k_c,
        e_w=F_w / k_w,
        x=tilt_x.position,
        roll=tilt_x.angle,
        y=tilt_y.position,
        pitch=tilt_y.angle,
        xi_c=f_c / plant.cabin_friction.bristle,
        xi_w=f_w / plant.weight_friction.bristle,
        xi_b=torque / plant.brake_stiffness,
    )


def _rails_today(rails: Rails, conditions: Conditions) -> Rails:
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
    viscous = own.viscous * math.exp(-machine.VISCOSITY_DECAY * (day.ambient - machine.REFERENCE_TEMPERATURE))
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
        isolation_damping=2
        * own.isolation_damping_ratio
        * math.sqrt(own.isolation * (own.body + machine.TYPICAL_LOAD)),
        radius=machine.RADIUS,
        inertia=own.pulley_inertia + machine.RADIUS**2 * rope_mass / 2,
        run_out=own.run_out,
        phase_run_out=own.phase_run_out + trip.start / machine.RADIUS,
        bearing=own.bearing,
        bearing_viscous=own.bearing_viscous,
        brake=machine.BRAKE_TORQUE,
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
        floor=below - machine.FLOOR_ABOVE_SHOE,
        offset_x=trip.offset_x,
        offset_y=trip.offset_y,
        preload_x=own.preload_x * day.wear,
        preload_y=own.preload_y * day.wear,
        preload_weight=own.preload_weight * day.wear,
        gauge_cabin=own.gauge_cabin,
        gauge_weight=own.gauge_weight,
    )


def _motor(own: Installation, trip: Trip, day: Conditions) -> Motor:
    magnet = day.ambient + machine.MAGNET_HEATING * (day.winding - day.ambient)
    turned = trip.start / machine.RADIUS  # ripple is fixed to the pulley, not to the journey
    return Motor(
        pole_pairs=machine.POLE_PAIRS,
        flux=own.flux_20 * (1 - machine.FLUX_SLOPE * (magnet - machine.REFERENCE_TEMPERATURE)),
        inductance_d=own.inductance_d,
        inductance_q=own.inductance_q,
        resistance=own.resistance_20 * (1 + machine.RESISTANCE_SLOPE * (day.winding - machine.REFERENCE_TEMPERATURE)),
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
        speed_integral=speed_gain * bandwidth / machine.SPEED_INTEGRAL_RATIO,
        position_gain=machine.POSITION_GAIN,
        max_torque=machine.MAX_TORQUE,
        max_voltage=day.supply / math.sqrt(3),
    )


def _pre_torque(own: Installation, trip: Trip, day: Conditions, plant: Plant) -> float:
    """The torque that would hold the cabin if the load cell were right."""
    shown = trip.load * day.load_gain + day.load_offset
    z_w = TRAVEL - trip.start
    hanging = sling_weight(plant, trip.start) + GRAVITY * (own.body + shown) - counterweight_weight(plant, z_w)
    return machine.RADIUS * float(hanging) + float(rope_imbalance(plant, trip.start, z_w))


class _Tilt(NamedTuple):
    """The cabin tilted by an eccentric load along x or y, and the force at its lower shoe."""

    position: float
    angle: float
    force: float


def _tilt(plant: Plant, stiffness: float, offset: float, rail_upper: float, rail_lower: float) -> _Tilt:
    """Solve k d (1 + d²/d0²) = g Q / (a_u + a_l) by Newton's method; the upper shoe bends by +d, the lower by −d."""
    span = plant.above + plant.below
    force = GRAVITY * offset / span
    d = force / stiffness
    for _ in range(50):
        stretched = (d / plant.guide_hardening) ** 2
        correction = (stiffness * d * (1 + stretched) - force) / (stiffness * (1 + 3 * stretched))
        d -= correction
        if abs(correction) < 1e-18:
            break
    angle = (2 * d + rail_upper - rail_lower) / span
    return _Tilt(rail_upper + d - plant.above * angle, angle, force)

"""The machine: motor, pulley, ropes, cabin, counterweight, machine support, guidance and friction.

The symbols are those of docs/elevator.md; z points up, φ > 0 lifts the cabin.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.motion import (
    TRAVEL,
    Acceleration,
    Ampere,
    AmperePerSecond,
    Damping,
    Henry,
    Inertia,
    Kilogram,
    KilogramMetre,
    KilogramPerMetre,
    Metre,
    Newton,
    NewtonMetre,
    Ohm,
    PerSecond,
    Radian,
    Ratio,
    RotaryAcceleration,
    RotaryDamping,
    RotarySpeed,
    RotaryStiffness,
    Second,
    Speed,
    Stiffness,
    Volt,
    Weber,
    compiled,
    inlined,
)

GRAVITY: Acceleration = 9.81
ROPE_ABOVE: Metre = 4.0  # between the highest position and the pulley
ROPE_LENGTH: Metre = TRAVEL + 2 * ROPE_ABOVE  # from the sling to the counterweight
SHOE_DISTANCE: Metre = 3.2  # from the lower to the upper guide shoe
RAIL_SPACING: Metre = 0.004  # between two points of the rail grid
RAIL_POINTS = 7600  # 0 … 30.4 m
PUSH_SHARE: Ratio = 0.2  # of the way from the centre of mass down to the floor: where passengers push
DEAD_TIME_CURRENT: Ampere = 0.3  # around which the loss of the inverter changes its sign

# columns of the rail grid: eight numbers of a height, which are one cache line
W_X, SLOPE_X, W_Y, SLOPE_Y, GAUGE_CABIN, GAUGE_WEIGHT, FACTOR_CABIN, FACTOR_WEIGHT = range(8)

Rail = npt.NDArray[np.float64]  # (RAIL_POINTS, 8)


class Friction(NamedTuple):
    """One guide: Stribeck friction with stiction, as an elasto-plastic stop element."""

    sliding: Ratio  # μ_c
    static: Ratio  # μ_s
    stribeck_speed: Speed  # v_s
    viscous: Damping  # b
    bristle: Stiffness  # σ


class Wave(NamedTuple):
    """A sin(θ + phase) as A cos(phase) sin θ + A sin(phase) cos θ."""

    sine: float  # A cos(phase), in the unit of A
    cosine: float  # A sin(phase)


class Motor(NamedTuple):
    """A salient permanent-magnet synchronous motor in the dq frame, amplitude-invariant."""

    pole_pairs: Ratio
    flux: Weber  # ψ
    inductance_d: Henry
    inductance_q: Henry
    resistance: Ohm
    asymmetry: Ratio  # k2, of a winding that has lost turns
    dead_time: Volt  # dV, lost in the inverter
    cogging: Wave  # T_cog, Nm, order 12 p
    ripple_6: Wave  # a6, share of the torque, order 6 p
    ripple_1: Wave  # a1, Nm, order p


class Plant(NamedTuple):
    """Everything that does not change during a journey."""

    motor: Motor
    cabin_friction: Friction
    weight_friction: Friction
    # vertical
    sling: Kilogram  # m_s, with its fittings
    sling_inertia: Kilogram  # M_s, with its share of ropes and cables
    body: Kilogram  # m_b, cabin body and passengers
    weight: Kilogram  # m_w, counterweight
    weight_inertia: Kilogram  # M_w
    machine: Kilogram  # m_p, machine and bedplate
    rope: KilogramPerMetre  # μ_r
    compensation: KilogramPerMetre  # μ_k
    cable: KilogramPerMetre  # μ_t, travelling cable
    rope_tension: Newton  # EA
    hitch: Stiffness  # K_h
    rope_damping: Second  # β
    support: Stiffness  # k_p
    support_damping: Damping  # c_p
    isolation: Stiffness  # k_i
    isolation_damping: Damping  # c_i
    # pulley and brake
    radius: Metre  # R
    inertia: Inertia  # J_t, with the ropes
    run_out: Ratio  # ecc
    phase_run_out: Radian  # e_ph
    bearing: NewtonMetre  # T_bear
    bearing_viscous: RotaryDamping  # b_bear
    brake: NewtonMetre  # T_brk
    brake_stiffness: RotaryStiffness  # σ_b
    brake_damping: RotaryDamping  # c_b
    speed_filter: PerSecond  # w_fil, of the measured speed
    # lateral guidance
    lateral_mass: Kilogram  # M
    roll_inertia: Inertia  # I_x
    pitch_inertia: Inertia  # I_y
    guide_x: Stiffness  # k_x
    guide_y: Stiffness
    guide_damping_x: Damping  # c_x
    guide_damping_y: Damping
    guide_hardening: Metre  # d_0
    above: Metre  # a_u, upper shoe over the centre of mass
    below: Metre  # a_l, lower shoe under it
    floor: Metre  # a_f, accelerometer on the floor under it
    offset_x: KilogramMetre  # Q_ex, eccentric load
    offset_y: KilogramMetre
    preload_x: Newton  # N0x
    preload_y: Newton
    preload_weight: Newton  # N0w
    gauge_cabin: Stiffness  # k_g, preload per narrowing of the gauge
    gauge_weight: Stiffness


class State(NamedTuple):
    """What the machine remembers from one step to the next."""

    i_d: Ampere
    i_q: Ampere
    phi: Radian
    omega: RotarySpeed
    omega_f: RotarySpeed  # filtered, as the drive sees it
    z_s: Metre  # sling
    v_s: Speed
    z_b: Metre  # cabin body, relative to the sling
    v_b: Speed
    z_w: Metre  # counterweight
    v_w: Speed
    z_p: Metre  # machine
    v_p: Speed
    e_c: Metre  # elongation of the rope, cabin side
    e_w: Metre
    x: Metre
    v_x: Speed
    roll: Radian
    v_roll: RotarySpeed
    y: Metre
    v_y: Speed
    pitch: Radian
    v_pitch: RotarySpeed
    xi_c: Metre  # bristle of the cabin's guide
    xi_w: Metre
    xi_b: Radian  # bristle of brake and bearing


class Inputs(NamedTuple):
    """What acts on the machine during a step."""

    powered: Ratio  # 1 while the drive is on, else 0
    v_d: Volt
    v_q: Volt
    brake: Ratio  # 1 closed … 0 open
    push_x: Newton  # passengers' movements
    push_y: Newton
    push_z: Newton


class Readings(NamedTuple):
    """Forces, torques and accelerations of a step."""

    alpha: RotaryAcceleration
    a_x: Acceleration
    a_roll: RotaryAcceleration
    a_y: Acceleration
    a_pitch: RotaryAcceleration
    a_body: Acceleration
    a_p: Acceleration
    rope_cabin: Newton  # F_c
    rope_weight: Newton  # F_w
    friction_cabin: Newton  # f_c
    friction_weight: Newton  # f_w
    support: Newton
    torque: NewtonMetre  # T_em
    ripple: NewtonMetre  # T_rip
    brake: NewtonMetre  # T_b


class Rates(NamedTuple):
    """Of the currents."""

    i_d: AmperePerSecond
    i_q: AmperePerSecond


class Sideways(NamedTuple):
    """The cabin along x or y: how its shoes hold it there, where it is, and how it is turned."""

    stiffness: Stiffness
    damping: Damping
    hardening: Metre
    place: Metre
    speed: Speed
    angle: Radian
    turning: RotarySpeed


@compiled
def current_rates(motor: Motor, i_d: float, i_q: float, v_d: float, v_q: float, w_e: float, c2: float, s2: float):  # type: ignore[no-untyped-def]
    """The voltage equations, with the inverter's dead time and, after a winding fault, its asymmetry."""
    lost = motor.dead_time / (math.sqrt(i_d * i_d + i_q * i_q) + DEAD_TIME_CURRENT)
    u_d = v_d - lost * i_d
    u_q = v_q - lost * i_q
    if motor.asymmetry != 0.0:
        u_d -= motor.asymmetry * w_e * motor.inductance_d * (i_d * s2 + i_q * c2)
        u_q -= motor.asymmetry * w_e * motor.inductance_q * (i_d * c2 - i_q * s2)
    return Rates(
        (u_d - motor.resistance * i_d + w_e * motor.inductance_q * i_q) / motor.inductance_d,
        (u_q - motor.resistance * i_q - w_e * (motor.inductance_d * i_d + motor.flux)) / motor.inductance_q,
    )


@compiled
def electromagnetic_torque(motor: Motor, i_d: float, i_q: float) -> float:
    """T_em = 1.5 p i_q (ψ + (L_d − L_q) i_d)."""
    return 1.5 * motor.pole_pairs * i_q * (motor.flux + (motor.inductance_d - motor.inductance_q) * i_d)


@compiled
def place_on_rail(height: float):  # type: ignore[no-untyped-def]
    """The grid point below a height, and how far on the way to the next one it is."""
    position = min(max(height / RAIL_SPACING, 0.0), RAIL_POINTS - 1.001)
    point = int(position)
    return point, position - point


@compiled
def at(rail: Rail, point: int, share: float, column: int) -> float:
    """A column of the rail grid between two points."""
    low, high = float(rail[point, column]), float(rail[point + 1, column])
    return low + share * (high - low)


@compiled
def shoe_force(stiffness: float, damping: float, hardening: float, deflection: float, rate: float) -> float:
    """A guide shoe: a hardening spring and a damper."""
    stretched = deflection / hardening
    return -(stiffness * deflection * (1.0 + stretched * stretched) + damping * rate)


@compiled
def shoe_on_rail(axis: Sideways, arm: float, bend: float, slope: float, v_s: float) -> float:
    """The force of the shoe at an arm over the centre of mass, on a rail that bends and leans there."""
    deflection = axis.place + arm * axis.angle - bend
    rate = axis.speed + arm * axis.turning - slope * v_s
    return float(shoe_force(axis.stiffness, axis.damping, axis.hardening, deflection, rate))


@compiled
def cabin_normal_force(plant: Plant, gauge_upper, gauge_lower, x_upper, x_lower, y_upper, y_lower):  # type: ignore[no-untyped-def]
    """What the four pairs of shoes press on the cabin's rails."""
    n_upper = max(0.0, plant.preload_x + plant.gauge_cabin * gauge_upper)
    n_lower = max(0.0, plant.preload_x + plant.gauge_cabin * gauge_lower)
    return (
        math.sqrt(n_upper * n_upper + x_upper * x_upper)
        + math.sqrt(n_lower * n_lower + x_lower * x_lower)
        + math.sqrt(plant.preload_y * plant.preload_y + y_upper * y_upper)
        + math.sqrt(plant.preload_y * plant.preload_y + y_lower * y_lower)
    )


@compiled
def weight_normal_force(plant: Plant, gauge: float) -> float:
    """What the shoes press on the counterweight's rails."""
    return max(0.0, plant.preload_weight + plant.gauge_weight * gauge)


@compiled
def friction_bound(friction: Friction, normal: float, factor: float, speed: float) -> float:
    """The largest force of a sliding guide [Stribeck]: N (μ_c + (μ_s − μ_c) / (1 + (v/v_s)²)) · factor."""
    ratio = speed / friction.stribeck_speed
    return normal * (friction.sliding + (friction.static - friction.sliding) / (1.0 + ratio * ratio)) * factor


@compiled
def stop_element(bristle: float, moved: float, limit: float) -> float:
    """The bristle after a movement: it bends up to a limit and slides beyond; no sign of the speed, no chatter."""
    return min(max(bristle + moved, -limit), limit)


@compiled
def rope_stiffness(plant: Plant, length: float) -> float:
    """The rope and its hitch spring in series."""
    return 1.0 / (length / plant.rope_tension + 1.0 / plant.hitch)


@compiled
def sling_weight(plant: Plant, z_s: float) -> float:
    """W_s: the sling with what of rope, compensation and cable hangs on it."""
    length = ROPE_ABOVE + TRAVEL - z_s
    hanging = plant.rope * length / 2 + plant.compensation * z_s + plant.cable * z_s / 2
    return GRAVITY * (plant.sling + hanging)


@compiled
def counterweight_weight(plant: Plant, z_w: float) -> float:
    """W_w: the counterweight with what of rope and compensation hangs on it."""
    length = ROPE_ABOVE + TRAVEL - z_w
    return GRAVITY * (plant.weight + plant.rope * length / 2 + plant.compensation * z_w)


@compiled
def rope_imbalance(plant: Plant, z_s: float, z_w: float) -> float:
    """The torque of the longer rope's weight that hangs on the pulley itself."""
    return plant.radius * GRAVITY * plant.rope * (z_w - z_s) / 2  # l_c − l_w = z_w − z_s


@compiled
def rope_on_machine(plant: Plant) -> float:
    """The weight of the half of the ropes that hangs on the machine and not on the bodies."""
    return plant.rope * ROPE_LENGTH * GRAVITY / 2


@inlined
def step(plant: Plant, s: State, rail: Rail, u: Inputs, h: float):  # type: ignore[no-untyped-def]
    """One step of semi-implicit Euler with exact clamps: (state, readings)."""
    motor = plant.motor

    # ---- motor: currents by the explicit midpoint rule, torque at the midpoint --------------------------------------
    p_phi = motor.pole_pairs * s.phi
    c1, s1 = math.cos(p_phi), math.sin(p_phi)
    c2, s2 = c1 * c1 - s1 * s1, 2 * s1 * c1
    c4, s4 = c2 * c2 - s2 * s2, 2 * s2 * c2
    c6, s6 = c4 * c2 - s4 * s2, s4 * c2 + c4 * s2
    c12, s12 = c6 * c6 - s6 * s6, 2 * s6 * c6
    i_d, i_q, torque, ripple = 0.0, 0.0, 0.0, 0.0
    if u.powered > 0:
        w_e = motor.pole_pairs * s.omega
        rate = current_rates(motor, s.i_d, s.i_q, u.v_d, u.v_q, w_e, c2, s2)
        mid_d, mid_q = s.i_d + 0.5 * h * rate.i_d, s.i_q + 0.5 * h * rate.i_q
        rate = current_rates(motor, mid_d, mid_q, u.v_d, u.v_q, w_e, c2, s2)
        i_d, i_q = s.i_d + h * rate.i_d, s.i_q + h * rate.i_q
        torque = electromagnetic_torque(motor, mid_d, mid_q)
        ripple = motor.ripple_1.sine * s1 + motor.ripple_1.cosine * c1
        ripple += torque * (motor.ripple_6.sine * s6 + motor.ripple_6.cosine * c6)
    ripple += motor.cogging.sine * s12 + motor.cogging.cosine * c12

    # ---- ropes: stiffness by length, elastic creep over the sheave --------------------------------------------------
    k_c = rope_stiffness(plant, ROPE_ABOVE + TRAVEL - s.z_s)
    k_w = rope_stiffness(plant, ROPE_ABOVE + TRAVEL - s.z_w)
    r = plant.radius * (1.0 + plant.run_out * math.cos(s.phi + plant.phase_run_out))
    entering = (k_c * s.e_c if s.omega > 0 else k_w * s.e_w) / plant.rope_tension  # ε, strain of the entering rope
    pulled = r * (1.0 - entering)  # m of rope per radian
    F_c = max(0.0, k_c * (s.e_c + plant.rope_damping * (s.v_p + pulled * s.omega - s.v_s)))
    F_w = max(0.0, k_w * (s.e_w + plant.rope_damping * (s.v_p - pulled * s.omega - s.v_w)))

    # ---- cabin body on its isolation --------------------------------------------------------------------------------
    F_i = -plant.isolation * s.z_b - plant.isolation_damping * s.v_b
    a_body = (F_i + u.push_z) / plant.body - GRAVITY

    # ---- lateral guidance -------------------------------------------------------------------------------------------
    upper, share_u = place_on_rail(s.z_s + SHOE_DISTANCE)
    lower, share_l = place_on_rail(s.z_s)
    slope_xu, slope_xl = at(rail, upper, share_u, SLOPE_X), at(rail, lower, share_l, SLOPE_X)
    slope_yu, slope_yl = at(rail, upper, share_u, SLOPE_Y), at(rail, lower, share_l, SLOPE_Y)
    in_x = Sideways(plant.guide_x, plant.guide_damping_x, plant.guide_hardening, s.x, s.v_x, s.roll, s.v_roll)
    in_y = Sideways(plant.guide_y, plant.guide_damping_y, plant.guide_hardening, s.y, s.v_y, s.pitch, s.v_pitch)
    X_u = shoe_on_rail(in_x, plant.above, at(rail, upper, share_u, W_X), slope_xu, s.v_s)
    X_l = shoe_on_rail(in_x, -plant.below, at(rail, lower, share_l, W_X), slope_xl, s.v_s)
    Y_u = shoe_on_rail(in_y, plant.above, at(rail, upper, share_u, W_Y), slope_yu, s.v_s)
    Y_l = shoe_on_rail(in_y, -plant.below, at(rail, lower, share_l, W_Y), slope_yl, s.v_s)
    felt = GRAVITY + a_body
    pushed_at = PUSH_SHARE * plant.floor
    a_x = (X_u + X_l + u.push_x) / plant.lateral_mass
    a_y = (Y_u + Y_l + u.push_y) / plant.lateral_mass
    a_roll = (plant.above * X_u - plant.below * X_l + plant.offset_x * felt - pushed_at * u.push_x) / plant.roll_inertia
    a_pitch = (
        plant.above * Y_u - plant.below * Y_l + plant.offset_y * felt - pushed_at * u.push_y
    ) / plant.pitch_inertia
    F_zr = -(X_u * slope_xu + X_l * slope_xl + Y_u * slope_yu + Y_l * slope_yl)  # of a rail that is not straight

    # ---- friction of the guides, of brake and bearing ---------------------------------------------------------------
    middle, share_m = place_on_rail(s.z_s + SHOE_DISTANCE / 2)
    normal = cabin_normal_force(
        plant, at(rail, upper, share_u, GAUGE_CABIN), at(rail, lower, share_l, GAUGE_CABIN), X_u, X_l, Y_u, Y_l
    )
    bound = friction_bound(plant.cabin_friction, normal, at(rail, middle, share_m, FACTOR_CABIN), s.v_s)
    xi_c = stop_element(s.xi_c, s.v_s * h, bound / plant.cabin_friction.bristle)
    f_c = plant.cabin_friction.bristle * xi_c + plant.cabin_friction.viscous * s.v_s
    beside, share_w = place_on_rail(s.z_w)
    normal_w = weight_normal_force(plant, at(rail, beside, share_w, GAUGE_WEIGHT))
    bound_w = friction_bound(plant.weight_friction, normal_w, at(rail, beside, share_w, FACTOR_WEIGHT), s.v_w)
    xi_w = stop_element(s.xi_w, s.v_w * h, bound_w / plant.weight_friction.bristle)
    f_w = plant.weight_friction.bristle * xi_w + plant.weight_friction.viscous * s.v_w
    holding = plant.bearing + plant.brake * u.brake
    xi_b = stop_element(s.xi_b, s.omega * h, holding / plant.brake_stiffness)
    T_b = plant.brake_stiffness * xi_b + (plant.bearing_viscous + plant.brake_damping * u.brake) * s.omega

    # ---- accelerations ----------------------------------------------------------------------------------------------
    a_s = (F_c - sling_weight(plant, s.z_s) - F_i - f_c + F_zr) / plant.sling_inertia
    a_w = (F_w - counterweight_weight(plant, s.z_w) - f_w) / plant.weight_inertia
    support = -plant.support * s.z_p - plant.support_damping * s.v_p
    a_p = (support - F_c - F_w - rope_on_machine(plant)) / plant.machine - GRAVITY
    alpha = (torque + ripple - T_b - r * (F_c - F_w) - rope_imbalance(plant, s.z_s, s.z_w)) / plant.inertia

    # ---- velocities, then positions with the new velocities ---------------------------------------------------------
    omega = s.omega + alpha * h
    v_s, v_b, v_w, v_p = s.v_s + a_s * h, s.v_b + (a_body - a_s) * h, s.v_w + a_w * h, s.v_p + a_p * h
    v_x, v_roll = s.v_x + a_x * h, s.v_roll + a_roll * h
    v_y, v_pitch = s.v_y + a_y * h, s.v_pitch + a_pitch * h
    after = State(
        i_d, i_q, s.phi + omega * h, omega, s.omega_f + plant.speed_filter * (omega - s.omega_f) * h,
        s.z_s + v_s * h, v_s, s.z_b + v_b * h, v_b, s.z_w + v_w * h, v_w, s.z_p + v_p * h, v_p,
        s.e_c + (v_p + pulled * omega - v_s) * h, s.e_w + (v_p - pulled * omega - v_w) * h,
        s.x + v_x * h, v_x, s.roll + v_roll * h, v_roll, s.y + v_y * h, v_y, s.pitch + v_pitch * h, v_pitch,
        xi_c, xi_w, xi_b,
    )  # fmt: skip
    return after, Readings(
        alpha, a_x, a_roll, a_y, a_pitch, a_body, a_p, F_c, F_w, f_c, f_w, support, torque, ripple, T_b
    )

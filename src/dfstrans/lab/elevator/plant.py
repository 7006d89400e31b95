"""Equations of motion: motor, pulley, ropes, cabin, counterweight, machine support, guides and friction.

Symbols are those of docs/reference/elevator.md; z points up, φ > 0 lifts the cabin.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.lab.elevator.motion import TRAVEL, compiled, inlined

GRAVITY = 9.81  # m/s²
ROPE_ABOVE = 4.0  # m, between the highest position and the pulley
ROPE_LENGTH = TRAVEL + 2 * ROPE_ABOVE  # m, from the sling to the counterweight
SHOE_DISTANCE = 3.2  # m, from the lower to the upper guide shoe
RAIL_SPACING = 0.004  # m, between two points of the rail grid
RAIL_POINTS = 7600  # 0 … 30.4 m
PUSH_SHARE = 0.2  # passengers push this far down from the centre of mass, relative to the floor
DEAD_TIME_CURRENT = 0.3  # A, below it the voltage loss of the inverter is smoothed

# columns of the rail grid; a row of eight is one cache line
W_X, SLOPE_X, W_Y, SLOPE_Y, GAUGE_CABIN, GAUGE_WEIGHT, FACTOR_CABIN, FACTOR_WEIGHT = range(8)

Rail = npt.NDArray[np.float64]  # (RAIL_POINTS, 8)


class Friction(NamedTuple):
    """Friction of one guide: Stribeck curve and stiction, as an elasto-plastic stop element."""

    sliding: float  # μ_c
    static: float  # μ_s
    stribeck_speed: float  # m/s, v_s
    viscous: float  # Ns/m, b
    bristle: float  # N/m, σ


class Wave(NamedTuple):
    """A sin(θ + phase) as A cos(phase) sin θ + A sin(phase) cos θ."""

    sine: float  # A cos(phase), in the unit of A
    cosine: float  # A sin(phase)


class Motor(NamedTuple):
    """A salient permanent-magnet synchronous motor in the dq frame, amplitude-invariant."""

    pole_pairs: float
    flux: float  # Wb, ψ
    inductance_d: float  # H
    inductance_q: float  # H
    resistance: float  # Ω
    asymmetry: float  # k2, after turns of a winding are lost
    dead_time: float  # V, dV, lost in the inverter
    cogging: Wave  # T_cog, Nm, order 12 p
    ripple_6: Wave  # a6, share of the torque, order 6 p
    ripple_1: Wave  # a1, Nm, order p


class Plant(NamedTuple):
    """Parameters, constant during a journey."""

    motor: Motor
    cabin_friction: Friction
    weight_friction: Friction
    # vertical
    sling: float  # kg, m_s, with its fittings
    sling_inertia: float  # kg, M_s, with its share of the ropes and cables
    body: float  # kg, m_b, cabin body and passengers
    weight: float  # kg, m_w, counterweight
    weight_inertia: float  # kg, M_w
    machine: float  # kg, m_p, machine and bedplate
    rope: float  # kg/m, μ_r
    compensation: float  # kg/m, μ_k
    cable: float  # kg/m, μ_t, travelling cable
    rope_tension: float  # N, EA
    hitch: float  # N/m, K_h
    rope_damping: float  # s, β
    support: float  # N/m, k_p
    support_damping: float  # Ns/m, c_p
    isolation: float  # N/m, k_i
    isolation_damping: float  # Ns/m, c_i
    # pulley and brake
    radius: float  # m, R
    inertia: float  # kg m², J_t, with the ropes
    run_out: float  # ecc
    phase_run_out: float  # rad, e_ph
    bearing: float  # Nm, T_bear
    bearing_viscous: float  # Nms/rad, b_bear
    brake: float  # Nm, T_brk
    brake_stiffness: float  # Nm/rad, σ_b
    brake_damping: float  # Nms/rad, c_b
    speed_filter: float  # 1/s, w_fil, of the measured speed
    # lateral guidance
    lateral_mass: float  # kg, M
    roll_inertia: float  # kg m², I_x
    pitch_inertia: float  # kg m², I_y
    guide_x: float  # N/m, k_x
    guide_y: float  # N/m
    guide_damping_x: float  # Ns/m, c_x
    guide_damping_y: float  # Ns/m
    guide_hardening: float  # m, d_0
    above: float  # m, a_u, upper shoe above the centre of mass
    below: float  # m, a_l, lower shoe below it
    floor: float  # m, a_f, floor accelerometer below it
    offset_x: float  # kg m, Q_ex, eccentric load
    offset_y: float  # kg m
    preload_x: float  # N, N0x
    preload_y: float  # N
    preload_weight: float  # N, N0w
    gauge_cabin: float  # N/m, k_g, preload per narrowing of the gauge
    gauge_weight: float  # N/m


class State(NamedTuple):
    """State variables."""

    i_d: float  # A
    i_q: float  # A
    phi: float  # rad
    omega: float  # rad/s
    omega_f: float  # rad/s, filtered, as the drive sees it
    z_s: float  # m, sling
    v_s: float  # m/s
    z_b: float  # m, cabin body, relative to the sling
    v_b: float  # m/s
    z_w: float  # m, counterweight
    v_w: float  # m/s
    z_p: float  # m, machine
    v_p: float  # m/s
    e_c: float  # m, elongation of the rope, cabin side
    e_w: float  # m
    x: float  # m
    v_x: float  # m/s
    roll: float  # rad
    v_roll: float  # rad/s
    y: float  # m
    v_y: float  # m/s
    pitch: float  # rad
    v_pitch: float  # rad/s
    xi_c: float  # m, bristle of the cabin's guide
    xi_w: float  # m
    xi_b: float  # rad, bristle of brake and bearing


class Inputs(NamedTuple):
    """Inputs of a step."""

    powered: float  # 1 while the drive is on, otherwise 0
    v_d: float  # V
    v_q: float  # V
    brake: float  # 1 closed … 0 open
    push_x: float  # N, by moving passengers
    push_y: float  # N
    push_z: float  # N


class Readings(NamedTuple):
    """Forces, torques and accelerations during a step."""

    alpha: float  # rad/s²
    a_x: float  # m/s²
    a_roll: float  # rad/s²
    a_y: float  # m/s²
    a_pitch: float  # rad/s²
    a_body: float  # m/s²
    a_p: float  # m/s²
    rope_cabin: float  # N, F_c
    rope_weight: float  # N, F_w
    friction_cabin: float  # N, f_c
    friction_weight: float  # N, f_w
    support: float  # N
    torque: float  # Nm, T_em
    ripple: float  # Nm, T_rip
    brake: float  # Nm, T_b


class CurrentRates(NamedTuple):
    """Time derivatives of the currents."""

    i_d: float  # A/s
    i_q: float  # A/s


class LateralAxis(NamedTuple):
    """The cabin along x or y: its guide shoes, position and tilt."""

    stiffness: float  # N/m
    damping: float  # Ns/m
    hardening: float  # m
    position: float  # m
    speed: float  # m/s
    angle: float  # rad
    angular_speed: float  # rad/s


@compiled
def current_rates(motor: Motor, i_d: float, i_q: float, v_d: float, v_q: float, w_e: float, c2: float, s2: float):  # type: ignore[no-untyped-def]
    """Voltage equations with inverter dead time and, after a winding fault, asymmetry."""
    lost = motor.dead_time / (math.sqrt(i_d * i_d + i_q * i_q) + DEAD_TIME_CURRENT)
    u_d = v_d - lost * i_d
    u_q = v_q - lost * i_q
    if motor.asymmetry != 0.0:
        u_d -= motor.asymmetry * w_e * motor.inductance_d * (i_d * s2 + i_q * c2)
        u_q -= motor.asymmetry * w_e * motor.inductance_q * (i_d * c2 - i_q * s2)
    return CurrentRates(
        (u_d - motor.resistance * i_d + w_e * motor.inductance_q * i_q) / motor.inductance_d,
        (u_q - motor.resistance * i_q - w_e * (motor.inductance_d * i_d + motor.flux)) / motor.inductance_q,
    )


@compiled
def electromagnetic_torque(motor: Motor, i_d: float, i_q: float) -> float:
    """T_em = 1.5 p i_q (ψ + (L_d − L_q) i_d)."""
    return 1.5 * motor.pole_pairs * i_q * (motor.flux + (motor.inductance_d - motor.inductance_q) * i_d)


@compiled
def locate(height: float):  # type: ignore[no-untyped-def]
    """The grid point below a height, and the fraction of the way to the next one."""
    position = min(max(height / RAIL_SPACING, 0.0), RAIL_POINTS - 1.001)
    point = int(position)
    return point, position - point


@compiled
def rail_at(rail: Rail, point: int, share: float, column: int) -> float:
    """A column of the rail grid, linear between two points."""
    low, high = float(rail[point, column]), float(rail[point + 1, column])
    return low + share * (high - low)


@compiled
def shoe_force(stiffness: float, damping: float, hardening: float, deflection: float, rate: float) -> float:
    """Guide shoe: hardening spring and damper."""
    stretched = deflection / hardening
    return -(stiffness * deflection * (1.0 + stretched * stretched) + damping * rate)


@compiled
def shoe_on_rail(axis: LateralAxis, arm: float, bend: float, slope: float, v_s: float) -> float:
    """Force of the shoe at `arm` above the centre of mass, where the rail has a bend and a slope."""
    deflection = axis.position + arm * axis.angle - bend
    rate = axis.speed + arm * axis.angular_speed - slope * v_s
    return float(shoe_force(axis.stiffness, axis.damping, axis.hardening, deflection, rate))


@compiled
def cabin_normal_force(plant: Plant, gauge_upper, gauge_lower, x_upper, x_lower, y_upper, y_lower):  # type: ignore[no-untyped-def]
    """Normal force of the four pairs of shoes on the cabin rails."""
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
    """Normal force of the shoes on the counterweight rails."""
    return max(0.0, plant.preload_weight + plant.gauge_weight * gauge)


@compiled
def friction_bound(friction: Friction, normal: float, factor: float, speed: float) -> float:
    """Largest friction force of a guide [Stribeck]: N (μ_c + (μ_s − μ_c) / (1 + (v/v_s)²)) · factor."""
    ratio = speed / friction.stribeck_speed
    return normal * (friction.sliding + (friction.static - friction.sliding) / (1.0 + ratio * ratio)) * factor


@compiled
def stop_element(bristle: float, moved: float, limit: float) -> float:
    """Bristle deflection after a movement, clamped at the limit; needs no sign of the speed, so it cannot chatter."""
    return min(max(bristle + moved, -limit), limit)


@compiled
def rope_stiffness(plant: Plant, length: float) -> float:
    """Rope and hitch spring in series."""
    return 1.0 / (length / plant.rope_tension + 1.0 / plant.hitch)


@compiled
def sling_weight(plant: Plant, z_s: float) -> float:
    """W_s: weight of the sling and the rope, compensation and cable on it."""
    length = ROPE_ABOVE + TRAVEL - z_s
    hanging = plant.rope * length / 2 + plant.compensation * z_s + plant.cable * z_s / 2
    return GRAVITY * (plant.sling + hanging)


@compiled
def counterweight_weight(plant: Plant, z_w: float) -> float:
    """W_w: weight of the counterweight and the rope and compensation on it."""
    length = ROPE_ABOVE + TRAVEL - z_w
    return GRAVITY * (plant.weight + plant.rope * length / 2 + plant.compensation * z_w)


@compiled
def rope_imbalance(plant: Plant, z_s: float, z_w: float) -> float:
    """Torque on the pulley by the weight of the longer rope side."""
    return plant.radius * GRAVITY * plant.rope * (z_w - z_s) / 2  # l_c − l_w = z_w − z_s


@compiled
def rope_on_machine(plant: Plant) -> float:
    """Weight of the half of the ropes that the machine carries."""
    return plant.rope * ROPE_LENGTH * GRAVITY / 2


@inlined
def step(plant: Plant, s: State, rail: Rail, u: Inputs, h: float):  # type: ignore[no-untyped-def]
    """One semi-implicit Euler step with exact clamps: (state, readings)."""
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
    upper, share_u = locate(s.z_s + SHOE_DISTANCE)
    lower, share_l = locate(s.z_s)
    slope_xu, slope_xl = rail_at(rail, upper, share_u, SLOPE_X), rail_at(rail, lower, share_l, SLOPE_X)
    slope_yu, slope_yl = rail_at(rail, upper, share_u, SLOPE_Y), rail_at(rail, lower, share_l, SLOPE_Y)
    in_x = LateralAxis(plant.guide_x, plant.guide_damping_x, plant.guide_hardening, s.x, s.v_x, s.roll, s.v_roll)
    in_y = LateralAxis(plant.guide_y, plant.guide_damping_y, plant.guide_hardening, s.y, s.v_y, s.pitch, s.v_pitch)
    X_u = shoe_on_rail(in_x, plant.above, rail_at(rail, upper, share_u, W_X), slope_xu, s.v_s)
    X_l = shoe_on_rail(in_x, -plant.below, rail_at(rail, lower, share_l, W_X), slope_xl, s.v_s)
    Y_u = shoe_on_rail(in_y, plant.above, rail_at(rail, upper, share_u, W_Y), slope_yu, s.v_s)
    Y_l = shoe_on_rail(in_y, -plant.below, rail_at(rail, lower, share_l, W_Y), slope_yl, s.v_s)
    felt_gravity = GRAVITY + a_body
    pushed_at = PUSH_SHARE * plant.floor
    a_x = (X_u + X_l + u.push_x) / plant.lateral_mass
    a_y = (Y_u + Y_l + u.push_y) / plant.lateral_mass
    a_roll = (
        plant.above * X_u - plant.below * X_l + plant.offset_x * felt_gravity - pushed_at * u.push_x
    ) / plant.roll_inertia
    a_pitch = (
        plant.above * Y_u - plant.below * Y_l + plant.offset_y * felt_gravity - pushed_at * u.push_y
    ) / plant.pitch_inertia
    F_zr = -(X_u * slope_xu + X_l * slope_xl + Y_u * slope_yu + Y_l * slope_yl)  # reaction of sloping rails

    # ---- friction of the guides, of brake and bearing ---------------------------------------------------------------
    middle, share_m = locate(s.z_s + SHOE_DISTANCE / 2)
    normal = cabin_normal_force(
        plant,
        rail_at(rail, upper, share_u, GAUGE_CABIN),
        rail_at(rail, lower, share_l, GAUGE_CABIN),
        X_u,
        X_l,
        Y_u,
        Y_l,
    )
    bound = friction_bound(plant.cabin_friction, normal, rail_at(rail, middle, share_m, FACTOR_CABIN), s.v_s)
    xi_c = stop_element(s.xi_c, s.v_s * h, bound / plant.cabin_friction.bristle)
    f_c = plant.cabin_friction.bristle * xi_c + plant.cabin_friction.viscous * s.v_s
    beside, share_w = locate(s.z_w)
    normal_w = weight_normal_force(plant, rail_at(rail, beside, share_w, GAUGE_WEIGHT))
    bound_w = friction_bound(plant.weight_friction, normal_w, rail_at(rail, beside, share_w, FACTOR_WEIGHT), s.v_w)
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

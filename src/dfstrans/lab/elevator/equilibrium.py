"""The machine at rest with the brake closed: the exact state that a journey starts from."""

from __future__ import annotations

import math
from typing import NamedTuple

from dfstrans.lab.elevator.motion import TRAVEL
from dfstrans.lab.elevator.plant import (
    FACTOR_CABIN,
    FACTOR_WEIGHT,
    GAUGE_CABIN,
    GAUGE_WEIGHT,
    GRAVITY,
    ROPE_ABOVE,
    SHOE_DISTANCE,
    SLOPE_X,
    SLOPE_Y,
    W_X,
    W_Y,
    Plant,
    Rail,
    State,
    at,
    cabin_normal_force,
    counterweight_weight,
    friction_bound,
    place_on_rail,
    rope_imbalance,
    rope_on_machine,
    rope_stiffness,
    sling_weight,
    weight_normal_force,
)


class _Leaning(NamedTuple):
    """The cabin under an eccentric load: where it is, how it is turned, and the force at the lower shoe."""

    place: float
    angle: float
    force: float


def at_rest(plant: Plant, rail: Rail, height: float, locked_cabin: float, locked_weight: float) -> State:
    """The state in which every acceleration is zero; `locked_*` are shares of the static friction bound."""
    lower, upper = place_on_rail(height), place_on_rail(height + SHOE_DISTANCE)
    in_x = _lean(plant, plant.guide_x, plant.offset_x, at(rail, *upper, W_X), at(rail, *lower, W_X))
    in_y = _lean(plant, plant.guide_y, plant.offset_y, at(rail, *upper, W_Y), at(rail, *lower, W_Y))
    normal = cabin_normal_force(
        plant,
        at(rail, *upper, GAUGE_CABIN),
        at(rail, *lower, GAUGE_CABIN),
        -in_x.force,
        in_x.force,
        -in_y.force,
        in_y.force,
    )
    factor = at(rail, *place_on_rail(height + SHOE_DISTANCE / 2), FACTOR_CABIN)
    f_c = locked_cabin * friction_bound(plant.cabin_friction, normal, factor, 0.0)
    z_w = TRAVEL - height
    beside = place_on_rail(z_w)
    normal_w = weight_normal_force(plant, at(rail, *beside, GAUGE_WEIGHT))
    f_w = locked_weight * friction_bound(plant.weight_friction, normal_w, at(rail, *beside, FACTOR_WEIGHT), 0.0)
    on_slopes = -in_x.force * (at(rail, *lower, SLOPE_X) - at(rail, *upper, SLOPE_X)) - in_y.force * (
        at(rail, *lower, SLOPE_Y) - at(rail, *upper, SLOPE_Y)
    )
    F_c = sling_weight(plant, height) + GRAVITY * plant.body + f_c - on_slopes
    F_w = counterweight_weight(plant, z_w) + f_w
    k_c = rope_stiffness(plant, ROPE_ABOVE + TRAVEL - height)
    k_w = rope_stiffness(plant, ROPE_ABOVE + TRAVEL - z_w)
    r = plant.radius * (1 + plant.run_out * math.cos(plant.phase_run_out))
    torque = plant.motor.cogging.cosine - r * (F_c - F_w) - rope_imbalance(plant, height, z_w)
    return State(
        i_d=0.0,
        i_q=0.0,
        phi=0.0,
        omega=0.0,
        omega_f=0.0,
        z_s=height,
        v_s=0.0,
        z_b=-plant.body * GRAVITY / plant.isolation,
        v_b=0.0,
        z_w=z_w,
        v_w=0.0,
        z_p=-(plant.machine * GRAVITY + rope_on_machine(plant) + F_c + F_w) / plant.support,
        v_p=0.0,
        e_c=F_c / k_c,
        e_w=F_w / k_w,
        x=in_x.place,
        v_x=0.0,
        roll=in_x.angle,
        v_roll=0.0,
        y=in_y.place,
        v_y=0.0,
        pitch=in_y.angle,
        v_pitch=0.0,
        xi_c=f_c / plant.cabin_friction.bristle,
        xi_w=f_w / plant.weight_friction.bristle,
        xi_b=torque / plant.brake_stiffness,
    )


def _lean(plant: Plant, stiffness: float, offset: float, rail_upper: float, rail_lower: float) -> _Leaning:
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
    return _Leaning(rail_upper + d - plant.above * angle, angle, force)

"""The numbers that are the same in every elevator of a fleet: pulley, brake, guides, motor and drive."""

from __future__ import annotations

import math

from dfstrans.lab.elevator.motion import (
    Celsius,
    Henry,
    Inertia,
    Kilogram,
    KilogramPerMetre,
    Metre,
    NewtonMetre,
    Ohm,
    PerKelvin,
    PerSecond,
    Ratio,
    RotaryDamping,
    RotaryStiffness,
    SquareMetre,
    Stiffness,
    Weber,
)

# ---- masses ---------------------------------------------------------------------------------------------------------
RATED_LOAD: Kilogram = 630.0
USUAL_LOAD: Kilogram = 189.0  # three tenths of it, for which the isolation of the cabin is damped
ROPE_MASS: KilogramPerMetre = 2.1  # six ropes of 10 mm

# ---- pulley and brake -----------------------------------------------------------------------------------------------
RADIUS: Metre = 0.20
BRAKE: NewtonMetre = 1600.0  # T_brk
BRAKE_STIFFNESS: RotaryStiffness = 3e5  # σ_b
BRAKE_DAMPING: RotaryDamping = 250.0  # c_b

# ---- guides ---------------------------------------------------------------------------------------------------------
BRISTLE_CABIN: Stiffness = 4e5  # σ
BRISTLE_WEIGHT: Stiffness = 3e5
VISCOUS_SHARE_WEIGHT: Ratio = 0.8  # of the cabin's b
GUIDED_MASS: Kilogram = 1100.0  # for which the guides are damped
GUIDE_HARDENING: Metre = 0.004  # d_0
ROLL_INERTIA_PER_MASS: SquareMetre = 0.75  # I_x / M
PITCH_INERTIA_PER_MASS: SquareMetre = 0.80  # I_y / M
LOWERED_BY_LOAD: Metre = 0.15  # the centre of mass, by the rated load
FLOOR_OVER_SHOE: Metre = 0.25  # the floor of the cabin over its lower shoes

# ---- temperature ----------------------------------------------------------------------------------------------------
REFERENCE_TEMPERATURE: Celsius = 20.0
VISCOSITY_FALLS: PerKelvin = 0.025  # exponentially
RESISTANCE_RISES: PerKelvin = 0.0039
FLUX_FALLS: PerKelvin = 0.0011
MAGNET_SHARE: Ratio = 0.7  # of how much warmer than the air the winding is

# ---- motor and drive ------------------------------------------------------------------------------------------------
POLE_PAIRS: Ratio = 10.0
COGGING_ORDER = 12  # waves per electrical turn
RIPPLE_ORDER = 6
DEAD_TIME_SHARE: Ratio = 0.009  # of the supply
NOMINAL_FLUX: Weber = 2.1825  # ψ̂, of a motor at its usual temperature
NOMINAL_INDUCTANCE_D: Henry = 0.026  # L̂_d
NOMINAL_INDUCTANCE_Q: Henry = 0.038  # L̂_q
NOMINAL_RESISTANCE: Ohm = 1.2  # at the usual temperature
CURRENT_BANDWIDTH: PerSecond = 2 * math.pi * 120  # w_c
NOMINAL_INERTIA: Inertia = 108.0  # all that moves, seen from the pulley
SPEED_INTEGRAL_SLOWER: Ratio = 3.0  # than the speed loop itself
POSITION_GAIN: PerSecond = 1.5  # K_pos
FEEDFORWARD_SHARE: Ratio = 0.97  # of the true inertia
LARGEST_TORQUE: NewtonMetre = 1500.0
SPEED_FILTER: PerSecond = 600.0  # w_fil, of the measured speed

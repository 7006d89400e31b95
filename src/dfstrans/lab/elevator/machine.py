"""What all elevators share: constants of the machine and its drive, and the 20 sensors.

The comment of each constant starts with its unit; docs/reference/elevator.md lists them and a test compares the two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Signals = npt.NDArray[np.float64]  # (n_samples, n_sensors)

# ---- masses ---------------------------------------------------------------------------------------------------------
RATED_LOAD = 630.0  # kg
TYPICAL_LOAD = 189.0  # kg, 30 % of the rated load; the cabin isolation is damped for it
ROPE_MASS = 2.1  # kg/m, six ropes of 10 mm

# ---- pulley and brake -----------------------------------------------------------------------------------------------
RADIUS = 0.20  # m
BRAKE_TORQUE = 1600.0  # Nm, T_brk
BRAKE_STIFFNESS = 3e5  # Nm/rad, σ_b
BRAKE_DAMPING = 250.0  # Nms/rad, c_b

# ---- guides ---------------------------------------------------------------------------------------------------------
BRISTLE_CABIN = 4e5  # N/m, σ
BRISTLE_WEIGHT = 3e5  # N/m
VISCOUS_SHARE_WEIGHT = 0.8  # of the cabin's b
GUIDED_MASS = 1100.0  # kg, the guides are damped for it
GUIDE_HARDENING = 0.004  # m, d_0
ROLL_INERTIA_PER_MASS = 0.75  # m², I_x / M
PITCH_INERTIA_PER_MASS = 0.80  # m², I_y / M
LOWERED_BY_LOAD = 0.15  # m, drop of the centre of mass under the rated load
FLOOR_ABOVE_SHOE = 0.25  # m, from the lower guide shoes up to the cabin floor

# ---- temperature ----------------------------------------------------------------------------------------------------
REFERENCE_TEMPERATURE = 20.0  # °C
VISCOSITY_DECAY = 0.025  # 1/K, exponential
RESISTANCE_SLOPE = 0.0039  # 1/K
FLUX_SLOPE = 0.0011  # 1/K, of its decrease
MAGNET_HEATING = 0.7  # of the winding's temperature rise over ambient

# ---- motor and drive ------------------------------------------------------------------------------------------------
POLE_PAIRS = 10.0
COGGING_ORDER = 12  # per electrical turn
RIPPLE_ORDER = 6
DEAD_TIME_SHARE = 0.009  # of the supply voltage
NOMINAL_FLUX = 2.1825  # Wb, ψ̂, at operating temperature
NOMINAL_INDUCTANCE_D = 0.026  # H, L̂_d
NOMINAL_INDUCTANCE_Q = 0.038  # H, L̂_q
NOMINAL_RESISTANCE = 1.2  # Ω, at operating temperature
CURRENT_BANDWIDTH = 2 * math.pi * 120  # 1/s, w_c
NOMINAL_INERTIA = 108.0  # kg m², of all moving parts, at the pulley
SPEED_INTEGRAL_RATIO = 3.0  # the integral part is this much slower than the speed loop
POSITION_GAIN = 1.5  # 1/s, K_pos
FEEDFORWARD_SHARE = 0.97  # of the true inertia
MAX_TORQUE = 1500.0  # Nm
SPEED_FILTER = 600.0  # 1/s, w_fil, of the measured speed


class Sensor(NamedTuple):
    """A measured quantity and how accurately it is measured."""

    name: str
    unit: str
    noise: float  # standard deviation of white noise, in the sensor's unit
    resolution: float
    gain_error: float = 0.0  # standard deviation over journeys
    offset_error: float = 0.0  # standard deviation over journeys, in the sensor's unit


SENSORS = (
    Sensor("Alpha", "rad/s²", 0.05, 0.01),
    Sensor("Ax", "m/s²", 0.015, 0.005, offset_error=0.004),
    Sensor("Ay", "m/s²", 0.015, 0.005, offset_error=0.004),
    Sensor("Az", "m/s²", 0.015, 0.005, offset_error=0.004),
    Sensor("Fc", "N", 15.0, 5.0, gain_error=0.003),
    Sensor("Fcw", "N", 15.0, 5.0, gain_error=0.003),
    Sensor("FrictionCabin", "N", 8.0, 2.0, gain_error=0.02, offset_error=2.0),
    Sensor("FrictionCw", "N", 8.0, 2.0, gain_error=0.02, offset_error=2.0),
    Sensor("Fsupport", "N", 40.0, 10.0, gain_error=0.003),
    Sensor("Id", "A", 0.10, 0.02),
    Sensor("Iq", "A", 0.10, 0.02),
    Sensor("Omega", "rad/s", 0.004, 0.001),
    Sensor("Phi", "rad", 5e-4, 3.8e-4),
    Sensor("PulleyAz", "m/s²", 0.004, 0.001, offset_error=0.004),
    Sensor("Vc", "m/s", 0.003, 0.001),
    Sensor("Vcw", "m/s", 0.003, 0.001),
    Sensor("Vd", "V", 0.8, 0.1),
    Sensor("Vq", "V", 0.8, 0.1),
    Sensor("Zc", "m", 0.001, 0.0005),
    Sensor("Zcw", "m", 0.001, 0.0005),
)
SENSOR_NAMES = tuple(sensor.name for sensor in SENSORS)
NOISE = np.array([sensor.noise for sensor in SENSORS])
RESOLUTION = np.array([sensor.resolution for sensor in SENSORS])


def add_calibration_errors(clean: Signals, rng: np.random.Generator) -> Signals:
    """Apply gain and offset errors, constant within a journey."""
    gain = 1 + rng.standard_normal(len(SENSORS)) * [sensor.gain_error for sensor in SENSORS]
    offset = rng.standard_normal(len(SENSORS)) * [sensor.offset_error for sensor in SENSORS]
    return clean * gain + offset


def add_noise(signals: Signals, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Add white noise, then round to the resolution."""
    noisy = signals + NOISE * rng.standard_normal(signals.shape, dtype=np.float32)
    rounded: npt.NDArray[np.float32] = (np.rint(noisy / RESOLUTION) * RESOLUTION).astype(np.float32)
    return rounded

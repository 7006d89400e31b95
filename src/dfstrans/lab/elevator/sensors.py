"""The 20 sensors: names, units, noise, resolution and slow calibration errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Signals = npt.NDArray[np.float64]  # (n_samples, n_sensors)


class Sensor(NamedTuple):
    """What a channel measures, and how well."""

    name: str
    unit: str
    noise: float  # standard deviation of white noise, in the sensor's unit
    resolution: float
    gain_error: float = 0.0  # standard deviation over journeys
    offset_error: float = 0.0  # likewise, in the sensor's unit


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
NAMES = tuple(sensor.name for sensor in SENSORS)
UNITS = tuple(sensor.unit for sensor in SENSORS)


def calibrated(clean: Signals, rng: np.random.Generator) -> Signals:
    """Signals with the gain and offset errors that stay through a journey."""
    gain = 1 + rng.standard_normal(len(SENSORS)) * [sensor.gain_error for sensor in SENSORS]
    offset = rng.standard_normal(len(SENSORS)) * [sensor.offset_error for sensor in SENSORS]
    return clean * gain + offset


def measured(signals: Signals, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Signals with white noise, then rounded to the resolution."""
    noise = np.array([sensor.noise for sensor in SENSORS])
    resolution = np.array([sensor.resolution for sensor in SENSORS])
    noisy = signals + noise * rng.standard_normal(signals.shape, dtype=np.float32)
    rounded: npt.NDArray[np.float32] = (np.rint(noisy / resolution) * resolution).astype(np.float32)
    return rounded

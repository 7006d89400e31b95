"""Rails: bends, gauge and friction along the shaft."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline

from dfstrans.lab.elevator.plant import RAIL_POINTS, RAIL_SPACING, Rail

Profile = npt.NDArray[np.float64]  # (RAIL_POINTS,)

HEIGHTS: Profile = np.arange(RAIL_POINTS, dtype=np.float64) * RAIL_SPACING
BRACKET_DISTANCE = 2.5  # m
JOINT_DISTANCE = 5.0  # m
JOINT_WIDTH = 0.12  # m
JOINT_DECAY = 0.6  # m
MILLIMETRE = 1e-3  # m

# ranges over installations, bands and exponents of the power spectra
Range = tuple[float, float]
BEND_MM: Range = (0.25, 0.45)
BEND_BAND: Range = (0.05, 1.0)  # cycles per m
BEND_EXPONENT = 2.0
ROUGH_MM: Range = (0.008, 0.016)
ROUGH_BAND: Range = (1.0, 12.0)
ROUGH_EXPONENT = 1.5
BRACKET_MM: Range = (0.10, 0.25)
JOINT_MM: Range = (0.04, 0.12)
GAUGE_MM: Range = (0.08, 0.15)  # band and exponent as for bends
GAUGE_BRACKET_MM: Range = (0.05, 0.10)
FACTOR_RMS: Range = (0.02, 0.04)  # of the local friction factor
FACTOR_BAND: Range = (0.1, 3.0)
FACTOR_EXPONENT = 1.0


class Rails(NamedTuple):
    """The rails of an installation: bends (m), gauge narrowing (m), local friction factor."""

    x: Profile
    y: Profile
    gauge_cabin: Profile
    gauge_weight: Profile
    factor_cabin: Profile
    factor_weight: Profile


def random_profile(rng: np.random.Generator, rms: float, band: Range, exponent: float) -> Profile:
    """A random profile with power spectrum n^−exponent between two spatial frequencies (cycles per m)."""
    frequency = np.fft.rfftfreq(RAIL_POINTS, RAIL_SPACING)
    inside = (frequency >= band[0]) & (frequency <= band[1])
    spectrum = np.zeros(len(frequency), dtype=np.complex128)
    drawn = rng.standard_normal((int(inside.sum()), 2)) @ [1, 1j]
    spectrum[inside] = drawn * frequency[inside] ** (-exponent / 2)
    return _with_rms(np.fft.irfft(spectrum, RAIL_POINTS), rms)


def bracket_profile(rng: np.random.Generator, rms: float) -> Profile:
    """A smooth profile through random bracket offsets."""
    nodes = np.arange(0, HEIGHTS[-1] + 2 * BRACKET_DISTANCE, BRACKET_DISTANCE)
    spline = CubicSpline(nodes, rng.standard_normal(len(nodes)))(HEIGHTS)
    return _with_rms(spline - spline.mean(), rms)


def joints(rng: np.random.Generator, height: float) -> Profile:
    """Decaying steps at the joints of the rail."""
    positions = np.arange(JOINT_DISTANCE, HEIGHTS[-1], JOINT_DISTANCE)
    beyond = HEIGHTS[:, None] - positions
    steps = (1 + np.tanh(2 * beyond / JOINT_WIDTH)) / 2 * np.exp(-np.maximum(beyond, 0) / JOINT_DECAY)
    faded: Profile = steps @ (height * rng.standard_normal(len(positions)))
    return faded


def draw_rails(rng: np.random.Generator) -> Rails:
    """Draw the rails of an installation."""
    x, y = _bend(rng), _bend(rng)
    gauge_cabin, gauge_weight = _gauge(rng), _gauge(rng)
    factor_cabin, factor_weight = (
        1 + random_profile(rng, rng.uniform(*FACTOR_RMS), FACTOR_BAND, FACTOR_EXPONENT) for _ in range(2)
    )
    return Rails(x, y, gauge_cabin, gauge_weight, factor_cabin, factor_weight)


def rail_grid(rails: Rails) -> Rail:
    """The rails as the kernel reads them, in the order of the columns that `plant` names: (RAIL_POINTS, 8)."""
    slope_x, slope_y = (np.gradient(bend, RAIL_SPACING) for bend in (rails.x, rails.y))
    return np.stack(
        [
            *(rails.x, slope_x, rails.y, slope_y),
            *(rails.gauge_cabin, rails.gauge_weight, rails.factor_cabin, rails.factor_weight),
        ],
        axis=1,
    )


def _bend(rng: np.random.Generator) -> Profile:
    return (
        random_profile(rng, rng.uniform(*BEND_MM) * MILLIMETRE, BEND_BAND, BEND_EXPONENT)
        + random_profile(rng, rng.uniform(*ROUGH_MM) * MILLIMETRE, ROUGH_BAND, ROUGH_EXPONENT)
        + bracket_profile(rng, rng.uniform(*BRACKET_MM) * MILLIMETRE)
        + joints(rng, rng.uniform(*JOINT_MM) * MILLIMETRE)
    )


def _gauge(rng: np.random.Generator) -> Profile:
    wavy = random_profile(rng, rng.uniform(*GAUGE_MM) * MILLIMETRE, BEND_BAND, BEND_EXPONENT)
    return wavy + bracket_profile(rng, rng.uniform(*GAUGE_BRACKET_MM) * MILLIMETRE)


def _with_rms(profile: Profile, rms: float) -> Profile:
    scaled: Profile = profile * (rms / np.sqrt(np.mean(profile**2)))
    return scaled

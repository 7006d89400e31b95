"""Rails: how far they bend, narrow and stick along the shaft."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline

from dfstrans.lab.elevator.motion import Metre
from dfstrans.lab.elevator.plant import (
    FACTOR_CABIN,
    FACTOR_WEIGHT,
    GAUGE_CABIN,
    GAUGE_WEIGHT,
    RAIL_POINTS,
    RAIL_SPACING,
    SLOPE_X,
    SLOPE_Y,
    W_X,
    W_Y,
    Rail,
)

Profile = npt.NDArray[np.float64]  # (RAIL_POINTS,)

HEIGHTS: Profile = np.arange(RAIL_POINTS, dtype=np.float64) * RAIL_SPACING
BRACKET_DISTANCE: Metre = 2.5
JOINT_DISTANCE: Metre = 5.0
JOINT_WIDTH: Metre = 0.12
JOINT_DECAY: Metre = 0.6
MILLIMETRE: Metre = 1e-3

# from … to, over installations, and the band and the exponent of the power spectrum
Range = tuple[float, float]
BEND_MM: Range = (0.25, 0.45)
BEND_BAND: Range = (0.05, 1.0)  # cycles per m
BEND_EXPONENT = 2.0
ROUGH_MM: Range = (0.008, 0.016)
ROUGH_BAND: Range = (1.0, 12.0)
ROUGH_EXPONENT = 1.5
BRACKET_MM: Range = (0.10, 0.25)
JOINT_MM: Range = (0.04, 0.12)
GAUGE_MM: Range = (0.08, 0.15)  # in the band and with the exponent of the bends
GAUGE_BRACKET_MM: Range = (0.05, 0.10)
FACTOR_RMS: Range = (0.02, 0.04)  # of the local friction factor
FACTOR_BAND: Range = (0.1, 3.0)
FACTOR_EXPONENT = 1.0


class Rails(NamedTuple):
    """The rails of an installation: bends (m), narrowing of the gauge (m), local friction factor."""

    x: Profile
    y: Profile
    gauge_cabin: Profile
    gauge_weight: Profile
    factor_cabin: Profile
    factor_weight: Profile


def random_profile(rng: np.random.Generator, rms: float, band: tuple[float, float], exponent: float) -> Profile:
    """A random profile with power spectrum n^−exponent between two spatial frequencies (cycles per m)."""
    frequency = np.fft.rfftfreq(RAIL_POINTS, RAIL_SPACING)
    inside = (frequency >= band[0]) & (frequency <= band[1])
    spectrum = np.zeros(len(frequency), dtype=np.complex128)
    drawn = rng.standard_normal((int(inside.sum()), 2)) @ [1, 1j]
    spectrum[inside] = drawn * frequency[inside] ** (-exponent / 2)
    return _with_rms(np.fft.irfft(spectrum, RAIL_POINTS), rms)


def bracket_profile(rng: np.random.Generator, rms: float) -> Profile:
    """A smooth profile through random places of the brackets that hold the rail."""
    nodes = np.arange(0, HEIGHTS[-1] + 2 * BRACKET_DISTANCE, BRACKET_DISTANCE)
    spline = CubicSpline(nodes, rng.standard_normal(len(nodes)))(HEIGHTS)
    return _with_rms(spline - spline.mean(), rms)


def joints(rng: np.random.Generator, height: float) -> Profile:
    """Steps where two pieces of rail meet, each fading away."""
    places = np.arange(JOINT_DISTANCE, HEIGHTS[-1], JOINT_DISTANCE)
    beyond = HEIGHTS[:, None] - places
    steps = (1 + np.tanh(2 * beyond / JOINT_WIDTH)) / 2 * np.exp(-np.maximum(beyond, 0) / JOINT_DECAY)
    faded: Profile = steps @ (height * rng.standard_normal(len(places)))
    return faded


def draw_rails(rng: np.random.Generator) -> Rails:
    """The rails of a new installation."""
    x, y = _bend(rng), _bend(rng)
    gauge_cabin, gauge_weight = _gauge(rng), _gauge(rng)
    factor_cabin, factor_weight = (
        1 + random_profile(rng, rng.uniform(*FACTOR_RMS), FACTOR_BAND, FACTOR_EXPONENT) for _ in range(2)
    )
    return Rails(x, y, gauge_cabin, gauge_weight, factor_cabin, factor_weight)


def rail_grid(rails: Rails) -> Rail:
    """The rails as the kernel reads them: (RAIL_POINTS, 8)."""
    grid = np.empty((RAIL_POINTS, 8))
    grid[:, W_X], grid[:, W_Y] = rails.x, rails.y
    grid[:, SLOPE_X], grid[:, SLOPE_Y] = (np.gradient(bend, RAIL_SPACING) for bend in (rails.x, rails.y))
    grid[:, GAUGE_CABIN], grid[:, GAUGE_WEIGHT] = rails.gauge_cabin, rails.gauge_weight
    grid[:, FACTOR_CABIN], grid[:, FACTOR_WEIGHT] = rails.factor_cabin, rails.factor_weight
    return grid


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

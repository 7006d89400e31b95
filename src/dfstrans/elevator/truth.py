"""Exact truth: what a fault changed, measured against how much normal journeys differ from day to day."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter1d

from dfstrans.elevator.fleet import FleetMember, draw_conditions, draw_trip
from dfstrans.elevator.journey import PHASES, phases, set_up
from dfstrans.elevator.motion import SAMPLING_RATE
from dfstrans.elevator.sensors import SENSORS, Signals, calibrated
from dfstrans.elevator.settings import SEGMENT_SECONDS
from dfstrans.elevator.streams import Stream, generator

SAMPLES_PER_SEGMENT = round(SEGMENT_SECONDS * SAMPLING_RATE)
SMOOTHING = 5  # samples; removes ripple of 76 and 153 Hz that friction only shifts in phase
N_PAIRS = 190
SMALLEST_SCALE = 0.001  # of a sensor's normal range


NOISE = np.array([sensor.noise for sensor in SENSORS])


class NormalChange(NamedTuple):
    """How much normal journeys change from day to day.

    Shape:
        scale (n_phases, n_sensors); spread (n_sensors,), the standard deviation over normal journeys
    """

    scale: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]

    def relevance(self, rms: Signals, segment_phases: npt.NDArray[np.int8]) -> npt.NDArray[np.float16]:
        """r = D / scale: (n_segments, n_sensors), of `segment_rms`."""
        graded: npt.NDArray[np.float16] = (rms / self.scale[segment_phases]).astype(np.float16)
        return graded


def noise_ratio(rms: Signals) -> npt.NDArray[np.float32]:
    """D / σ: a change relative to the noise of its sensor: (n_segments, n_sensors), of `segment_rms`."""
    ratio: npt.NDArray[np.float32] = (rms / NOISE).astype(np.float32)
    return ratio


def segment_rms(change: Signals) -> npt.NDArray[np.float64]:
    """D: the root mean square of a smoothed change in each segment: (n_samples, s) → (n_segments, s)."""
    smooth = uniform_filter1d(change, SMOOTHING, axis=0, mode="nearest")
    segments = smooth.reshape(-1, SAMPLES_PER_SEGMENT, change.shape[1])
    rms: npt.NDArray[np.float64] = np.sqrt(np.mean(segments**2, axis=1))
    return rms


def segment_centres(n_segments: int) -> npt.NDArray[np.float64]:
    """The middle of each segment, in s."""
    return (np.arange(n_segments, dtype=np.float64) + 0.5) * SEGMENT_SECONDS


def measure_normal_change(
    seed: int,
    member: Callable[[int], FleetMember],
    installations: int,
    floors: tuple[int, int],
    n_samples: int,
    n_pairs: int = N_PAIRS,
) -> NormalChange:
    """From pairs of normal journeys of the same trip on two different days, nobody moving in the cabin.

    `member` gives an installation of the fleet by its number.
    """
    n_segments = n_samples // SAMPLES_PER_SEGMENT
    changes: list[list[npt.NDArray[np.float64]]] = [[] for _ in PHASES]
    lowest, highest = np.full(len(SENSORS), np.inf), np.full(len(SENSORS), -np.inf)
    moments = np.zeros((3, len(SENSORS)))
    for pair in range(n_pairs):
        trip = draw_trip(seed, (2, pair), installations, floors)
        days = []
        for key in ((2, pair), (3, pair)):
            setup = set_up(member(trip.installation), trip, draw_conditions(seed, key, passengers=0))
            clean = setup.run(n_samples)
            lowest, highest = np.minimum(lowest, clean.min(axis=0)), np.maximum(highest, clean.max(axis=0))
            moments += [np.full(len(SENSORS), len(clean)), clean.sum(axis=0), (clean**2).sum(axis=0)]
            days.append(calibrated(clean, generator(seed, Stream.NOISE, *key)))
        rms = segment_rms(days[1] - days[0])
        for segment, phase in enumerate(phases(setup, segment_centres(n_segments))):
            changes[phase].append(rms[segment])
    usual = np.array([np.quantile(found, 0.95, axis=0) if found else np.zeros(len(SENSORS)) for found in changes])
    scale = np.maximum(usual, np.maximum(NOISE, SMALLEST_SCALE * (highest - lowest)))
    mean = moments[1] / moments[0]
    return NormalChange(scale, np.sqrt(np.maximum(moments[2] / moments[0] - mean**2, 0)))

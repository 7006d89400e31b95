"""Ground truth: what a fault changes, relative to how much normal journeys vary from day to day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter1d

from dfstrans.data.episodes import Fault
from dfstrans.lab.elevator.faults import Bump, ElevatorFault
from dfstrans.lab.elevator.fleet import FleetMember, draw_conditions, draw_trip
from dfstrans.lab.elevator.journey import PHASES, phases, set_up
from dfstrans.lab.elevator.machine import NOISE, SENSORS, Signals, add_calibration_errors
from dfstrans.lab.elevator.motion import SAMPLING_RATE, Schedule
from dfstrans.lab.elevator.plant import SHOE_DISTANCE
from dfstrans.lab.elevator.settings import SEGMENT_SECONDS, Stream, generator

SAMPLES_PER_SEGMENT = round(SEGMENT_SECONDS * SAMPLING_RATE)
SMOOTHING = 5  # samples; removes ripple at 76 and 153 Hz, which friction only shifts in phase
N_PAIRS = 190
MIN_SCALE = 0.001  # of a sensor's normal range


class NormalVariation(NamedTuple):
    """How much normal journeys vary from day to day.

    Shape:
        scale (n_phases, n_sensors); spread (n_sensors,), the standard deviation over normal journeys
    """

    scale: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]

    def relevance(self, rms: Signals, segment_phases: npt.NDArray[np.int8]) -> npt.NDArray[np.float16]:
        """r = D / scale for D of `segment_rms`: (n_segments, n_sensors)."""
        graded: npt.NDArray[np.float16] = (rms / self.scale[segment_phases]).astype(np.float16)
        return graded


def noise_ratio(rms: Signals) -> npt.NDArray[np.float32]:
    """D / σ for D of `segment_rms`, the change relative to the sensor noise: (n_segments, n_sensors)."""
    ratio: npt.NDArray[np.float32] = (rms / NOISE).astype(np.float32)
    return ratio


def segment_rms(change: Signals) -> npt.NDArray[np.float64]:
    """D, the root mean square of the smoothed change in each segment: (n_samples, s) → (n_segments, s)."""
    smooth = uniform_filter1d(change, SMOOTHING, axis=0, mode="nearest")
    segments = smooth.reshape(-1, SAMPLES_PER_SEGMENT, change.shape[1])
    rms: npt.NDArray[np.float64] = np.sqrt(np.mean(segments**2, axis=1))
    return rms


def segment_centres(n_segments: int) -> npt.NDArray[np.float64]:
    """The middle of each segment, in s."""
    return (np.arange(n_segments, dtype=np.float64) + 0.5) * SEGMENT_SECONDS


def measure_normal_variation(
    seed: int,
    member: Callable[[int], FleetMember],
    installations: int,
    floors: tuple[int, int],
    n_samples: int,
    n_pairs: int = N_PAIRS,
) -> NormalVariation:
    """Compare pairs of normal journeys: the same trip on two days, passengers standing still.

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
            days.append(add_calibration_errors(clean, generator(seed, Stream.NOISE, *key)))
        rms = segment_rms(days[1] - days[0])
        for segment, phase in enumerate(phases(setup, segment_centres(n_segments))):
            changes[phase].append(rms[segment])
    usual = np.array([np.quantile(found, 0.95, axis=0) if found else np.zeros(len(SENSORS)) for found in changes])
    scale = np.maximum(usual, np.maximum(NOISE, MIN_SCALE * (highest - lowest)))
    mean = moments[1] / moments[0]
    return NormalVariation(scale, np.sqrt(np.maximum(moments[2] / moments[0] - mean**2, 0)))


Window = tuple[int, int]  # first sample at 400 Hz, and one past the last


def sensor_fault_start(fault: ElevatorFault, times: Schedule) -> int:
    """The first sample of a sensor fault; a wrong gain is present from the start."""
    if fault.kind == "sensor-gain":
        return 0
    return round((times.go + fault.from_share * (times.end - times.go)) * SAMPLING_RATE)


def cause_windows(fault: ElevatorFault, times: Schedule, height: npt.NDArray[np.float64]) -> list[Window]:
    """When the cause acts; `height` is that of the cabin at each sample.

    A bump acts while a shoe is on it, a sensor fault from its start to the end of the recording, any other fault while
    the drive is on.
    """
    if fault.sensor:
        return [(sensor_fault_start(fault, times), len(height))]
    if fault.bumps:
        return sorted(window for bump in fault.bumps for window in _contacts(bump, height))
    return [(round(times.on * SAMPLING_RATE), round(times.off * SAMPLING_RATE))]


def _contacts(bump: Bump, height: npt.NDArray[np.float64]) -> list[Window]:
    """When the lower and the upper shoe are on a bump; a shoe may never reach it."""
    found = []
    for shoe in (0.0, SHOE_DISTANCE):
        near = np.flatnonzero(np.abs(height + shoe - bump.centre) < bump.length / 2)
        if len(near):
            found.append((int(near[0]), int(near[-1]) + 1))
    return found


def fault_labels(
    fault: ElevatorFault,
    windows: Sequence[Window],
    relevance: npt.NDArray[np.float16],
    sensors: Sequence[str],
    samples_per_timepoint: int,
) -> tuple[Fault, ...]:
    """The windows in points of the recording, each with its sensors.

    These are the faulty sensor, or those with r ≥ 1 in a segment of the window, the clearest first.

    Shape:
        relevance (n_segments, n_sensors)
    """
    found = []
    for start, stop in windows:
        clearest = relevance[start // SAMPLES_PER_SEGMENT : -(-stop // SAMPLES_PER_SEGMENT)].max(axis=0)
        order = [int(column) for column in np.argsort(-clearest, kind="stable") if clearest[column] >= 1]
        found.append(
            Fault(
                start // samples_per_timepoint,
                -(-stop // samples_per_timepoint),
                (fault.sensor,) if fault.sensor else tuple(sensors[column] for column in order),
                fault.kind,
                round(fault.severity, 4),
            )
        )
    return tuple(found)

"""One simulated journey, measured and clean, with its truth; and the fleet that makes it from the seed and its row."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Fault
from dfstrans.elevator.causes import cause_windows, known_faults, sensor_fault_begin
from dfstrans.elevator.faults import ElevatorFault, draw_fault, on_signals
from dfstrans.elevator.fleet import FleetMember, Trip, as_plain, draw_conditions, draw_installation, draw_trip
from dfstrans.elevator.journey import phases, set_up
from dfstrans.elevator.sensors import NAMES, calibrated, measured
from dfstrans.elevator.settings import FRICTION_SENSORS, SimulationSettings
from dfstrans.elevator.streams import Stream, generator
from dfstrans.elevator.truth import (
    SAMPLES_PER_SEGMENT,
    NormalChange,
    measure_normal_change,
    noise_ratio,
    segment_centres,
    segment_rms,
)
from dfstrans.errors import DfstransError

ZC = NAMES.index("Zc")


class Journey(NamedTuple):
    """One journey, measured and clean, with its truth.

    Shape:
        values (n_sensors, n_timepoints); clean, twin (n_samples, 20), at 400 Hz, with the fault and without;
        relevance, noise_ratio (n_segments, n_sensors); phases (n_segments,)
    """

    sensors: tuple[str, ...]
    values: npt.NDArray[np.float32]
    clean: npt.NDArray[np.float64]
    twin: npt.NDArray[np.float64]
    relevance: npt.NDArray[np.float16]
    noise_ratio: npt.NDArray[np.float32]
    phases: npt.NDArray[np.int8]
    faults: tuple[Fault, ...]
    interval: float  # s between two points of `values`
    recipe: dict[str, Any]


def recorded(sensors: str) -> list[int]:
    """Which of the 20 sensors are recorded, by number."""
    left_out = FRICTION_SENSORS if sensors == "no-friction" else ()
    return [column for column, name in enumerate(NAMES) if name not in left_out]


class Fleet:
    """The elevators of a seed, and every journey that they will ever make."""

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings

    @property
    def sensors(self) -> tuple[str, ...]:
        """The names of those that are recorded."""
        return tuple(NAMES[column] for column in recorded(self.settings.sensors))

    def member(self, number: int) -> FleetMember:
        """One of the installations."""
        return _member(self.settings.seed, number)

    @property
    def normal_change(self) -> NormalChange:
        """How much normal journeys differ from day to day; takes some seconds, once."""
        return _normal_change(self.settings.seed, self.settings.installations, self._floors, self.settings.n_samples)

    def trip(self, row: int) -> Trip:
        """Where a journey goes."""
        return draw_trip(self.settings.seed, self.key(row), self.settings.installations, self._floors)

    def journey(self, row: int) -> Journey:
        """Simulate a journey: normal ones come first, then those with a fault."""
        settings, key = self.settings, self.key(row)
        trip = self.trip(row)
        conditions = draw_conditions(settings.seed, key, trip.passengers)
        member = self.member(trip.installation)
        setup = set_up(member, trip, conditions)
        clean = twin = setup.run(settings.n_samples)
        fault = self.fault(row)
        if fault is not None:
            setup = set_up(member, trip, conditions, fault)
            clean = setup.run(settings.n_samples)
        per, noise = settings.samples_per_timepoint, generator(settings.seed, Stream.NOISE, *key)
        sampled = clean.reshape(settings.n_timepoints, per, -1).mean(axis=1)
        values = measured(calibrated(sampled, noise), noise)
        if fault is not None and fault.sensor:
            begin, spread = sensor_fault_begin(fault, setup.schedule), self.normal_change.spread
            values, clean = on_signals(fault, values, begin // per, spread), on_signals(fault, clean, begin, spread)
        segment_phases = phases(setup, segment_centres(settings.n_samples // SAMPLES_PER_SEGMENT))
        columns = recorded(settings.sensors)
        relevance = np.zeros((len(segment_phases), len(columns)), dtype=np.float16)
        ratio = np.zeros(relevance.shape, dtype=np.float32)
        faults: tuple[Fault, ...] = ()
        if fault is not None:
            change = segment_rms(clean - twin)
            relevance = self.normal_change.relevance(change, segment_phases)[:, columns]
            ratio = noise_ratio(change)[:, columns]
            windows = cause_windows(fault, setup.schedule, clean[:, ZC])
            faults = known_faults(fault, windows, relevance, self.sensors, per)
        return Journey(
            self.sensors,
            np.ascontiguousarray(values[:, columns].T),
            clean,
            twin,
            relevance,
            ratio,
            segment_phases,
            faults,
            1 / settings.sampling_rate,
            {
                "seed": settings.seed,
                "journey": list(key),
                "trip": as_plain(trip),
                "conditions": as_plain(conditions),
                "fault": None if fault is None else fault.to_dict(),
            },
        )

    @property
    def _floors(self) -> tuple[int, int]:
        return self.settings.shortest, self.settings.longest

    def key(self, row: int) -> tuple[int, int]:
        """What a journey is drawn from: the same however many others there are."""
        n_normal, n = self.settings.normal, self.settings.n_journeys
        if not 0 <= row < n:
            raise DfstransError(f"expected the row of a journey, from 0 to {n - 1}, got {row}")
        return (0, row) if row < n_normal else (1, row - n_normal)

    def fault(self, row: int) -> ElevatorFault | None:
        """What is wrong in a journey, if anything."""
        faulty, number = self.key(row)
        if not faulty:
            return None
        kind = self.settings.faults[number % len(self.settings.faults)]
        severity, sensors = self.settings.severity, self.sensors
        return draw_fault(self.settings.seed, (faulty, number), kind, self.trip(row), severity, sensors)


@lru_cache(maxsize=64)  # 365 kB each: many fleets are no larger, and of a larger one not all stay in memory
def _member(seed: int, number: int) -> FleetMember:
    return draw_installation(seed, number)


@lru_cache(maxsize=4)
def _normal_change(seed: int, installations: int, floors: tuple[int, int], n_samples: int) -> NormalChange:
    return measure_normal_change(seed, partial(_member, seed), installations, floors, n_samples)

"""The journeys of a fleet, one by one or all of them in memory."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.truth import GradedTruth
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.elevator.faults import ElevatorFault, apply_to_signals, draw_fault
from dfstrans.lab.elevator.fleet import FleetMember, Trip, draw_conditions, draw_installation, draw_trip, to_json
from dfstrans.lab.elevator.journey import PHASES, phases, set_up
from dfstrans.lab.elevator.machine import SENSOR_NAMES, SENSORS, add_calibration_errors, add_noise
from dfstrans.lab.elevator.settings import FRICTION_SENSORS, Preset, SimulationSettings, Stream, generator
from dfstrans.lab.elevator.truth import (
    SAMPLES_PER_SEGMENT,
    NormalVariation,
    cause_windows,
    fault_labels,
    measure_normal_variation,
    noise_ratio,
    segment_centres,
    segment_rms,
    sensor_fault_start,
)

VERSION = 1  # of the physics and the draws: the same settings and version give the same journeys


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


class Fleet:
    """The elevators of a seed and all their journeys: rows of normal ones first, then of faulty ones."""

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings
        left_out = FRICTION_SENSORS if settings.sensors == "no-friction" else ()
        self._columns = [column for column, name in enumerate(SENSOR_NAMES) if name not in left_out]
        self._floors = settings.shortest, settings.longest

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of the recorded sensors."""
        return tuple(SENSOR_NAMES[column] for column in self._columns)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the recorded sensors."""
        return tuple(SENSORS[column].unit for column in self._columns)

    @property
    def ids(self) -> list[str]:
        """Names of the journeys, in the order of their rows."""
        keys = map(self.key, range(self.settings.n_journeys))
        return [f"{'faulty' if faulty else 'normal'}_{number:05d}" for faulty, number in keys]

    @property
    def labels(self) -> list[int]:
        """1 for faulty journeys, 0 for normal ones."""
        return [0] * self.settings.normal + [1] * self.settings.faulty

    @property
    def groups(self) -> list[str]:
        """The installation of each journey."""
        return [f"installation_{self.trip(row).installation}" for row in range(self.settings.n_journeys)]

    @property
    def normal_variation(self) -> NormalVariation:
        """How much normal journeys vary from day to day; takes some seconds the first time."""
        settings = self.settings
        return _normal_variation(settings.seed, settings.installations, self._floors, settings.n_samples)

    def member(self, number: int) -> FleetMember:
        """One of the installations."""
        return _member(self.settings.seed, number)

    def key(self, row: int) -> tuple[int, int]:
        """What a journey is drawn from, independent of the number of others: (0 normal or 1 faulty, number)."""
        n_normal, n = self.settings.normal, self.settings.n_journeys
        if not 0 <= row < n:
            raise DfstransError(f"expected the row of a journey, from 0 to {n - 1}, got {row}")
        return (0, row) if row < n_normal else (1, row - n_normal)

    def trip(self, row: int) -> Trip:
        """The trip of a journey."""
        return draw_trip(self.settings.seed, self.key(row), self.settings.installations, self._floors)

    def fault(self, row: int) -> ElevatorFault | None:
        """The fault of a journey, None if it is normal."""
        settings, key = self.settings, self.key(row)
        faulty, number = key
        if not faulty:
            return None
        kind = settings.faults[number % len(settings.faults)]
        return draw_fault(settings.seed, key, kind, self.trip(row), settings.severity, self.sensors)

    def journey(self, row: int) -> Journey:
        """Simulate a journey."""
        settings, key, trip, fault = self.settings, self.key(row), self.trip(row), self.fault(row)
        conditions = draw_conditions(settings.seed, key, trip.passengers)
        member = self.member(trip.installation)
        setup = set_up(member, trip, conditions)
        clean = twin = setup.run(settings.n_samples)
        if fault is not None:
            setup = set_up(member, trip, conditions, fault)
            clean = setup.run(settings.n_samples)
        per, noise = settings.samples_per_timepoint, generator(settings.seed, Stream.NOISE, *key)
        sampled = clean.reshape(settings.n_timepoints, per, -1).mean(axis=1)
        values = add_noise(add_calibration_errors(sampled, noise), noise)
        if fault is not None and fault.sensor:
            start, spread = sensor_fault_start(fault, setup.schedule), self.normal_variation.spread
            values = apply_to_signals(fault, values, start // per, spread)
            clean = apply_to_signals(fault, clean, start, spread)
        segment_phases = phases(setup, segment_centres(settings.n_samples // SAMPLES_PER_SEGMENT))
        relevance = np.zeros((len(segment_phases), len(self.sensors)), dtype=np.float16)
        ratio = np.zeros(relevance.shape, dtype=np.float32)
        faults: tuple[Fault, ...] = ()
        if fault is not None:
            change = segment_rms(clean - twin)
            relevance = self.normal_variation.relevance(change, segment_phases)[:, self._columns]
            ratio = noise_ratio(change)[:, self._columns]
            windows = cause_windows(fault, setup.schedule, clean[:, SENSOR_NAMES.index("Zc")])
            faults = fault_labels(fault, windows, relevance, self.sensors, per)
        return Journey(
            self.sensors,
            np.ascontiguousarray(values[:, self._columns].T),
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
                "trip": to_json(trip),
                "conditions": to_json(conditions),
                "fault": None if fault is None else asdict(fault),
            },
        )

    def journeys(self, rows: Iterable[int], jobs: int = 1) -> Iterator[tuple[int, Journey]]:
        """Simulate journeys in `jobs` threads; give them with their rows, in order, a few in memory at a time."""
        waiting: deque[tuple[int, Future[Journey]]] = deque()
        with ThreadPoolExecutor(jobs) as pool:
            for row in rows:
                if row >= self.settings.normal:
                    _ = self.normal_variation  # before several threads need it
                waiting.append((row, pool.submit(self.journey, row)))
                if len(waiting) >= 2 * jobs:
                    done, future = waiting.popleft()
                    yield done, future.result()
            for done, future in waiting:
                yield done, future.result()


def simulate(
    preset: Preset | None = None, *, jobs: int = 1, advance: Callable[[int], None] = lambda _: None, **settings: Any
) -> Episodes:
    """Simulate the journeys of a fleet in memory: labelled episodes with exact truth.

    `settings` are those of `SimulationSettings`, such as `normal`, `faulty`, `faults`, `severity` and `seed`, and
    override the preset. `advance` receives the number of newly simulated journeys.
    """
    chosen = SimulationSettings.of(preset, settings)
    require_jobs(jobs)
    warn_about_severity(chosen)
    fleet, made = Fleet(chosen), []
    for _, journey in fleet.journeys(range(chosen.n_journeys), jobs):
        made.append(journey._replace(clean=np.empty((0, 0)), twin=np.empty((0, 0))))
        advance(1)
    return Episodes.from_arrays(
        np.stack([journey.values for journey in made]),
        fleet.labels,
        ids=fleet.ids,
        sensors=fleet.sensors,
        units=fleet.units,
        interval=1 / chosen.sampling_rate,
        time_unit="s",
        groups=fleet.groups,
        faults=[journey.faults for journey in made],
        truth=GradedTruth(
            chosen.segment_length,
            np.stack([journey.relevance for journey in made]),
            np.stack([journey.phases for journey in made]),
            PHASES,
            np.stack([journey.noise_ratio for journey in made]),
        ),
    )


def require_jobs(jobs: int) -> None:
    """Refuse fewer than one job."""
    if jobs < 1:
        raise DfstransError(f"expected {option_name('jobs')} to be at least 1, got {jobs}; use 1 or more")


def warn_about_severity(settings: SimulationSettings) -> None:
    """Warn if faults may have no effect."""
    if settings.faulty and settings.severity is not None and settings.severity[0] == 0:
        warnings.warn(
            f"with a {option_name('severity')} of or near 0, journeys labelled faulty hardly differ from normal ones",
            stacklevel=3,
        )


@lru_cache(maxsize=64)  # 365 kB each; a fleet may be larger
def _member(seed: int, number: int) -> FleetMember:
    return draw_installation(seed, number)


@lru_cache(maxsize=4)
def _normal_variation(seed: int, installations: int, floors: tuple[int, int], n_samples: int) -> NormalVariation:
    return measure_normal_variation(seed, partial(_member, seed), installations, floors, n_samples)

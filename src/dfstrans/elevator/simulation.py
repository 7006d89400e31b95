"""Many journeys, in memory or in a file; each can be made again from the seed and its number alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.growing import Contents, GrowingFile
from dfstrans.data.truth import Truth
from dfstrans.elevator.causes import cause_windows, known_faults, sensor_fault_begin
from dfstrans.elevator.faults import ElevatorFault, draw_fault, on_signals
from dfstrans.elevator.fleet import FleetMember, Trip, as_plain, draw_conditions, draw_installation, draw_trip
from dfstrans.elevator.journey import PHASES, phases, set_up
from dfstrans.elevator.sensors import NAMES, UNITS, calibrated, measured
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
from dfstrans.errors import DfstransError, spelled

VERSION = 1  # of the physics and the draws: the same settings and version give the same journeys
COMMIT_EVERY = 32  # journeys
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
        return draw_trip(self.settings.seed, self._key(row), self.settings.installations, self._floors)

    def journey(self, row: int) -> Journey:
        """Simulate a journey: normal ones come first, then those with a fault."""
        settings, key = self.settings, self._key(row)
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

    def _key(self, row: int) -> tuple[int, int]:
        """What a journey is drawn from: the same however many others there are."""
        n_normal, n = self.settings.normal, self.settings.n_journeys
        if not 0 <= row < n:
            raise DfstransError(f"expected the row of a journey, from 0 to {n - 1}, got {row}")
        return (0, row) if row < n_normal else (1, row - n_normal)

    def fault(self, row: int) -> ElevatorFault | None:
        """What is wrong in a journey, if anything."""
        faulty, number = self._key(row)
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


def simulate(
    n_normal: int = 400,
    n_faulty: int = 40,
    *,
    jobs: int = 1,
    advance: Callable[[int], None] = lambda _: None,
    **settings: Any,
) -> Episodes:
    """Journeys of a fleet as labelled episodes in memory, with exact truth; see `SimulationSettings`."""
    _require_counts(n_normal, n_faulty, settings)
    fleet = Fleet(SimulationSettings(normal=n_normal, faulty=n_faulty, **settings))
    made = []
    for _, journey in in_order(fleet, range(fleet.settings.n_journeys), jobs):
        made.append(journey._replace(clean=np.empty((0, 0)), twin=np.empty((0, 0))))
        advance(1)
    contents = _contents(fleet)
    return Episodes.from_arrays(
        np.stack([journey.values for journey in made]),
        contents.labels,
        ids=contents.ids,
        sensors=contents.sensors,
        units=contents.units,
        interval=contents.interval,
        groups=contents.groups,
        faults=[journey.faults for journey in made],
        truth=Truth(
            contents.segment_length,
            np.stack([journey.relevance for journey in made]),
            np.stack([journey.phases for journey in made]),
            PHASES,
            np.stack([journey.noise_ratio for journey in made]),
        ),
    )


def _require_counts(n_normal: int, n_faulty: int, settings: dict[str, Any]) -> None:
    """Name the two numbers as they are called here, not as in the settings."""
    for name, count in (("normal", n_normal), ("faulty", n_faulty)):
        if name in settings:
            raise DfstransError(f"expected the number of {name} journeys as n_{name}, got {name}; write n_{name}")
        if not isinstance(count, int | np.integer) or count < 0:
            raise DfstransError(f"expected n_{name} to be a whole number of 0 or more, got {count!r}")
    if n_normal + n_faulty == 0:
        raise DfstransError("expected at least one journey, got n_normal=0 and n_faulty=0")


def simulate_to_file(
    path: Path,
    fleet: Fleet,
    *,
    jobs: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Path:
    """All journeys of a fleet into an HDF5 file; an interrupted run goes on where it was.

    `advance` hears how many more journeys are done, those of an earlier run at once.
    """
    _require_jobs(jobs)
    with GrowingFile(path, _contents(fleet)) as file:
        missing = file.missing()
        advance(fleet.settings.n_journeys - len(missing))
        written: list[int] = []
        for row, journey in in_order(fleet, missing, jobs):
            truth = (journey.relevance, journey.noise_ratio, journey.phases)
            file.write(row, journey.values, journey.faults, *truth, journey.recipe)
            written.append(row)
            if len(written) == COMMIT_EVERY:
                file.commit(written)
                written.clear()
            advance(1)
        file.commit(written)
        return file.finish()


def _contents(fleet: Fleet) -> Contents:
    settings = fleet.settings
    rows = range(settings.n_journeys)
    columns = recorded(settings.sensors)
    return Contents(
        ids=[f"{'faulty' if faulty else 'normal'}_{number:05d}" for faulty, number in map(fleet._key, rows)],
        labels=[fleet._key(row)[0] for row in rows],
        groups=[f"installation_{fleet.trip(row).installation}" for row in rows],
        sensors=fleet.sensors,
        units=[UNITS[column] for column in columns],
        n_timepoints=settings.n_timepoints,
        interval=1 / settings.sampling_rate,
        segment_length=settings.segment_length,
        phase_names=PHASES,
        recipe={"simulator": f"elevator {VERSION}", **settings.model_dump()},
    )


def in_order(fleet: Fleet, rows: Sequence[int], jobs: int) -> Iterator[tuple[int, Journey]]:
    """Journeys in the order of `rows`, some made at the same time; never more than a few in memory."""
    _require_jobs(jobs)
    if any(row >= fleet.settings.normal for row in rows):
        _ = fleet.normal_change  # before the threads need it
    if jobs == 1:
        yield from ((row, fleet.journey(row)) for row in rows)
        return
    left = iter(rows)
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[tuple[int, Future[Journey]]] = [
            (row, pool.submit(fleet.journey, row)) for row in islice(left, 2 * jobs)
        ]
        while waiting:
            row, future = waiting.pop(0)
            for following in islice(left, 1):
                waiting.append((following, pool.submit(fleet.journey, following)))
            yield row, future.result()


def _require_jobs(jobs: int) -> None:
    if jobs < 1:
        raise DfstransError(f"expected {spelled('jobs')} to be at least 1, got {jobs}")

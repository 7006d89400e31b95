"""Many journeys, in memory or in a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.truth import Truth
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import disk_errors_explained
from dfstrans.lab.elevator.faults import ElevatorFault, draw_fault, on_signals
from dfstrans.lab.elevator.fleet import FleetMember, Trip, as_plain, draw_conditions, draw_installation, draw_trip
from dfstrans.lab.elevator.growing_file import MAKER, Contents, GrowingFile, is_complete, require_room
from dfstrans.lab.elevator.journey import PHASES, phases, set_up
from dfstrans.lab.elevator.sensors import NAMES, UNITS, calibrated, measured
from dfstrans.lab.elevator.settings import (
    FRICTION_SENSORS,
    MOST_JOURNEYS,
    Preset,
    SimulationSettings,
    Stream,
    generator,
)
from dfstrans.lab.elevator.truth import (
    SAMPLES_PER_SEGMENT,
    NormalChange,
    cause_windows,
    known_faults,
    measure_normal_change,
    noise_ratio,
    segment_centres,
    segment_rms,
    sensor_fault_begin,
)

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


VERSION = 1  # of the physics and the draws: the same settings and version give the same journeys
COMMIT_EVERY = 32  # journeys


def simulate(
    n_normal: int | None = None,
    n_faulty: int | None = None,
    *,
    preset: Preset | None = None,
    faults: Sequence[str] | str | None = None,
    severity: tuple[float, float] | float | None = None,
    seed: int | None = None,
    installations: int | None = None,
    sensors: Literal["all", "no-friction"] | None = None,
    sampling_rate: int | None = None,
    n_timepoints: int | None = None,
    shortest: int | None = None,
    longest: int | None = None,
    jobs: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Episodes:
    """Journeys of a fleet as labelled episodes in memory, with exact truth.

    What is not given is that of the preset, or else of `SimulationSettings`, which explains each. `advance` hears how
    many more journeys are done.
    """
    given = {
        "normal": _count("n_normal", n_normal),
        "faulty": _count("n_faulty", n_faulty),
        "faults": faults,
        "severity": severity,
        "seed": seed,
        "installations": installations,
        "sensors": sensors,
        "sampling_rate": sampling_rate,
        "n_timepoints": n_timepoints,
        "shortest": shortest,
        "longest": longest,
    }
    if n_normal == 0 and n_faulty == 0:
        raise DfstransError("expected at least one journey, got n_normal=0 and n_faulty=0; ask for some")
    settings = SimulationSettings.of(preset, {name: value for name, value in given.items() if value is not None})
    _warn_of_no_fault(settings)
    fleet, made = Fleet(settings), []
    for _, journey in in_order(fleet, range(settings.n_journeys), jobs):
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
        time_unit=contents.time_unit,
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


def _count(name: str, given: int | None) -> int | None:
    """A number of journeys, checked under the name that it has here and not in the settings."""
    if given is None or (isinstance(given, int | np.integer) and 0 <= given <= MOST_JOURNEYS):
        return None if given is None else int(given)
    raise DfstransError(f"expected {name} to be a whole number from 0 to {MOST_JOURNEYS:,}, got {given!r}; correct it")


def _warn_of_no_fault(settings: SimulationSettings) -> None:
    if settings.faulty and settings.severity is not None and settings.severity[0] == 0:
        warnings.warn(
            f"with a {option_name('severity')} of 0, or near it, journeys that are labelled faulty are as good as "
            "normal",
            stacklevel=3,
        )


def is_simulated(path: Path, fleet: Fleet) -> bool:
    """Whether all journeys of exactly this fleet are in a finished file."""
    return is_complete(path, _recipe(fleet.settings))


def simulate_to_file(
    path: Path,
    fleet: Fleet,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Path:
    """All journeys of a fleet into an HDF5 file; an interrupted run goes on where it was.

    A finished file of the same journeys is left as it is, another one replaced only if it may be overwritten. `advance`
    hears how many more journeys are done, those of an earlier run at once.
    """
    path, settings = Path(path), fleet.settings
    _require_jobs(jobs)
    if is_simulated(path, fleet):
        advance(settings.n_journeys)
        return path
    require_free(path, overwrite)
    n_segments = settings.n_timepoints // settings.segment_length
    require_room(path, settings.n_journeys, len(fleet.sensors), settings.n_timepoints, n_segments)
    _warn_of_no_fault(settings)
    with GrowingFile(path, _contents(fleet)) as file:
        missing = file.missing()
        advance(settings.n_journeys - len(missing))
        written: list[int] = []
        try:
            for row, journey in in_order(fleet, missing, jobs):
                truth = (journey.relevance, journey.noise_ratio, journey.phases)
                file.write(row, journey.values, journey.faults, *truth, journey.recipe)
                written.append(row)
                if len(written) == COMMIT_EVERY:
                    file.commit(written)
                    written.clear()
                advance(1)
        finally:  # also when it is interrupted
            file.commit(written)
        return file.finish()


def require_free(path: Path, overwrite: bool) -> None:
    """Refuse a path at which something else stands."""
    with disk_errors_explained(path):
        is_folder, is_there = path.is_dir(), path.exists()
    if is_folder:
        raise DfstransError(f"expected the name of a file to write, got the folder {path}; choose another name")
    if is_there and not overwrite:
        raise DfstransError(
            f"expected nothing at {path}, or these very journeys, got something else; choose another name, or replace "
            f"it with {option_name('overwrite', True)}"
        )


def _contents(fleet: Fleet) -> Contents:
    settings = fleet.settings
    rows = range(settings.n_journeys)
    return Contents(
        ids=[f"{'faulty' if faulty else 'normal'}_{number:05d}" for faulty, number in map(fleet.key, rows)],
        labels=[fleet.key(row)[0] for row in rows],
        groups=[f"installation_{fleet.trip(row).installation}" for row in rows],
        sensors=fleet.sensors,
        units=[UNITS[column] for column in recorded(settings.sensors)],
        n_timepoints=settings.n_timepoints,
        interval=1 / settings.sampling_rate,
        time_unit="s",
        segment_length=settings.segment_length,
        phase_names=PHASES,
        recipe=_recipe(settings),
    )


def _recipe(settings: SimulationSettings) -> dict[str, Any]:
    return {MAKER: f"elevator {VERSION}", **settings.model_dump()}


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
        raise DfstransError(f"expected {option_name('jobs')} to be at least 1, got {jobs}; ask for 1 or more")

"""Many journeys, in memory or in a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.growing import MAKER, GrowingFile, is_complete, require_room
from dfstrans.data.growing_layout import Contents
from dfstrans.data.truth import Truth
from dfstrans.elevator.journey import PHASES
from dfstrans.elevator.sensors import UNITS
from dfstrans.elevator.settings import MOST_JOURNEYS, Preset, SimulationSettings
from dfstrans.elevator.simulated import Fleet, Journey, recorded
from dfstrans.errors import DfstransError, spelled
from dfstrans.files import disk_errors_explained

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
            f"with a {spelled('severity')} of 0, or near it, journeys that are labelled faulty are as good as normal",
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
            f"it with {spelled('overwrite', True)}"
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
        raise DfstransError(f"expected {spelled('jobs')} to be at least 1, got {jobs}; ask for 1 or more")

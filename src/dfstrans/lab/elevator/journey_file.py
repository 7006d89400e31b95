"""The journeys of a fleet in an HDF5 file that grows as they are simulated and resumes after an interruption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import h5py
import numpy as np
from filelock import FileLock, Timeout

from dfstrans.data.writers import FORMAT, faults_to_json, fixed_text
from dfstrans.data.writers import VERSION as LAYOUT_VERSION
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import explain_disk_errors, replace_file
from dfstrans.lab.elevator.journey import PHASES
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import VERSION, Fleet, Journey, require_jobs, warn_about_severity

MAKER = "simulator"  # key of the simulator and its version in a file's recipe; the other keys are settings
COMMIT_EVERY = 32  # journeys
TEXT_BYTES = {"faults": 2048, "recipes": 4096}  # per journey
GROWING = ("done", "values", "truth_relevance", "truth_noise_ratio", "truth_phases", *TEXT_BYTES)


class InterruptedRun(NamedTuple):
    """A simulation that can be resumed: its file, the number of simulated journeys, and the number of all."""

    partial: Path
    done: int
    total: int


def simulate_to_file(
    path: Path,
    fleet: Fleet,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Path:
    """Simulate all journeys of a fleet into an HDF5 file; resume an interrupted run.

    A finished file of the same journeys stays as it is. `advance` receives the number of newly finished journeys,
    including those of an interrupted run.
    """
    path, settings = Path(path), fleet.settings
    require_jobs(jobs)
    if is_simulated(path, fleet):
        advance(settings.n_journeys)
        return path
    require_free(path, overwrite)
    _require_disk_space(path, fleet)
    warn_about_severity(settings)
    with JourneyFile(path, fleet) as file:
        missing = file.missing()
        advance(settings.n_journeys - len(missing))
        written: list[int] = []
        try:
            for row, journey in fleet.journeys(missing, jobs):
                file.write(row, journey)
                written.append(row)
                if len(written) == COMMIT_EVERY:
                    file.commit(written)
                    written.clear()
                advance(1)
        finally:  # also after an interruption
            file.commit(written)
        return file.finish()


def is_simulated(path: Path, fleet: Fleet) -> bool:
    """Whether a finished file holds all journeys of exactly this fleet."""
    try:
        with h5py.File(path, "r") as file:
            same: bool = json.loads(file.attrs["recipe"]) == _recipe(fleet.settings)
            return same and all(name in file for name in GROWING) and bool(file["done"][:].all())
    except (OSError, KeyError, json.JSONDecodeError):
        return False


def interrupted_run(path: Path) -> InterruptedRun | None:
    """The run that would be resumed at `path`, None if there is none or it cannot be read."""
    partial = _partial(path)
    try:
        with h5py.File(partial, "r", locking=False) as file:
            return InterruptedRun(partial, int(file["done"][:].sum()), len(file["done"]))
    except (OSError, KeyError):
        return None


def require_free(path: Path, overwrite: bool) -> None:
    """Refuse a path where something else is."""
    with explain_disk_errors(path):
        is_folder, exists = path.is_dir(), path.exists()
    if is_folder:
        raise DfstransError(f"expected the name of a file to write, got the folder {path}; choose another name")
    if exists and not overwrite:
        raise DfstransError(
            f"expected nothing or the same journeys at {path}, got something else; choose another name, or replace it "
            f"with {option_name('overwrite', True)}"
        )


def read_recipes(path: Path) -> list[dict[str, Any]]:
    """Seed, trip, conditions and fault of each journey in a simulated file."""
    path = Path(path)
    try:
        with h5py.File(path, "r") as file:
            return [json.loads(text) for text in file["recipes"].asstr()[:]]
    except (OSError, KeyError) as error:
        got = "a file without recipes" if path.is_file() else "a folder" if path.is_dir() else "nothing there"
        raise DfstransError(
            f"expected a simulated HDF5 file at {path}, got {got}; name the file that was simulated (a file converted "
            "from it has no recipes)"
        ) from error


class JourneyFile:
    """Writes into a hidden file next to `path`, which is renamed to `path` when all journeys are complete.

    All space is allocated at the start, and later writes fill it with plain numbers: HDF5's own structures no longer
    change, so the file stays readable if the process is killed. Only one process may write at a time.
    """

    def __init__(self, path: Path, fleet: Fleet) -> None:
        self.path, self.partial = Path(path), _partial(path)
        self._fleet = fleet
        self._lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=0)

    def __enter__(self) -> Self:
        with explain_disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout:
                raise DfstransError(
                    f"expected to be the only run that writes {self.path}, but another run does; wait for it, stop "
                    "it, or choose another name"
                ) from None
            try:
                if self.partial.exists():
                    _require_same_recipe(self.partial, _recipe(self._fleet.settings))
                else:
                    self._begin()
                self._file = h5py.File(self.partial, "r+", locking=False)
            except BaseException:
                self._unlock()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._disk_errors_explained():
            self._file.close()
            self._unlock()

    def missing(self) -> list[int]:
        """The rows that are not committed."""
        return [int(row) for row in np.flatnonzero(self._file["done"][:] == 0)]

    def write(self, row: int, journey: Journey) -> None:
        """Write one journey; it counts once it is committed."""
        texts = {"faults": faults_to_json(journey.faults), "recipes": json.dumps(journey.recipe)}
        with self._disk_errors_explained():
            self._file["values"][row] = journey.values
            self._file["truth_relevance"][row] = journey.relevance
            self._file["truth_noise_ratio"][row] = journey.noise_ratio
            self._file["truth_phases"][row] = journey.phases
            for name, text in texts.items():
                size = len(text.encode())
                if size > TEXT_BYTES[name]:  # HDF5 would cut it
                    raise DfstransError(f"expected at most {TEXT_BYTES[name]} bytes of {name}, got {size}")
                self._file[name][row] = text.encode()

    def commit(self, rows: Sequence[int]) -> None:
        """Make sure that written journeys are on disk, then mark them as done."""
        with self._disk_errors_explained():
            self._flush()
            for row in rows:
                self._file["done"][row] = 1
            self._flush()

    def finish(self) -> Path:
        """Rename the file; all journeys must be there."""
        if missing := self.missing():
            raise DfstransError(f"expected every journey of {self.path} to be written, {len(missing)} are not")
        with self._disk_errors_explained():
            replace_file(self.partial, self.path)
        return self.path

    def _begin(self) -> None:
        """Lay the file out under a third name, so that a partial file is always complete."""
        new = self.path.with_name(f".{self.path.name}.new")
        try:
            _lay_out(new, self._fleet)
            if hasattr(os, "posix_fallocate"):  # not on macOS
                with new.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, new.stat().st_size)
            replace_file(new, self.partial)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.id.get_vfd_handle())

    def _unlock(self) -> None:
        Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()

    def _disk_errors_explained(self) -> AbstractContextManager[None]:
        return explain_disk_errors(self.path, kept=f"finished journeys are kept in {self.partial}")


def _lay_out(path: Path, fleet: Fleet) -> None:
    """Write what is known before the first journey, and reserve space for the rest."""
    settings, n, n_sensors = fleet.settings, fleet.settings.n_journeys, len(fleet.sensors)
    # files of v110 and later carry a flag of being written, which a killed process would leave behind
    with h5py.File(path, "w", libver=("v108", "v108"), locking=False) as file:
        file.attrs.update({"format": FORMAT, "version": LAYOUT_VERSION, "interval": 1 / settings.sampling_rate})
        file.attrs["time_unit"] = "s"
        file.attrs["recipe"] = json.dumps(_recipe(settings))
        file.attrs["sensors"], file.attrs["units"] = fixed_text(fleet.sensors), fixed_text(fleet.units)
        file["lengths"] = np.full(n, settings.n_timepoints, dtype=np.int64)
        file["labels"] = np.asarray(fleet.labels, dtype=np.int8)
        file["ids"], file["groups"] = fixed_text(fleet.ids), fixed_text(fleet.groups)
        file["truth_phase_names"] = np.array([name.encode() for name in PHASES], dtype=np.bytes_)
        file["truth_segment_length"] = settings.segment_length
        _reserve(file, "done", (n,), np.uint8)
        _reserve(file, "values", (n, n_sensors, settings.n_timepoints), np.float32)
        _reserve(file, "truth_relevance", (n, settings.n_segments, n_sensors), np.float16)
        _reserve(file, "truth_noise_ratio", (n, settings.n_segments, n_sensors), np.float32)
        _reserve(file, "truth_phases", (n, settings.n_segments), np.int8)
        for name, size in TEXT_BYTES.items():
            _reserve(file, name, (n,), h5py.string_dtype("utf-8", size))


def _reserve(file: h5py.File, name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Create a contiguous data set of zeros whose space is allocated now."""
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.CONTIGUOUS)
    layout.set_obj_track_times(False)  # the same content gives the same bytes
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # the new end of a file reads as zeros
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, layout)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _recipe(settings: SimulationSettings) -> dict[str, Any]:
    return {MAKER: f"elevator {VERSION}", **settings.model_dump(mode="json")}


def _require_disk_space(path: Path, fleet: Fleet) -> None:
    """Refuse a file that the disk cannot hold; an interrupted run has its space already."""
    settings, n_sensors = fleet.settings, len(fleet.sensors)
    cells = settings.n_segments * n_sensors
    size = 4 * n_sensors * settings.n_timepoints + (2 + 4) * cells + settings.n_segments + sum(TEXT_BYTES.values())
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    needed, free = settings.n_journeys * size, shutil.disk_usage(folder).free
    if needed > free and not _partial(path).exists():
        raise DfstransError(
            f"expected {needed / 1e9:,.1f} GB of free disk space for {settings.n_journeys:,} journeys, got "
            f"{free / 1e9:,.1f} GB in {folder}; free some space, choose another place, or simulate fewer"
        )


def _require_same_recipe(partial: Path, recipe: dict[str, Any]) -> None:
    """Refuse to resume a run with other settings, and name them."""
    try:
        with h5py.File(partial, "r", locking=False) as file:
            found = json.loads(file.attrs["recipe"])
            if absent := [name for name in GROWING if name not in file]:
                raise KeyError(f"no {absent[0]} in it")
    except (OSError, KeyError, json.JSONDecodeError) as error:
        raise DfstransError(
            f"expected an interrupted run in {partial}, got a file that cannot be read ({error}); remove it"
        ) from error
    differing = [
        f"{name if name == MAKER else option_name(name)} {found.get(name)!r} there, {recipe.get(name)!r} now"
        for name in sorted({*found, *recipe})
        if found.get(name) != recipe.get(name)
    ]
    if differing:
        raise DfstransError(
            f"expected to resume the interrupted run in {partial}, but its settings differ: {'; '.join(differing)}; "
            "finish it with its own settings, or remove that file"
        )

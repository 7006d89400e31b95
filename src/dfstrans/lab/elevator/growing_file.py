"""An HDF5 file of episodes that grows: laid out before the first one is made, filled in any order, resumable."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import h5py
import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Fault
from dfstrans.data.layout import FORMAT, VERSION, faults_to_json
from dfstrans.data.writers import fixed_text
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import disk_errors_explained, replace_file

TEXT_BYTES = {"faults": 2048, "recipes": 4096}
RESERVED = ("done", "values", "truth_relevance", "truth_noise_ratio", "truth_phases", *TEXT_BYTES)


@dataclass(frozen=True)
class Contents:
    """What is known of all episodes before the first one is made."""

    ids: Sequence[str]
    labels: Sequence[int]
    groups: Sequence[str]
    sensors: Sequence[str]
    units: Sequence[str]
    n_timepoints: int
    interval: float
    time_unit: str
    segment_length: int
    phase_names: Sequence[str]
    recipe: dict[str, Any]  # the settings that the content follows from


class Place(NamedTuple):
    """Where a data set lies in the file: its first byte, and the bytes and the type of an episode's share."""

    offset: int
    size: int
    dtype: np.dtype[Any]


def bytes_per_episode(n_sensors: int, n_timepoints: int, n_segments: int) -> int:
    """The room that an episode takes, but for its id, label and group."""
    values, cells = n_sensors * n_timepoints, n_segments * n_sensors
    return 4 * values + (2 + 4) * cells + n_segments + sum(TEXT_BYTES.values())


def lay_out(new: Path, contents: Contents) -> None:
    """All that is known before the first episode, and a place for the rest."""
    n, n_sensors = len(contents.ids), len(contents.sensors)
    n_segments = -(-contents.n_timepoints // contents.segment_length)
    with h5py.File(new, "w", libver="v110", locking=False) as file:
        file.attrs.update({"format": FORMAT, "version": VERSION, "interval": contents.interval})
        file.attrs["time_unit"] = contents.time_unit
        file.attrs["recipe"] = json.dumps(contents.recipe)
        file.attrs["sensors"], file.attrs["units"] = fixed_text(contents.sensors), fixed_text(contents.units)
        file["lengths"] = np.full(n, contents.n_timepoints, dtype=np.int64)
        file["labels"] = np.asarray(contents.labels, dtype=np.int8)
        file["ids"], file["groups"] = fixed_text(contents.ids), fixed_text(contents.groups)
        file["truth_phase_names"] = np.array([name.encode() for name in contents.phase_names], dtype=np.bytes_)
        file["truth_segment_length"] = contents.segment_length
        _reserve(file, "done", (n,), np.uint8)
        _reserve(file, "values", (n, n_sensors, contents.n_timepoints), np.float32)
        _reserve(file, "truth_relevance", (n, n_segments, n_sensors), np.float16)
        _reserve(file, "truth_noise_ratio", (n, n_segments, n_sensors), np.float32)
        _reserve(file, "truth_phases", (n, n_segments), np.int8)
        for name, size in TEXT_BYTES.items():
            _reserve(file, name, (n,), h5py.string_dtype("utf-8", size))


def _reserve(file: Any, name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """A data set in one piece, at its final place in the file, all zero."""
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.CONTIGUOUS)
    layout.set_obj_track_times(False)  # the same content gives the same bytes
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # the new end of a file reads as zeros
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, layout)


def places_in(partial: Path) -> tuple[dict[str, Place], npt.NDArray[np.uint8]]:
    """Where the reserved data sets lie, and which episodes are there."""
    with h5py.File(partial, "r", locking=False) as file:
        places = {
            name: Place(
                file[name].id.get_offset(), file[name].nbytes // len(file[name]), np.dtype(file[name].dtype.str)
            )
            for name in RESERVED
        }
        return places, file["done"][:]


MAKER = "simulator"  # in a recipe: who made it; the rest are settings


class GrowingFile:
    """Writes into `path`'s neighbour until all episodes are there, then gives it the name `path`.

    All room is taken at the beginning, and nothing but plain numbers at fixed places is written after that: HDF5's own
    bookkeeping does not change any more, so a kill at any moment leaves a sound file. What was written does not stay in
    memory. Nobody else may write to the neighbour before this is closed. What stood at `path` goes at the end.
    """

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path = Path(path)
        self.partial = partial_file(self.path)
        with disk_errors_explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._resume(contents) if self.partial.exists() else self._begin(contents)
        self._places, self._done = places_in(self.partial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the file."""
        self._file.close()

    def missing(self) -> list[int]:
        """The rows that are still to be written."""
        return [int(row) for row in np.flatnonzero(self._done == 0)]

    def write(
        self,
        row: int,
        values: npt.NDArray[np.float32],
        faults: Sequence[Fault],
        relevance: npt.NDArray[np.float16],
        noise_ratio: npt.NDArray[np.float32],
        phases: npt.NDArray[np.int8],
        recipe: dict[str, Any],
    ) -> None:
        """Write one episode; it counts once it is committed."""
        self._put("values", row, values)
        self._put("truth_relevance", row, relevance)
        self._put("truth_noise_ratio", row, noise_ratio)
        self._put("truth_phases", row, phases)
        self._put("faults", row, faults_to_json(faults).encode())
        self._put("recipes", row, json.dumps(recipe).encode())

    def commit(self, rows: Sequence[int]) -> None:
        """Make sure that what was written is on disk, and then that it counts."""
        self._flush()
        for row in rows:
            self._put("done", row, np.uint8(1))
        self._flush()
        self._done[list(rows)] = 1

    def finish(self) -> Path:
        """Give the file its name; all episodes have to be there."""
        left = self.missing()
        if left:
            raise DfstransError(f"expected every episode of {self.path} to be written, {len(left)} are not")
        with self._disk_errors_explained():
            replace_file(self.partial, self.path)
        self.close()
        return self.path

    def _begin(self, contents: Contents) -> FileIO:
        """Lay the file out and take all its room under a third name, so that what is there to go on with is whole."""
        new = self.path.with_name(f".{self.path.name}.new")
        new.touch()
        file = _locked(new, self.path)
        try:
            lay_out(new, contents)
            _take_room(file)
            replace_file(new, self.partial)
        except BaseException:
            file.close()
            new.unlink(missing_ok=True)
            raise
        return file

    def _resume(self, contents: Contents) -> FileIO:
        file = _locked(self.partial, self.path)
        try:
            _require_same_recipe(self.partial, contents.recipe)
            _take_room(file)
        except BaseException:
            file.close()
            raise
        return file

    def _put(self, name: str, row: int, content: Any) -> None:
        """An episode's share of a data set, at its place."""
        place = self._places[name]
        left = np.asarray(content, dtype=place.dtype).tobytes()  # texts are filled up with zeros, or cut
        size = len(content) if isinstance(content, bytes) else len(left)
        if size > place.size or len(left) < place.size:
            raise DfstransError(f"expected at most {place.size} bytes of {name} for an episode, got {size}")
        position = place.offset + row * place.size
        with self._disk_errors_explained():
            while left:
                written = os.pwrite(self._file.fileno(), left, position)
                left, position = left[written:], position + written

    def _flush(self) -> None:
        with self._disk_errors_explained():
            os.fsync(self._file.fileno())

    def _disk_errors_explained(self) -> AbstractContextManager[None]:
        return disk_errors_explained(self.path, kept=f"what was finished before is kept in {self.partial}")


class Begun(NamedTuple):
    """An interrupted run: where it is, how many episodes are there, and of how many."""

    partial: Path
    done: int
    total: int


def partial_file(path: Path) -> Path:
    """Where a file grows until it is whole."""
    return path.with_name(f".{path.name}.partial")


def begun(path: Path) -> Begun | None:
    """The interrupted run that would go on at `path`, if there is one that can be read."""
    partial = partial_file(path)
    try:
        _, done = places_in(partial)
    except (OSError, KeyError):
        return None
    return Begun(partial, int(done.sum()), len(done))


def is_complete(path: Path, recipe: dict[str, Any]) -> bool:
    """Whether a finished file of exactly this recipe is there."""
    try:
        with h5py.File(path, "r") as file:
            same: bool = json.loads(file.attrs["recipe"]) == _plain(recipe)
            return same and all(name in file for name in RESERVED) and bool(file["done"][:].all())
    except (OSError, KeyError, json.JSONDecodeError):
        return False


def require_room(path: Path, n: int, n_sensors: int, n_timepoints: int, n_segments: int) -> None:
    """Refuse a file that the disk cannot hold, before anything is made; one that is begun has its room already."""
    there = next(folder for folder in path.absolute().parents if folder.is_dir())
    needed, free = n * bytes_per_episode(n_sensors, n_timepoints, n_segments), shutil.disk_usage(there).free
    if needed > free and not partial_file(path).exists():
        raise DfstransError(
            f"expected {needed / 1e9:,.1f} GB of free disk for {n:,} episodes, got {free / 1e9:,.1f} GB in "
            f"{there}; free some space, choose another place, or ask for fewer"
        )


def read_recipes(path: Path) -> list[dict[str, Any]]:
    """How each episode of such a file was made."""
    try:
        with h5py.File(path, "r") as file:
            return [json.loads(text) for text in file["recipes"].asstr()[:]]
    except (OSError, KeyError) as error:
        raise DfstransError(
            f"expected a simulated HDF5 file, which says how each episode was made, at {path}, got "
            f"{_what_is_at(path)}; name the file that was simulated (one that was converted from it has no recipes)"
        ) from error


def _what_is_at(path: Path) -> str:
    return "a file without recipes" if Path(path).is_file() else "a folder" if Path(path).is_dir() else "nothing there"


def _plain(recipe: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(recipe))
    return plain


def _locked(partial: Path, path: Path) -> FileIO:
    """The file, open for writing, which nobody else may open so; a kill gives it back."""
    file = FileIO(partial, "r+b")
    try:
        _lock(file)
        if os.path.samestat(os.fstat(file.fileno()), partial.stat()):  # and not renamed meanwhile
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    raise DfstransError(
        f"expected to be the only run that writes {path}, but another one does; wait for it, stop it, or choose "
        "another name"
    )


def _lock(file: FileIO) -> None:
    """Raise a BlockingIOError if somebody else has the lock; where the system has no locks, trust."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


def _take_room(file: FileIO) -> None:
    """All of the file's room, so that the disk cannot become too full for what is written later."""
    if hasattr(os, "posix_fallocate"):  # not on macOS
        os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)


def _require_same_recipe(partial: Path, recipe: dict[str, Any]) -> None:
    """Refuse to go on with a run of other settings, naming them."""
    try:
        with h5py.File(partial, "r", locking=False) as file:
            there = json.loads(file.attrs["recipe"])
            if left_out := [name for name in RESERVED if name not in file]:
                raise KeyError(f"no {left_out[0]} in it")
    except (OSError, KeyError, json.JSONDecodeError) as error:
        raise DfstransError(
            f"expected an interrupted run in {partial}, got a file that cannot be read ({error}); remove it"
        ) from error
    wanted = _plain(recipe)
    differing = [
        f"{name if name == MAKER else option_name(name)} {there.get(name)!r} there, {wanted.get(name)!r} now"
        for name in sorted({*there, *wanted})
        if there.get(name) != wanted.get(name)
    ]
    if differing:
        raise DfstransError(
            f"expected to go on with the interrupted run in {partial}, but its settings differ: "
            f"{'; '.join(differing)}; "
            "finish it with its own settings, or remove that file"
        )

"""An HDF5 file of episodes that is filled one by one, in any order, and that a kill leaves fit to go on with."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Fault
from dfstrans.data.readers.own_layout import FORMAT, VERSION, faults_to_json
from dfstrans.data.writers import fixed_text
from dfstrans.errors import DfstransError
from dfstrans.files import disk_errors_explained, replace_file

TEXT_BYTES = {"faults": 2048, "recipes": 4096}


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
    segment_length: int
    phase_names: Sequence[str]
    recipe: dict[str, Any]  # the settings that the content follows from


class GrowingFile:
    """Writes into `path`'s neighbour until all episodes are there, then gives it the name `path`.

    All room is taken at the beginning, and nothing but plain numbers at fixed places is written after that: HDF5's own
    bookkeeping does not change any more, so a kill at any moment leaves a sound file.
    """

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path = Path(path)
        self.partial = self.path.with_name(f".{self.path.name}.partial")
        with disk_errors_explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.partial.exists():
                _require_same_recipe(self.partial, contents.recipe)
            else:
                _create(self.partial, contents)
            self.maps = _maps(self.partial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.commit([])

    def missing(self) -> list[int]:
        """The rows that are still to be written."""
        return [int(row) for row in np.flatnonzero(self.maps["done"] == 0)]

    def write(
        self,
        row: int,
        values: npt.NDArray[np.float32],
        faults: Sequence[Fault],
        relevance: npt.NDArray[np.float16],
        phases: npt.NDArray[np.int8],
        recipe: dict[str, Any],
    ) -> None:
        """Write one episode; it counts once it is committed."""
        self.maps["values"][row] = values
        self.maps["truth_relevance"][row] = relevance
        self.maps["truth_phases"][row] = phases
        self.maps["faults"][row] = _bytes("faults", faults_to_json(faults))
        self.maps["recipes"][row] = _bytes("recipes", json.dumps(recipe))

    def commit(self, rows: Sequence[int]) -> None:
        """Make sure that what was written is on disk, and then that it counts."""
        for name, array in self.maps.items():
            if name != "done":
                array.flush()
        self.maps["done"][list(rows)] = 1
        self.maps["done"].flush()

    def finish(self) -> Path:
        """Give the file its name; all episodes have to be there."""
        left = self.missing()
        if left:
            raise DfstransError(f"expected every episode of {self.path} to be written, {len(left)} are not")
        with disk_errors_explained(self.path):
            return replace_file(self.partial, self.path)


def read_recipes(path: Path) -> list[dict[str, Any]]:
    """How each episode of such a file was made."""
    with h5py.File(path, "r") as file:
        return [json.loads(text) for text in file["recipes"].asstr()[:]]


def _create(partial: Path, contents: Contents) -> None:
    """Lay the file out and take all its room, or leave nothing behind."""
    n, n_sensors = len(contents.ids), len(contents.sensors)
    n_segments = -(-contents.n_timepoints // contents.segment_length)
    try:
        with h5py.File(partial, "w", libver="v110") as file:
            file.attrs.update({"format": FORMAT, "version": VERSION, "interval": contents.interval})
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
            _reserve(file, "truth_phases", (n, n_segments), np.int8)
            for name, size in TEXT_BYTES.items():
                _reserve(file, name, (n,), h5py.string_dtype("utf-8", size))
        with partial.open("r+b") as raw:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(raw.fileno(), 0, partial.stat().st_size)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _reserve(file: Any, name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """A data set in one piece, at its final place in the file, all zero."""
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.CONTIGUOUS)
    layout.set_obj_track_times(False)  # the same content gives the same bytes
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # the new end of a file reads as zeros
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, layout)


def _maps(partial: Path) -> dict[str, Any]:
    """The reserved data sets as arrays onto the file."""
    with h5py.File(partial, "r") as file:
        places = {
            name: (file[name].id.get_offset(), file[name].shape, file[name].dtype)
            for name in ("done", "values", "truth_relevance", "truth_phases", *TEXT_BYTES)
        }
    return {
        name: np.memmap(partial, dtype=np.dtype(dtype.str), mode="r+", offset=offset, shape=shape)
        for name, (offset, shape, dtype) in places.items()
    }


def _require_same_recipe(partial: Path, recipe: dict[str, Any]) -> None:
    """Refuse to go on with a run of other settings, naming them."""
    try:
        with h5py.File(partial, "r") as file:
            begun = json.loads(file.attrs["recipe"])
    except (OSError, KeyError) as error:
        raise DfstransError(
            f"expected an interrupted run in {partial}, got a file that cannot be read ({error}); remove it"
        ) from error
    wanted = json.loads(json.dumps(recipe))
    differing = [
        f"{name} {begun.get(name)!r} there, {wanted.get(name)!r} now"
        for name in sorted({*begun, *wanted})
        if begun.get(name) != wanted.get(name)
    ]
    if differing:
        raise DfstransError(
            f"expected to go on with the interrupted run in {partial}, but its settings differ: "
            f"{'; '.join(differing)}; "
            "finish it with its own settings, or remove that file"
        )


def _bytes(name: str, text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > TEXT_BYTES[name]:
        raise DfstransError(f"expected at most {TEXT_BYTES[name]} bytes of {name} for an episode, got {len(encoded)}")
    return encoded

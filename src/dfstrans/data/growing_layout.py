"""Where everything lies in an HDF5 file of episodes that is laid out before the first one is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt

from dfstrans.data.readers.own_layout import FORMAT, VERSION
from dfstrans.data.writers import fixed_text

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

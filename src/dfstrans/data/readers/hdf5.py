"""The HDF5 files of `save_episodes`: one chunk per episode, read when it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dfstrans.data import layout as own_layout
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.opening import ReadOptions, opening, require_content
from dfstrans.data.storage import StoredArray, StoredValues
from dfstrans.errors import DfstransError, shortlist

NAME = "an HDF5 file of dfstrans (.h5, .hdf5)"
OPTIONS: frozenset[str] = frozenset()


def recognises(path: Path) -> bool:
    """Whether the path is a file with the suffix of HDF5."""
    return path.is_file() and path.suffix.lower() in (".h5", ".hdf5", ".hdf")


def read(path: Path, options: ReadOptions) -> Episodes:
    """The episodes of an HDF5 file; their values stay in it."""
    require_content(path, "episodes in HDF5")
    with opening(path, "episodes in HDF5"), h5py.File(path, "r") as file:
        if file.attrs.get("format") != own_layout.FORMAT:
            raise DfstransError(
                f"expected an HDF5 file of dfstrans, or the paper authors' with one 2-D data set called dataset, in "
                f"{path}, got {shortlist(file) or 'nothing'}; convert it (save_episodes)"
            )
        own_layout.require_version(file.attrs["version"], path)
        n, n_sensors, n_timepoints = file["values"].shape
        faults = _texts(file, "faults")
        interval = file.attrs.get("interval")
        return Episodes.from_arrays(
            StoredValues.whole(StoredArray(path.resolve(), "values", (n, n_sensors, n_timepoints))),
            file["labels"][:] if "labels" in file else None,
            lengths=file["lengths"][:],
            ids=_texts(file, "ids"),
            sensors=_names(file.attrs["sensors"]),
            units=_names(file.attrs["units"]),
            interval=None if interval is None or np.isnan(interval) else float(interval),
            time_unit=str(file.attrs.get("time_unit", "")),
            groups=_texts(file, "groups"),
            faults=None if faults is None else [own_layout.faults_from_json(text) for text in faults],
            truth=own_layout.truth_from_arrays(file),
        )


def _texts(file: Any, name: str) -> list[str] | None:
    return list(file[name].asstr()[:]) if name in file else None


def _names(attribute: Any) -> list[str]:
    return [name.decode() if isinstance(name, bytes) else str(name) for name in attribute]

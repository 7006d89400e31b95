"""Readers for arrays: numpy, HDF5 of `save_episodes`, and HDF5 of the paper's authors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.labels import LABEL_OPTIONS, to_labels
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.tables import HDF5_SUFFIXES
from dfstrans.data.storage import StoredArray, StoredValues
from dfstrans.data.truth import truth_from_arrays
from dfstrans.data.writers import FORMAT, faults_from_json, require_version
from dfstrans.errors import DfstransError, list_few, option_name

_VALUES = ("values", "X", "x", "data")
_LABELS = ("labels", "y", "Y", "label")
_OTHERS = ("lengths", "ids", "sensors", "units", "interval", "time_unit", "groups", "faults", "starts", "time_zone")


def _episodes(values: Any, labels: Any, about: Mapping[str, Any], truth: Mapping[str, Any]) -> Episodes:
    """Build episodes from values, labels and other fields, named as in `_OTHERS`."""
    known = {name: about.get(name) for name in _OTHERS}
    interval, faults, starts = known.pop("interval"), known.pop("faults"), known.pop("starts")
    return Episodes.from_arrays(
        values,
        labels,
        interval=None if interval is None or np.isnan(interval) else float(interval),
        time_unit=str(known.pop("time_unit") or ""),
        faults=None if faults is None else [faults_from_json(str(text)) for text in faults],
        starts=None if starts is None else np.asarray(starts).astype("datetime64[ns]"),
        time_zone=str(known.pop("time_zone") or ""),
        truth=truth_from_arrays(truth),
        **known,
    )


# ---- numpy ------------------------------------------------------------------------------------------------------


def _read_numpy(path: Path, options: ReadOptions) -> Episodes:
    with opening(path, "numpy arrays"):
        with path.open("rb") as file:
            loaded: Any = np.load(file, allow_pickle=False)
            single = isinstance(loaded, np.ndarray)
            arrays = {"values": loaded} if single else {name: _load(loaded, name, path) for name in loaded.files}
        own = str(arrays.get("format", "")) == FORMAT
        if own:
            require_version(arrays["version"], path)
        values = next((name for name in _VALUES if name in arrays), None)
        label = next((name for name in _LABELS if name in arrays), None)
        if values is None:
            raise DfstransError(
                f"expected an array called values or X in {path}, got {list_few(arrays) or 'none'}; rename it"
            )
        unread = [name for name in arrays if name not in (values, label, *_OTHERS)]
        if unread and not own:
            warnings.warn(
                f"ignored arrays of {path.name}: {list_few(unread)}; known names are values, labels, "
                f"{', '.join(_OTHERS)}",
                stacklevel=3,
            )
        words = None if label is None else pa.array(np.ravel(arrays[label]).tolist()).cast(pa.string())
        labels = None if words is None else to_labels(words, options, path)
        return _episodes(arrays[values], labels, arrays, truth=arrays)


def _load(archive: Any, name: str, path: Path) -> Any:
    """Load an array of an archive; reject Python objects, because they could execute code."""
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DfstransError(
            f"expected plain arrays in {path}, got Python objects in {name!r}; for recordings of different lengths "
            "pad values with NaN and add lengths, or write one .npy per episode into a folder"
        ) from None


NUMPY = Reader(
    name="a 3-D array (episode, sensor, timepoint) in .npz (values or X, and labels or y) or .npy",
    options=LABEL_OPTIONS,
    recognises=lambda path: path.is_file() and path.suffix.lower() in (".npz", ".npy"),
    read=_read_numpy,
)


# ---- HDF5 of save_episodes --------------------------------------------------------------------------------------


def _is_hdf5(path: Path, content: Callable[[Any], bool]) -> bool:
    """Return whether a path is an HDF5 file with this content; a damaged file is left to the reader of any layout."""
    if path.suffix.lower() not in HDF5_SUFFIXES:
        return False
    try:
        with h5py.File(path, "r") as file:
            return content(file)
    except OSError:
        return False


def _read_hdf5(path: Path, options: ReadOptions) -> Episodes:
    """Read the episodes of an HDF5 file; the values stay there, one chunk per episode, and are read on demand."""
    with opening(path, "episodes in HDF5"), h5py.File(path, "r") as file:
        require_version(file.attrs["version"], path)
        about = {name: list(file[name].asstr()[:]) for name in ("ids", "groups", "faults") if name in file}
        about |= {"starts": file["starts"][:]} if "starts" in file else {}
        about |= {name: [_text(word) for word in file.attrs[name]] for name in ("sensors", "units")}
        return _episodes(
            StoredValues.whole(StoredArray(path.resolve(), "values", file["values"].shape)),
            file["labels"][:] if "labels" in file else None,
            {**file.attrs, **about, "lengths": file["lengths"][:]},
            truth=file,
        )


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


HDF5 = Reader(
    name="an HDF5 file of dfstrans (.h5, .hdf5)",
    options=frozenset(),
    recognises=lambda path: _is_hdf5(path, lambda file: file.attrs.get("format") == FORMAT),
    read=_read_hdf5,
)


# ---- HDF5 of the paper's authors --------------------------------------------------------------------------------


def _read_paper_hdf5(path: Path, options: ReadOptions) -> Episodes:
    """Read one episode per row: the concatenated sensors, then the label; the values stay in the file."""
    with opening(path, "the paper authors' HDF5"), h5py.File(path, "r") as file:
        dataset = file["dataset"]
        if dataset.ndim != 2 or 0 in dataset.shape:
            raise DfstransError(
                f"expected a 2-D data set (episode, values of all sensors and the label) in {path}, "
                f"got shape {dataset.shape}; convert it (save_episodes)"
            )
        n, width = dataset.shape
        shape = (n, *_row_shape(width - 1, options, path))
        stored = StoredValues.whole(StoredArray(path.resolve(), "dataset", shape))
        return Episodes.from_arrays(stored, to_labels(pa.array(dataset[:, width - 1]), options, path))


def _row_shape(width: int, options: ReadOptions, path: Path) -> tuple[int, int]:
    """Return the number of sensors and of points per sensor; one of them determines the other."""
    n_sensors = options.n_sensors or width // (options.n_timepoints or width)
    n_timepoints = options.n_timepoints or width // n_sensors
    given = options.n_sensors is not None or options.n_timepoints is not None
    if not given or n_sensors * n_timepoints != width:
        possible = [f"{k} × {width // k}" for k in range(1, min(width, 1000) + 1) if width % k == 0]
        got = f"{options.n_sensors} × {options.n_timepoints}" if given else "neither"
        raise DfstransError(
            f"expected {option_name('n_sensors')} × {option_name('n_timepoints')} = {width} values and a label in "
            f"each row of {path}, got {got}; set one of them ({option_name('n_sensors', ...)} or "
            f"{option_name('n_timepoints', ...)}); possible: {list_few(possible, 30)}"
        )
    return n_sensors, n_timepoints


PAPER_HDF5 = Reader(
    name="the paper authors' HDF5: one 2-D data set called dataset (n_sensors and n_timepoints as options)",
    options=LABEL_OPTIONS | {"n_sensors", "n_timepoints"},
    recognises=lambda path: _is_hdf5(path, lambda file: isinstance(file.get("dataset"), h5py.Dataset)),
    read=_read_paper_hdf5,
)

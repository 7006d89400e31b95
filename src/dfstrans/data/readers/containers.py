"""Reader for HDF5 and MATLAB files of any layout: the options name the dataset, its axes and its labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfstrans.data.array_checks import default_sensor_names
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.label_words import LABEL_OPTIONS, count_words, label_meaning, labels_and_kinds
from dfstrans.data.readers.labels import with_faults, with_kinds
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.rows import Rows, gather
from dfstrans.errors import DfstransError, list_few, option_name

_AXES = ("episode", "sensor", "time")
_HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")


def _read_container(path: Path, options: ReadOptions) -> Episodes:
    with opening(path, "arrays in HDF5 or MATLAB"):
        arrays = _Arrays(path)
        values = arrays.load(options.dataset, "dataset")
        labels = None if options.label_dataset is None else arrays.load(options.label_dataset, "label_dataset")
    values = _in_order(values, options, path)
    words = None if labels is None else _words(labels)
    n, n_sensors, n_points = values.shape
    if words is None or len(words) == n:
        episodes = Episodes.from_arrays(values)
        if words is not None:
            found, kinds = labels_and_kinds(words, options, path)
            episodes = with_kinds(episodes.with_labels(found), kinds)
    elif n == 1 and len(words) == n_points:
        codes, counts = count_words(words)
        names = default_sensor_names(n_sensors)
        one = np.zeros(n_points, dtype=np.int64)
        rows = Rows(names, ("",) * n_sensors, list(values[0]), [path.stem], one, words=codes)
        episodes = gather(rows.interpret(label_meaning(counts, options, path)), options)
    else:
        raise DfstransError(
            f"expected a label for each of the {n} episodes, or for each of the {n_points} points of one recording, in "
            f"{options.label_dataset!r} of {path}, got {len(words)}; correct {option_name('label_dataset')} or "
            f"{option_name('axis')}"
        )
    return with_faults(episodes, path, options, labelled_by_row=words is not None and len(words) != n)


class _Arrays:
    """The arrays of a file and their shapes; MATLAB since version 7.3 writes HDF5, with its axes reversed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._matlab = path.suffix.lower() == ".mat"
        self._old_matlab = self._matlab and not h5py.is_hdf5(path)
        self.shapes: dict[str, tuple[int, ...]] = {}
        if self._old_matlab:
            from scipy.io import matlab  # slow to import, and rarely needed

            try:
                self.shapes = {name: tuple(shape) for name, shape, _ in matlab.whosmat(path)}
            except matlab.MatReadError as error:
                raise ValueError(str(error)) from error  # `opening` describes it
        else:
            with h5py.File(path, "r") as file:
                file.visititems(self._add)

    def _add(self, name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):
            self.shapes[name] = tuple(item.shape[::-1] if self._matlab else item.shape)

    def load(self, name: str | None, option: str) -> npt.NDArray[Any]:
        """Load an array; if it does not exist, the error lists all of them with their shapes."""
        wanted = None if name is None else name.strip("/")
        if wanted not in self.shapes:
            listed = list_few((f"{one} {shape}" for one, shape in self.shapes.items()), 30) or "no datasets"
            raise DfstransError(
                f"expected the name of a dataset in {self._path} ({option_name(option)}), got "
                f"{'none' if name is None else repr(name)}; the file contains {listed}; name one "
                f"({option_name(option, next(iter(self.shapes), ...))})"
            )
        if self._old_matlab:
            from scipy.io import loadmat

            return np.asarray(loadmat(self._path, variable_names=[wanted])[wanted])
        with h5py.File(self._path, "r") as file:
            array = np.asarray(file[wanted][()])
        return array.T if self._matlab else array


def _in_order(values: npt.NDArray[Any], options: ReadOptions, path: Path) -> npt.NDArray[np.float32]:
    """Return the values with the axes (episode, sensor, time)."""
    if not (np.issubdtype(values.dtype, np.number) or values.dtype == np.bool_) or not 1 <= values.ndim <= 3:
        raise DfstransError(
            f"expected an array of numbers with one to three axes in {options.dataset!r} of {path}, got {values.dtype} "
            f"of shape {values.shape}; choose another ({option_name('dataset', ...)})"
        )
    if 0 in values.shape:
        raise DfstransError(f"expected values in {options.dataset!r} of {path}, got none; check the file")
    axes = _axes(values.shape, options)
    missing = [axis for axis in _AXES if axis not in axes]
    full = values.reshape(values.shape + (1,) * len(missing))
    order = [*axes, *missing]
    return np.ascontiguousarray(full.transpose([order.index(axis) for axis in _AXES]), dtype=np.float32)


def _axes(shape: tuple[int, ...], options: ReadOptions) -> list[str]:
    """Return the name of each axis: those of the options, then the others in their usual order.

    >>> _axes((5000, 8), ReadOptions()), _axes((5000, 8), ReadOptions(axis="time")), _axes((9, 8, 7), ReadOptions())
    (['time', 'sensor'], ['time', 'sensor'], ['episode', 'sensor', 'time'])
    """
    given = [axis.strip() for axis in (options.axis or "").split(",") if axis.strip()]
    if not set(given) <= set(_AXES) or len(set(given)) < len(given) or len(given) > len(shape):
        raise DfstransError(
            f"expected the names of the {len(shape)} axes of shape {shape} in order, among {', '.join(_AXES)} "
            f"({option_name('axis')}), got {options.axis!r}; correct it"
        )
    if len(shape) == 2 and not given:
        return ["time", "sensor"] if shape[0] >= shape[1] else ["sensor", "time"]
    usual = {1: ("time",), 2: ("time", "sensor"), 3: _AXES}[len(shape)]
    rest = [axis for axis in (*usual, *_AXES) if axis not in given]
    return [*given, *list(dict.fromkeys(rest))[: len(shape) - len(given)]]


def _words(labels: npt.NDArray[Any]) -> Any:
    flat = [word.decode() if isinstance(word, bytes) else word for word in np.ravel(labels).tolist()]
    return pa.array([None if word is None else str(word) for word in flat])


CONTAINER = Reader(
    name="HDF5 or MATLAB of any layout (.h5, .hdf5, .mat; its dataset and axis as options)",
    options=LABEL_OPTIONS | {"dataset", "axis", "label_dataset", "length", "stride", "faults"},
    recognises=lambda path: path.is_file() and path.suffix.lower() in (*_HDF5_SUFFIXES, ".mat"),
    read=_read_container,
)

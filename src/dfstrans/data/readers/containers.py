"""HDF5 and MATLAB of any layout: the dataset with the values, its axes and its labels are options."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfstrans.data.conversion import default_sensor_names
from dfstrans.data.episodes import Episodes
from dfstrans.data.problems import Problem, report
from dfstrans.data.readers.columns import to_coded_texts
from dfstrans.data.readers.faults import with_faults
from dfstrans.data.readers.gathering import gather
from dfstrans.data.readers.labels import (
    LABEL_OPTIONS,
    count_words,
    label_meaning,
    labels_and_kinds,
    likely_normal,
    understands,
    with_kinds,
)
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.rows import Rows
from dfstrans.data.readers.tables import CONTAINER_SUFFIXES, Kind, Table
from dfstrans.errors import DfstransError, list_few, option_name, showing_options

LAYOUT_OPTIONS = frozenset({"dataset", "axis", "label_dataset"})
_AXES = ("episode", "sensor", "time")
_LABEL_NAME = re.compile(r"label|class|target|state|status|condition|fault|anomal|quality|\by\b", re.IGNORECASE)
_RATE_NAME = re.compile(r"\bfs\b|rate|frequency", re.IGNORECASE)


def is_container(path: Path) -> bool:
    """Return whether the file name has the suffix of HDF5 or MATLAB."""
    return path.suffix.lower() in CONTAINER_SUFFIXES


def _read_container(path: Path, options: ReadOptions) -> Episodes:
    options = with_likely_layout([path], options)
    values, words = _load(path, options)
    n, n_sensors, n_points = values.shape
    if words is None or len(words) == n:
        unit = "" if options.interval is None else "s"
        episodes = Episodes.from_arrays(values, interval=options.interval, time_unit=unit)
        if words is not None:
            found, kinds = labels_and_kinds(words, options, path)
            episodes = with_kinds(episodes.with_labels(found), kinds)
    else:
        codes = to_coded_texts(words)
        names = default_sensor_names(n_sensors)
        one = np.zeros(n_points, dtype=np.int64)
        rows = Rows(names, ("",) * n_sensors, list(values[0]), [path.stem], one, words=codes)
        episodes = gather(rows.interpret(label_meaning(count_words(codes), options, path)), options)
    return with_faults(episodes, path, options, labelled_by_row=words is not None and len(words) != n)


def _load(path: Path, options: ReadOptions) -> tuple[npt.NDArray[np.float32], Any]:
    """Return the values of a file with the axes (episode, sensor, time), and its labels as words, or None."""
    with opening(path, "arrays in HDF5 or MATLAB"):
        arrays = _Arrays(path)
        array = arrays.load(options.dataset, "dataset")
        labels = None if options.label_dataset is None else arrays.load(options.label_dataset, "label_dataset")
    values = _in_order(array, options, path)
    words = None if labels is None else _words(labels)
    n, _, n_points = values.shape
    if words is not None and len(words) != n and (n, len(words)) != (1, n_points):
        raise DfstransError(
            f"expected a label for each of the {n} episodes, or for each of the {n_points} points of one recording, in "
            f"{options.label_dataset!r} of {path}, got {len(words)}; correct {option_name('label_dataset')} or "
            f"{option_name('axis')}"
        )
    return values, words


class ContainerTable(Table):
    """The one recording of an HDF5 or MATLAB file in a folder of such files, with its label as a column."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        values, words = _load(path, options)
        n, n_sensors, n_points = values.shape
        if n > 1:
            raise DfstransError(
                f"expected one recording in each file of a folder, got {n} in {options.dataset!r} of {path}; read each "
                f"file alone, or correct {option_name('axis')}"
            )
        self._columns = dict(zip(default_sensor_names(n_sensors), map(pa.array, values[0]), strict=True))
        if words is not None:
            self.one_label = len(words) < n_points
            self._columns["label"] = pa.array(words.to_pylist() * (n_points if self.one_label else 1), pa.string())
        self.names = tuple(self._columns)

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        """Return the requested columns."""
        return {name: self._columns[name] for name in kinds}


class _Arrays:
    """The arrays of a file and their shapes; MATLAB since version 7.3 writes HDF5, with its axes reversed."""

    def __init__(self, path: Path) -> None:
        self.path = path
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

    @property
    def listed(self) -> str:
        """All arrays with their shapes."""
        return list_few((f"{one} {shape}" for one, shape in self.shapes.items()), 30) or "no datasets"

    def load(self, name: str | None, option: str) -> npt.NDArray[Any]:
        """Load an array; if it does not exist, the error lists all of them with their shapes."""
        wanted = None if name is None else name.strip("/")
        if wanted not in self.shapes:
            raise DfstransError(
                f"expected the name of a dataset in {self.path} ({option_name(option)}), got "
                f"{'none' if name is None else repr(name)}; the file contains {self.listed}; name one "
                f"({option_name(option, next(iter(self.shapes), ...))})"
            )
        if self._old_matlab:
            from scipy.io import loadmat

            return np.asarray(loadmat(self.path, variable_names=[wanted])[wanted])
        with h5py.File(self.path, "r") as file:
            array = np.asarray(file[wanted][()])
        return array.T if self._matlab else array


def with_likely_layout(files: Sequence[Path], options: ReadOptions) -> ReadOptions:
    """If no dataset is named, report it, and return the options with the likely layout, so that a check can go on."""
    if options.dataset is not None:
        return options
    with opening(files[0], "arrays in HDF5 or MATLAB"):
        likely: dict[str, Any] = _report_likely_layout(_Arrays(files[0]), options)
    return ReadOptions(**options.model_dump(exclude_unset=True), **likely)


def _report_likely_layout(arrays: _Arrays, options: ReadOptions) -> dict[str, str]:
    """Report that the dataset has to be named, with the likely options; return these."""
    large = {name: shape for name, shape in arrays.shapes.items() if 1 <= len(shape) <= 3 and math.prod(shape) > 1}
    if not large:
        return {}  # `load` reports that there is none
    dataset = max(large, key=lambda name: math.prod(large[name]))
    shape = large[dataset]
    labels = [name for name in arrays.shapes if name != dataset and _LABEL_NAME.search(name)]
    sizes = {name: math.prod(arrays.shapes[name]) for name in labels}
    label = next((name for name in labels if sizes[name] in shape), None)
    if label is None and len(shape) < 3:
        label = next((name for name in labels if sizes[name] == 1), None)  # of the whole recording
    axes = likely_axes(shape, None if label is None else sizes[label])
    likely = {"dataset": dataset, "axis": ",".join(axes)}
    if label is not None:
        likely["label_dataset"] = label
        words = count_words(to_coded_texts(_words(arrays.load(label, "label_dataset"))))
        given = any(getattr(options, name) is not None for name in LABEL_OPTIONS)
        if not given and sizes[label] > 1 and not understands(words, options):
            likely["normal_value"] = likely_normal(words)
    rate = next(
        (name for name in arrays.shapes if _RATE_NAME.search(name) and math.prod(arrays.shapes[name]) == 1), None
    )
    if rate is not None:
        likely["sampling_rate"] = f"{float(arrays.load(rate, 'dataset').item()):g}"
    likely = {name: value for name, value in likely.items() if getattr(options, name) is None}
    shown = (" " if showing_options() else ", ").join(option_name(name, value) for name, value in likely.items())
    report(
        Problem(
            f"expected the name of a dataset in {arrays.path} ({option_name('dataset')}), got none; the file contains "
            f"{arrays.listed}; name one and its axes in order, perhaps {shown}",
            file=arrays.path,
        )
    )
    return likely


def likely_axes(shape: tuple[int, ...], n_labels: int | None) -> list[str]:
    """Guess what the axes of an array are: the longest is the time, one with a label each the episodes.

    >>> likely_axes((6000, 48, 3), None), likely_axes((48, 6000), 48), likely_axes((8, 9000), None)
    (['time', 'episode', 'sensor'], ['episode', 'time'], ['sensor', 'time'])
    """
    axes = [""] * len(shape)
    axes[shape.index(max(shape))] = "time"
    others = [n for n in range(len(shape)) if not axes[n]]
    labelled = [n for n in others if shape[n] == n_labels]
    if labelled or len(shape) == 3:
        axes[labelled[0] if labelled else max(others, key=lambda n: shape[n])] = "episode"
    return [axis or "sensor" for axis in axes]


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
    options=LABEL_OPTIONS | LAYOUT_OPTIONS | {"sampling_rate", "length", "stride", "faults"},
    recognises=lambda path: path.is_file() and is_container(path),
    read=_read_container,
)

"""HDF5 and MATLAB of any layout: the dataset with the values, its axes and its labels are options."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

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
LABEL_NAME = re.compile(r"label|class|target|state|status|cond|fault|anomal|quality|result|\by\b", re.IGNORECASE)
_MOST_LABELS = 20  # distinct numbers; an array with more is a measurement
_HERTZ = r"([ _-]?(in[ _-]?)?[\[(]?hz[\])]?)?"
_RATE_NAME = re.compile(
    rf"(fs|f_s|sr|srate|fsamp|((sampling|sample|acquisition)[ _-]?)?(rate|frequency|freq)){_HERTZ}", re.IGNORECASE
)
_SENSORS_NAME = re.compile(
    r"((channel|sensor|column|signal)[ _-]?names?|channels|sensors|columns|signals|names)", re.IGNORECASE
)
_UNITS_NAME = re.compile(r"((channel|sensor)[ _-]?)?units?", re.IGNORECASE)


def is_container(path: Path) -> bool:
    """Return whether the file name has the suffix of HDF5 or MATLAB."""
    return path.suffix.lower() in CONTAINER_SUFFIXES


def _read_container(path: Path, options: ReadOptions) -> Episodes:
    options = with_likely_layout([path], options)
    values, words, sensors, units = _load(path, options)
    n, _, n_points = values.shape
    if words is None or len(words) == n:
        unit = "" if options.interval is None else "s"
        episodes = Episodes.from_arrays(values, interval=options.interval, time_unit=unit, sensors=sensors, units=units)
        if words is not None:
            found, kinds = labels_and_kinds(words, options, path)
            episodes = with_kinds(episodes.with_labels(found), kinds)
    else:
        codes = to_coded_texts(words)
        one = np.zeros(n_points, dtype=np.int64)
        rows = Rows(sensors, units, list(values[0]), [path.stem], one, words=codes)
        episodes = gather(rows.interpret(label_meaning(count_words(codes), options, path)), options)
    return with_faults(episodes, path, options, labelled_by_row=words is not None and len(words) != n)


class _Loaded(NamedTuple):
    """The values of a file with the axes (episode, sensor, time), its labels as words, and its sensors."""

    values: npt.NDArray[np.float32]
    words: Any
    sensors: tuple[str, ...]
    units: tuple[str, ...]


def _load(path: Path, options: ReadOptions) -> _Loaded:
    """Read the values and labels that the options name; a file without labels has no words."""
    with opening(path, "arrays in HDF5 or MATLAB"):
        arrays = _Arrays(path)
        array = arrays.load(options.dataset, "dataset")
        labels = None if options.label_dataset is None else arrays.load(options.label_dataset, "label_dataset")
        about = arrays.attributes(options.dataset)
    values = _in_order(array, options, path)
    if labels is not None and not _may_be_labels(labels):
        raise DfstransError(
            f"expected labels in {options.label_dataset!r} of {path} ({option_name('label_dataset')}), got "
            f"{len(np.unique(labels))} different numbers, which are measurements rather than labels; name another "
            f"dataset, or drop {option_name('label_dataset')}"
        )
    words = None if labels is None else _words(labels)
    n, n_sensors, n_points = values.shape
    if words is not None and len(words) != n and (n, len(words)) != (1, n_points):
        raise DfstransError(
            f"expected a label for each of the {n} episodes, or for each of the {n_points} points of one recording, in "
            f"{options.label_dataset!r} of {path}, got {len(words)}; correct {option_name('label_dataset')} or "
            f"{option_name('axis')}"
        )
    sensors = _named(about, _SENSORS_NAME, n_sensors) or default_sensor_names(n_sensors)
    return _Loaded(values, words, sensors, _named(about, _UNITS_NAME, n_sensors) or ("",) * n_sensors)


def _may_be_labels(array: npt.NDArray[Any]) -> bool:
    return not np.issubdtype(array.dtype, np.number) or len(np.unique(array)) <= _MOST_LABELS


def _named(attributes: Mapping[str, Any], name: re.Pattern[str], n_sensors: int) -> tuple[str, ...]:
    """Return the distinct words of an attribute, one per sensor, or one unit of all; nothing if there is none."""
    for key, value in attributes.items():
        if name.fullmatch(key):
            words = [str(word) for word in _words(np.asarray(value)).to_pylist()]
            if len(words) == 1 and name is _UNITS_NAME:
                words *= n_sensors
            elif len(words) == 1 and n_sensors > 1:
                words = [word.strip() for word in re.split(r"[,;]", words[0])]
            if len(words) == n_sensors and (name is _UNITS_NAME or len(set(words)) == n_sensors):
                return tuple(words)
    return ()


class ContainerTable(Table):
    """The one recording of an HDF5 or MATLAB file in a folder of such files, with its label as a column."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        values, words, sensors, units = _load(path, options)
        n, _, n_points = values.shape
        if n > 1:
            raise DfstransError(
                f"expected one recording in each file of a folder, got {n} in {options.dataset!r} of {path}; read each "
                f"file alone, or correct {option_name('axis')}"
            )
        headers = [f"{name} [{unit}]" if unit else name for name, unit in zip(sensors, units, strict=True)]
        self._columns = dict(zip(headers, map(pa.array, values[0]), strict=True))
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
        self._old_matlab: dict[str, npt.NDArray[Any]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        if self._matlab and not h5py.is_hdf5(path):
            from scipy.io import loadmat, matlab  # slow to import, and rarely needed

            try:
                content = loadmat(path)
            except matlab.MatReadError as error:
                raise ValueError(str(error)) from error  # `opening` describes it
            for name, array in content.items():
                if not name.startswith("__"):
                    self._old_matlab |= _fields(name, array)
            self.shapes = {name: array.shape for name, array in self._old_matlab.items()}
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
            return self._old_matlab[wanted]
        with h5py.File(self.path, "r") as file:
            array = np.asarray(file[wanted][()])
        return array.T if self._matlab else array

    def attributes(self, name: str | None) -> dict[str, Any]:
        """Return what is written about an array: text next to it, its attributes, and those of its groups and file.

        Of attributes with the same name, the nearest counts.
        """
        group = "" if name is None else name.strip("/").rpartition("/")[0]
        beside = {one: one.rpartition("/")[2] for one in self.shapes if one.rpartition("/")[0] == group}
        if name is None or self._old_matlab:
            return {last: array for one, last in beside.items() if (array := self._old_matlab.get(one)) is not None}
        with h5py.File(self.path, "r") as file:
            found = {last: file[one][()] for one, last in beside.items() if h5py.check_string_dtype(file[one].dtype)}
            item = file.get(name.strip("/"))
            while item is not None:
                found = {**found, **{key: value for key, value in item.attrs.items() if key not in found}}
                item = None if item.name == "/" else item.parent
        return found

    def rate(self, dataset: str | None) -> float | None:
        """Return the sampling rate in an attribute of the dataset."""
        for name, value in self.attributes(dataset).items():
            if _RATE_NAME.fullmatch(name) and np.size(value) == 1:
                with suppress(ValueError):
                    return float(np.ravel(value)[0])
        return None


def _fields(name: str, array: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a MATLAB variable; those of a struct are called `name/field`.

    Those of several structs or cells are stacked if their shapes are equal, and left out otherwise.
    """
    if array.dtype.names is not None:
        return {
            key: found
            for field in array.dtype.names
            for key, found in _fields(f"{name}/{field}", np.asarray(array[field])).items()
        }
    if array.dtype != object:
        return {name: array}
    cells = np.ravel(array)
    if all(isinstance(cell, np.ndarray) and cell.dtype.kind == "U" and cell.size == 1 for cell in cells):
        return {name: np.array([cell.item() for cell in cells])}
    each = [_fields(name, np.asarray(cell)) for cell in cells]
    alike = {key: [one[key] for one in each if key in one] for key in (each[0] if each else ())}
    return {
        key: found[0] if len(found) == 1 else np.stack(found)
        for key, found in alike.items()
        if len(found) == len(each) and len({one.shape for one in found}) == 1
    }


def with_likely_layout(files: Sequence[Path], options: ReadOptions) -> ReadOptions:
    """Return the options with the sampling rate that the files state and, if no dataset is named, the likely layout.

    That no dataset is named is reported, so that a check can go on.
    """
    if options.dataset is None:
        with opening(files[0], "arrays in HDF5 or MATLAB"):
            likely: dict[str, Any] = _report_likely_layout(_Arrays(files[0]), options)
        options = ReadOptions(**options.model_dump(exclude_unset=True), **likely)
    if options.sampling_rate is not None:
        return options
    rates: dict[float, Path] = {}
    for file in files:
        with suppress(DfstransError), opening(file, "arrays in HDF5 or MATLAB"):  # it is reported when it is read
            rate = _Arrays(file).rate(options.dataset)
            if rate is not None and 0 < rate < math.inf:
                rates.setdefault(rate, file)
    if len(rates) > 1:
        shown = list_few(f"{rate:g} Hz in {file.name}" for rate, file in rates.items())
        report(
            Problem(
                f"expected one sampling rate in all files, got {shown}; resample them to one rate, or give the right "
                f"one ({option_name('sampling_rate', ...)})"
            )
        )
    return options.model_copy(update={"sampling_rate": next(iter(rates))}) if rates else options


def _report_likely_layout(arrays: _Arrays, options: ReadOptions) -> dict[str, str]:
    """Report that the dataset has to be named, with the likely options; return these."""
    large = {name: shape for name, shape in arrays.shapes.items() if 1 <= len(shape) <= 3 and math.prod(shape) > 1}
    if not large:
        return {}  # `load` reports that there is none
    dataset = max(large, key=lambda name: math.prod(large[name]))
    shape = large[dataset]
    named = [name for name in arrays.shapes if name != dataset and LABEL_NAME.search(name)]
    sizes = {name: math.prod(arrays.shapes[name]) for name in named}
    labels = [name for name in named if _may_be_labels(arrays.load(name, "label_dataset"))]
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
    rates = [name for name, shape in arrays.shapes.items() if math.prod(shape) == 1]
    rate = next((name for name in rates if _RATE_NAME.fullmatch(name.rpartition("/")[2])), None)
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

"""Readers for arrays: numpy, HDF5 of `save_episodes` and of the paper's authors, HDF5 and MATLAB of any layout."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
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
    to_labels,
    understands,
    with_kinds,
)
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.rows import Rows
from dfstrans.data.storage import StoredArray, StoredValues
from dfstrans.data.truth import truth_from_arrays
from dfstrans.data.writers import FORMAT, faults_from_json, require_version
from dfstrans.errors import DfstransError, list_few, option_name, showing_options

_AXES = ("episode", "sensor", "time")
_HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")
_VALUES = ("values", "X", "x", "data")
_LABELS = ("labels", "y", "Y", "label")
_LABEL_NAME = re.compile(r"label|class|target|state|status|condition|fault|anomal|quality|\by\b", re.IGNORECASE)
_RATE_NAME = re.compile(r"\bfs\b|rate|frequency", re.IGNORECASE)
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
    if path.suffix.lower() not in _HDF5_SUFFIXES:
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


# ---- HDF5 and MATLAB of any layout ------------------------------------------------------------------------------


def _read_container(path: Path, options: ReadOptions) -> Episodes:
    with opening(path, "arrays in HDF5 or MATLAB"):
        arrays = _Arrays(path)
        if options.dataset is None:
            likely: dict[str, Any] = _report_likely_layout(arrays, options)
            options = ReadOptions(**options.model_dump(exclude_unset=True), **likely)
        values = arrays.load(options.dataset, "dataset")
        labels = None if options.label_dataset is None else arrays.load(options.label_dataset, "label_dataset")
    values = _in_order(values, options, path)
    words = None if labels is None else _words(labels)
    n, n_sensors, n_points = values.shape
    if words is None or len(words) == n:
        unit = "" if options.interval is None else "s"
        episodes = Episodes.from_arrays(values, interval=options.interval, time_unit=unit)
        if words is not None:
            found, kinds = labels_and_kinds(words, options, path)
            episodes = with_kinds(episodes.with_labels(found), kinds)
    elif n == 1 and len(words) == n_points:
        codes = to_coded_texts(words)
        names = default_sensor_names(n_sensors)
        one = np.zeros(n_points, dtype=np.int64)
        rows = Rows(names, ("",) * n_sensors, list(values[0]), [path.stem], one, words=codes)
        episodes = gather(rows.interpret(label_meaning(count_words(codes), options, path)), options)
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


def _report_likely_layout(arrays: _Arrays, options: ReadOptions) -> dict[str, str]:
    """Report that the dataset has to be named, with the likely options; return them, so that a check can go on."""
    large = {name: shape for name, shape in arrays.shapes.items() if 1 <= len(shape) <= 3 and math.prod(shape) > 1}
    if not large:
        return {}  # `load` reports that there is none
    dataset = max(large, key=lambda name: math.prod(large[name]))
    shape = large[dataset]
    labels = [name for name in arrays.shapes if name != dataset and _LABEL_NAME.search(name)]
    label = next((name for name in labels if math.prod(arrays.shapes[name]) in shape), None)
    axes = likely_axes(shape, None if label is None else math.prod(arrays.shapes[label]))
    likely = {"dataset": dataset, "axis": ",".join(axes)}
    if label is not None:
        likely["label_dataset"] = label
        words = count_words(to_coded_texts(_words(arrays.load(label, "label_dataset"))))
        given = any(getattr(options, name) is not None for name in LABEL_OPTIONS)
        if not given and not understands(words, options):
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
    options=LABEL_OPTIONS | {"dataset", "axis", "label_dataset", "sampling_rate", "length", "stride", "faults"},
    recognises=lambda path: path.is_file() and path.suffix.lower() in (*_HDF5_SUFFIXES, ".mat"),
    read=_read_container,
)

"""The paper authors' HDF5: one 2-D data set, each row the sensors one after the other and the label last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from dfstrans.data import layout as own_layout
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.columns import require_occurs
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.data.storage import StoredArray, StoredValues
from dfstrans.errors import DfstransError, option_name, shortlist

NAME = "the paper authors' HDF5: one 2-D data set called dataset (n_sensors and n_timepoints as options)"
OPTIONS = frozenset({"n_sensors", "n_timepoints", "anomalous_value"})


def recognises(path: Path) -> bool:
    """Whether the path is an HDF5 file with a data set called `dataset`."""
    if not path.is_file() or path.suffix.lower() not in (".h5", ".hdf5", ".hdf"):
        return False
    try:
        with h5py.File(path, "r") as file:
            return isinstance(file.get("dataset"), h5py.Dataset) and file.attrs.get("format") != own_layout.FORMAT
    except OSError:
        return False  # the general HDF5 reader says what is wrong with it


def read(path: Path, options: ReadOptions) -> Episodes:
    """One episode per row; the values stay in the file."""
    with opening(path, "the paper authors' HDF5"), h5py.File(path, "r") as file:
        dataset = file["dataset"]
        if dataset.ndim != 2 or 0 in dataset.shape:
            raise DfstransError(
                f"expected a 2-D data set (episode, sensors one after the other and the label) in {path}, "
                f"got shape {dataset.shape}; convert it (save_episodes)"
            )
        n, width = dataset.shape
        n_sensors, n_timepoints = _sizes(width - 1, options, path)
        labels = np.asarray(dataset[:, width - 1])
        if options.anomalous_value is not None:
            labels = _is_anomalous(labels, options.anomalous_value, path)
        return Episodes.from_arrays(
            StoredValues.whole(StoredArray(path.resolve(), "dataset", (n, n_sensors, n_timepoints))), labels
        )


def _is_anomalous(labels: npt.NDArray[Any], value: str, path: Path) -> npt.NDArray[np.bool_]:
    known = [f"{label:g}" for label in np.unique(labels)]
    try:
        number = float(value)
    except ValueError:
        raise DfstransError(
            f"expected a number as anomalous_value, since the labels in {path} are numbers ({shortlist(known)}), got "
            f"{value!r}; correct anomalous_value"
        ) from None
    require_occurs(value, known, path)
    return np.asarray(labels == number)


def _sizes(width: int, options: ReadOptions, path: Path) -> tuple[int, int]:
    """Sensors and points of a row, from the options; one follows from the other."""
    n_sensors = options.n_sensors or width // (options.n_timepoints or width)
    n_timepoints = options.n_timepoints or width // n_sensors
    given = options.n_sensors is not None or options.n_timepoints is not None
    if not given or n_sensors * n_timepoints != width:
        ways = [f"{k} × {width // k}" for k in range(1, min(width, 1000) + 1) if width % k == 0]
        got = f"{options.n_sensors} × {options.n_timepoints}" if given else "neither"
        raise DfstransError(
            f"expected {option_name('n_sensors')} × {option_name('n_timepoints')} = {width} values and a label in "
            f"each row of {path}, got {got}; give {option_name('n_sensors', ...)} or "
            f"{option_name('n_timepoints', ...)}; possible: "
            f"{shortlist(ways, 30)}"
        )
    return n_sensors, n_timepoints

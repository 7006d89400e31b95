"""Arrays of numpy: `.npz` of `save_episodes` or of anyone, and a plain 3-D `.npy`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dfstrans.data import layout as own_layout
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.columns import UNLABELLED, labels
from dfstrans.data.readers.opening import ReadOptions, opening, require_content
from dfstrans.errors import DfstransError, shortlist

NAME = "a 3-D array (episode, sensor, timepoint) in .npz (values or X, and labels or y) or .npy"
OPTIONS = frozenset({"anomalous_value"})
_VALUES = ("values", "X", "x", "data")
_LABELS = ("labels", "y", "Y", "label")
_ABOUT = ("lengths", "ids", "sensors", "units", "interval", "time_unit", "groups", "faults")


def recognises(path: Path) -> bool:
    """Whether the path is a .npz or .npy file."""
    return path.is_file() and path.suffix.lower() in (".npz", ".npy")


def read(path: Path, options: ReadOptions) -> Episodes:
    """The episodes of an array file."""
    require_content(path, "arrays of numpy")
    with opening(path, "arrays of numpy"):
        with path.open("rb") as file:
            loaded: Any = np.load(file, allow_pickle=False)
            single = isinstance(loaded, np.ndarray)
            arrays = {"values": loaded} if single else {name: _plain(loaded, name, path) for name in loaded.files}
        if str(arrays.get("format", "")) == own_layout.FORMAT:
            own_layout.require_version(arrays["version"], path)
        values = _first(arrays, _VALUES)
        if values is None:
            raise DfstransError(
                f"expected an array called values or X in {path}, got {shortlist(arrays) or 'none'}; rename it"
            )
        if str(arrays.get("format", "")) != own_layout.FORMAT:
            _warn_of_unread(arrays, path)
        raw_labels = _first(arrays, _LABELS)
        faults = arrays.get("faults")
        interval = arrays.get("interval")
        return Episodes.from_arrays(
            values,
            None if raw_labels is None else _as_labels(raw_labels, options, path),
            lengths=arrays.get("lengths"),
            ids=arrays.get("ids"),
            sensors=_names(arrays.get("sensors")),
            units=_names(arrays.get("units")),
            interval=None if interval is None or np.isnan(interval) else float(interval),
            time_unit=str(arrays.get("time_unit", "")),
            groups=arrays.get("groups"),
            faults=None if faults is None else [own_layout.faults_from_json(str(text)) for text in faults],
            truth=own_layout.truth_from_arrays(arrays),
        )


def _plain(archive: Any, name: str, path: Path) -> Any:
    """An array of an archive; one of Python objects is refused, for it could hold any program."""
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DfstransError(
            f"expected plain arrays in {path}, got Python objects in {name!r}; for recordings of different lengths "
            "fill values up with NaN and add lengths, or write one .npy per episode into a folder"
        ) from None


def _warn_of_unread(arrays: dict[str, Any], path: Path) -> None:
    """Say which arrays of a foreign file are not taken."""
    taken = {_name_of(arrays, _VALUES), _name_of(arrays, _LABELS), *_ABOUT}
    unread = [name for name in arrays if name not in taken]
    if unread:
        warnings.warn(
            f"not read from {path.name}: {shortlist(unread)}; what is read is called values, labels, "
            f"{', '.join(_ABOUT)}",
            stacklevel=2,
        )


def _name_of(arrays: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in arrays), None)


def _first(arrays: dict[str, Any], names: tuple[str, ...]) -> Any:
    name = _name_of(arrays, names)
    return None if name is None else arrays[name]


def _names(array: Any) -> tuple[str, ...] | None:
    return None if array is None else tuple(map(str, array.tolist()))


def _as_labels(raw: Any, options: ReadOptions, path: Path) -> Any:
    coded = labels(pa.array(np.ravel(raw).tolist()).cast(pa.string()), options.anomalous_value, path)
    if (coded == UNLABELLED).any():
        missing = np.flatnonzero(coded == UNLABELLED)
        raise DfstransError(
            f"expected a label for each episode in {path}, got none for rows {shortlist(missing)}; label them"
        )
    return coded

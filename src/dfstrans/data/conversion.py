"""Convert arrays, pandas frames and the layouts of aeon, sktime and tsai to what `Episodes` holds, with checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.grid import first_points, grid_positions, require_no_clock_change, row_positions
from dfstrans.data.storage import StoredValues
from dfstrans.errors import DfstransError, list_few, option_name

Values = npt.NDArray[np.float32] | StoredValues
_USUAL = {"id": "episode_id", "label": "label", "time": "time", "group": "group"}  # columns, unless others are named


def default_sensor_names(n_sensors: int) -> tuple[str, ...]:
    """Return names for unnamed sensors: sensor_1, sensor_2, …"""
    return tuple(f"sensor_{i + 1}" for i in range(n_sensors))


def as_labels(
    labels: npt.ArrayLike, n: int, normal_value: Any = None, anomalous_value: Any = None
) -> npt.NDArray[np.int8]:
    """Convert labels of any type to 0 and 1: all but `normal_value`, or only `anomalous_value`, are anomalous.

    >>> as_labels(["ok", "worn", "ok"], 3, normal_value="ok"), as_labels([False, True], 2)
    (array([0, 1, 0], dtype=int8), array([0, 1], dtype=int8))
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise DfstransError(f"expected {n} labels, got an array with {array.ndim} axes; pass one label per episode")
    check_count("labels", array, n)
    given = {"normal_value": normal_value, "anomalous_value": anomalous_value}
    named = [(name, str(value)) for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise DfstransError("expected normal_value or anomalous_value, got both; pass one of them")
    for name, value in named:
        words = array.astype(np.str_)
        if value not in words:
            raise DfstransError(
                f"expected {name} among the labels {list_few(np.unique(words))}, got {value}; correct it"
            )
        return np.asarray((words == value) == (name == "anomalous_value"), dtype=np.int8)
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.array([{"False": 0.0, "True": 1.0}.get(str(word), np.nan) for word in array.tolist()])
    bad = ~np.isin(numbers, (0, 1))
    if bad.any():
        strange = sorted({str(x) for x in array[bad].tolist()})
        raise DfstransError(
            f"expected labels 0 (normal) and 1 (anomalous), got {list_few(strange)}; name the one that means normal "
            f"({option_name('normal_value', ...)}), or use 0 and 1"
        )
    return numbers.astype(np.int8)


def pad(series: Sequence[npt.ArrayLike]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Stack 2-D arrays (sensor, timepoint) of any lengths, padded with NaN; return the 3-D array and the lengths."""
    arrays = [_as_numbers(one) for one in series]
    shapes = {array.shape[0] if array.ndim == 2 else -1 for array in arrays}
    if len(shapes) != 1 or -1 in shapes:
        raise DfstransError(
            "expected 2-D arrays (sensor, timepoint) with the same number of sensors, got shapes "
            f"{list_few(sorted({array.shape for array in arrays}))}; is an array transposed?"
        )
    lengths = np.array([array.shape[1] for array in arrays], dtype=np.int64)
    values = np.full((len(arrays), shapes.pop(), max(int(lengths.max()), 0)), np.nan, dtype=np.float32)
    for row, array in enumerate(arrays):
        values[row, :, : array.shape[1]] = array
    return values, lengths


def as_values(values: Any) -> tuple[Values, npt.NDArray[np.int64]]:
    """Return the values as a 3-D array or `StoredValues`, and the default lengths."""
    if isinstance(values, StoredValues):
        return values, np.full(values.shape[0], values.shape[2], dtype=np.int64)
    if isinstance(values, list | tuple) and len(values) and all(np.ndim(one) == 2 for one in values):
        return pad(values)
    array = _as_numbers(values)
    if array.ndim != 3:
        raise DfstransError(
            f"expected values of shape (n_episodes, n_sensors, n_timepoints), got {array.ndim} axes {array.shape}; "
            "a single episode is values[np.newaxis], a single sensor values[:, np.newaxis]"
        )
    if 0 in array.shape[1:]:
        raise DfstransError(
            f"expected at least one sensor and one timepoint, got shape {array.shape}; is an axis empty?"
        )
    return array, np.full(array.shape[0], array.shape[2], dtype=np.int64)


def _as_numbers(values: Any) -> npt.NDArray[np.float32]:
    if isinstance(values, np.ndarray) and np.iscomplexobj(values):
        raise DfstransError("expected real numbers, got complex ones; pass magnitude and phase as separate sensors")
    try:
        with np.errstate(over="ignore"):  # a number above the float32 range becomes inf, which the data check reports
            return np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise DfstransError(
            "expected numbers in a 3-D array or a list of 2-D arrays (sensor, timepoint), got "
            f"{type(values).__name__}; convert text to numbers and missing values to NaN first"
        ) from None


def as_lengths(lengths: npt.ArrayLike, n: int, n_timepoints: int) -> npt.NDArray[np.int64]:
    """Convert lengths to integers; reject those outside the array."""
    array = np.asarray(lengths, dtype=np.int64)
    if array.shape != (n,) or (n and (array.min() < 1 or array.max() > n_timepoints)):
        raise DfstransError(
            f"expected {n} lengths between 1 and {n_timepoints}, got {list_few(array.tolist())}; remove empty episodes"
        )
    return array


def as_starts(starts: npt.ArrayLike | Sequence[Any], n: int) -> npt.NDArray[np.datetime64]:
    """Convert dates and times to datetime64[ns], None to NaT."""
    try:
        array = np.asarray(starts, dtype="datetime64[ns]")
    except (TypeError, ValueError) as error:
        raise DfstransError(
            f"expected the date and time of each episode's first point, got {error}; pass numpy datetime64 values, "
            "or text such as 2024-05-31T12:00:00 without a time zone"
        ) from None
    if array.shape != (n,):
        raise DfstransError(f"expected {n} starts, got shape {array.shape}; pass one per episode, None if unknown")
    return array


def check_count(what: str, given: Sized, expected: int) -> None:
    """Reject a wrong number of things."""
    if len(given) != expected:
        raise DfstransError(f"expected {expected} {what}, got {len(given)}; pass one for each, in the same order")


def check_unique(what: str, names: Sequence[str], remedy: str) -> None:
    """Reject repeated names."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DfstransError(f"expected unique {what}, got repeated ones: {list_few(repeated)}; {remedy}")


def join(parts: Sequence[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    """Join arrays, None if one is missing."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None


def time_span(starts: npt.NDArray[np.datetime64]) -> str:
    """Format the earliest and the latest start to the second."""
    known = np.sort(starts[~np.isnat(starts)]).astype("datetime64[s]")
    return "unknown" if not len(known) else " to ".join(dict.fromkeys(str(time) for time in known[[0, -1]]))


# ---- long frames --------------------------------------------------------------------------------------------------


def from_long_frame(
    frame: Any, columns: dict[str, str | None], time_unit: str, normal_value: Any, anomalous_value: Any
) -> dict[str, Any]:
    """Return the arguments for a pandas frame with a row per point; `columns` names its columns by role."""
    import pandas as pd  # slow to import

    if not isinstance(frame, pd.DataFrame):
        raise DfstransError(f"expected a pandas DataFrame with a row per point, got {type(frame).__name__}; convert it")
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    check_unique("column names", frame.columns.tolist(), "rename them")
    roles = _roles(frame.columns.tolist(), columns)
    sensors = [name for name in frame.columns if name not in roles.values()]
    text = [name for name in sensors if not pd.api.types.is_numeric_dtype(frame[name])]
    if text or not sensors or not len(frame):
        got = f"other content in {list_few(text)}" if text else f"{len(frame)} rows and {len(sensors)} sensors"
        raise DfstransError(
            f"expected a row per point and numbers in each column other than id, label, time and group, got {got}; "
            "convert or drop these columns, or name their role (id, label, time, group)"
        )
    for role in ("id", "group"):
        if role in roles and frame[roles[role]].isna().any():
            raise DfstransError(f"expected a value in each row of {roles[role]!r} ({role}), got none in some; add it")
    numbers, ids = pd.factorize(frame[roles["id"]].astype(str))
    order = np.argsort(numbers, kind="stable")
    frame, episode = frame.iloc[order], numbers[order].astype(np.int64)
    first, names = first_points(episode), [str(name) for name in ids]
    known: dict[str, Any] = {"ids": names, "sensors": sensors}
    position = row_positions(episode)
    if "time" in roles:
        seconds, about = _times(frame[roles["time"]], time_unit, first, episode, names)
        position, interval = grid_positions(seconds, episode, names)
        known |= about | {"interval": interval}
    last = np.append(first[1:], len(frame)) - 1
    values = np.full((len(names), len(sensors), int(position.max()) + 1), np.nan, dtype=np.float32)
    for sensor, name in enumerate(sensors):
        values[episode, sensor, position] = frame[name].to_numpy(dtype=np.float32, na_value=np.nan)
    known |= {"values": values, "lengths": position[last] + 1}
    if "label" in roles:
        points = as_labels(frame[roles["label"]].to_numpy(), len(frame), normal_value, anomalous_value)
        known["labels"] = np.maximum.reduceat(points, first)
        if (known["labels"] != np.minimum.reduceat(points, first)).any():
            known["stretches"] = [
                _stretches(points[a : b + 1], position[a : b + 1]) for a, b in zip(first, last, strict=True)
            ]
    if "group" in roles:
        groups = frame[roles["group"]].astype(str).to_numpy()
        mixed = [names[i] for i in np.unique(episode[groups != groups[first][episode]])]
        if mixed:
            raise DfstransError(
                f"expected one group per episode, got several in {list_few(mixed)}; make the ids distinct"
            )
        known["groups"] = groups[first]
    return known


def _stretches(points: npt.NDArray[np.int8], position: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the first and the last + 1 point of each anomalous stretch; none if all points have one label."""
    if points.min() == points.max():
        return []
    edges = np.flatnonzero(np.diff(np.pad(points, 1))).reshape(-1, 2)
    return [(int(position[a]), int(position[b - 1]) + 1) for a, b in edges]


def _roles(names: Sequence[str], columns: dict[str, str | None]) -> dict[str, str]:
    """Return the column of each role: the named one, else the one with the usual name, if it exists."""
    wanted = {role: _USUAL[role] if name is None else str(name) for role, name in columns.items()}
    missing = [role for role, name in columns.items() if name is not None and wanted[role] not in names]
    if wanted["id"] not in names:
        missing = ["id", *(role for role in missing if role != "id")]
    if missing:
        raise DfstransError(
            f"expected the columns {list_few(f'{wanted[role]} ({role})' for role in missing)} in the frame, got "
            f"{list_few(names, 20)}; name them, such as {missing[0]}={names[0] if names else '…'!r}"
        )
    return {role: name for role, name in wanted.items() if name in names}


def _times(column: Any, unit: str, first: Any, episode: Any, ids: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the time of each point in seconds or in its own unit, and what is known about the dates."""
    import pandas as pd

    if column.isna().any():
        raise DfstransError(f"expected a time in each row, got none in {int(column.isna().sum())}; fill them in")
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column, zone = column.dt.tz_convert("UTC").dt.tz_localize(None), "UTC"
    elif pd.api.types.is_datetime64_any_dtype(column.dtype):
        zone = ""
    elif pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64), {"time_unit": unit}
    else:
        raise DfstransError(
            f"expected numbers or dates as time, got {column.iloc[0]!r}; convert the column (pandas.to_datetime)"
        )
    clock = column.to_numpy().astype("datetime64[ns]")
    if not zone:
        require_no_clock_change(clock, episode, ids)
    seconds = (clock - clock[0]).astype(np.int64) / 1e9
    return seconds, {"time_unit": "s", "starts": clock[first], "time_zone": zone}


# ---- layouts of other libraries -----------------------------------------------------------------------------------


def from_layout(X: Any) -> dict[str, Any]:  # noqa: N803
    """Return the arguments for a collection of series in a layout of aeon, sktime or tsai.

    These are an array (episode, channel, timepoint), an array (episode, timepoint) of one channel, a list of arrays
    (channel, timepoint), a frame with a series in each cell (nested), or a frame with the index (episode, timepoint).
    """
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        if X.index.nlevels == 2:
            return _from_multiindex(X)
        if len(X) and all(isinstance(cell, pd.Series | np.ndarray) for cell in X.iloc[0]):
            return _from_nested(X)
        raise DfstransError(
            "expected a frame with a series in each cell (nested) or with the index (episode, timepoint), got "
            f"{list_few(X.columns)} with {X.index.nlevels} index level(s); use Episodes.from_dataframe for a row per "
            "point"
        )
    if isinstance(X, list | tuple):
        return {"values": [np.asarray(one) for one in X]}
    array = np.asarray(X)
    if array.ndim not in (2, 3):
        raise DfstransError(
            f"expected an array (episode, channel, timepoint), or (episode, timepoint) of one channel, got shape "
            f"{array.shape}; add or remove an axis"
        )
    return {"values": array[:, np.newaxis] if array.ndim == 2 else array}


def _from_nested(frame: Any) -> dict[str, Any]:
    series = []
    for name, row in zip(frame.index, frame.itertuples(index=False), strict=True):
        cells = [np.asarray(cell, dtype=np.float32) for cell in row]
        if len({cell.shape for cell in cells}) > 1:
            raise DfstransError(
                f"expected series of the same length in each row, got {list_few(len(cell) for cell in cells)} in row "
                f"{name!r}; resample them to one interval"
            )
        series.append(np.stack(cells))
    return {"values": series, "ids": [str(name) for name in frame.index], "sensors": [str(c) for c in frame.columns]}


def _from_multiindex(frame: Any) -> dict[str, Any]:
    parts = list(frame.groupby(level=0, sort=False))
    return {
        "values": [part.to_numpy(dtype=np.float32).T for _, part in parts],
        "ids": [str(name) for name, _ in parts],
        "sensors": [str(name) for name in frame.columns],
    }

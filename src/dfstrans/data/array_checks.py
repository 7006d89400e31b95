"""Check arrays that become episodes, and convert them to the types of `Episodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.storage import StoredValues
from dfstrans.errors import DfstransError, list_few, reading_option_name

Values = npt.NDArray[np.float32] | StoredValues


def default_sensor_names(n_sensors: int) -> tuple[str, ...]:
    """Return names for unnamed sensors: sensor_1, sensor_2, …"""
    return tuple(f"sensor_{i + 1}" for i in range(n_sensors))


def as_labels(labels: npt.ArrayLike, n_episodes: int) -> npt.NDArray[np.int8]:
    """Convert labels of any type to 0 and 1; reject all other values."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise DfstransError(f"expected {n_episodes} labels, got an array with {array.ndim} axes; pass one per episode")
    check_count("labels", array, n_episodes)
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(array.shape, np.nan)
    bad = ~np.isin(numbers, (0, 1))
    if bad.any():
        strange = sorted({str(x) for x in array[bad].tolist()})
        raise DfstransError(
            f"expected labels 0 (normal) or 1 (anomalous), got {list_few(strange)}; use 0 and 1, or specify "
            f"which value means anomalous ({reading_option_name('anomalous_value', ...)})"
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

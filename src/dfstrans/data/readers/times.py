"""Convert a time column of a table to positions on a regular grid."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfstrans.data.readers.columns import is_text, name_and_unit
from dfstrans.data.readers.tables import MISSING
from dfstrans.errors import DfstransError, list_few, option_name

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DATES = ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y")  # besides ISO 8601; 03/04/2024 is ambiguous
_TIME_OF_DAY = r"^\d\d:\d\d:\d\d(\.\d+)?$"
_EARLIEST, _LATEST = 19_000_101_000_000, 21_001_231_235_959  # as YYYYMMDDhhmmss
_EXACT = 1 << 53  # 64-bit floats cannot represent all larger integers
_DAY = 86_400.0  # seconds
_JITTER = 0.2  # maximum distance of a step from a multiple of the interval, as a share of the interval
_MOST_INSERTED = 20  # times the existing points; a longer gap more likely separates two recordings
_STEPS_AT_MIDNIGHT = 5  # maximum gap; an episode whose time falls by less was more likely recorded twice
_NOISE_DIGITS = 4  # minimum, out of nine: 1/1024 has seven digits, none of which is noise


# ---- columns of times -------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """The time of each point, the unit if it is known, and whether the times restart at midnight."""

    values: Floats
    unit: str = ""
    of_day: bool = False


def to_times(column: Any, name: str, source: Path) -> Times:
    """Convert a column of times: dates to seconds from the first, times of day to seconds from midnight; keep numbers.

    The unit of numbers comes from the header, as in `time [ms]` or `time_s`. Without a unit, integers that all look
    like 20240531120000 (optionally with milliseconds) are dates, and the unit of other numbers is unknown.
    """
    if is_text(column):
        column = _text_as_time(column, name, source)
    kind = column.type
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DfstransError(
            f"expected a time in each row of {source}, got none in data row {row + 1} (column {name!r}); "
            "fill it in or remove the row"
        )
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        counted = column.cast(pa.timestamp("ns", getattr(kind, "tz", None)), safe=False).cast(pa.int64()).to_numpy()
        return Times(np.asarray((counted - counted[0]) / 1e9, dtype=np.float64), "s")
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        whole = column.cast(pa.int32()) if kind.bit_width == 32 else column
        seconds = np.asarray(whole.cast(pa.int64()).to_numpy() / per_second, dtype=np.float64)
        return Times(seconds, "s", of_day=pa.types.is_time(kind))
    bare, unit = name_and_unit(name)
    if not unit and bare.lower().endswith("_s"):
        unit = "s"
    if pa.types.is_integer(kind):
        return _whole_times(np.asarray(column.cast(pa.int64(), safe=False).to_numpy()), unit)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Times(np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64), unit)
    raise DfstransError(
        f"expected times in column {name!r} of {source} as numbers or dates, got {kind}; convert them, or "
        f"name another column ({option_name('time_column', ...)})"
    )


def _whole_times(numbers: Index, unit: str) -> Times:
    milliseconds = None if unit else _compact_dates(numbers)
    if milliseconds is not None:
        return Times((milliseconds - milliseconds[0]) / 1e3, "s")
    if len(numbers) and np.abs(numbers).max() > _EXACT:  # nanoseconds since 1970
        numbers = numbers - numbers[0]
    return Times(numbers.astype(np.float64), unit)


def _compact_dates(numbers: Index) -> Index | None:
    """Convert dates written as YYYYMMDDhhmmss[fff] to milliseconds since 1970; None unless all are dates.

    >>> _compact_dates(np.array([19700101000001, 19700301000000])), _compact_dates(np.array([19701301000000]))
    (array([      1000, 5097600000]), None)
    """
    if not len(numbers):
        return None
    seconds, milliseconds = np.divmod(numbers, 1000) if numbers.min() > _LATEST else (numbers, np.zeros_like(numbers))
    if not _EARLIEST <= seconds.min() <= seconds.max() <= _LATEST:
        return None
    date, clock = np.divmod(seconds, 1_000_000)
    year, month, day = date // 10_000, date // 100 % 100, date % 100
    hour, minute, second = clock // 10_000, clock // 100 % 100, clock % 100
    if not ((month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)).all():
        return None
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    if (days.astype("datetime64[M]") != months).any():
        return None
    in_day: Index = ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds
    return np.asarray(days.astype(np.int64) * 86_400_000 + in_day)


def _text_as_time(column: Any, name: str, source: Path) -> Any:
    written = pc.utf8_trim_whitespace(column)
    written = pc.if_else(pc.is_in(written, pa.array(MISSING)), None, written)
    text = pc.replace_substring_regex(written, r"(:\d\d),(\d+)$", r"\1.\2")
    if pc.all(pc.match_substring_regex(text, _TIME_OF_DAY)).as_py():
        with suppress(pa.ArrowInvalid):
            return pc.binary_join_element_wise("1970-01-01T", text, "").cast(pa.timestamp("ns")).cast(pa.time64("ns"))
    for kind in (pa.int64(), pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        with suppress(pa.ArrowInvalid):
            return text.cast(kind)
    for pattern in _DATES:
        with suppress(pa.ArrowInvalid):
            return pc.strptime(text, format=pattern, unit="ns")
    padded = pc.replace_substring_regex(text, r"\b(\d)([.:])", r"0\1\2")
    with suppress(pa.ArrowInvalid):  # strptime does not support fractions of a second
        return pc.replace_substring_regex(padded, r"^(\d\d)\.(\d\d)\.(\d{4}) ", r"\3-\2-\1 ").cast(pa.timestamp("ns"))
    got = list_few(written.drop_null().unique()[:3].to_pylist())
    if pc.any(pc.match_substring_regex(text, r"^[-+]?\d*,\d+$")).as_py():
        raise DfstransError(
            f"expected one decimal sign in {source}, got commas in column {name!r} ({got}) and points in others; use "
            "one decimal sign and no thousands separators"
        )
    raise DfstransError(
        f"expected times in column {name!r} of {source} as numbers or as dates such as 2024-05-01T12:00:00.25, got "
        f"{got}; rewrite them, or name another column ({option_name('time_column', ...)})"
    )


# ---- positions on a regular grid --------------------------------------------------------------------------------


def grid_positions(time: Floats, episode: Index, ids: Sequence[str]) -> tuple[Index, float | None]:
    """Return how many intervals each point is after the first of its episode, and the interval (the median step).

    `episode` is the episode number of each point, in ascending order. Positions of missing points are skipped.

    >>> grid_positions(np.array([0.0, 0.1, 0.4]), np.zeros(3, dtype=np.int64), ["a"])
    (array([0, 1, 4]), 0.1)
    """
    steps = np.diff(time)
    inside = np.diff(episode) == 0
    if not inside.any():
        return np.zeros(len(time), dtype=np.int64), None
    _require_rising(time, steps, inside, episode, ids)
    interval = _median_step(time, steps, inside)
    if not (np.abs(steps - interval)[inside] > _JITTER * interval).any():
        return row_positions(episode), interval
    with np.errstate(over="ignore"):
        intervals = np.where(inside, steps / interval, 1.0)
    whole = np.maximum(np.rint(intervals), 1.0)
    off = np.flatnonzero(np.abs(intervals - whole) > _JITTER)
    remedy = f"use the rows in order ({option_name('irregular_time', 'ignore')})"
    if len(off):
        worst = int(off[0])
        _require_one_rate(time, episode, ids, interval, np.unique(episode[off]))
        raise DfstransError(
            f"expected regular time (median step {interval:g}), got {len(off)} irregular steps, the first of "
            f"{steps[worst]:g} in episode {ids[episode[worst]]!r} after time {time[worst]:g}; resample the data, or "
            f"{remedy}"
        )
    if whole.sum() > _MOST_INSERTED * len(time) + 1000:
        worst = int(np.argmax(whole))
        raise DfstransError(
            f"expected recordings without long gaps, got one of {whole[worst]:.0f} points in episode "
            f"{ids[episode[worst]]!r} after time {time[worst]:g}; split the episode there, or {remedy}"
        )
    run = np.concatenate([[0], np.cumsum(whole.astype(np.int64))])
    return run - _at_first_point(run, first_points(episode)), interval


def row_positions(episode: Index) -> Index:
    """Return how many points of its episode precede each point.

    >>> row_positions(np.array([0, 0, 0, 1, 1]))
    array([0, 1, 2, 0, 1])
    """
    rows = np.arange(len(episode))
    return rows - _at_first_point(rows, first_points(episode))


def first_points(episode: Index) -> Index:
    """Return the index of the first point of each episode."""
    return np.concatenate([[0], np.flatnonzero(np.diff(episode)) + 1]).astype(np.int64)


def _at_first_point(values: Index, starts: Index) -> Index:
    """Return for each point the value at the first point of its episode."""
    return np.repeat(values[starts], np.diff([*starts, len(values)]))


def median_interval(time: Floats, episode: Index) -> float | None:
    """Return the median step within episodes, or None if time does not advance."""
    steps, inside = np.diff(time), np.diff(episode) == 0
    median = _median_step(time, steps, inside) if inside.any() else 0.0
    return median if median > 0 and np.isfinite(median) else None


def unwrap_midnight(time: Floats, episode: Index, ids: Sequence[str]) -> Floats:
    """Make times of day in seconds continue past midnight within an episode; rows may be in any order.

    An episode passes midnight where time falls by nearly a day, if it falls nowhere else. An unsorted episode with
    points only in the evening and the morning raises an error, because sorting would put the evening after the morning.

    >>> unwrap_midnight(np.array([86398.0, 86399.0, 0.0, 1.0]), np.zeros(4, dtype=np.int64), ["a"])
    array([86398., 86399., 86400., 86401.])
    """
    order = np.argsort(episode, kind="stable")
    steps, inside, number = np.diff(time[order]), np.diff(episode[order]) == 0, episode[order][1:]
    back = inside & (steps < -_DAY / 2)
    if not back.any():
        return time
    in_time = np.lexsort((time, episode))
    apart = np.where(inside, np.diff(time[in_time]), 0.0)
    midnight = back & (steps + _DAY >= 0) & (steps + _DAY <= _STEPS_AT_MIDNIGHT * _lower_median(apart[apart > 0]))
    unsorted = number[inside & (steps < 0) & ~midnight]
    two_parts = np.intersect1d(number[back], np.intersect1d(unsorted, number[apart > _DAY / 2]))
    unclear = np.setdiff1d(two_parts, _episodes_with_repeated_times(time, episode))
    if len(unclear):
        raise DfstransError(
            "expected times of day that fall only at midnight, got unsorted times, or a gap at midnight, in "
            f"{list_few(ids[i] for i in unclear)}; write the times with their date"
        )
    nights = np.concatenate([[0], np.cumsum(midnight & ~np.isin(number, unsorted))])
    unwrapped = time.copy()
    unwrapped[order] += _DAY * (nights - _at_first_point(nights, first_points(episode[order])))
    return unwrapped


def _median_step(time: Floats, steps: Floats, inside: npt.NDArray[np.bool_]) -> float:
    """Return the median of the steps that are `inside`, without rounding noise.

    This is the lower of two medians, because the mean of a step and a gap would be neither. A large time has a coarser
    64-bit resolution than a step, but n equal steps together are n times as precise as one. Within that precision,
    meaningless digits are removed.

    >>> for time in (1710400000 + np.arange(4) / 1000, np.arange(4) / 1024):
    ...     print(_median_step(time, np.diff(time), np.full(3, True)))
    0.001
    0.0009765625
    """
    resolution = float(np.spacing(np.abs(time).max()))
    median = float(steps[np.argmax(inside)])  # any of them will do if most are equal
    equal = _equal_steps(steps, median, resolution) & inside
    if 2 * np.count_nonzero(equal) <= np.count_nonzero(inside):
        median = _lower_median(steps[inside])
        equal = _equal_steps(steps, median, resolution) & inside
    others = np.concatenate([[-1], np.flatnonzero(~equal), [len(equal)]])
    longest = int(np.argmax(np.diff(others)))
    first, last = int(others[longest]) + 1, int(others[longest + 1])
    if last > first:
        median = float(time[last] - time[first]) / (last - first)
        resolution /= last - first
    shortest = len(f"{median:.8e}".split("e")[0].rstrip("0").replace(".", "").lstrip("-")) - _NOISE_DIGITS
    rounded = (float(f"{median:.{digits}g}") for digits in range(1, shortest + 1))
    return next((few for few in rounded if abs(few - median) <= resolution), float(f"{median:.9g}"))


def _equal_steps(steps: Floats, step: float, resolution: float) -> npt.NDArray[np.bool_]:
    """Mark the steps that equal this one up to rounding."""
    with np.errstate(invalid="ignore"):
        return np.abs(steps - step) <= 2 * resolution


def _lower_median(steps: Floats) -> float:
    # a full sort, because np.partition is several times slower for few distinct values, as in regular time
    return float(np.sort(steps)[(len(steps) - 1) // 2])


def _require_rising(
    time: Floats, steps: Floats, inside: npt.NDArray[np.bool_], episode: Index, ids: Sequence[str]
) -> None:
    if not np.isfinite(time).all():
        row = int(np.flatnonzero(~np.isfinite(time))[0])
        raise DfstransError(f"expected finite times, got {time[row]} in episode {ids[episode[row]]!r}; correct it")
    back = np.flatnonzero(inside & (steps <= 0))
    if not len(back):
        return
    row = int(back[0])
    where = f"in episode {ids[episode[row]]!r}: {time[row + 1]:.12g} after {time[row]:.12g}"
    repeated = _episodes_with_repeated_times(time, episode)
    named = list_few(ids[i] for i in repeated)
    if not (steps[back] < 0).any():
        raise DfstransError(
            f"expected each time once within an episode, got a repeated one {where}; episodes with repeated times: "
            f"{named}; remove the repeated rows, or use the rows in order ({option_name('irregular_time', 'ignore')})"
        )
    if len(repeated):
        raise DfstransError(
            f"expected each episode once, got the same times more than once in {named}; if it holds several "
            f"recordings, name the column that separates them, such as the machine ({option_name('id_column')}); if "
            "it was recorded or written twice, or the clock was set back, give each recording its own id, remove "
            "the copy, or write times in UTC"
        )
    raise DfstransError(
        f"expected time to rise within each episode, got unsorted times {where}; sort the rows "
        f"({option_name('sort_time', True)})"
    )


def _require_one_rate(time: Floats, episode: Index, ids: Sequence[str], interval: float, irregular: Index) -> None:
    """Reject irregular episodes that are regular by themselves, but at a different sampling rate from the others."""
    rates = {}
    for one in irregular.tolist():
        first, last = np.searchsorted(episode, [one, one + 1])
        own = time[first:last]
        own_steps = np.diff(own)
        rate = _median_step(own, own_steps, np.full(len(own_steps), True))
        if np.abs(own_steps / rate - 1).max() > _JITTER:
            return
        rates[ids[one]] = rate
    if all(abs(rate / interval - 1) > _JITTER for rate in rates.values()):
        raise DfstransError(
            f"expected one sampling rate in all episodes (median step {interval:g}), got others in "
            f"{list_few(f'{name} (step {rate:g})' for name, rate in rates.items())}; resample all recordings to one "
            "rate, or read the recordings of each rate separately"
        )


def _episodes_with_repeated_times(time: Floats, episode: Index) -> Index:
    order = np.lexsort((time, episode))
    repeated = (np.diff(time[order]) == 0) & (np.diff(episode[order]) == 0)
    return np.unique(episode[order][1:][repeated])

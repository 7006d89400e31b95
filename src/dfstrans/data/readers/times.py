"""Convert a time column of a table to numbers, and to dates and times where it has them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfstrans.data.grid import SECONDS, Floats, Index
from dfstrans.data.readers.columns import is_text, name_and_unit
from dfstrans.data.readers.tables import MISSING
from dfstrans.errors import DfstransError, list_few, option_name

_DATES = ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y")  # besides ISO 8601; 03/04/2024 is ambiguous
_MONTHS = ("jan", "feb", "mar|mär|mrz", "apr", "may|mai", "jun", "jul", "aug", "sep", "oct|okt", "nov", "dec|dez")
_NAMED_MONTH = rf"(?i)^\d\d?[-/ .]+(?:{'|'.join(_MONTHS)})"
_TIME_OF_DAY = r"^\d\d:\d\d:\d\d(\.\d+)?$"
_EARLIEST, _LATEST = 19_000_101_000_000, 21_001_231_235_959  # as YYYYMMDDhhmmss
_OFFSET = r"\d(?P<zone>Z|z|[+-]\d\d(?::?\d\d)?)$"  # at the end of a time
_EPOCH = 946_684_800.0, 4_102_444_800.0  # seconds from 1970 to 2000 and to 2100
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
_UNIT_NAMES = {
    **dict.fromkeys(("sec", "secs", "second", "seconds", "sek", "sekunde", "sekunden"), "s"),
    **dict.fromkeys(("msec", "millisecond", "milliseconds", "millisekunden"), "ms"),
    **dict.fromkeys(("minute", "minutes", "minuten"), "min"),
    **dict.fromkeys(("hour", "hours", "stunde", "stunden", "std"), "h"),
}
_EXACT = 1 << 53  # 64-bit floats cannot represent all larger integers


# ---- columns of times -------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """The time of each point, the unit if it is known, and whether the times restart at midnight.

    `clock` is the date and time of each point as it is written (datetime64[ns]), None if unknown, and `zone` its zone:
    UTC, an offset such as +02:00, or empty if none is written. Times in several zones are in UTC.
    """

    values: Floats
    unit: str = ""
    of_day: bool = False
    clock: npt.NDArray[np.datetime64] | None = None
    zone: str = ""


def join_times(parts: Sequence[Times], files: Sequence[Path]) -> Times:
    """Join the times of several files, with dates in one time zone."""
    clocks = [part.clock for part in parts if part.clock is not None]
    zones = {part.zone: file.name for part, file in zip(parts, files, strict=True) if part.clock is not None}
    if "" in zones and len(zones) > 1:
        known = next(zone for zone in zones if zone)
        raise DfstransError(
            f"expected times with their zone in all files or in none, got {known} in {zones[known]} and none in "
            f"{zones['']}; write all times in UTC (2024-05-31T12:00:00Z), or all without a zone"
        )
    if len(zones) > 1:
        _warn_of_zones([f"{zone} ({file})" for zone, file in zones.items()])
        clocks = [part.clock - offset(part.zone) for part in parts if part.clock is not None]
    return Times(
        np.concatenate([part.values for part in parts]),
        parts[0].unit,
        all(part.of_day for part in parts),
        np.concatenate(clocks) if len(clocks) == len(parts) else None,
        "UTC" if len(zones) > 1 else next(iter(zones), ""),
    )


def to_times(column: Any, name: str, source: Path) -> Times:
    """Convert a column of times: dates to seconds from the first, times of day to seconds from midnight; keep numbers.

    The unit of numbers comes from the header, as in `time [ms]` or `time_s`. Without a unit, integers that all look
    like 20240531120000 (optionally with milliseconds) are dates, and the unit of other numbers is unknown.
    """
    zone = ""
    if is_text(column):
        zone = _zone_of_text(column, name, source)
        column = _text_as_time(column, name, source)
    kind = column.type
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DfstransError(
            f"expected a time in each row of {source}, got none in data row {row + 1} (column {name!r}); "
            "fill it in or remove the row"
        )
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        stated = getattr(kind, "tz", None)
        counted = column.cast(pa.timestamp("ns", stated), safe=False).cast(pa.int64()).to_numpy()
        zone = zone or ("" if stated is None else stated if re.fullmatch(r"[+-]\d\d:\d\d", stated) else "UTC")
        clock = counted.astype("datetime64[ns]") + offset(zone)
        return Times(np.asarray((counted - counted[0]) / 1e9, dtype=np.float64), "s", clock=clock, zone=zone)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        whole = column.cast(pa.int32()) if kind.bit_width == 32 else column
        seconds = np.asarray(whole.cast(pa.int64()).to_numpy() / per_second, dtype=np.float64)
        return Times(seconds, "s", of_day=pa.types.is_time(kind))
    unit = _unit_of_time(name)
    if pa.types.is_integer(kind):
        return _whole_times(np.asarray(column.cast(pa.int64(), safe=False).to_numpy()), unit)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _with_epoch(Times(np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64), unit))
    raise DfstransError(
        f"expected times in column {name!r} of {source} as numbers or dates, got {kind}; convert them, or "
        f"name another column ({option_name('time_column', ...)})"
    )


def with_dates(of_day: Times, days: Times) -> Times:
    """Return times of day together with the dates in another column."""
    if days.clock is None:
        raise DfstransError("expected dates, got numbers or times of day; check the column")
    clock = days.clock.astype("datetime64[D]") + np.rint(of_day.values * 1e9).astype("timedelta64[ns]")
    return Times((clock - clock[0]) / np.timedelta64(1, "s"), "s", clock=clock)


def _unit_of_time(header: str) -> str:
    """Return the unit in the header of a time column, empty if there is none.

    >>> [_unit_of_time(header) for header in ("time [sec]", "t_ms", "Zeit in min", "Minutes", "T", "time [samples]")]
    ['s', 'ms', 'min', 'min', '', 'samples']
    """
    bare, unit = name_and_unit(header)
    if not unit:
        last = re.split(r"[_ ]", bare.lower())[-1]
        return _UNIT_NAMES.get(last, last if last in SECONDS and last != bare.lower() else "")
    return _UNIT_NAMES.get(unit.lower(), unit)


def _whole_times(numbers: Index, unit: str) -> Times:
    milliseconds = None if unit else _compact_dates(numbers)
    if milliseconds is not None:
        clock = milliseconds.astype("datetime64[ms]").astype("datetime64[ns]")
        return Times((milliseconds - milliseconds[0]) / 1e3, "s", clock=clock)
    times = _with_epoch(Times(numbers.astype(np.float64), unit), numbers)
    if len(numbers) and np.abs(numbers).max() > _EXACT:  # nanoseconds since 1970
        return times._replace(values=(numbers - numbers[0]).astype(np.float64))
    return times


def _with_epoch(times: Times, exact: Index | None = None) -> Times:
    """Add the date to numbers that count from 1970, in the unit of the column or else in the one that fits.

    >>> _with_epoch(Times(np.array([1710400000.5]))).clock, _with_epoch(Times(np.array([0.0, 1.0]))).clock
    (array(['2024-03-14T07:06:40.500000000'], dtype='datetime64[ns]'), None)
    """
    if not len(times.values) or not np.isfinite(times.values).all():
        return times
    low, high = float(times.values.min()), float(times.values.max())
    units = [times.unit] if times.unit else ["s", "ms", "us", "ns"]
    for unit, per_second in ((unit, _PER_SECOND[unit]) for unit in units if unit in _PER_SECOND):
        if _EPOCH[0] * per_second <= low <= high < _EPOCH[1] * per_second:
            if exact is not None:
                clock = exact * round(1e9 / per_second)
            else:  # whole and fractional seconds apart, because a float has too few digits for nanoseconds since 1970
                seconds = np.floor(times.values / per_second)
                rest = np.rint((times.values / per_second - seconds) * 1e6).astype(np.int64)
                clock = seconds.astype(np.int64) * 1_000_000_000 + rest * 1000
            return times._replace(unit=unit, clock=clock.astype("datetime64[ns]"), zone="UTC")
    return times


def _zone_of_text(column: Any, name: str, source: Path) -> str:
    """Return the time zone of a column of text: UTC, an offset, or nothing; several zones are read as UTC."""
    text = pc.utf8_trim_whitespace(column)
    text = text.filter(pc.and_(pc.match_substring(text, ":"), pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d")))
    zones = pc.struct_field(pc.extract_regex(text, _OFFSET), "zone")
    found = [zone for zone in pc.unique(zones).to_pylist() if zone]
    without = np.asarray(pc.is_null(zones))
    if found and without.any():
        raise DfstransError(
            f"expected a time zone in each row of column {name!r} of {source} or in none, got "
            f"{text[int(np.argmin(without))].as_py()} and {text[int(np.argmax(without))].as_py()}; write all times in "
            "UTC (2024-05-31T12:00:00Z), or all without a zone"
        )
    names = sorted({_zone_name(zone) for zone in found})
    if len(names) > 1:
        _warn_of_zones(names, f" of column {name!r} of {source}")
        return "UTC"
    return names[0] if names else ""


def _zone_name(written: str) -> str:
    """Spell an offset as +hh:mm.

    >>> _zone_name("Z"), _zone_name("+00"), _zone_name("-0330")
    ('UTC', 'UTC', '-03:30')
    """
    digits = written[1:].replace(":", "").ljust(4, "0")
    return "UTC" if written in "Zz" or digits == "0000" else f"{written[0]}{digits[:2]}:{digits[2:]}"


def offset(zone: str) -> np.timedelta64:
    """Return how far the clock of a zone is ahead of UTC; the zone is an offset, UTC or unknown."""
    if zone in ("", "UTC"):
        return np.timedelta64(0, "m")
    hours, minutes = zone[1:].split(":")
    return np.timedelta64((60 * int(hours) + int(minutes)) * (-1 if zone[0] == "-" else 1), "m")


def _warn_of_zones(zones: Sequence[str], where: str = "") -> None:
    warnings.warn(
        f"times in several time zones{where}: {list_few(zones)}; all are converted to UTC: write them in one zone to "
        "see the times of the recording",
        stacklevel=4,
    )


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


def _with_numbered_months(text: Any) -> Any:
    """Return dates such as 1-Feb-25, as process historians write them, and 2025/02/01 in the order of ISO 8601.

    >>> _with_numbered_months(pa.array(["1-Feb-25 06:00:00", "2025/02/01", "12"])).to_pylist()
    ['2025-02-01 06:00:00', '2025-02-01', '12']
    """
    text = pc.replace_substring_regex(text, r"^(\d{4})/(\d\d?)/(\d\d?)\b", r"\1-\2-\3")
    if not pc.any(pc.match_substring_regex(text, _NAMED_MONTH)).as_py():
        return text
    text = pc.replace_substring_regex(text, r"^(\d[-/ .])", r"0\1")
    for number, names in enumerate(_MONTHS, start=1):
        day_and_month = rf"(?i)^(\d\d)[-/ .]+(?:{names})[a-zä]*[-/ .]+"
        text = pc.replace_substring_regex(text, day_and_month + r"(\d{4})", rf"\2-{number:02}-\1")
        text = pc.replace_substring_regex(text, day_and_month + r"(\d\d)\b", rf"20\2-{number:02}-\1")
    return text


def _text_as_time(column: Any, name: str, source: Path) -> Any:
    written = pc.utf8_trim_whitespace(column)
    written = pc.if_else(pc.is_in(written, pa.array(MISSING)), None, written)
    text = pc.replace_substring_regex(_with_numbered_months(written), r"^([-+]?\d*|.*:\d\d),(\d+)$", r"\1.\2")
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
    raise DfstransError(
        f"expected times in column {name!r} of {source} as numbers or as dates such as 2024-05-01T12:00:00.25, got "
        f"{got}; rewrite them, or name another column ({option_name('time_column', ...)})"
    )

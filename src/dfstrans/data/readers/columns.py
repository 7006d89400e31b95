"""Columns as numpy arrays: numbers, names, seconds and labels, or an error that names the cell."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.tables import MISSING
from dfstrans.data.storage import StoredValues, infinite_to_nan
from dfstrans.errors import DfstransError, option_name, shortlist

_SYNONYMS = {
    "id": ("episode_id", "episode", "episodeid", "id", "series_id", "sample_id", "run_id", "run", "sequence_id"),
    "time": ("time", "timestamp", "datetime", "date_time", "time_s", "t", "date"),
    "label": ("label", "labels", "anomaly", "is_anomaly", "anomalous", "class", "target", "y"),
    "group": ("group", "group_id", "machine", "machine_id", "channel", "device", "asset"),
}
_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]*)[\])]")


@dataclass(frozen=True)
class Roles:
    """The columns of a table by the part they play; `sensors` are all that play no other."""

    id: str | None
    time: str | None
    label: str | None
    group: str | None
    sensors: tuple[str, ...]


def find_roles(names: Sequence[str], options: ReadOptions, source: Path) -> Roles:
    """The part of each column: as the options say, else by its name, whatever its case.

    >>> find_roles(["Episode", "T", "Ax", "y"], ReadOptions(), Path("a.csv"))
    Roles(id='Episode', time='T', label='y', group=None, sensors=('Ax',))
    """
    chosen: dict[str, str | None] = {}
    for role in _SYNONYMS:
        asked = getattr(options, f"{role}_column")
        chosen[role] = _named(names, asked, f"{role}_column", source) if asked is not None else None
    for role, synonyms in _SYNONYMS.items():
        free = {bare_name(name).lower(): name for name in reversed(names) if name not in chosen.values()}
        if {"x", "y"} <= free.keys() or {"y", "z"} <= free.keys():
            free.pop("y")  # an axis, not a label
        if chosen[role] is None:
            chosen[role] = next((free[synonym] for synonym in synonyms if synonym in free), None)
    dropped = dropped_columns(names, options)
    sensors = tuple(name for name in names if name not in chosen.values() and name not in dropped)
    kept = {role: None if name in dropped else name for role, name in chosen.items()}
    return Roles(kept["id"], kept["time"], kept["label"], kept["group"], sensors)


def warn_of_second_label(roles: Roles, source: Path) -> None:
    """Say that a sensor bears the name of a label beside the label: a detector would learn the answer from it."""
    names = set(_SYNONYMS["label"]) - {"y"}  # more often an axis
    second = [name for name in roles.sensors if bare_name(name).lower() in names]
    if roles.label is not None and second:
        warnings.warn(
            f"{shortlist(second)} of {source} is read as a sensor, because {roles.label!r} is the label; if it tells "
            f"the answer, too, leave it out ({option_name('drop_sensors', second[0])})",
            stacklevel=3,
        )


def dropped_columns(names: Sequence[str], options: ReadOptions) -> set[str]:
    """The columns among `names` that are to be left out.

    >>> dropped_columns(["Ax", "Speed [m/s]"], ReadOptions(drop_sensors=("speed", "other")))
    {'Speed [m/s]'}
    """
    return {found for name in options.drop_sensors if (found := matching(names, name)) is not None}


def require_dropped(names: Sequence[str], options: ReadOptions, source: Path) -> None:
    """Refuse to leave out a column that is not there."""
    for name in options.drop_sensors:
        _named(names, name, "drop_sensors", source)


def bare_name(header: str) -> str:
    """A column's name without its unit."""
    return name_and_unit(header)[0]


def name_and_unit(header: str) -> tuple[str, str]:
    """The name of a sensor and its unit, as in many headers.

    >>> name_and_unit("Speed [m/s]")
    ('Speed', 'm/s')
    """
    match = _UNIT.fullmatch(header.strip())
    return (match["name"], match["unit"].strip()) if match else (header.strip(), "")


def names_and_units(headers: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of sensors; headers that differ in their unit only stay as they are."""
    pairs = [name_and_unit(header) for header in headers]
    if len({name for name, _ in pairs}) < len(pairs):
        return tuple(headers), ("",) * len(pairs)
    return tuple(name for name, _ in pairs), tuple(unit for _, unit in pairs)


def _named(names: Sequence[str], wanted: str, option: str, source: Path) -> str:
    found = matching(names, wanted)
    if found is None:
        raise DfstransError(
            f"expected a column {wanted!r} in {source} ({option_name(option)}), got {shortlist(names, 20)}; "
            f"correct {option_name(option)}"
        )
    return found


def matching(names: Sequence[str], wanted: str) -> str | None:
    """The column called `wanted`: exactly, or but for case and unit."""
    for key in (str, lambda name: bare_name(name), lambda name: bare_name(name).lower()):
        for name in names:
            if key(name) == key(wanted):
                return name
    return None


UNLABELLED = -1
_WORDS = {"0": 0, "1": 1, "false": 0, "true": 1, "normal": 0, "anomalous": 1}
_DATES = ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y")  # beside ISO 8601; 03/04/2024 may mean either of two days
_EARLIEST, _LATEST = 19_000_101_000_000, 21_001_231_235_959  # as YYYYMMDDhhmmss
_EXACT = 1 << 53  # beyond, 64 bits of a float do not tell all whole numbers
_TIME_OF_DAY = r"^\d\d:\d\d:\d\d(\.\d+)?$"
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|infinity|nan)$"


class UnreadableLabelsError(DfstransError):
    """Labels of which nobody said what they mean; `column` is that of the recordings which can be left out."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


def numbers(column: Any, name: str, source: Path) -> npt.NDArray[np.float32]:
    """A column of numbers, NaN where a cell is missing."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _text_as_numbers(column, name, source)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise DfstransError(
            f"expected numbers in column {name!r} of {source}, got {kind}; convert it, {_no_sensor(name)}"
        )
    if not pa.types.is_float32(column.type):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        column = column.cast(pa.float32(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float32)


def texts(column: Any) -> Any:
    """A column of names or labels as one pyarrow array of trimmed text; whole numbers without a decimal point."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        rounded = column.cast(pa.int64(), safe=False)
        if pc.all(
            pc.or_kleene(pc.equal(rounded.cast(column.type, safe=False), column), pc.is_null(column, nan_is_null=True))
        ).as_py():
            column = pc.if_else(pc.is_null(column, nan_is_null=True), None, rounded)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def coded_texts(column: Any) -> Any:
    """A column as `texts` gives it, but each distinct text once, by first appearance, and its number in each row.

    Only the distinct ones are converted: a table with a row per point repeats each of them thousands of times.
    """
    codes = coded(column)
    words = texts(codes.dictionary).dictionary_encode()  # once more: some differ in nothing but blanks
    return pa.DictionaryArray.from_arrays(words.indices.take(codes.indices), words.dictionary)


def coded(column: Any) -> Any:
    """A column with each distinct value once, by first appearance, and its number in each row.

    What the file keeps in that way already may be in any order, and more than occurs.
    """
    if not pa.types.is_dictionary(column.type):
        return (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    numbers_in_use = whole.indices.unique().drop_null()
    position = np.empty(len(whole.dictionary), dtype=np.int64)
    position[numbers_in_use.to_numpy(zero_copy_only=False)] = np.arange(len(numbers_in_use))
    return pa.DictionaryArray.from_arrays(pa.array(position).take(whole.indices), whole.dictionary.take(numbers_in_use))


class Times(NamedTuple):
    """A column of times, their unit where it is known, and whether they begin anew at midnight."""

    values: npt.NDArray[np.float64] | None
    unit: str = ""
    of_day: bool = False


def times(column: Any, name: str, source: Path) -> Times:
    """A column of times: dates are counted in seconds from the first, times of day from midnight, numbers stay.

    The unit of numbers is that of the header, as in `time [ms]` or `time_s`. Without one, whole numbers such as
    20240531120000 (or with milliseconds) throughout are dates, and the unit of others is not known.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _text_as_time(column, name, source)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DfstransError(
            f"expected a time in each row of {source}, got none in row {row + 1} of the data (column {name!r}); "
            "fill it in or leave the row out"
        )
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        nanoseconds = column.cast(pa.timestamp("ns", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        counted = nanoseconds.to_numpy()
        return Times(np.asarray((counted - counted[0]) / 1e9, dtype=np.float64), "s")
    if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
        unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
        whole = column.cast(pa.int32()) if column.type.bit_width == 32 else column
        seconds = np.asarray(whole.cast(pa.int64()).to_numpy() / unit, dtype=np.float64)
        return Times(seconds, "s", of_day=pa.types.is_time(column.type))
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        raise DfstransError(
            f"expected times in column {name!r} of {source} as numbers or dates, got {column.type}; convert them, or "
            f"name another column ({option_name('time_column', ...)})"
        )
    bare, unit_of_numbers = name_and_unit(name)
    if not unit_of_numbers and bare.lower().endswith("_s"):
        unit_of_numbers = "s"
    if pa.types.is_integer(column.type):
        whole_numbers = np.asarray(column.cast(pa.int64(), safe=False).to_numpy())
        milliseconds = None if unit_of_numbers else _compact_dates(whole_numbers)
        if milliseconds is not None:
            return Times((milliseconds - milliseconds[0]) / 1e3, "s")
        if len(whole_numbers) and np.abs(whole_numbers).max() > _EXACT:  # nanoseconds since 1970
            whole_numbers = whole_numbers - whole_numbers[0]
        return Times(whole_numbers.astype(np.float64), unit_of_numbers)
    return Times(np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64), unit_of_numbers)


def _compact_dates(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """Milliseconds since 1970 of dates written as YYYYMMDDhhmmss or YYYYMMDDhhmmssfff; None where one is no date.

    >>> _compact_dates(np.array([19700101000001, 19700301000000])), _compact_dates(np.array([19701301000000]))
    (array([      1000, 5097600000]), None)
    """
    if not len(numbers):
        return None
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest > _LATEST:
        seconds, milliseconds = np.divmod(numbers, 1000)
        lowest, highest = lowest // 1000, highest // 1000
    else:
        seconds, milliseconds = numbers, np.zeros_like(numbers)
    if not _EARLIEST <= lowest <= highest <= _LATEST:
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
    in_day: npt.NDArray[np.int64] = ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds
    return np.asarray(days.astype(np.int64) * 86_400_000 + in_day)


def labels(column: Any, anomalous_value: str | None, source: Path) -> npt.NDArray[np.int8]:
    """A column of labels: 0 normal, 1 anomalous, −1 where there is none."""
    found, words = labels_and_words(column, anomalous_value, source)
    require_occurs(anomalous_value, words, source)
    return found


def labels_and_words(
    column: Any, anomalous_value: str | None, source: Path, name: str | None = None
) -> tuple[npt.NDArray[np.int8], tuple[str, ...]]:
    """A part of a column of labels, as `labels` gives them, and the words that stood for them."""
    coded = coded_texts(column)
    words = coded.dictionary.to_pylist()
    known = [word for word in words if word is not None and word not in MISSING]
    if anomalous_value is None:
        codes = {word: _as_label(word) for word in known}
        strange = [word for word, code in codes.items() if code is None]
        if strange:
            raise UnreadableLabelsError(
                f"expected labels 0 (normal) or 1 (anomalous) in {source}, got {shortlist(strange)}; say which value "
                f"means anomalous ({option_name('anomalous_value', ...)})",
                name,
            )
    else:
        codes = {word: int(_same(word, anomalous_value)) for word in known}
    table = np.array([codes.get(word, UNLABELLED) for word in words] + [UNLABELLED], dtype=np.int8)
    found: npt.NDArray[np.int8] = table[coded.indices.fill_null(len(words)).to_numpy()]
    return found, tuple(known)


def require_occurs(anomalous_value: str | None, words: Collection[str], source: Path) -> None:
    """Refuse an anomalous value that is none of the labels; a single label may well be the normal one."""
    if anomalous_value is not None and len(words) > 1 and not any(_same(word, anomalous_value) for word in words):
        raise DfstransError(
            f"expected the anomalous label {anomalous_value!r} in {source}, got {shortlist(words)}; "
            f"correct {option_name('anomalous_value')}"
        )


def _as_label(word: str) -> int | None:
    try:
        number = float(word)
    except ValueError:
        return _WORDS.get(word.lower())
    return int(number) if number in (0, 1) else None


def _same(word: str, wanted: str) -> bool:
    try:
        return float(word) == float(wanted)
    except ValueError:
        return word == wanted.strip()


def _text_as_numbers(column: Any, name: str, source: Path) -> Any:
    text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    text = pc.if_else(pc.is_in(text, pa.array([word.lower() for word in MISSING])), None, text)
    text = pc.replace_substring_regex(text, "^true$", "1")
    text = pc.replace_substring_regex(text, "^false$", "0")
    if not pc.any(pc.match_substring_regex(text, r"\.")).as_py():
        text = pc.replace_substring_regex(text, r"^([-+]?\d*),(\d+(e[-+]?\d+)?)$", r"\1.\2")
    wrong = pc.invert(pc.match_substring_regex(text, _NUMBER))
    rows = np.flatnonzero(np.asarray(wrong.fill_null(False)))
    if len(rows):
        raise DfstransError(
            f"expected numbers in column {name!r} of {source}, got {column[int(rows[0])].as_py()!r} in row "
            f"{rows[0] + 1} of the data{f' and text in {len(rows) - 1} more rows' if len(rows) > 1 else ''}; "
            f"correct it, {_no_sensor(name)}"
        )
    return text.cast(pa.float64())


def _no_sensor(name: str) -> str:
    """What to do with a column that is none."""
    roles = ", ".join(option_name(f"{role}_column") for role in ("label", "time", "id"))
    return (
        f"say what the column is if it is no sensor ({roles} or {option_name('group_column', name)}), or leave it out "
        f"({option_name('drop_sensors', name)})"
    )


def _text_as_time(column: Any, name: str, source: Path) -> Any:
    written = pc.utf8_trim_whitespace(column)
    written = pc.if_else(pc.is_in(written, pa.array(MISSING)), None, written)
    text = pc.replace_substring_regex(written, r"(:\d\d),(\d+)$", r"\1.\2")
    if pc.all(pc.match_substring_regex(text, _TIME_OF_DAY)).as_py():
        with suppress(pa.ArrowInvalid):
            return pc.binary_join_element_wise("1970-01-01T", text, "").cast(pa.timestamp("ns")).cast(pa.time64("ns"))
    for kind in (pa.int64(), pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    for pattern in _DATES:
        with suppress(pa.ArrowInvalid):
            return pc.strptime(text, format=pattern, unit="ns")
    padded = pc.replace_substring_regex(text, r"\b(\d)([.:])", r"0\1\2")
    with suppress(pa.ArrowInvalid):  # strptime knows no fractions of a second
        return pc.replace_substring_regex(padded, r"^(\d\d)\.(\d\d)\.(\d{4}) ", r"\3-\2-\1 ").cast(pa.timestamp("ns"))
    got = shortlist(written.drop_null().unique()[:3].to_pylist())
    if pc.any(pc.match_substring_regex(text, r"^[-+]?\d*,\d+$")).as_py():
        raise DfstransError(
            f"expected one decimal sign in {source}, got commas in column {name!r} ({got}) and points in others; write "
            "all numbers with the same, and without separators of thousands"
        )
    raise DfstransError(
        f"expected times in column {name!r} of {source} as numbers or as dates such as 2024-05-01T12:00:00.25, got "
        f"{got}; rewrite them, or name another column ({option_name('time_column', ...)})"
    )


OPTIONS = frozenset({"drop_sensors", "infinite_as_missing"})


def without_dropped(episodes: Episodes, options: ReadOptions, source: Path) -> Episodes:
    """The episodes without the sensors that `drop_sensors` names."""
    require_dropped(episodes.sensors, options, source)
    dropped = dropped_columns(episodes.sensors, options)
    if len(dropped) == episodes.n_sensors:
        raise DfstransError(
            f"expected to keep a sensor of {source}, got all in {option_name('drop_sensors')}; correct it"
        )
    return episodes.select_sensors([name for name in episodes.sensors if name not in dropped]) if dropped else episodes


def without_infinite(episodes: Episodes, options: ReadOptions) -> Episodes:
    """The episodes without infinite values; those in a file are looked at only when they are read."""
    if isinstance(episodes.values, StoredValues):
        lazily = options.infinite_as_missing
        return replace(episodes, values=episodes.values.with_infinite_as_missing()) if lazily else episodes
    infinite = np.isinf(episodes.values)
    if not infinite.any():
        return episodes
    if options.infinite_as_missing:
        return replace(episodes, values=infinite_to_nan(episodes.values))
    rows, sensors, _ = np.nonzero(infinite)
    raise DfstransError(
        f"expected finite values, got {len(rows)} infinite ones in sensors "
        f"{shortlist(episodes.sensors[i] for i in np.unique(sensors))}, episodes: "
        f"{shortlist(episodes.ids[np.unique(rows)])}; correct them, or read them as missing "
        f"({option_name('infinite_as_missing', True)}); beyond 3.4e38, 32 bits end"
    )

"""Columns of tables: find the role of each, and convert its cells to numbers, names or labels."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfstrans.data.problems import reporting
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.tables import MISSING, TIME_NAMES, Table
from dfstrans.errors import DfstransError, did_you_mean, list_few, option_name

_SYNONYMS = {
    "id": ("episode_id", "episode", "episodeid", "id", "series_id", "sample_id", "run_id", "run", "sequence_id"),
    "time": TIME_NAMES,
    "label": ("label", "labels", "anomaly", "is_anomaly", "anomalous", "class", "target", "y"),
    "group": ("group", "group_id", "machine", "machine_id", "channel", "device", "asset"),
}
_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]*)[\])]")
_TIME_UNIT = re.compile(r"(?<=[^\W_]{2})[_ ](in )?(ns|us|µs|ms|s|sec|min|h)$")  # T_min is a temperature
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|infinity|nan)$"
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)


# ---- roles ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """The columns of a table by role; every column without another role is a sensor."""

    id: str | None
    time: str | None
    label: str | None
    group: str | None
    sensors: tuple[str, ...]


def find_roles(names: Sequence[str], options: ReadOptions, source: Path) -> Roles:
    """Find the role of each column, from the options or else from its name in any case.

    >>> find_roles(["Episode", "T", "Ax", "y"], ReadOptions(), Path("a.csv"))
    Roles(id='Episode', time='T', label='y', group=None, sensors=('Ax',))
    """
    chosen: dict[str, str | None] = {}
    for role in _SYNONYMS:
        wanted = getattr(options, f"{role}_column")
        chosen[role] = None if wanted is None else require_column(names, wanted, f"{role}_column", source)
    for role, synonyms in _SYNONYMS.items():
        free = {bare_name(name).lower(): name for name in reversed(names) if name not in chosen.values()}
        if {"x", "y"} <= free.keys() or {"y", "z"} <= free.keys():
            free.pop("y")  # an axis, not a label
        if role == "time":
            free = {_TIME_UNIT.sub("", key): name for key, name in free.items()} | free
        if chosen[role] is None:
            chosen[role] = next((free[synonym] for synonym in synonyms if synonym in free), None)
    dropped = dropped_columns(names, options)
    sensors = tuple(name for name in names if name not in chosen.values() and name not in dropped)
    return Roles(**{role: None if name in dropped else name for role, name in chosen.items()}, sensors=sensors)


def find_column(names: Sequence[str], wanted: str) -> str | None:
    """Return the column called `wanted`: exactly, else ignoring the unit, else ignoring case and unit."""
    for key in (str, bare_name, lambda name: bare_name(name).lower()):
        for name in names:
            if key(name) == key(wanted):
                return name
    return None


def require_column(names: Sequence[str], wanted: str, option: str, source: Path) -> str:
    """Return the column called `wanted`, the value of `option`; raise an error if there is none."""
    found = find_column(names, wanted)
    if found is None:
        raise _no_column(wanted, option, [(names, source)])
    return found


def _no_column(wanted: str, option: str, places: Sequence[tuple[Sequence[str], Path]]) -> DfstransError:
    """Return the error that none of these tables, each with its columns, has the column called `wanted`."""
    where = " or in the label table ".join(str(path) for _, path in places)
    got = " and ".join(list_few(dict.fromkeys(names), 20) for names, _ in places)
    remedy = did_you_mean(wanted, [bare_name(name) for names, _ in places for name in names], "")
    return DfstransError(
        f"expected a column {wanted!r} in {where} ({option_name(option)}), got {got}; correct {option_name(option)}"
        + (f": {remedy}" if remedy else "")
    )


def warn_of_second_label(sensors: Sequence[str], label: str | None, source: Path) -> None:
    """Warn if a sensor has a usual name of a label, because a detector would learn the answer from it."""
    usual = set(_SYNONYMS["label"]) - {"y"}  # y is more often an axis
    second = [name for name in sensors if bare_name(name).lower() in usual]
    if label is not None and second:
        warnings.warn(
            f"{list_few(second)} of {source} is read as a sensor, because {label!r} is the label; if it also "
            f"contains the answer, drop it ({option_name('drop_sensors', second[0])})",
            stacklevel=3,
        )


def bare_name(header: str) -> str:
    """Return a column name without its unit."""
    return name_and_unit(header)[0]


def names_and_units(headers: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split headers into sensor names and units; headers that differ only in the unit stay unchanged.

    >>> names_and_units(["Speed [m/s]", "Load"])
    (('Speed', 'Load'), ('m/s', ''))
    """
    pairs = [name_and_unit(header) for header in headers]
    if len({name for name, _ in pairs}) < len(pairs):
        return tuple(headers), ("",) * len(pairs)
    return tuple(name for name, _ in pairs), tuple(unit for _, unit in pairs)


def name_and_unit(header: str) -> tuple[str, str]:
    """Split a header such as `Speed [m/s]` into name and unit, which is empty if missing."""
    match = _UNIT.fullmatch(header.strip())
    return (match["name"], match["unit"].strip()) if match else (header.strip(), "")


# ---- columns that the options exclude ---------------------------------------------------------------------------


def dropped_columns(names: Sequence[str], options: ReadOptions) -> set[str]:
    """Return the columns among `names` that `drop_sensors` excludes.

    >>> dropped_columns(["Ax", "Speed [m/s]"], ReadOptions(drop_sensors=("speed", "other")))
    {'Speed [m/s]'}
    """
    return {found for name in options.drop_sensors if (found := find_column(names, name)) is not None}


def without_missing_columns(
    names: Sequence[str], options: ReadOptions, source: Path, label_table: Table | None = None
) -> ReadOptions:
    """Report each option that names a column which does not exist, and return the options without them.

    A column with the id, label or group may also be in the label table.
    """
    missing = []
    for role in _SYNONYMS:
        option = f"{role}_column"
        places = [(names, source)]
        if label_table is not None and role != "time":
            places.append((label_table.names, label_table.path))
        wanted = getattr(options, option)
        if wanted is not None and all(find_column(there, wanted) is None for there, _ in places):
            missing.append(option)
            with reporting():
                raise _no_column(wanted, option, places)
    for name in options.drop_sensors:
        with reporting():
            require_column(names, name, "drop_sensors", source)
    kept = tuple(name for name in options.drop_sensors if find_column(names, name) is not None)
    return options.model_copy(update={**dict.fromkeys(missing), "drop_sensors": kept})


def require_dropped(names: Sequence[str], options: ReadOptions, source: Path) -> None:
    """Reject a `drop_sensors` that names a missing column."""
    for name in options.drop_sensors:
        require_column(names, name, "drop_sensors", source)


# ---- names ------------------------------------------------------------------------------------------


def is_text(column: Any) -> bool:
    """Return whether a pyarrow column contains text."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def to_texts(column: Any) -> Any:
    """Convert a column of names or labels to a pyarrow array of trimmed text, whole numbers without a decimal point."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        rounded = column.cast(pa.int64(), safe=False)
        missing = pc.is_null(column, nan_is_null=True)
        if pc.all(pc.or_kleene(pc.equal(rounded.cast(column.type, safe=False), column), missing)).as_py():
            column = pc.if_else(missing, None, rounded)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def to_coded_texts(column: Any) -> Any:
    """Convert a column like `to_texts`, dictionary-encoded in order of first appearance.

    Each distinct value is converted once, since a long table repeats each of them thousands of times.
    """
    codes = to_codes(column)
    words = to_texts(codes.dictionary).dictionary_encode()  # again, because some differ only in blanks
    return pa.DictionaryArray.from_arrays(words.indices.take(codes.indices), words.dictionary)


def to_codes(column: Any) -> Any:
    """Dictionary-encode a column in order of first appearance, without unused entries."""
    if not pa.types.is_dictionary(column.type):
        return (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    used = whole.indices.unique().drop_null()
    position = np.empty(len(whole.dictionary), dtype=np.int64)
    position[used.to_numpy(zero_copy_only=False)] = np.arange(len(used))
    return pa.DictionaryArray.from_arrays(pa.array(position).take(whole.indices), whole.dictionary.take(used))


# ---- numbers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BadCells:
    """The cells of a column in one file that are not numbers: how many of how many, the first, and how often each."""

    count: int
    present: int
    row: int
    text: str
    words: Mapping[str, int] = field(default_factory=dict)


def to_numbers(column: Any) -> tuple[npt.NDArray[np.float32], BadCells | None]:
    """Convert a column to numbers, with NaN for missing cells and for those that are not numbers."""
    bad = None
    if is_text(column):
        column, bad = _text_as_numbers(column)
    elif not any(check(column.type) for check in _NUMERIC):
        ends = [str(column[row].as_py()) for row in (0, -1)] if len(column) else [""]
        bad = BadCells(len(column), len(column), 0, ends[0], Counter(ends))
        return np.full(len(column), np.nan, dtype=np.float32), bad
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not pa.types.is_float32(column.type):
        column = column.cast(pa.float32(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float32), bad


def _text_as_numbers(column: Any) -> tuple[Any, BadCells | None]:
    text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    text = pc.if_else(pc.is_in(text, pa.array([word.lower() for word in MISSING])), None, text)
    text = pc.replace_substring_regex(text, "^true$", "1")
    text = pc.replace_substring_regex(text, "^false$", "0")
    if not pc.any(pc.match_substring_regex(text, r"\d\.")).as_py():
        text = pc.replace_substring_regex(text, r"^([-+]?\d*),(\d+(e[-+]?\d+)?)$", r"\1.\2")
    numeric = pc.match_substring_regex(text, _NUMBER)
    rows = np.flatnonzero(np.asarray(pc.invert(numeric).fill_null(False)))
    bad = None
    if len(rows):
        words = column.filter(pc.invert(numeric)).value_counts()
        words = dict(zip(words.field("values").to_pylist(), words.field("counts").to_pylist(), strict=True))
        bad = BadCells(len(rows), len(text) - text.null_count, int(rows[0]), column[int(rows[0])].as_py(), words)
        text = pc.if_else(numeric, text, None)
    return text.cast(pa.float64()), bad

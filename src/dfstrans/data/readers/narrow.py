"""Narrow exports (time, tag, value), as InfluxDB and PI write them, as tables with a column per tag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dfstrans.data.readers.columns import Roles, find_column, find_roles, to_coded_texts
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.tables import Kind, Table
from dfstrans.data.readers.times import to_times
from dfstrans.errors import DfstransError, list_few, option_name

_TAGS = ("tag", "tagname", "tag_name", "_field", "field", "variable", "metric", "signal")
_VALUES = ("value", "_value")
_TIMES = ("_time",)  # besides the usual names


def as_wide(table: Table, options: ReadOptions) -> Table:
    """Return a table with a column per tag if this one has the columns time, tag and value, else the table itself."""
    tag = _column(table, options.tag_column, "tag_column", _TAGS)
    value = _column(table, options.value_column, "value_column", _VALUES)
    named = {f"{role}_column": getattr(options, f"{role}_column") for role in ("id", "time", "label", "group")}
    absent = {option: None for option, name in named.items() if name and find_column(table.names, name) is None}
    roles = find_roles(table.names, options.model_copy(update=absent), table.path)  # the label table has others
    time = roles.time or _column(table, None, "time_column", _TIMES)
    if tag is None or value is None or time is None:
        if options.tag_column or options.value_column:
            raise DfstransError(
                f"expected a time, a tag and a value column in {table.path}, got {list_few(table.names, 12)}; name "
                f"all three ({option_name('time_column', ...)}, {option_name('tag_column', ...)}, "
                f"{option_name('value_column', ...)})"
            )
        return table
    return _WideTable(table, replace(roles, time=time), tag, value)


def _column(table: Table, wanted: str | None, option: str, usual: tuple[str, ...]) -> str | None:
    if wanted is None:
        return next((name for name in table.names if name.lower() in usual), None)
    found = find_column(table.names, wanted)
    if found is None:
        raise DfstransError(
            f"expected a column {wanted!r} in {table.path} ({option_name(option)}), got {list_few(table.names, 12)}; "
            f"correct {option_name(option)}"
        )
    return found


class _WideTable(Table):
    """A narrow table with one row per time (and episode) and one column per tag; rows are sorted by time."""

    def __init__(self, narrow: Table, roles: Roles, tag: str, value: str) -> None:
        self.path, self.metadata, self.decimal = narrow.path, narrow.metadata, narrow.decimal
        keys = [name for name in (roles.id, roles.group) if name not in (None, tag, value)]
        kept = [name for name in (*keys, roles.label) if name is not None and name not in (tag, value)]
        assert roles.time is not None
        kinds: dict[str, Kind] = {roles.time: "time", tag: "text", value: "number", **dict.fromkeys(kept, "text")}
        columns = narrow.read(kinds)
        tags = to_coded_texts(columns[tag])
        times = to_times(columns[roles.time], roles.time, narrow.path).values
        codes = [to_coded_texts(columns[name]).indices.to_numpy(zero_copy_only=False) for name in keys if name]
        _, first, row = np.unique(np.column_stack([*codes, times]), axis=0, return_index=True, return_inverse=True)
        cell = np.full((len(first), len(tags.dictionary)), -1, dtype=np.int64)
        tag_of_row = tags.indices.fill_null(-1).to_numpy()
        cell[row, tag_of_row] = np.arange(len(row))
        if tags.null_count or (cell >= 0).sum() < len(row):
            repeated = len(row) - int((cell >= 0).sum())
            raise DfstransError(
                f"expected each tag once at each time in {narrow.path}, got {repeated} repeated rows and "
                f"{tags.null_count} rows without a tag; remove them, or name the column that separates the recordings "
                f"({option_name('id_column', ...)})"
            )
        values = columns[value]
        self.names = (*kept, "time" if roles.time in _TIMES else roles.time, *tags.dictionary.to_pylist())
        taken = [columns[name].take(pa.array(first)) for name in (*kept, roles.time)]
        self._columns: dict[str, Any] = dict(zip(self.names, taken, strict=False))
        for n, name in enumerate(tags.dictionary.to_pylist()):
            position = cell[:, n]
            self._columns[name] = values.take(pa.array(position, mask=position < 0))

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        return {name: self._columns[name] for name in kinds}

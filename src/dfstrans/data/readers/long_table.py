"""Long tables: one row per point, with the episode's id, the time, the sensors and perhaps the label."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import own_layout
from dfstrans.data.readers.columns import Roles, find_roles, names_and_units
from dfstrans.data.readers.convert import labels, numbers, seconds, texts
from dfstrans.data.readers.cutting import cut
from dfstrans.data.readers.dropping import without_dropped
from dfstrans.data.readers.label_table import find_label_table, read_label_table, with_label_table
from dfstrans.data.readers.opening import opening, shortlist
from dfstrans.data.readers.options import ReadOptions
from dfstrans.data.readers.rows import Rows, gather
from dfstrans.data.readers.tables import Kind, Table, is_table, open_table, table_stem
from dfstrans.errors import DfstransError

NAME = "a long table (.csv, .tsv, .txt, also .gz, or .parquet) with a row per point"
OPTIONS = frozenset(
    {
        *("length", "stride", "labels", "anomalous_value", "drop_sensors"),
        *("id_column", "time_column", "label_column", "group_column"),
        *("sort_time", "irregular_time", "infinite_as_missing"),
    }
)


def recognises(path: Path) -> bool:
    """Whether the path is a file with the suffix of a table."""
    return path.is_file() and is_table(path)


def read(path: Path, options: ReadOptions) -> Episodes:
    """The episodes of a long table; a continuous recording is cut when `length` is given."""
    table = open_table(path)
    if own_layout.PARQUET_KEY in table.metadata:
        episodes = _read_own(table, options)
    else:
        roles = find_roles(table.names, options, path)
        if roles.id is None and options.length is None:
            raise DfstransError(
                f"expected a column with the episode of each row (such as episode_id) in {path}, got "
                f"{shortlist(table.names, 12)}; name it (id_column=…), or give a length to cut one recording by"
            )
        episodes = gather(read_rows(table, roles, options), options)
    label_path = options.labels
    if label_path is None and episodes.labels is None:
        label_path = find_label_table(path.parent, (f"{table_stem(path)}_labels", "labels"))
    if label_path is not None and label_path.absolute() != path.absolute():
        episodes = with_label_table(episodes, read_label_table(label_path, options))
    return episodes if options.length is None else cut(episodes, options.length, options.stride)


def read_rows(table: Table, roles: Roles, options: ReadOptions) -> Rows:
    """All rows of a table; without an id column they are one recording, named after the file."""
    kinds: dict[str, Kind] = dict.fromkeys(roles.sensors, "number")
    kinds |= {name: "text" for name in (roles.id, roles.label, roles.group) if name is not None}
    if roles.time is not None:
        kinds[roles.time] = "time"
    columns = table.read(kinds)
    sensors, units = names_and_units(roles.sensors)
    n_rows = len(next(iter(columns.values()))) if columns else 0
    if roles.id is None:
        ids, episode = [table_stem(table.path)], np.zeros(n_rows, dtype=np.int64)
    else:
        ids, episode = _coded(columns[roles.id], roles.id, table.path)
    group_names, group = ([], None) if roles.group is None else _coded(columns[roles.group], roles.group, table.path)
    return Rows(
        sensors=sensors,
        units=units,
        columns=[numbers(columns.pop(name), name, table.path) for name in roles.sensors],
        ids=ids,
        episode=episode,
        time=None if roles.time is None else seconds(columns[roles.time], roles.time, table.path),
        labels=None if roles.label is None else labels(columns[roles.label], options.anomalous_value, table.path),
        group_names=group_names,
        group=group,
    )


def _coded(column: Any, name: str, source: Path) -> tuple[list[str], Any]:
    """The names in a column by first appearance, and the number of each row's name."""
    coded = texts(column).dictionary_encode()
    if coded.null_count:
        row = int(np.flatnonzero(np.asarray(coded.is_null()))[0])
        raise DfstransError(
            f"expected a name in each row of column {name!r} of {source}, got none in row {row + 1} of the data; "
            "fill it in or leave the row out"
        )
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _read_own(table: Table, options: ReadOptions) -> Episodes:
    """A Parquet file that `save_episodes` wrote: its metadata say what the columns do not."""
    with opening(table.path, "a Parquet file of dfstrans"):
        known = json.loads(table.metadata[own_layout.PARQUET_KEY])
        own_layout.require_version(known["version"], table.path)
        role, sensors = known["columns"], tuple(known["sensors"])
        rows = read_rows(table, Roles(role["id"], None, role["label"], role["group"], sensors), options)
        named = replace(rows, sensors=sensors, units=tuple(known["units"]))
        faults = known["faults"] and {name: own_layout.faults_from_json(text) for name, text in known["faults"].items()}
    episodes = replace(gather(named, options), interval=known["interval"], faults=None)
    if faults is not None:
        episodes = replace(episodes, faults=tuple(faults.get(name, ()) for name in episodes.ids.tolist()))
    return without_dropped(episodes, options)

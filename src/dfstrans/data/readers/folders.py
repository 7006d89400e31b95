"""A folder with one file per episode, and perhaps a label table."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Episodes, default_sensor_names
from dfstrans.data.readers.columns import dropped_columns, require_dropped, require_occurs, warn_of_second_label
from dfstrans.data.readers.cutting import cut_as_told
from dfstrans.data.readers.labels import (
    LabelTable,
    find_label_table,
    is_fault_table,
    options_of_table,
    read_label_table,
    roles_of_recordings,
    told_by_table,
    with_fault_table,
    with_label_table,
)
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.data.readers.rows import OPTIONS, Rows, gather, read_rows
from dfstrans.data.readers.tables import Table, is_table, open_table, table_stem, without_suffix
from dfstrans.errors import DfstransError, option_name, shortlist

__all__ = ["NAME", "OPTIONS", "read", "recognises"]

NAME = "a folder with one table or .npy per episode, and perhaps labels.csv"


def recognises(path: Path) -> bool:
    """Whether the path is a folder with a table or a .npy file in it."""
    return path.is_dir() and any(_is_episode(file) for file in path.iterdir())


def read(path: Path, options: ReadOptions) -> Episodes:
    """One episode per file; an id is the name of its file without the suffix."""
    label_path = options.labels or find_label_table(path, ("labels", "label"))
    about = (label_path, options.faults)
    files = sorted(
        file
        for file in path.iterdir()
        if _is_episode(file) and not any(_same_file(file, one) for one in about) and not is_fault_table(file, options)
    )
    if not files:
        raise DfstransError(
            f"expected one file per episode in {path}, got only tables about them; add the recordings as tables or .npy"
        )
    tables = [_ArrayTable(file) if file.suffix == ".npy" else open_table(file) for file in files]
    names = [name for one in tables for name in one.names]
    require_dropped(names, options, path)
    told = told_by_table(names, label_path, options)
    table = None
    if label_path is not None:
        table = _without_suffixes(read_label_table(label_path, options_of_table(options, told)))
        _require_same_episodes(path, [table_stem(file) for file in files], table)
    rows = _stacked([_read_one(one, options, told) for one in tables], files)
    warn_of_second_label(roles_of_recordings(tables[0].names, options, told, files[0]), files[0])
    require_occurs(options.anomalous_value, rows.label_words, path)
    episodes = gather(rows, options)
    if table is not None:
        episodes = with_label_table(episodes, table)
    return cut_as_told(with_fault_table(episodes, path, options), options)


def _is_episode(path: Path) -> bool:
    about = path.name.startswith((".", "~$")) or path.stem.lower() in ("readme", "license", "licence", "notes")
    return path.is_file() and not about and (is_table(path) or path.suffix == ".npy")


def _same_file(path: Path, other: Path | None) -> bool:
    return other is not None and path.resolve() == other.resolve()


def _without_suffixes(table: LabelTable) -> LabelTable:
    """The label table with `run 1.csv` as `run 1`."""
    return replace(
        table,
        label={without_suffix(name): label for name, label in table.label.items()},
        group=None if table.group is None else {without_suffix(name): group for name, group in table.group.items()},
    )


def _require_same_episodes(path: Path, stems: list[str], table: LabelTable) -> None:
    alone = sorted(set(table.label) - set(stems))
    unlabelled = sorted(set(stems) - set(table.label))
    if alone or unlabelled:
        problems = [f"no file for {shortlist(alone)}"] if alone else []
        problems += [f"no label for {shortlist(unlabelled)}"] if unlabelled else []
        raise DfstransError(
            f"expected one file in {path} for each row of {table.path}, got {' and '.join(problems)}; "
            "write the ids alike (001 is not 1), add what is missing or leave out what is too much"
        )


def _read_one(table: Table | _ArrayTable, options: ReadOptions, told: Collection[str]) -> Rows:
    if isinstance(table, _ArrayTable):
        return table.rows(options)
    roles = roles_of_recordings(table.names, options, told, table.path)
    rows = read_rows(table, roles, options)
    if len(rows.ids) > 1:
        raise DfstransError(
            f"expected one episode in {table.path}, got {len(rows.ids)} ids in its column {roles.id!r}; read the file "
            f"itself if it is a long table, or leave the column out ({option_name('drop_sensors')})"
        )
    return rows


class _ArrayTable:
    """A 2-D array with a row per point, as in the tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with opening(path, "a 2-D array (timepoint, sensor)"):
            array = np.load(path, allow_pickle=False)
            if array.ndim != 2 or 0 in array.shape:
                raise DfstransError(
                    f"expected a 2-D array (timepoint, sensor) in {path}, got shape {array.shape}; "
                    "store one episode per file, a row per point"
                )
            names = default_sensor_names(array.shape[1])
            self._columns = dict(zip(names, np.ascontiguousarray(array.T, dtype=np.float32), strict=True))
        self.names = names

    def rows(self, options: ReadOptions) -> Rows:
        dropped = dropped_columns(self.names, options)
        kept = {name: column for name, column in self._columns.items() if name not in dropped}
        n_rows = len(self._columns[self.names[0]])
        return Rows(
            tuple(kept), ("",) * len(kept), list(kept.values()), [self.path.stem], np.zeros(n_rows, dtype=np.int64)
        )


def _require_same_units(first: Rows, part: Rows, first_file: Path, file: Path) -> None:
    """Refuse a sensor in other units; a file that tells none is taken for one in the same."""
    units = dict(zip(part.sensors, part.units, strict=True))
    for name, unit in zip(first.sensors, first.units, strict=True):
        if unit and units[name] and unit != units[name]:
            raise DfstransError(
                f"expected each sensor in the same unit in all files, got {name} in {unit} in {first_file.name} and in "
                f"{units[name]} in {file.name}; convert it to one unit, or leave it out ({option_name('drop_sensors')})"
            )


def _warn_of_units_told_in_some(parts: list[Rows], files: list[Path]) -> None:
    """Say which sensors have a unit in some files and none in others, where nobody can tell that it is the same."""
    told = [dict(zip(part.sensors, part.units, strict=True)) for part in parts]
    for name in parts[0].sensors:
        with_unit = [file.name for file, units in zip(files, told, strict=True) if units[name]]
        without = [file.name for file, units in zip(files, told, strict=True) if not units[name]]
        if with_unit and without:
            warnings.warn(
                f"{name} has a unit in {shortlist(with_unit, 3)} and none in {shortlist(without, 3)}; all are taken "
                "for the same: write the unit in all headers, or convert the values",
                stacklevel=2,
            )


def _stacked(parts: list[Rows], files: list[Path]) -> Rows:
    """The rows of all files, their sensors matched by name."""
    first = parts[0]
    for part, file in zip(parts, files, strict=True):
        missing = [name for name in first.sensors if name not in part.sensors]
        extra = [name for name in part.sensors if name not in first.sensors]
        if missing or extra:
            raise DfstransError(
                f"expected the sensors of {files[0].name} in {file}, got "
                + " and ".join(
                    ([f"none called {shortlist(missing)}"] if missing else [])
                    + ([f"also {shortlist(extra)}"] if extra else [])
                )
                + f"; rename or add the columns, or leave them out ({option_name('drop_sensors')})"
            )
        for what, here, there in (
            ("time", part.time, first.time),
            ("label", part.labels, first.labels),
            ("group", part.group, first.group),
        ):
            if (here is None) != (there is None):
                raise DfstransError(
                    f"expected a {what} column in all files or in none, got one in only one of {files[0].name} and "
                    f"{file.name}; add or remove it"
                )
        if part.time_unit != first.time_unit:
            raise DfstransError(
                f"expected time in the same unit in all files, got {first.time_unit or 'no unit'} in {files[0].name} "
                f"and {part.time_unit or 'no unit'} in {file.name}; convert it to one unit and header, such as "
                f"time [s], or leave the column out ({option_name('drop_sensors')})"
            )
        _require_same_units(first, part, files[0], file)
    _warn_of_units_told_in_some(parts, files)
    names = sorted({name for part in parts for name in part.group_names})
    number = {name: place for place, name in enumerate(names)}
    group = [
        np.array([number[name] for name in part.group_names], dtype=np.int64)[part.group]
        for part in parts
        if part.group is not None
    ]
    return Rows(
        sensors=first.sensors,
        units=first.units,
        columns=[np.concatenate([part.columns[part.sensors.index(name)] for part in parts]) for name in first.sensors],
        ids=[table_stem(file) for file in files],
        episode=np.repeat(np.arange(len(parts)), [len(part.episode) for part in parts]),
        time=None if first.time is None else np.concatenate([part.time for part in parts if part.time is not None]),
        time_unit=first.time_unit,
        time_of_day=all(part.time_of_day for part in parts),
        labels=None
        if first.labels is None
        else np.concatenate([part.labels for part in parts if part.labels is not None]),
        label_words=sorted({word for part in parts for word in part.label_words}),
        group_names=names,
        group=np.concatenate(group) if group else None,
    )

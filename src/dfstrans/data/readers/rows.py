"""Read the rows of tables, one per point, and gather them into episodes on a regular grid."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.grid import (
    Index,
    first_points,
    grid_positions,
    median_interval,
    require_no_clock_change,
    row_positions,
    unwrap_midnight,
)
from dfstrans.data.readers.columns import (
    BadCells,
    Roles,
    names_and_units,
    to_coded_texts,
    to_codes,
    to_numbers,
)
from dfstrans.data.readers.labels import UNLABELLED, Meaning, count_words, labels_of
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.data.readers.tables import Kind, Table, table_stem
from dfstrans.data.readers.times import Times, join_times, to_times
from dfstrans.errors import DfstransError, list_few, option_name


@dataclass(frozen=True)
class Rows:
    """Points of episodes in any order: one array per sensor, and the time, label and group of each point.

    `episode` holds indices into `ids`; `group` and `words` (of labels) are dictionary-encoded. `interpret` finds the
    labels: 0, 1, or −1 if it is missing, and the type of fault as an index into `kinds`, or −1.
    """

    sensors: tuple[str, ...]
    units: tuple[str, ...]
    columns: Sequence[npt.NDArray[np.float32]]
    ids: Sequence[str]
    episode: Index
    time: Times | None = None
    labels: npt.NDArray[np.int8] | None = None
    group: Any = None
    words: Any = None
    word_counts: Mapping[str, int] = field(default_factory=dict)
    kind: Index | None = None
    kinds: tuple[str, ...] = ()
    bad: Mapping[str, BadCells] = field(default_factory=dict)

    def without(self, sensors: Collection[str]) -> Rows:
        """Return the rows without some sensors."""
        kept = [i for i, name in enumerate(self.sensors) if name not in sensors]
        return replace(
            self,
            sensors=tuple(self.sensors[i] for i in kept),
            units=tuple(self.units[i] for i in kept),
            columns=[self.columns[i] for i in kept],
            bad={name: cells for name, cells in self.bad.items() if name not in sensors},
        )

    def interpret(self, meaning: Meaning) -> Rows:
        """Return the rows with labels according to the meaning of their words."""
        if self.words is None:
            return self
        kinds = tuple(dict.fromkeys(meaning.kind.values()))
        table = [kinds.index(meaning.kind[w]) if w in meaning.kind else -1 for w in self.words.dictionary.to_pylist()]
        kind = np.array([*table, -1], dtype=np.int64)[self.words.indices.fill_null(len(table)).to_numpy()]
        return replace(self, labels=labels_of(self.words, meaning), kind=kind if kinds else None, kinds=kinds)


# ---- reading and joining ----------------------------------------------------------------------------------------


def read_rows(table: Table, roles: Roles, *, exact: bool = False) -> Rows:
    """Read all rows of a table; without an id column they form one recording, named after the file.

    With `exact`, ids and groups keep surrounding blanks. Problems of all columns are reported together.
    """
    kinds: dict[str, Kind] = dict.fromkeys(roles.sensors, "number")
    kinds |= {name: "text" for name in (roles.id, roles.label, roles.group) if name is not None}
    if roles.time is not None:
        kinds[roles.time] = "time"
    sensors, units = names_and_units(roles.sensors)
    path = table.path
    failed: list[DfstransError] = []
    group = time = words = None
    counts: Mapping[str, int] = {}
    bad: dict[str, BadCells] = {}
    with opening(path, "a table with a row per point"):
        columns = table.read(kinds)
        if roles.id is not None:
            names = _names(columns[roles.id], roles.id, path, exact)
            ids, episode = names.dictionary.to_pylist(), names.indices.to_numpy().astype(np.int64)
        else:
            n_rows = len(next(iter(columns.values()))) if columns else 0
            ids, episode = [table_stem(path)], np.zeros(n_rows, dtype=np.int64)
        if roles.label is not None:
            words, counts = count_words(columns[roles.label])
        try:
            group = None if roles.group is None else _names(columns[roles.group], roles.group, path, exact)
        except DfstransError as error:
            failed.append(error)
        try:
            time = None if roles.time is None else to_times(columns[roles.time], roles.time, path)
        except DfstransError as error:
            failed.append(error)
        values = []
        for name, sensor in zip(roles.sensors, sensors, strict=True):
            numbers, wrong = to_numbers(columns.pop(name))
            values.append(numbers)
            if wrong is not None:
                bad[sensor] = wrong
    rows = Rows(sensors, units, values, ids, episode, time, None, group, words, counts, bad=bad)
    if failed:
        raise UnreadableRowsError(failed, rows)
    return rows


class UnreadableRowsError(DfstransError):
    """Times or groups are unreadable; `rows` holds the other columns, so that their problems can be reported, too."""

    def __init__(self, errors: Sequence[DfstransError], rows: Rows) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors, self.rows = errors, rows


def _names(column: Any, name: str, source: Path, exact: bool) -> Any:
    """Dictionary-encode a column of names in order of first appearance; reject a row without one."""
    codes = to_codes(column) if exact else to_coded_texts(column)
    if codes.null_count:
        row = int(np.flatnonzero(np.asarray(codes.is_null()))[0])
        raise DfstransError(
            f"expected a name in each row of column {name!r} of {source}, got none in data row {row + 1}; "
            "fill it in or remove the row"
        )
    return codes


def join_files(parts: Sequence[Rows], files: Sequence[Path]) -> Rows:
    """Join the rows of all files, one episode each, with the same sensors, matched by name."""
    first = parts[0]
    _warn_of_units_in_some_files(parts, files)
    columns = [dict(zip(part.sensors, part.columns, strict=True)) for part in parts]
    times = [part.time for part in parts if part.time is not None]
    labels = [part.labels for part in parts if part.labels is not None]
    groups = [part.group for part in parts if part.group is not None]
    return Rows(
        sensors=first.sensors,
        units=first.units,
        columns=[np.concatenate([of_file[name] for of_file in columns]) for name in first.sensors],
        ids=[part.ids[0] for part in parts],
        episode=np.repeat(np.arange(len(parts)), [len(part.episode) for part in parts]),
        time=join_times(times, files) if times else None,
        labels=np.concatenate(labels) if labels else None,
        group=to_codes(pa.chunked_array(groups)) if groups else None,
        kind=np.concatenate([np.asarray(part.kind) for part in parts]) if first.kind is not None else None,
        kinds=first.kinds,
    )


def require_same_columns(first: Rows, part: Rows, first_file: Path, file: Path) -> None:
    """Reject a file whose columns or units differ from those of another."""
    drop = f"drop it ({option_name('drop_sensors')})"
    units = dict(zip(part.sensors, part.units, strict=True))
    missing = [name for name in first.sensors if name not in units]
    extra = sorted(set(units) - set(first.sensors), key=part.sensors.index)
    if missing or extra:
        got = [f"no {list_few(missing)}"] if missing else []
        got += [f"also {list_few(extra)}"] if extra else []
        raise DfstransError(
            f"expected the sensors of {first_file.name} in {file}, got {' and '.join(got)}; rename or add the column, "
            f"or {drop}"
        )
    for role, here, there in (
        ("time", part.time, first.time),
        ("label", part.words, first.words),
        ("group", part.group, first.group),
    ):
        if (here is None) != (there is None):
            raise DfstransError(
                f"expected a {role} column in all files or in none, got one in only one of {first_file.name} and "
                f"{file.name}; add or remove it"
            )
    if part.time is not None and first.time is not None and part.time.unit != first.time.unit:
        raise DfstransError(
            f"expected time in the same unit in all files, got {first.time.unit or 'no unit'} in {first_file.name} and "
            f"{part.time.unit or 'no unit'} in {file.name}; convert it to one unit and header, such as time [s], or "
            f"{drop}"
        )
    for name, unit in zip(first.sensors, first.units, strict=True):
        if unit and units[name] and unit != units[name]:
            raise DfstransError(
                f"expected each sensor in the same unit in all files, got {name} in {unit} in {first_file.name} and in "
                f"{units[name]} in {file.name}; convert it to one unit, or {drop}"
            )


def _warn_of_units_in_some_files(parts: Sequence[Rows], files: Sequence[Path]) -> None:
    units = {
        file.name: dict(zip(part.sensors, part.units, strict=True)) for part, file in zip(parts, files, strict=True)
    }
    for name in parts[0].sensors:
        known = [file for file, of_file in units.items() if of_file[name]]
        if 0 < len(known) < len(units):
            unknown = [file for file, of_file in units.items() if not of_file[name]]
            warnings.warn(
                f"{name} has a unit in {list_few(known, 3)} and none in {list_few(unknown, 3)}; the same unit is "
                "assumed for all: write it in all headers, or convert the values",
                stacklevel=2,
            )


# ---- from rows to episodes --------------------------------------------------------------------------------------


def gather(rows: Rows, options: ReadOptions) -> Episodes:
    """Build the episodes from their rows, each on its regular grid, with NaN for missing points."""
    if not rows.sensors:
        raise DfstransError("expected at least one sensor column, got none; check the roles of the columns")
    if rows.time is not None and rows.time.of_day:
        unwrapped = unwrap_midnight(rows.time.values, rows.episode, rows.ids)
        rows = replace(rows, time=rows.time._replace(values=unwrapped))
    order = _order(rows, options)
    episode = rows.episode[order]
    starts = first_points(episode)
    time = None if rows.time is None else rows.time.values[order]
    if time is None or options.irregular_time == "ignore":
        position, interval = row_positions(episode), None if time is None else median_interval(time, episode)
    else:
        if rows.time is not None and rows.time.clock is not None and not rows.time.zone:
            require_no_clock_change(rows.time.clock[order], episode, rows.ids)
        position, interval = grid_positions(time, episode, rows.ids)
    ends = np.concatenate([starts[1:], [len(episode)]]) - 1
    lengths = position[ends] + 1
    values = _place_values(rows, order, episode, position, lengths)
    labels, faults = None, None
    if rows.labels is not None and (rows.labels != UNLABELLED).any():
        kind = np.full(len(episode), -1) if rows.kind is None else rows.kind[order]
        labels, faults = _labels_and_faults(rows, rows.labels[order], kind, starts, position)
        if options.length is not None:
            _require_label_in_each_row(rows.labels, rows.episode, rows.ids)
    return Episodes.from_arrays(
        values,
        labels,
        lengths=lengths,
        ids=rows.ids,
        sensors=rows.sensors,
        units=rows.units,
        interval=interval,
        time_unit="" if rows.time is None else rows.time.unit,
        starts=None if rows.time is None or rows.time.clock is None else rows.time.clock[order][starts],
        time_zone="" if rows.time is None else rows.time.zone,
        groups=None if rows.group is None else _groups(rows.group.indices.to_numpy()[order], rows, starts),
        faults=faults,
    )


def _order(rows: Rows, options: ReadOptions) -> Index | slice:
    """Return the index that sorts rows by episode, and by time if requested."""
    if rows.time is not None and options.sort_time:
        return np.lexsort((rows.time.values, rows.episode))
    if (np.diff(rows.episode) >= 0).all():
        return slice(None)  # copies nothing
    return np.argsort(rows.episode, kind="stable")


def _place_values(
    rows: Rows, order: Index | slice, episode: Index, position: Index, lengths: Index
) -> npt.NDArray[np.float32]:
    """Place each value at its episode, sensor and position."""
    n, longest = len(lengths), int(lengths.max())
    full = n * longest == len(episode)  # without gaps and padding, a reshape suffices
    values = np.empty((n, len(rows.sensors), longest), dtype=np.float32)
    if not full:
        values.fill(np.nan)
    for sensor, column in enumerate(rows.columns):
        if full:
            values[:, sensor] = column[order].reshape(n, longest)
        else:
            values[:, sensor][episode, position] = column[order]
    return values


def _labels_and_faults(
    rows: Rows, points: npt.NDArray[np.int8], kind: Index, starts: Index, position: Index
) -> tuple[npt.NDArray[np.int8], list[list[Fault]] | None]:
    """Return the label of each episode, and the anomalous stretches of those whose labels vary or name a fault."""
    ids = rows.ids
    highest = np.maximum.reduceat(points, starts)
    lowest = np.minimum.reduceat(np.where(points == UNLABELLED, np.int8(2), points), starts)
    unlabelled = [ids[i] for i in np.flatnonzero(highest == UNLABELLED).tolist()]
    if unlabelled:
        raise DfstransError(
            f"expected a label for each episode, got none for {list_few(unlabelled)}; label or remove them"
        )
    named = np.maximum.reduceat(kind, starts) >= 0
    vary = np.flatnonzero((highest == 1) & ((lowest == 0) | named)).tolist()
    if not vary:
        return highest, None
    faults: list[list[Fault]] = [[] for _ in starts]
    stops = [*starts[1:].tolist(), len(points)]
    for i in vary:
        own = slice(starts[i], stops[i])
        state = np.where(points[own] == 1, kind[own] + 1, -1)  # -1 normal, 0 anomalous, else a type of fault
        edges = [0, *(np.flatnonzero(np.diff(state)) + 1).tolist(), len(state)]
        faults[i] = [
            Fault(
                int(position[starts[i] + a]),
                int(position[starts[i] + b - 1]) + 1,
                kind=rows.kinds[state[a] - 1] if state[a] > 0 else "",
            )
            for a, b in pairwise(edges)
            if state[a] >= 0
        ]
    return highest, faults


def _require_label_in_each_row(labels: npt.NDArray[np.int8], episode: Index, ids: Sequence[str]) -> None:
    """Reject recordings that are cut but have labels only in some rows, since a piece may have none."""
    missing = np.bincount(episode, labels == UNLABELLED, len(ids)).astype(int)
    incomplete = [f"{ids[i]} ({missing[i]})" for i in np.flatnonzero(missing).tolist()]
    if incomplete:
        raise DfstransError(
            f"expected a label in each row of recordings that are cut ({option_name('length')}), got rows without one "
            f"in {list_few(incomplete)}; label normal rows with 0, or remove rows whose label is unknown"
        )


def _groups(group: Index, rows: Rows, starts: Index) -> list[str]:
    first, last = np.minimum.reduceat(group, starts), np.maximum.reduceat(group, starts)
    mixed = [rows.ids[i] for i in np.flatnonzero(first != last).tolist()]
    if mixed:
        raise DfstransError(
            f"expected one group per episode, got several in {list_few(mixed)}; if each group numbers its episodes "
            "from the start, make the ids distinct; if each group is a recording, name its column "
            f"({option_name('id_column')})"
        )
    return [rows.group.dictionary[i].as_py() for i in first.tolist()]

"""The fault table of recordings: which faults they have, and in which sensors and at which times."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from dfstrans.data.episodes import Episodes, Fault, mark_points
from dfstrans.data.grid import SECONDS
from dfstrans.data.problems import reporting
from dfstrans.data.readers.columns import bare_name, find_column, to_texts
from dfstrans.data.readers.labels import find_table, ids_of_rows, label_table_columns
from dfstrans.data.readers.opening import EmptyTableError, ReadOptions
from dfstrans.data.readers.tables import MISSING, Table, is_number, is_table, open_table, table_stem, without_suffix
from dfstrans.data.readers.times import Times, offset, to_times
from dfstrans.errors import DfstransError, counted, list_few, option_name

_FAULT_COLUMNS = {
    "kind": ("fault", "kind", "fault_kind", "cause"),
    "sensors": ("sensors", "sensor"),
    "start": ("start", "begin", "from"),
    "end": ("end", "stop", "to"),
    "last": ("last",),
    "severity": ("severity",),
}
_FAULTS = "faults"  # the usual file name
_FAULT_TIMES = (
    "start, end (exclusive) and last (inclusive) count from the start of the recording that the id names, in its time "
    "unit, or in points if it has none; or they are dates such as 2024-05-31T12:00:00, if the recording has dates"
)
_TIMES = ("start", "end", "last")
_NUMBERS = (*_TIMES, "severity")


class _NoFaultColumnsError(DfstransError):
    """The table has no fault columns and may contain something else."""


def with_faults(
    episodes: Episodes, recordings: Path, options: ReadOptions, *, labelled_by_row: bool = False
) -> Episodes:
    """Add the faults of the table named in the options, or found next to the recordings.

    `recordings` is their file or folder. The table only adds faults: points that labels or earlier faults mark stay
    anomalous. Only a label of a whole recording, which says nothing about its rows (`labelled_by_row`), is made more
    precise when the recording is cut. Recordings without labels take them from the table.
    """
    path = options.faults or find_table(recordings, _FAULTS)
    if path is not None and (options.faults is not None or path.absolute() != recordings.absolute()):
        with reporting():
            return _with_fault_table(episodes, recordings, path, options, labelled_by_row=labelled_by_row)
    return episodes


def _with_fault_table(
    episodes: Episodes, recordings: Path, path: Path, options: ReadOptions, *, labelled_by_row: bool
) -> Episodes:
    try:
        rows = _read_fault_table(path, options)
    except (EmptyTableError, _NoFaultColumnsError) as error:
        if options.faults is not None:
            raise
        if isinstance(error, EmptyTableError) or recordings.is_file():  # in a folder, the table may be a recording
            warnings.warn(
                f"ignored {path}: {error}; if it lists faults of {recordings.name}, correct it and name it "
                f"({option_name('faults', ...)})",
                stacklevel=2,
            )
        return episodes
    if recordings.is_dir():
        rows = [{**row, "id": without_suffix(row["id"])} for row in rows]
    position = {name: i for i, name in enumerate(episodes.ids.tolist())}
    unknown = sorted({row["id"] for row in rows} - position.keys())
    if unknown and options.faults is None and recordings.is_file() and table_stem(path).lower() == _FAULTS:
        warnings.warn(
            f"ignored the fault table {path}: {recordings.name} has no episodes {list_few(unknown)}; if it belongs "
            f"to these recordings, correct the ids and name it ({option_name('faults', ...)})",
            stacklevel=2,
        )
        return episodes
    if unknown:
        raise DfstransError(
            f"expected faults of the {len(episodes)} episodes in {recordings}, such as {str(episodes.ids[0])!r}, got "
            f"others in {path}: {list_few(unknown)}; correct the ids, or remove the rows"
        )
    found: dict[str, list[Fault]] = {}
    bad: list[DfstransError] = []
    for number, row in enumerate(rows, start=1):
        where = f"in row {number} of {path}"
        try:
            found.setdefault(row["id"], []).append(_fault(row, episodes, position[row["id"]], where))
        except DfstransError as error:
            bad.append(error)
    if bad:
        more = f" ({counted(len(bad) - 1, 'more row')} cannot be used either)" if len(bad) > 1 else ""
        raise DfstransError(f"{bad[0]}{more}")
    if options.length is not None and episodes.labels is not None:
        episodes = _with_label_as_fault(episodes, found, labelled_by_row)
    _compare_with_labels(episodes, found, path, options)
    faults = []
    for name, before in zip(position, episodes.known_faults, strict=True):
        of_table = found.get(name, [])
        faults.append(tuple(sorted([*of_table, *_uncovered(before, of_table)])) if before else tuple(of_table))
    if episodes.labels is None:
        episodes = episodes.with_labels([int(name in found) for name in position])
    return replace(episodes, faults=tuple(faults))


def _with_label_as_fault(episodes: Episodes, found: Collection[str], labelled_by_row: bool) -> Episodes:
    """Mark recordings of the table whose rows are all labelled anomalous; unmark those labelled as a whole."""
    faults = list(episodes.known_faults)
    for row in np.flatnonzero(np.isin(episodes.ids, list(found)) & (episodes.require_labels() == 1)).tolist():
        length = int(episodes.lengths[row])
        if not any(fault.locates(length) for fault in faults[row]):
            faults[row] = (faults[row] or (Fault(0, length),)) if labelled_by_row else ()
    return replace(episodes, faults=tuple(faults))


def _compare_with_labels(
    episodes: Episodes, found: Mapping[str, Sequence[Fault]], path: Path, options: ReadOptions
) -> None:
    """Reject episodes or pieces that are normal by label and faulty by the table; warn about the reverse.

    The label of a whole recording that will be cut does not say which pieces are anomalous.
    """
    if episodes.labels is None:
        return
    normal_by_label, absent_from_table = [], []
    for row, name in enumerate(episodes.ids.tolist()):
        length = int(episodes.lengths[row])
        earlier = episodes.known_faults[row]
        by_table, by_label = (mark_points(faults, length) for faults in (found.get(name, ()), earlier))
        whole = episodes.labels[row] == 1 and not earlier
        if whole and options.length is not None and name in found:
            continue
        size = length if options.length is None or options.resample else options.length
        for start in range(0, max(length - size, 0) + 1, options.stride or size):
            piece = name if size == length else f"{name}@{start}"
            label = whole or by_label[start : start + size].any()
            fault = by_table[start : start + size].any()
            if fault and not label:
                normal_by_label.append(piece)
            elif label and not fault:
                absent_from_table.append(piece)
    if normal_by_label:
        raise DfstransError(
            f"expected labels that agree with the fault table {path}, got {len(normal_by_label)} labelled normal with "
            f"a fault in the table: {list_few(normal_by_label)}; correct the labels or the table: {_FAULT_TIMES}"
        )
    if absent_from_table:
        warnings.warn(
            f"anomalous by label, without a fault in {path}: {len(absent_from_table)} "
            f"({list_few(absent_from_table)}); they stay anomalous; if the table is complete, check its times: "
            f"{_FAULT_TIMES}",
            stacklevel=3,
        )


def _uncovered(earlier: Sequence[Fault], by_table: Sequence[Fault]) -> list[Fault]:
    """Return the parts of earlier faults that no fault of the table covers.

    >>> _uncovered([Fault(10, 30)], [Fault(15, 20, kind="jam")])  # doctest: +ELLIPSIS
    [Fault(start=10, stop=15, ...), Fault(start=20, stop=30, ...)]
    """
    end = max(fault.stop for fault in [*earlier, *by_table])
    free = ~mark_points(by_table, end)
    parts = []
    for fault in earlier:
        edges = np.flatnonzero(np.diff(np.pad(mark_points([fault], end) & free, 1).astype(np.int8)))
        parts += [fault._replace(start=int(a), stop=int(b)) for a, b in edges.reshape(-1, 2)]
    return parts


def is_fault_table(path: Path, options: ReadOptions) -> bool:
    """Return whether a file in a folder of recordings is their fault table; a recording may also be called `faults`."""
    if not is_table(path) or table_stem(path).lower() != _FAULTS:
        return False
    try:
        _fault_table_columns(open_table(path), options)
    except _NoFaultColumnsError:
        return False
    except EmptyTableError:
        return True  # it cannot be a recording either
    return True


def _fault_table_columns(table: Table, options: ReadOptions) -> dict[str, str]:
    """Return the columns of a fault table by role."""
    id_column = label_table_columns(table, options)[0]
    by_name = {bare_name(name).lower(): name for name in reversed(table.names)}
    columns = {
        role: next(by_name[name] for name in names if name in by_name)
        for role, names in _FAULT_COLUMNS.items()
        if not by_name.keys().isdisjoint(names)
    }
    if id_column is None or columns.keys().isdisjoint(("kind", "sensors", "start")):
        raise _NoFaultColumnsError(
            "expected the columns id and fault, and optionally sensors, start, end (exclusive) or last (inclusive) "
            f"and severity, in the fault table {table.path}, got {list_few(table.names)}; rename them"
        )
    return {"id": id_column, **columns}


def _read_fault_table(path: Path, options: ReadOptions) -> list[dict[str, str]]:
    """Return the non-empty cells of each row by role; numbers have a decimal point."""
    table = open_table(path)
    wanted = _fault_table_columns(table, options)
    content = table.read(dict.fromkeys(wanted.values(), "text"))
    columns = {role: to_texts(content[name]).to_pylist() for role, name in wanted.items()}
    columns["id"] = ids_of_rows(content[wanted["id"]], path)
    rows = []
    for cells in zip(*columns.values(), strict=True):
        row = {role: text for role, text in zip(columns, cells, strict=True) if text and text not in MISSING}
        rows.append(row | {role: row[role].replace(table.decimal, ".") for role in _NUMBERS if role in row})
    return rows


def _fault(row: dict[str, str], episodes: Episodes, position: int, where: str) -> Fault:
    """Convert a row of the table to a fault in points of its episode."""
    begin, end, last = (_time(row[role], role, episodes, position, where) if role in row else None for role in _TIMES)
    severity = _number(row["severity"], "severity", where) if "severity" in row else None
    length, step = int(episodes.lengths[position]), episodes.interval or 1.0
    begin = 0.0 if begin is None else begin
    if end is not None and last is not None:
        raise DfstransError(f"expected end or last {where}, got both; remove one: {_FAULT_TIMES}")
    end = end if last is None else last + step
    end = length * step if end is None else end
    start, stop = round(begin / step), round(end / step)
    if begin <= end:  # even the shortest fault covers one point
        start = min(start, length - 1) if begin < length * step else start
        stop = max(stop, start + 1)
    if not 0 <= start < stop <= length:
        span = f"from 0 to {length * step:g} {episodes.time_unit}".rstrip()
        raise DfstransError(
            f"expected a fault within episode {row['id']!r}, {span}, got one from {begin:g} to {end:g} {where}; "
            f"correct it: {_FAULT_TIMES}"
        )
    blamed = [part.strip() for part in re.split(r"[;|,]", row.get("sensors", "")) if part.strip()]
    sensors = tuple(find_column(episodes.sensors, name) or name for name in blamed)  # check_episodes reports others
    return Fault(start, stop, sensors, row.get("kind", ""), severity)


def _time(text: str, role: str, episodes: Episodes, position: int, where: str) -> float:
    """Return a time from the start of its recording, in its unit; a date is converted by the date of the recording."""
    try:
        time = to_times(pa.array([text]), role, Path(role))
    except DfstransError:
        time = Times(np.array([np.nan]))
    unit = episodes.time_unit
    if time.clock is None or (episodes.starts is None and is_number(text)):
        return _number(text, role, where)
    if episodes.starts is None or unit not in SECONDS:
        raise DfstransError(
            f"expected a number as {role} {where}, because the recordings have no dates, got {text!r}; write the time "
            "from the start of the recording, or name the column with the dates of the recordings "
            f"({option_name('time_column', ...)})"
        )
    if bool(time.zone) != bool(episodes.time_zone):
        zones = [zone or "without a zone" for zone in (episodes.time_zone, time.zone)]
        raise DfstransError(
            f"expected {role} {where} {'in a zone, as' if episodes.time_zone else 'without a zone, as'} the times of "
            f"the recordings ({zones[0]}), got {text!r} ({zones[1]}); write "
            f"{'its zone, such as 2024-05-31T12:00:00Z' if episodes.time_zone else 'the time as in the recordings'}"
        )
    since = (time.clock[0] - offset(time.zone)) - (episodes.starts[position] - offset(episodes.time_zone))
    return float(since / np.timedelta64(1, "ns")) / 1e9 / SECONDS[unit]


def _number(text: str, role: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise DfstransError(f"expected a number as {role} {where}, got {text!r}; correct it: {_FAULT_TIMES}")
    return number

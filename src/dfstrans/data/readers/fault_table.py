"""Known faults in a table of their own: what was wrong in which episode, in which sensors, from when to when."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.columns import bare_name, matching
from dfstrans.data.readers.convert import texts
from dfstrans.data.readers.dialect import MISSING
from dfstrans.data.readers.label_table import find_id_column, find_label_table
from dfstrans.data.readers.opening import EmptyTableError
from dfstrans.data.readers.options import ReadOptions
from dfstrans.data.readers.tables import Table, is_table, open_table, table_stem, without_suffix
from dfstrans.errors import DfstransError, shortlist, spelled

STEM = "faults"
_COLUMNS = {
    "kind": ("fault", "kind", "fault_kind", "cause"),
    "sensors": ("sensors", "sensor"),
    "start": ("start", "begin", "from"),
    "end": ("end", "stop", "to"),
    "severity": ("severity",),
}


@dataclass(frozen=True)
class _Entry:
    """One row of the table, in the episode's own time; None where a cell is empty."""

    row: int
    id: str
    kind: str
    sensors: tuple[str, ...]
    start: float | None
    end: float | None
    severity: float | None


class _NoFaultColumnsError(DfstransError):
    """A table that may well be about something else."""


def with_fault_table(episodes: Episodes, beside: Path, options: ReadOptions) -> Episodes:
    """The episodes with the faults of the table that the options name, or that lies beside the recordings, if any.

    `beside` is the file with the recordings, or their folder. An episode of which the table says nothing stays as it
    is.
    """
    path = options.faults or _find(beside)
    if path is None:
        return episodes
    try:
        entries = read_fault_table(path, options)
    except (EmptyTableError, _NoFaultColumnsError) as error:
        if options.faults is not None:
            raise
        if isinstance(error, EmptyTableError) or beside.is_file():  # in a folder the other is a recording
            warnings.warn(
                f"left aside {path}: {error}; if it is about faults of {beside.name}, mend it and name it "
                f"({spelled('faults', ...)})",
                stacklevel=2,
            )
        return episodes
    if beside.is_dir():
        entries = [replace(entry, id=without_suffix(entry.id)) for entry in entries]
    unknown = sorted({entry.id for entry in entries} - set(episodes.ids.tolist()))
    if unknown and options.faults is None and beside.is_file() and table_stem(path).lower() == STEM:
        warnings.warn(
            f"left aside the faults in {path}: they are of episodes that {beside.name} does not have "
            f"({shortlist(unknown)}); if they belong to it, mend the ids and name the table ({spelled('faults', ...)})",
            stacklevel=2,
        )
        return episodes
    if unknown:
        raise DfstransError(
            f"expected faults of the {len(episodes)} episodes that were read, such as {str(episodes.ids[0])!r}, got "
            f"others in {path}: {shortlist(unknown)}; mend the ids, or leave the rows out"
        )
    rows = {name: row for row, name in enumerate(episodes.ids.tolist())}
    found: dict[str, list[Fault]] = {}
    for entry in entries:
        found.setdefault(entry.id, []).append(_fault(entry, episodes, rows[entry.id], path))
    earlier = ((),) * len(episodes) if episodes.faults is None else episodes.faults
    return replace(
        episodes,
        faults=tuple(tuple(found.get(name, before)) for name, before in zip(rows, earlier, strict=True)),
    )


def read_fault_table(path: Path, options: ReadOptions) -> list[_Entry]:
    """The rows of a fault table: id, fault, and perhaps sensors, start, end and severity, under any usual name."""
    table = open_table(path)
    wanted = _columns(table, options)
    content = table.read(dict.fromkeys(wanted.values(), "text"))
    cells = {role: [_cell(cell) for cell in texts(content[name]).to_pylist()] for role, name in wanted.items()}
    found = []
    for row, name in enumerate(cells["id"]):
        if not name:
            raise DfstransError(f"expected an id in each row of {path}, got none in row {row + 1}; add it")
        of_row = {role: column[row] for role, column in cells.items()}
        found.append(
            _Entry(
                row + 1,
                name,
                of_row.get("kind") or "",
                tuple(part.strip() for part in re.split(r"[;|,]", of_row.get("sensors") or "") if part.strip()),
                *(_number(of_row.get(role), table.decimal, role, row, path) for role in ("start", "end", "severity")),
            )
        )
    return found


def is_fault_table(path: Path, options: ReadOptions) -> bool:
    """Whether a file in a folder of recordings is about their faults; a recording may be called `faults`, too."""
    if not is_table(path) or table_stem(path).lower() != STEM:
        return False
    try:
        _columns(open_table(path), options)
    except _NoFaultColumnsError:
        return False
    except EmptyTableError:
        return True  # it is no recording, either
    return True


def _columns(table: Table, options: ReadOptions) -> dict[str, str]:
    """The columns that are there, by what they tell."""
    id_column = find_id_column(table, options)
    by_name = {bare_name(name).lower(): name for name in reversed(table.names)}
    columns = {
        role: next(by_name[name] for name in names if name in by_name)
        for role, names in _COLUMNS.items()
        if not by_name.keys().isdisjoint(names)
    }
    if id_column is None or columns.keys().isdisjoint(("kind", "sensors", "start")):
        raise _NoFaultColumnsError(
            f"expected the columns id and fault, and perhaps sensors, start, end and severity, in the fault table "
            f"{table.path}, got {shortlist(table.names)}; rename them"
        )
    return {"id": id_column, **columns}


def _find(beside: Path) -> Path | None:
    """The table that bears the file's name, or a general one."""
    if beside.is_dir():
        return find_label_table(beside, (STEM,))
    found = find_label_table(beside.parent, (f"{table_stem(beside)}_{STEM}", STEM))
    return None if found is None or found.absolute() == beside.absolute() else found


def _fault(entry: _Entry, episodes: Episodes, row: int, path: Path) -> Fault:
    """An entry in points of its episode."""
    length, step = int(episodes.lengths[row]), episodes.interval or 1.0
    begin = 0.0 if entry.start is None else entry.start
    end = length * step if entry.end is None else entry.end
    start, stop = round(begin / step), round(end / step)
    if begin <= end:  # however short, it is in one point at least
        start = min(start, length - 1) if begin < length * step else start
        stop = max(stop, start + 1)
    if not 0 <= start < stop <= length:
        raise DfstransError(
            f"expected a fault within episode {entry.id!r}, from 0 to {length * step:g} {episodes.time_unit}".rstrip()
            + f", got one from {begin:g} to {end:g} in row {entry.row} of {path}; start and end count "
            "from the beginning of the episode, in the unit of its time, or in points where it has none: mend them"
        )
    known = [matching(episodes.sensors, name) or name for name in entry.sensors]  # an unknown one stays: it is told of
    return Fault(start, stop, tuple(known), entry.kind, entry.severity)


def _cell(text: str | None) -> str | None:
    return None if text is None or text in MISSING else text


def _number(text: str | None, decimal: str, role: str, row: int, path: Path) -> float | None:
    if text is None:
        return None
    try:
        number = float(text.replace(decimal, "."))
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise DfstransError(
            f"expected a number as {role} in row {row + 1} of {path}, got {text!r}; start and end count from the "
            "beginning of the episode, in the unit of its time, or in points where it has none"
        )
    return number

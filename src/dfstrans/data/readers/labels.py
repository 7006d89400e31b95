"""Known faults in a table of their own: what was wrong in which episode, in which sensors, from when to when."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.columns import UNLABELLED, Roles, bare_name, find_roles, labels, matching, texts
from dfstrans.data.readers.opening import EmptyTableError, ReadOptions
from dfstrans.data.readers.tables import MISSING, Table, is_table, open_table, table_stem, without_suffix
from dfstrans.errors import DfstransError, option_name, shortlist

_TOLD = ("id", "label", "group")  # by a label table
_ID_NAMES = ("file", "filename", "file_name", "name")


@dataclass(frozen=True)
class LabelTable:
    """What a label table says of each episode id."""

    path: Path
    label: dict[str, int]
    group: dict[str, str] | None


def read_label_table(path: Path, options: ReadOptions) -> LabelTable:
    """A table with the columns id, label and perhaps group, under any of their usual names."""
    table = open_table(path)
    id_column, label_column, group_column = _columns(table, options)
    if id_column is None or label_column is None:
        raise DfstransError(
            f"expected the columns id and label in the label table {path}, got {shortlist(table.names)}; rename them, "
            f"or name them ({option_name('id_column', ...)}, {option_name('label_column', ...)})"
        )
    wanted = [name for name in (id_column, label_column, group_column) if name]
    columns = table.read(dict.fromkeys(wanted, "text"))
    ids = texts(columns[id_column]).to_pylist()
    coded = labels(columns[label_column], options.anomalous_value, path)
    bad = [str(name) for name, code in zip(ids, coded, strict=True) if code == UNLABELLED or name is None]
    if bad:
        raise DfstransError(
            f"expected an id and a label in each row of {path}, got none for {shortlist(bad)}; add them"
        )
    if len(set(ids)) < len(ids):
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        raise DfstransError(f"expected each id once in {path}, got repeated ids: {shortlist(repeated)}; keep one each")
    groups = [str(name or "") for name in texts(columns[group_column]).to_pylist()] if group_column else None
    return LabelTable(
        path,
        dict(zip(ids, coded.tolist(), strict=True)),
        None if groups is None else dict(zip(ids, groups, strict=True)),
    )


def covers(path: Path, ids: Iterable[str], options: ReadOptions) -> bool:
    """Whether a label table has a row for each of these episodes."""
    table = open_table(path)
    id_column, _, _ = _columns(table, options)
    if id_column is None:
        return False
    return set(ids) <= set(texts(table.read({id_column: "text"})[id_column]).to_pylist())


def find_id_column(table: Table, options: ReadOptions) -> str | None:
    """The column of a label or fault table that names the episode."""
    return _columns(table, options)[0]


def _columns(table: Table, options: ReadOptions) -> tuple[str | None, str | None, str | None]:
    """The columns with the id, the label and the group.

    A name in the options may be that of the recordings: here it counts to the letter, and but for case and unit only
    where no column has a usual name (`no` of the recordings is not `No` beside `id`).
    """
    named = {role: getattr(options, f"{role}_column") for role in _TOLD}
    exact = {f"{role}_column": name if name in table.names else None for role, name in named.items()}
    own = options.model_copy(update={**exact, "drop_sensors": (), "time_column": None})
    usual = find_roles(table.names, own, table.path)
    alike = {
        f"{role}_column": name
        for role, name in named.items()
        if name is not None and getattr(usual, role) is None and matching(table.names, name)
    }
    roles = find_roles(table.names, own.model_copy(update=alike), table.path)
    by_name = {name.lower(): name for name in table.names}
    id_column = roles.id or next((by_name[name] for name in _ID_NAMES if name in by_name), None)
    rest = [name for name in table.names if name not in (id_column, roles.group)]
    label_column = roles.label or (rest[0] if len(rest) == 1 else None)
    return id_column, label_column, roles.group


def told_by_table(names: Sequence[str], label_table: Path | None, options: ReadOptions) -> dict[str, str]:
    """The roles whose named column only the label table has, not the recordings with these columns: its name there."""
    if label_table is None:
        return {}
    told: dict[str, str] = {}
    for role in _TOLD:
        option = f"{role}_column"
        wanted = getattr(options, option)
        if wanted is None or matching(names, wanted):
            continue
        of_table = open_table(label_table).names
        found = matching(of_table, wanted)
        if found is None:
            raise DfstransError(
                f"expected a column {wanted!r} ({option_name(option)}) in the recordings or in their label table "
                f"{label_table}, got {shortlist(dict.fromkeys(names), 20)} and {shortlist(of_table, 20)}; correct "
                f"{option_name(option)}"
            )
        told[role] = found
    return told


def options_of_table(options: ReadOptions, told: Mapping[str, str]) -> ReadOptions:
    """The options for a label table that tells these roles, see `told_by_table`."""
    return options.model_copy(update={f"{role}_column": name for role, name in told.items()})


def roles_of_recordings(names: Sequence[str], options: ReadOptions, told: Collection[str], source: Path) -> Roles:
    """The roles of columns of recordings, where their label table tells some.

    No other column takes the place of those: what else is called a label or a group is left out, and what is called an
    id is a sensor.

    >>> options = ReadOptions(id_column="Takt", group_column="Linie")
    >>> roles_of_recordings(["run", "machine", "a"], options, ("id", "group"), Path("a.csv"))
    Roles(id=None, time=None, label=None, group=None, sensors=('run', 'a'))
    """
    roles = find_roles(names, options.model_copy(update={f"{role}_column": None for role in told}), source)
    sensors = {*roles.sensors, roles.id} if "id" in told else {*roles.sensors}
    return replace(roles, **dict.fromkeys(told), sensors=tuple(name for name in names if name in sensors))


def find_label_table(folder: Path, stems: tuple[str, ...]) -> Path | None:
    """The first table in a folder with one of these names."""
    tables = {table_stem(file).lower(): file for file in sorted(folder.iterdir()) if is_table(file)}
    return next((tables[stem.lower()] for stem in stems if stem.lower() in tables), None)


def with_label_table(episodes: Episodes, table: LabelTable, *, keep_labels: bool = False) -> Episodes:
    """The episodes with the labels, and the groups if they had none, of a label table.

    With `keep_labels`, labels that the episodes have stay.
    """
    unlabelled = [name for name in episodes.ids.tolist() if name not in table.label]
    if unlabelled:
        raise DfstransError(
            f"expected a label for each episode in {table.path}, got none for {shortlist(unlabelled)} but for "
            f"{shortlist(table.label, 3)}; write the ids alike (001 is not 1), add their rows, or "
            f"give another label table ({option_name('labels', ...)})"
        )
    labelled = episodes
    if episodes.labels is None or not keep_labels:
        labelled = episodes.with_labels([table.label[name] for name in episodes.ids.tolist()])
    if table.group is None or episodes.groups is not None:
        return labelled
    return replace(labelled, groups=np.array([table.group[name] for name in episodes.ids.tolist()], dtype=np.str_))


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
                f"({option_name('faults', ...)})",
                stacklevel=2,
            )
        return episodes
    if beside.is_dir():
        entries = [replace(entry, id=without_suffix(entry.id)) for entry in entries]
    unknown = sorted({entry.id for entry in entries} - set(episodes.ids.tolist()))
    if unknown and options.faults is None and beside.is_file() and table_stem(path).lower() == STEM:
        warnings.warn(
            f"left aside the faults in {path}: they are of episodes that {beside.name} does not have "
            f"({shortlist(unknown)}); if they belong to it, mend the ids and name the table "
            f"({option_name('faults', ...)})",
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
    wanted = _fault_table_columns(table, options)
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
        _fault_table_columns(open_table(path), options)
    except _NoFaultColumnsError:
        return False
    except EmptyTableError:
        return True  # it is no recording, either
    return True


def _fault_table_columns(table: Table, options: ReadOptions) -> dict[str, str]:
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

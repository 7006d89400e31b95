"""Readers for the label table (labels and groups) and the fault table (known faults) of recordings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.columns import Roles, bare_name, find_column, find_roles, to_texts
from dfstrans.data.readers.label_words import labels_and_kinds
from dfstrans.data.readers.opening import EmptyTableError, ReadOptions
from dfstrans.data.readers.tables import MISSING, Table, is_table, open_table, table_stem, without_suffix
from dfstrans.errors import DfstransError, list_few, option_name

_LABEL_TABLE_ROLES = ("id", "label", "group")
_FILE_COLUMNS = ("file", "filename", "file_name", "name")  # possible id columns of a label or fault table
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
    "unit, or in points if it has none"
)
_NUMBERS = ("start", "end", "last", "severity")


def find_table(recordings: Path, name: str) -> Path | None:
    """Find the table called `name` in a folder of recordings, or `<file>_<name>` or `name` next to their file."""
    folder, stems = recordings, [name]
    if recordings.is_file():
        folder, stems = recordings.parent, [f"{table_stem(recordings)}_{name}", name]
    tables = {table_stem(file).lower(): file for file in sorted(folder.iterdir()) if is_table(file)}
    return next((tables[stem.lower()] for stem in stems if stem.lower() in tables), None)


# ---- label tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelTable:
    """The label, the type of fault (of those whose label names one) and optionally the group of each episode id."""

    path: Path
    label: dict[str, int]
    group: dict[str, str] | None
    kind: dict[str, str]

    def apply(self, episodes: Episodes, *, keep_labels: bool = False) -> Episodes:
        """Add these labels to the episodes, and these groups if they have none.

        With `keep_labels`, existing labels are kept.
        """
        ids = episodes.ids.tolist()
        unlabelled = [name for name in ids if name not in self.label]
        if unlabelled:
            raise DfstransError(
                f"expected a label for each episode in {self.path}, got none for {list_few(unlabelled)} but for "
                f"{list_few(self.label, 3)}; spell the ids identically (001 is not 1), add the missing rows, or "
                f"choose another label table ({option_name('labels', ...)})"
            )
        if episodes.labels is None or not keep_labels:
            episodes = with_kinds(
                episodes.with_labels([self.label[name] for name in ids]), [self.kind.get(name, "") for name in ids]
            )
        if self.group is None or episodes.groups is not None:
            return episodes
        return replace(episodes, groups=np.array([self.group[name] for name in ids], dtype=np.str_))


def with_kinds(episodes: Episodes, kinds: Sequence[str]) -> Episodes:
    """Add a fault of its type ("" for unknown) to each episode that has none; its place within it is unknown."""
    if not any(kinds):
        return episodes
    known = ((),) * len(episodes) if episodes.faults is None else episodes.faults
    added = zip(known, kinds, episodes.lengths.tolist(), strict=True)
    return replace(
        episodes,
        faults=tuple(faults or ((Fault(0, length, kind=kind),) if kind else ()) for faults, kind, length in added),
    )


def read_label_table(
    path: Path, options: ReadOptions, columns: Mapping[str, str], *, ids_are_files: bool = False
) -> LabelTable:
    """Read a table with the columns id, label and optionally group: those in `columns`, or under their usual names."""
    table = open_table(path)
    options = options.model_copy(update={f"{role}_column": name for role, name in columns.items()})
    id_column, label_column, group_column = _label_table_columns(table, options)
    if id_column is None or label_column is None:
        raise DfstransError(
            f"expected the columns id and label in the label table {path}, got {list_few(table.names)}; rename them, "
            f"or name them ({option_name('id_column', ...)}, {option_name('label_column', ...)})"
        )
    wanted = [name for name in (id_column, label_column, group_column) if name]
    content = table.read(dict.fromkeys(wanted, "text"))
    ids = to_texts(content[id_column]).to_pylist()
    found, kinds = labels_and_kinds(content[label_column], options, path)
    if None in ids:
        raise DfstransError(f"expected an id in each row of {path}, got none in row {ids.index(None) + 1}; add it")
    if len(set(ids)) < len(ids):
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        raise DfstransError(f"expected each id once in {path}, got repeated ids: {list_few(repeated)}; keep one each")
    if ids_are_files:
        ids = [without_suffix(name) for name in ids]
    groups = [name or "" for name in to_texts(content[group_column]).to_pylist()] if group_column else None
    return LabelTable(
        path,
        dict(zip(ids, found.tolist(), strict=True)),
        None if groups is None else dict(zip(ids, groups, strict=True)),
        {name: kind for name, kind in zip(ids, kinds, strict=True) if kind},
    )


def covers(path: Path, ids: Iterable[str], options: ReadOptions) -> bool:
    """Return whether a label table has a row for each of these episodes."""
    table = open_table(path)
    id_column = _label_table_columns(table, options)[0]
    return id_column is not None and set(ids) <= set(to_texts(table.read({id_column: "text"})[id_column]).to_pylist())


def roles_in_label_table(names: Sequence[str], label_table: Path | None, options: ReadOptions) -> dict[str, str]:
    """Return the columns named in the options that only the label table has, by role, not the recordings (`names`)."""
    found: dict[str, str] = {}
    for role in _LABEL_TABLE_ROLES:
        option = f"{role}_column"
        wanted = getattr(options, option)
        if label_table is None or wanted is None or find_column(names, wanted):
            continue
        there = open_table(label_table).names
        column = find_column(there, wanted)
        if column is None:
            raise DfstransError(
                f"expected a column {wanted!r} ({option_name(option)}) in the recordings or in their label table "
                f"{label_table}, got {list_few(dict.fromkeys(names), 20)} and {list_few(there, 20)}; correct "
                f"{option_name(option)}"
            )
        found[role] = column
    return found


def roles_of_recordings(names: Sequence[str], options: ReadOptions, elsewhere: Collection[str], source: Path) -> Roles:
    """Find the roles of the recordings' columns if their label table provides some roles (`elsewhere`).

    No other column takes these roles: one named like a label or a group is ignored, one named like an id is a sensor.

    >>> options = ReadOptions(id_column="Takt", group_column="Linie")
    >>> roles_of_recordings(["run", "machine", "a"], options, ("id", "group"), Path("a.csv"))
    Roles(id=None, time=None, label=None, group=None, sensors=('run', 'a'))
    """
    roles = find_roles(names, options.model_copy(update={f"{role}_column": None for role in elsewhere}), source)
    sensors = {*roles.sensors, roles.id} if "id" in elsewhere else {*roles.sensors}
    return replace(roles, **dict.fromkeys(elsewhere), sensors=tuple(name for name in names if name in sensors))


def _label_table_columns(table: Table, options: ReadOptions) -> tuple[str | None, str | None, str | None]:
    """Find the columns with the id, the label and the group.

    A name in the options may refer to the recordings, so it must match exactly here; it may differ in case and unit
    only if no column has a usual name (`no` of the recordings is not `No` next to `id`).
    """
    named = {role: getattr(options, f"{role}_column") for role in _LABEL_TABLE_ROLES}
    exact = {f"{role}_column": name if name in table.names else None for role, name in named.items()}
    options = options.model_copy(update={**exact, "drop_sensors": (), "time_column": None})
    usual = find_roles(table.names, options, table.path)
    similar = {
        f"{role}_column": name
        for role, name in named.items()
        if name is not None and getattr(usual, role) is None and find_column(table.names, name)
    }
    roles = find_roles(table.names, options.model_copy(update=similar), table.path)
    by_name = {name.lower(): name for name in table.names}
    id_column = roles.id or next((by_name[name] for name in _FILE_COLUMNS if name in by_name), None)
    rest = [name for name in table.names if name not in (id_column, roles.group)]
    label_column = roles.label or (rest[0] if len(rest) == 1 else None)
    return id_column, label_column, roles.group


# ---- fault tables -----------------------------------------------------------------------------------------------


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
    if path is None or (options.faults is None and path.absolute() == recordings.absolute()):
        return episodes
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
    for number, row in enumerate(rows, start=1):
        where = f"in row {number} of {path}"
        found.setdefault(row["id"], []).append(_fault(row, episodes, position[row["id"]], where))
    if options.length is not None:
        episodes = _with_label_as_fault(episodes, found, labelled_by_row)
    _compare_with_labels(episodes, found, path, options)
    earlier = ((),) * len(episodes) if episodes.faults is None else episodes.faults
    faults = []
    for name, before in zip(position, earlier, strict=True):
        of_table = found.get(name, [])
        faults.append(tuple(sorted([*of_table, *_uncovered(before, of_table)])) if before else tuple(of_table))
    if episodes.labels is None:
        episodes = episodes.with_labels([int(name in found) for name in position])
    return replace(episodes, faults=tuple(faults))


def _with_label_as_fault(episodes: Episodes, found: Collection[str], labelled_by_row: bool) -> Episodes:
    """Mark recordings of the table whose rows are all labelled anomalous; unmark those labelled as a whole."""
    if episodes.labels is None:
        return episodes
    earlier = ((),) * len(episodes) if episodes.faults is None else episodes.faults
    faults = list(earlier)
    for row, (name, length) in enumerate(zip(episodes.ids.tolist(), episodes.lengths.tolist(), strict=True)):
        throughout = all(fault[:3] == (0, length, ()) for fault in earlier[row])
        if name in found and episodes.labels[row] == 1 and throughout:
            faults[row] = (earlier[row] or (Fault(0, length),)) if labelled_by_row else ()
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
        earlier = () if episodes.faults is None else episodes.faults[row]
        by_table, by_label = (_marked(faults, length) for faults in (found.get(name, ()), earlier))
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


def _marked(faults: Iterable[Fault], length: int) -> npt.NDArray[np.bool_]:
    """Mark the points of a recording that lie in a fault: (length,)."""
    marked = np.zeros(length, dtype=np.bool_)
    for fault in faults:
        marked[fault.start : fault.stop] = True
    return marked


def _uncovered(earlier: Sequence[Fault], by_table: Sequence[Fault]) -> list[Fault]:
    """Return the parts of earlier faults that no fault of the table covers.

    >>> _uncovered([Fault(10, 30)], [Fault(15, 20, kind="jam")])  # doctest: +ELLIPSIS
    [Fault(start=10, stop=15, ...), Fault(start=20, stop=30, ...)]
    """
    end = max(fault.stop for fault in [*earlier, *by_table])
    free = ~_marked(by_table, end)
    parts = []
    for fault in earlier:
        edges = np.flatnonzero(np.diff(np.pad(_marked([fault], end) & free, 1).astype(np.int8)))
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
    id_column = _label_table_columns(table, options)[0]
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
    rows = []
    for number, cells in enumerate(zip(*columns.values(), strict=True), start=1):
        row = {role: text for role, text in zip(columns, cells, strict=True) if text and text not in MISSING}
        if "id" not in row:
            raise DfstransError(f"expected an id in each row of {path}, got none in row {number}; add it")
        rows.append(row | {role: row[role].replace(table.decimal, ".") for role in _NUMBERS if role in row})
    return rows


def _fault(row: dict[str, str], episodes: Episodes, position: int, where: str) -> Fault:
    """Convert a row of the table to a fault in points of its episode."""
    begin, end, last, severity = (_number(row[role], role, where) if role in row else None for role in _NUMBERS)
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


def _number(text: str, role: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise DfstransError(f"expected a number as {role} {where}, got {text!r}; correct it: {_FAULT_TIMES}")
    return number

"""Reader for recordings in one long table, with a column per sensor or with the columns time, tag and value."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dfstrans.data.episodes import Episodes
from dfstrans.data.problems import NoRecordingsError, Problem, report, reporting
from dfstrans.data.readers.columns import (
    Roles,
    find_column,
    find_roles,
    require_column,
    to_coded_texts,
    warn_of_second_label,
    without_missing_columns,
)
from dfstrans.data.readers.faults import with_faults
from dfstrans.data.readers.gathering import gather
from dfstrans.data.readers.labels import covers, find_table, read_label_table, roles_in_label_table, roles_of_recordings
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.preparing import drop_sensors
from dfstrans.data.readers.rows import check_rows, interpret_labels, read_rows
from dfstrans.data.readers.tables import Kind, Table, is_number, is_table, open_table, table_stem
from dfstrans.data.readers.tdms import TdmsTable, is_tdms, with_likely_group
from dfstrans.data.readers.times import to_times
from dfstrans.data.truth import truth_from_text
from dfstrans.data.writers import PARQUET_KEY, faults_from_json, require_version
from dfstrans.errors import DfstransError, list_few, option_name

OTHER_FORMATS = frozenset({"spacecraft", "n_sensors", "n_timepoints", "dataset", "axis", "label_dataset"})
_OPTIONS = frozenset(ReadOptions.model_fields) - OTHER_FORMATS - {"skip_bad_files", "folders"}
OF_TEXT = frozenset({"tag_column", "value_column", "text_as_missing"})
_ROWS_OF_EPISODE = 8  # minimum, on average, in a column that is taken for the id
_TAGS = ("tag", "tagname", "tag_name", "_field", "field", "variable", "metric", "signal")
_VALUES = ("value", "_value")
_OF_EXPORT = ("result", "table", "_start", "_stop", "_measurement")  # written by InfluxDB about its query


def _read_long_table(path: Path, options: ReadOptions) -> Episodes:
    """Read a table with one row per point; a continuous recording needs no id if it is cut (`length`)."""
    options = with_likely_group(path, options) if is_tdms(path) else options
    table = open_recording(path, options)
    elsewhere: dict[str, str] = {}
    label_path = options.labels or find_table(path, "labels")
    if label_path is not None and label_path.absolute() == path.absolute():
        label_path = None
    label_table: Table | None = None
    if label_path is not None and (options.labels is not None or _names_other_columns(table, options)):
        with reporting():
            label_table = open_table(label_path)
    if PARQUET_KEY in table.metadata:
        episodes = _read_own_parquet(table, options)
    else:
        options = without_missing_columns(table.names, options, path, label_table)
        elsewhere = roles_in_label_table(table.names, label_table, options)
        roles = _roles_of_long_table(table, options, elsewhere)
        rows = check_rows([read_rows(table, roles)], options)
        if not rows:
            raise NoRecordingsError(f"expected readable recordings in {path}, got none; correct the file")
        warn_of_second_label(rows[0].sensors, roles.label, path)
        episodes = gather(interpret_labels(rows, options, path)[0], options)
    wanted, by_row = options.labels is not None or bool(elsewhere), episodes.labels is not None
    with reporting():
        if label_path is not None and label_table is None and not wanted and episodes.labels is None:
            label_table = open_table(label_path)
        if label_table is not None and (
            wanted or (episodes.labels is None and _label_table_matches(label_table, episodes, path, options))
        ):
            keep_labels = options.labels is None and "label" not in elsewhere
            episodes = read_label_table(label_table, options, elsewhere).apply(episodes, keep_labels=keep_labels)
            by_row &= keep_labels
    return with_faults(episodes, path, options, labelled_by_row=by_row)


def _names_other_columns(table: Table, options: ReadOptions) -> bool:
    """Return whether the options name columns that the table lacks; they may be those of the label table."""
    named = (options.id_column, options.label_column, options.group_column)
    return any(name is not None and find_column(table.names, name) is None for name in named)


def _roles_of_long_table(table: Table, options: ReadOptions, elsewhere: dict[str, str]) -> Roles:
    own = options
    if "id" in elsewhere and options.length is None:
        # only a single recording needs no ids; the label table shows whether they match
        own = options.model_copy(update={"id_column": None})
        elsewhere = {role: name for role, name in elsewhere.items() if role != "id"}
    roles = roles_of_recordings(table.names, own, elsewhere, table.path)
    if len(table.names) == 1 and len(table.names[0].split()) > 2:
        raise DfstransError(
            f"expected columns separated by a comma, semicolon, tab or | in {table.path}, got one column "
            f"{table.names[0]!r}; change the delimiter"
        )
    if roles.id is None and options.length is None:
        likely = likely_id(table, roles)
        report(
            Problem(
                f"expected a column with the episode of each row (such as episode_id) in {table.path}, got "
                f"{list_few(table.names, 12)}; name it ({option_name('id_column', likely or ...)}), or set a length to "
                f"cut one recording into episodes ({option_name('length', ...)})",
                file=table.path,
            )
        )
        roles = replace(roles, id=likely, sensors=tuple(name for name in roles.sensors if name != likely))
    return roles


def likely_id(table: Table, roles: Roles) -> str | None:
    """Return the column without gaps that most finely divides the rows into stretches with a value of their own."""
    stretches: dict[str, int] = {}
    columns = table.read(dict.fromkeys(roles.sensors, "text"))
    for name in roles.sensors:
        indices = to_coded_texts(columns[name]).indices
        if indices.null_count:
            continue
        codes = indices.to_numpy(zero_copy_only=False)
        n = 1 + int(np.count_nonzero(np.diff(codes)))
        if 1 < n == len(np.unique(codes)) and n * _ROWS_OF_EPISODE <= len(codes):
            stretches[name] = n
    return max(stretches, key=lambda name: stretches[name], default=None)


def _label_table_matches(table: Table, episodes: Episodes, path: Path, options: ReadOptions) -> bool:
    """Return whether a label table next to the file is about these episodes; one called `labels` may not be."""
    if table_stem(table.path).lower() != "labels" or covers(table, episodes.ids.tolist(), options):
        return True
    warnings.warn(
        f"ignored the label table {table.path}: it lacks some episodes of {path.name}, which stay unlabelled; if it "
        f"belongs to them, add the rows and name it ({option_name('labels', ...)})",
        stacklevel=3,
    )
    return False


def _read_own_parquet(table: Table, options: ReadOptions) -> Episodes:
    """Read a Parquet file of `save_episodes`, whose metadata contain what has no column."""
    with opening(table.path, "a Parquet file of dfstrans"):
        known = json.loads(table.metadata[PARQUET_KEY])
        require_version(known["version"], table.path)
        role, sensors = known["columns"], tuple(known["sensors"])
        rows = read_rows(table, Roles(role["id"], None, role["label"], role["group"], sensors), exact=True)
        for error in rows.errors:
            raise error
        rows = interpret_labels([rows], options, table.path)[0]
        rows = replace(rows, sensors=sensors, units=tuple(known["units"]))
        faults = known.get("faults") and {name: faults_from_json(text) for name, text in known["faults"].items()}
        truth = truth_from_text(known["truth"]) if known.get("truth") else None
    episodes = gather(rows, options)
    episodes = replace(
        episodes,
        interval=known.get("interval"),
        time_unit=known.get("time_unit", ""),
        starts=None if known.get("starts") is None else np.array(known["starts"], dtype="datetime64[ns]"),
        time_zone=known.get("time_zone", ""),
        faults=None if faults is None else tuple(faults.get(name, ()) for name in episodes.ids.tolist()),
        truth=truth,
    )
    return drop_sensors(episodes, options, table.path)


def holds_one_recording(path: Path, options: ReadOptions) -> bool:
    """Return whether a table is a single recording: it names no episodes, and is not to be cut."""
    if not (is_table(path) or is_tdms(path)) or options.length is not None:
        return False
    table = open_recording(path, options)
    return PARQUET_KEY not in table.metadata and _find_roles_there(table, options).id is None


def _find_roles_there(table: Table, options: ReadOptions) -> Roles:
    """Find the roles of a table that may lack columns which the options name, because a label table has them."""
    named = {f"{role}_column": getattr(options, f"{role}_column") for role in ("id", "time", "label", "group")}
    absent = {option: None for option, name in named.items() if name and find_column(table.names, name) is None}
    return find_roles(table.names, options.model_copy(update=absent), table.path)


def open_recording(path: Path, options: ReadOptions) -> Table:
    """Open a file of recordings as a table with a column per sensor."""
    return TdmsTable(path, options) if is_tdms(path) else as_wide(open_table(path), options)


# ---- narrow exports, as InfluxDB and PI write them ----------------------------------------------------------------


def as_wide(table: Table, options: ReadOptions) -> Table:
    """Return a table with a column per tag if this one has the columns time, tag and value, else the table itself."""
    tag = _find(table, options.tag_column, "tag_column", _TAGS)
    value = _find(table, options.value_column, "value_column", _VALUES)
    roles = _find_roles_there(table, options)
    if tag is None or value is None or roles.time is None:
        if options.tag_column or options.value_column:
            raise DfstransError(
                f"expected a time, a tag and a value column in {table.path}, got {list_few(table.names, 12)}; name "
                f"all three ({option_name('time_column', ...)}, {option_name('tag_column', ...)}, "
                f"{option_name('value_column', ...)})"
            )
        return table
    return _WideTable(table, roles, tag, value)


def _find(table: Table, wanted: str | None, option: str, usual: tuple[str, ...]) -> str | None:
    if wanted is None:
        return next((name for name in table.names if name.lower() in usual), None)
    return require_column(table.names, wanted, option, table.path)


class _WideTable(Table):
    """A narrow table with one row per time (and episode) and one column per tag; rows are sorted by time.

    Other columns of text with one value for each row are kept, so that their roles can be found or suggested.
    """

    lines_before = None

    def __init__(self, narrow: Table, roles: Roles, tag: str, value: str) -> None:
        self.path, self.metadata, self.decimal = narrow.path, narrow.metadata, narrow.decimal
        keys = [name for name in (roles.id, roles.group) if name not in (None, tag, value)]
        assert roles.time is not None
        kinds: dict[str, Kind] = {roles.time: "time", tag: "text", value: "number"}
        others = [name for name in narrow.names if name not in (*kinds, *_OF_EXPORT)]
        columns = narrow.read({**kinds, **dict.fromkeys(others, "text")})
        tags = to_coded_texts(columns[tag])
        times = to_times(columns[roles.time], roles.time, narrow.path).values
        codes = {name: to_coded_texts(columns[name]).indices.fill_null(-1).to_numpy() for name in others}
        row_keys = np.column_stack([*(codes[name] for name in keys if name), times])
        _, first, row = np.unique(row_keys, axis=0, return_index=True, return_inverse=True)
        cell = np.full((len(first), len(tags.dictionary)), -1, dtype=np.int64)
        tag_of_row = tags.indices.fill_null(-1).to_numpy()
        cell[row, tag_of_row] = np.arange(len(row))
        if tags.null_count or (cell >= 0).sum() < len(row):
            repeated = len(row) - int((cell >= 0).sum())
            n_rows = (len(np.unique([row, tag_of_row, code], axis=1).T) for code in codes.values())
            separates = next((name for name, n in zip(codes, n_rows, strict=True) if n == len(row)), ...)
            raise DfstransError(
                f"expected each tag once at each time in {narrow.path}, got {repeated} repeated rows and "
                f"{tags.null_count} rows without a tag; remove them, or name the column that separates the recordings "
                f"({option_name('id_column', separates)})"
            )
        differs = {name: np.flatnonzero(code[first][row] != code) for name, code in codes.items()}
        if roles.label in others and len(differs[roles.label]):
            at = int(differs[roles.label][0])
            raise DfstransError(
                f"expected one label at each time in {narrow.path}, got several in column {roles.label!r}, first in "
                f"data row {at + 1}; write the same label for all tags, or list the faults in a table "
                f"({option_name('faults', ...)}) and drop the column"
            )
        named = (*keys, roles.label)
        kept = [name for name in others if name in named or (not len(differs[name]) and _is_words(columns[name]))]
        _report_skipped([name for name in others if name not in kept], narrow.path)
        self._columns: dict[str, Any] = {name: columns[name].take(pa.array(first)) for name in kept}
        self._columns["time" if roles.time == "_time" else roles.time] = columns[roles.time].take(pa.array(first))
        for n, name in enumerate(tags.dictionary.to_pylist()):
            position = cell[:, n]
            self._columns[name] = columns[value].take(pa.array(position, mask=position < 0))
        self.names = tuple(self._columns)

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        return {name: self._columns[name] for name in kinds}


def _is_words(column: Any) -> bool:
    return not all(map(is_number, to_coded_texts(column).dictionary.to_pylist()))


def _report_skipped(names: Sequence[str], path: Path) -> None:
    if names:
        roles = ", ".join(option_name(f"{role}_column", names[0]) for role in ("id", "label", "group"))
        report(
            Problem(
                f"skipped columns of the narrow table {path} besides time, tag and value: {list_few(names, 12)}; if "
                f"one has a role, name it ({roles})",
                level="warning",
                count=len(names),
                file=path,
                kind="columns of a narrow table",
            )
        )


LONG_TABLE = Reader(
    name="a long table (.csv, .tsv, .txt, also .gz, or .parquet) with a row per point",
    options=_OPTIONS,
    recognises=lambda path: path.is_file() and is_table(path),
    read=_read_long_table,
)
TDMS = Reader(
    name="TDMS (.tdms) of any layout, with a group per recording or one group (its name as option)",
    options=_OPTIONS - OF_TEXT | {"dataset"},
    recognises=lambda path: path.is_file() and is_tdms(path),
    read=_read_long_table,
)

"""Readers for recordings in tables: one long table, or a folder with one file per episode."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.columns import Roles, drop_sensors, require_dropped, require_occurs, warn_of_second_label
from dfstrans.data.readers.labels import (
    LabelTable,
    covers,
    find_table,
    is_fault_table,
    read_label_table,
    roles_in_label_table,
    roles_of_recordings,
    with_faults,
)
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.rows import Rows, gather, join_files, read_rows
from dfstrans.data.readers.tables import Table, is_table, open_table, table_stem
from dfstrans.data.truth import truth_from_text
from dfstrans.data.writers import PARQUET_KEY, faults_from_json, require_version
from dfstrans.errors import DfstransError, list_few, option_name

_OPTIONS = frozenset(ReadOptions.model_fields) - {"spacecraft", "n_sensors", "n_timepoints"}  # of other formats


# ---- long tables ------------------------------------------------------------------------------------------------


def _read_long_table(path: Path, options: ReadOptions) -> Episodes:
    """Read a table with one row per point; a continuous recording needs no id if it is cut (`length`)."""
    table = open_table(path)
    elsewhere: dict[str, str] = {}
    label_path = options.labels or find_table(path, "labels")
    if label_path is not None and label_path.absolute() == path.absolute():
        label_path = None
    if PARQUET_KEY in table.metadata:
        episodes = _read_own_parquet(table, options)
    else:
        require_dropped(table.names, options, path)
        elsewhere = roles_in_label_table(table.names, label_path, options)
        roles = _roles_of_long_table(table, options, elsewhere)
        rows = read_rows(table, roles, options)
        warn_of_second_label(roles, path)
        require_occurs(options.anomalous_value, rows.label_words, path)
        episodes = gather(rows, options)
    wanted, by_row = options.labels is not None or bool(elsewhere), episodes.labels is not None
    if label_path is not None and (
        wanted or (episodes.labels is None and _label_table_matches(label_path, episodes, path, options))
    ):
        keep_labels = options.labels is None and "label" not in elsewhere
        episodes = read_label_table(label_path, options, elsewhere).apply(episodes, keep_labels=keep_labels)
        by_row &= keep_labels
    return with_faults(episodes, path, options, labelled_by_row=by_row)


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
        raise DfstransError(
            f"expected a column with the episode of each row (such as episode_id) in {table.path}, got "
            f"{list_few(table.names, 12)}; name it ({option_name('id_column', ...)}), or set a length to cut one "
            f"recording into episodes ({option_name('length', ...)})"
        )
    return roles


def _label_table_matches(label_path: Path, episodes: Episodes, path: Path, options: ReadOptions) -> bool:
    """Return whether a label table next to the file is about these episodes; one called `labels` may not be."""
    if table_stem(label_path).lower() != "labels" or covers(label_path, episodes.ids.tolist(), options):
        return True
    warnings.warn(
        f"ignored the label table {label_path}: it lacks some episodes of {path.name}, which stay unlabelled; if it "
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
        rows = read_rows(table, Roles(role["id"], None, role["label"], role["group"], sensors), options, exact=True)
        require_occurs(options.anomalous_value, rows.label_words, table.path)
        rows = replace(rows, sensors=sensors, units=tuple(known["units"]))
        faults = known["faults"] and {name: faults_from_json(text) for name, text in known["faults"].items()}
        truth = truth_from_text(known["truth"]) if known.get("truth") else None
    episodes = gather(rows, options)
    episodes = replace(
        episodes,
        interval=known["interval"],
        time_unit=known.get("time_unit", ""),
        starts=None if known.get("starts") is None else np.array(known["starts"], dtype="datetime64[ns]"),
        time_zone=known.get("time_zone", ""),
        faults=None if faults is None else tuple(faults.get(name, ()) for name in episodes.ids.tolist()),
        truth=truth,
    )
    return drop_sensors(episodes, options, table.path)


LONG_TABLE = Reader(
    name="a long table (.csv, .tsv, .txt, also .gz, or .parquet) with a row per point",
    options=_OPTIONS,
    recognises=lambda path: path.is_file() and is_table(path),
    read=_read_long_table,
)


# ---- folders with one file per episode --------------------------------------------------------------------------


def _read_folder(path: Path, options: ReadOptions) -> Episodes:
    """Read one episode per file; its id is the file name without the suffix."""
    label_path = options.labels or find_table(path, "labels") or find_table(path, "label")
    about = [file.resolve() for file in (label_path, options.faults) if file is not None]
    files = sorted(
        file
        for file in path.iterdir()
        if _is_recording(file) and file.resolve() not in about and not is_fault_table(file, options)
    )
    if not files:
        raise DfstransError(
            f"expected one file per episode in {path}, got only label or fault tables; add the recordings as tables "
            "or .npy"
        )
    tables = [open_table(file) for file in files]
    names = [name for table in tables for name in table.names]
    require_dropped(names, options, path)
    elsewhere = roles_in_label_table(names, label_path, options)
    label_table = None
    if label_path is not None:
        label_table = read_label_table(label_path, options, elsewhere, ids_are_files=True)
        _require_same_episodes(path, {table_stem(file) for file in files}, label_table)
    roles = [roles_of_recordings(table.names, options, elsewhere, table.path) for table in tables]
    rows = join_files([_read_episode(*one, options) for one in zip(tables, roles, strict=True)], files)
    warn_of_second_label(roles[0], files[0])
    require_occurs(options.anomalous_value, rows.label_words, path)
    episodes = gather(rows, options)
    by_row = label_table is None and episodes.labels is not None
    if label_table is not None:
        episodes = label_table.apply(episodes)
    return with_faults(episodes, path, options, labelled_by_row=by_row)


def _is_recording(path: Path) -> bool:
    other = path.name.startswith((".", "~$")) or path.stem.lower() in ("readme", "license", "licence", "notes")
    return path.is_file() and not other and (is_table(path) or path.suffix == ".npy")


def _require_same_episodes(path: Path, stems: set[str], table: LabelTable) -> None:
    without_file = sorted(set(table.label) - stems)
    unlabelled = sorted(stems - set(table.label))
    problems = [f"no file for {list_few(without_file)}"] if without_file else []
    problems += [f"no label for {list_few(unlabelled)}"] if unlabelled else []
    if problems:
        raise DfstransError(
            f"expected one file in {path} for each row of {table.path}, got {' and '.join(problems)}; "
            "spell the ids identically (001 is not 1), or add or remove files or rows"
        )


def _read_episode(table: Table, roles: Roles, options: ReadOptions) -> Rows:
    rows = read_rows(table, roles, options)
    if len(rows.ids) > 1:
        raise DfstransError(
            f"expected one episode in {table.path}, got {len(rows.ids)} ids in its column {roles.id!r}; if it is a "
            f"long table, read the file itself, else drop the column ({option_name('drop_sensors')})"
        )
    return rows


FOLDER = Reader(
    name="a folder with one table or .npy per episode, and perhaps labels.csv",
    options=_OPTIONS,
    recognises=lambda path: path.is_dir() and any(map(_is_recording, path.iterdir())),
    read=_read_folder,
)

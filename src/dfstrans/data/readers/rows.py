"""Long tables: one row per point, with the episode's id, the time, the sensors and perhaps the label."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data import layout as own_layout
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.columns import (
    UNLABELLED,
    Roles,
    Times,
    coded,
    coded_texts,
    labels_and_words,
    names_and_units,
    numbers,
    require_dropped,
    require_occurs,
    times,
    warn_of_second_label,
    without_dropped,
)
from dfstrans.data.readers.cutting import cut_as_told
from dfstrans.data.readers.labels import (
    covers,
    find_label_table,
    options_of_table,
    read_label_table,
    roles_of_recordings,
    told_by_table,
    with_fault_table,
    with_label_table,
)
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.data.readers.tables import Kind, Table, is_table, open_table, table_stem
from dfstrans.data.readers.times import Index, first_points, median_step, past_midnight, places_in_order, places_on_grid
from dfstrans.errors import DfstransError, option_name, shortlist


@dataclass(frozen=True)
class Rows:
    """Points of episodes in any order: one array per sensor, and what is known of each point.

    `episode` and `group` are numbers into `ids` and `group_names`; a label is 0, 1, or −1 where there is none,
    and `label_words` are what stood in the file for them.
    """

    sensors: tuple[str, ...]
    units: tuple[str, ...]
    columns: Sequence[npt.NDArray[np.float32]]
    ids: Sequence[str]
    episode: Index
    time: npt.NDArray[np.float64] | None = None
    time_unit: str = ""
    time_of_day: bool = False
    labels: npt.NDArray[np.int8] | None = None
    label_words: Sequence[str] = ()
    group_names: Sequence[str] = ()
    group: Index | None = None


def gather(rows: Rows, options: ReadOptions) -> Episodes:
    """The episodes that some rows make: each on its regular grid, missing points as NaN."""
    if not rows.sensors:
        raise DfstransError("expected at least one sensor column, got none; are all columns taken for something else?")
    if rows.time is not None and rows.time_of_day:
        rows = replace(rows, time=past_midnight(rows.time, rows.episode, rows.ids))
    order = _order(rows, options)
    episode = rows.episode if order is None else rows.episode[order]
    starts = first_points(episode)
    time = rows.time if rows.time is None or order is None else rows.time[order]
    if time is None or options.irregular_time == "ignore":
        place, interval = places_in_order(episode), None if time is None else median_step(time, episode)
    else:
        place, interval = places_on_grid(time, episode, rows.ids)
    ends = np.concatenate([starts[1:], [len(episode)]]) - 1
    lengths = place[ends] + 1
    values = _spread(rows, order, episode, place, lengths)
    labels, faults = _labels(rows, order, episode, starts, place)
    if options.length is not None:
        _require_labels_throughout(rows)
    return Episodes.from_arrays(
        values,
        labels,
        lengths=lengths,
        ids=rows.ids,
        sensors=rows.sensors,
        units=rows.units,
        interval=interval,
        time_unit=rows.time_unit,
        groups=_groups(rows, order, starts),
        faults=faults,
    )


def _order(rows: Rows, options: ReadOptions) -> npt.NDArray[np.intp] | None:
    """The order that brings the rows of each episode together; None when they are."""
    if rows.time is not None and options.sort_time:
        return np.lexsort((rows.time, rows.episode))
    return None if (np.diff(rows.episode) >= 0).all() else np.argsort(rows.episode, kind="stable")


def _spread(
    rows: Rows, order: npt.NDArray[np.intp] | None, episode: Index, place: Index, lengths: Index
) -> npt.NDArray[np.float32]:
    """Each value at its episode, sensor and place."""
    n, longest = len(lengths), int(lengths.max())
    full = n * longest == len(episode)  # no gap and no padding: a reshape will do
    values = np.empty((n, len(rows.sensors), longest), dtype=np.float32)
    if not full:
        values.fill(np.nan)
    for sensor, given in enumerate(rows.columns):
        column = given if order is None else given[order]
        if full:
            values[:, sensor] = column.reshape(n, longest)
        else:
            values[:, sensor][episode, place] = column
    return values


def _labels(
    rows: Rows, order: npt.NDArray[np.intp] | None, episode: Index, starts: Index, place: Index
) -> tuple[npt.NDArray[np.int8] | None, list[list[Fault]] | None]:
    """The label of each episode, and the anomalous stretches of those whose points differ.

    A label that is 1 throughout says nothing about the place.
    """
    if rows.labels is None or (rows.labels == UNLABELLED).all():
        return None, None
    points = rows.labels if order is None else rows.labels[order]
    highest = np.maximum.reduceat(points, starts)
    lowest = np.minimum.reduceat(np.where(points == UNLABELLED, np.int8(2), points), starts)
    unlabelled = [rows.ids[i] for i in np.flatnonzero(highest == UNLABELLED).tolist()]
    if unlabelled:
        raise DfstransError(
            f"expected a label for each episode, got none for {shortlist(unlabelled)}; label them, or leave them out"
        )
    differ = (highest == 1) & (lowest == 0)
    if not differ.any():
        return highest, None
    begins = np.zeros(len(points), dtype=np.bool_)
    begins[starts] = True
    anomalous = points == 1
    first = np.flatnonzero(anomalous & (begins | ~np.roll(anomalous, 1)))
    ends = np.append(begins[1:], True)
    last = np.flatnonzero(anomalous & (ends | ~np.roll(anomalous, -1)))
    faults: list[list[Fault]] = [[] for _ in starts]
    for begin, end in zip(first, last, strict=True):
        if differ[episode[begin]]:
            faults[episode[begin]].append(Fault(int(place[begin]), int(place[end]) + 1))
    return highest, faults


def _require_labels_throughout(rows: Rows) -> None:
    """Refuse recordings to be cut of which some points have a label and others none: a piece may have neither."""
    if rows.labels is None:
        return
    missing = np.bincount(rows.episode, rows.labels == UNLABELLED, len(rows.ids)).astype(int)
    torn = [f"{rows.ids[i]} ({missing[i]})" for i in np.flatnonzero(missing).tolist()]
    if torn and not (rows.labels == UNLABELLED).all():
        raise DfstransError(
            f"expected a label in each row of recordings that are cut ({option_name('length')}), got rows without one "
            f"in {shortlist(torn)}; write 0 where it was normal, or leave out rows of which nobody knows"
        )


def _groups(rows: Rows, order: npt.NDArray[np.intp] | None, starts: Index) -> list[str] | None:
    if rows.group is None:
        return None
    group = rows.group if order is None else rows.group[order]
    first, last = np.minimum.reduceat(group, starts), np.maximum.reduceat(group, starts)
    torn = [rows.ids[i] for i in np.flatnonzero(first != last).tolist()]
    if torn:
        raise DfstransError(
            f"expected one group per episode, got several in {shortlist(torn)}; does each group number its episodes "
            "by itself? then make the ids distinct; is each group a recording? then name its column "
            f"({option_name('id_column')})"
        )
    return [rows.group_names[i] for i in first.tolist()]


NAME = "a long table (.csv, .tsv, .txt, also .gz, or .parquet) with a row per point"
OPTIONS = frozenset(
    {
        *("length", "stride", "labels", "faults", "anomalous_value", "drop_sensors"),
        *("id_column", "time_column", "label_column", "group_column"),
        *("sort_time", "irregular_time"),
    }
)


def recognises(path: Path) -> bool:
    """Whether the path is a file with the suffix of a table."""
    return path.is_file() and is_table(path)


def read(path: Path, options: ReadOptions) -> Episodes:
    """The episodes of a long table; a continuous recording is cut when `length` is given."""
    table = open_table(path)
    told: dict[str, str] = {}
    if own_layout.PARQUET_KEY in table.metadata:
        episodes = _read_own(table, options)
    else:
        require_dropped(table.names, options, path)
        told = told_by_table(table.names, _about(path, options), options)
        # an id must be here, too, unless the file is one recording: whether it is the right one, the label table shows
        own = options.model_copy(update={"id_column": None}) if "id" in told else options
        elsewhere = [role for role in told if role != "id" or options.length is not None]
        roles = roles_of_recordings(table.names, own, elsewhere, path)
        if len(table.names) == 1 and len(table.names[0].split()) > 2:
            raise DfstransError(
                f"expected columns separated by a comma, semicolon, tab or | in {path}, got one column "
                f"{table.names[0]!r}; write the table with one of these between its columns"
            )
        if roles.id is None and options.length is None:
            raise DfstransError(
                f"expected a column with the episode of each row (such as episode_id) in {path}, got "
                f"{shortlist(table.names, 12)}; name it "
                f"({option_name('id_column', ...)}), or give a length to cut one recording by "
                f"({option_name('length', ...)})"
            )
        rows = read_rows(table, roles, options)
        warn_of_second_label(roles, path)
        require_occurs(options.anomalous_value, rows.label_words, path)
        episodes = gather(rows, options)
    about = options_of_table(options, told)
    label_path = options.labels
    if told:
        label_path = _about(path, options)
    elif label_path is None and episodes.labels is None:
        label_path = _label_table_beside(path, episodes, about)
    if label_path is not None and label_path.absolute() != path.absolute():
        keep = options.labels is None and "label" not in told
        episodes = with_label_table(episodes, read_label_table(label_path, about), keep_labels=keep)
    return cut_as_told(with_fault_table(episodes, path, options), options)


def _about(path: Path, options: ReadOptions) -> Path | None:
    """The label table that the options name, or else one beside the file; it may yet be about other recordings."""
    found = options.labels or find_label_table(path.parent, (f"{table_stem(path)}_labels", "labels"))
    return None if found is None or found.absolute() == path.absolute() else found


def _label_table_beside(path: Path, episodes: Episodes, options: ReadOptions) -> Path | None:
    """The label table that bears the file's name, or else a general one, unless it is about other recordings."""
    own = find_label_table(path.parent, (f"{table_stem(path)}_labels",))
    general = find_label_table(path.parent, ("labels",))
    if own is not None or general is None or general.absolute() == path.absolute():
        return own
    if covers(general, episodes.ids.tolist(), options):
        return general
    warnings.warn(
        f"left aside the label table {general}: it has no row for some episodes of {path.name}, which stay unlabelled; "
        f"if it is theirs, add the rows and name it ({option_name('labels', ...)})",
        stacklevel=2,
    )
    return None


def read_rows(table: Table, roles: Roles, options: ReadOptions, *, exact: bool = False) -> Rows:
    """All rows of a table; without an id column they are one recording, named after the file.

    With `exact`, ids and groups are text that is kept to the letter; otherwise blanks around them are a habit.
    """
    with opening(table.path, "a table with a row per point"):
        return _read_rows(table, roles, options, exact)


def _read_rows(table: Table, roles: Roles, options: ReadOptions, exact: bool) -> Rows:
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
        ids, episode = _coded(columns[roles.id], roles.id, table.path, exact)
    group_names, group = (
        ([], None) if roles.group is None else _coded(columns[roles.group], roles.group, table.path, exact)
    )
    found, words = (
        (None, ())
        if roles.label is None
        else labels_and_words(columns[roles.label], options.anomalous_value, table.path, roles.label)
    )
    time = Times(None) if roles.time is None else times(columns[roles.time], roles.time, table.path)
    return Rows(
        sensors=sensors,
        units=units,
        columns=[numbers(columns.pop(name), name, table.path) for name in roles.sensors],
        ids=ids,
        episode=episode,
        time=time.values,
        time_unit=time.unit,
        time_of_day=time.of_day,
        labels=found,
        label_words=words,
        group_names=group_names,
        group=group,
    )


def _coded(column: Any, name: str, source: Path, exact: bool) -> tuple[list[str], Any]:
    """The names in a column by first appearance, and the number of each row's name."""
    codes = coded(column) if exact else coded_texts(column)
    if codes.null_count:
        row = int(np.flatnonzero(np.asarray(codes.is_null()))[0])
        raise DfstransError(
            f"expected a name in each row of column {name!r} of {source}, got none in row {row + 1} of the data; "
            "fill it in or leave the row out"
        )
    return codes.dictionary.to_pylist(), codes.indices.to_numpy().astype(np.int64)


def _read_own(table: Table, options: ReadOptions) -> Episodes:
    """A Parquet file that `save_episodes` wrote: its metadata say what the columns do not."""
    with opening(table.path, "a Parquet file of dfstrans"):
        known = json.loads(table.metadata[own_layout.PARQUET_KEY])
        own_layout.require_version(known["version"], table.path)
        role, sensors = known["columns"], tuple(known["sensors"])
        rows = read_rows(table, Roles(role["id"], None, role["label"], role["group"], sensors), options, exact=True)
        require_occurs(options.anomalous_value, rows.label_words, table.path)
        named = replace(rows, sensors=sensors, units=tuple(known["units"]))
        faults = known["faults"] and {name: own_layout.faults_from_json(text) for name, text in known["faults"].items()}
        truth = own_layout.truth_from_text(known["truth"]) if known.get("truth") else None
    episodes = replace(
        gather(named, options),
        interval=known["interval"],
        time_unit=known.get("time_unit", ""),
        faults=None,
        truth=truth,
    )
    if faults is not None:
        episodes = replace(episodes, faults=tuple(faults.get(name, ()) for name in episodes.ids.tolist()))
    return without_dropped(episodes, options, table.path)

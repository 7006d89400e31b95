"""Gather rows into episodes: each on its regular grid of time, with a label, a group and its known faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.grid import (
    SECONDS,
    Floats,
    Index,
    common_interval,
    first_points,
    grid_positions,
    median_interval,
    parse_duration,
    require_no_clock_change,
    row_positions,
    unwrap_midnight,
)
from dfstrans.data.readers.labels import UNLABELLED
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.rows import Rows
from dfstrans.errors import DfstransError, list_few, option_name


def gather(rows: Rows, options: ReadOptions) -> Episodes:
    """Build the episodes from their rows, each on its regular grid, with NaN for missing points."""
    if not rows.sensors:
        raise DfstransError("expected at least one sensor column, got none; check the roles of the columns")
    if rows.time is not None and options.sampling_rate is not None:
        raise DfstransError(
            f"expected recordings without a time for {option_name('sampling_rate')}, got a time column; drop the option"
        )
    if rows.time is not None and rows.time.of_day:
        unwrapped = unwrap_midnight(rows.time.values, rows.episode, rows.ids)
        rows = replace(rows, time=rows.time._replace(values=unwrapped))
    order = _order(rows, options)
    episode = rows.episode[order]
    starts = first_points(episode)
    time = None if rows.time is None else rows.time.values[order]
    if time is None or options.irregular_time == "ignore":
        position = row_positions(episode)
        interval = options.interval if time is None else median_interval(time, episode)
    else:
        if rows.time is not None and rows.time.clock is not None and not rows.time.zone:
            require_no_clock_change(rows.time.clock[order], episode, rows.ids)
        position, interval = grid_positions(time, episode, rows.ids, _finer_interval(rows, time, episode, options))
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
        time_unit=rows.time.unit if rows.time is not None else "" if interval is None else "s",
        starts=None if rows.time is None or rows.time.clock is None else rows.time.clock[order][starts],
        time_zone="" if rows.time is None else rows.time.zone,
        groups=None if rows.group is None else _groups(rows.group.indices.to_numpy()[order], rows, starts),
        faults=faults,
    )


def _finer_interval(rows: Rows, time: Floats, episode: Index, options: ReadOptions) -> float | None:
    """Return an interval for recordings of several rates that are then resampled to one; None if there is no need."""
    found = None if options.resample is None or rows.time is None else common_interval(time, episode)
    if found is None or rows.time is None or options.resample is None:
        return None
    common, slowest = found
    number, unit = parse_duration(options.resample)
    if number * SECONDS[unit or "s"] < slowest * SECONDS[rows.time.unit if unit else "s"] * (1 - 1e-6):
        longest = f"{slowest:g} {rows.time.unit}".rstrip()
        raise DfstransError(
            f"expected {option_name('resample')} of at least the longest interval of the recordings, {longest}, got "
            f"{options.resample}; choose a longer one: a finer one would invent points"
        )
    return common


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

"""Points of recordings, row by row, gathered into `Episodes` without a Python loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.convert import UNLABELLED
from dfstrans.data.readers.options import ReadOptions
from dfstrans.data.readers.timing import (
    Index,
    first_points,
    median_step,
    past_midnight,
    places_in_order,
    places_on_grid,
)
from dfstrans.errors import DfstransError, shortlist, spelled


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
            f"expected a label in each row of recordings that are cut ({spelled('length')}), got rows without one in "
            f"{shortlist(torn)}; write 0 where it was normal, or leave out rows of which nobody knows"
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
            f"({spelled('id_column')})"
        )
    return [rows.group_names[i] for i in first.tolist()]

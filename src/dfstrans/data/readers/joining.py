"""Join files: those of one recording, and then all recordings of a folder."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfstrans.data.readers.columns import to_codes
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.rows import Rows
from dfstrans.data.readers.times import Times, join_times
from dfstrans.errors import DfstransError, counted, list_few, option_name

# ---- the files of one recording -----------------------------------------------------------------------------------


def join_recording(parts: Sequence[Rows], name: str, folder: Path, options: ReadOptions) -> Rows:
    """Join the files of one recording: those with the same sensors one after the other, then these side by side."""
    alike: dict[frozenset[str], list[Rows]] = {}
    for part in parts:
        alike.setdefault(frozenset(part.sensors), []).append(part)
    whole, *others = [_one_after_the_other(same, options) for same in alike.values()]
    for other in others:
        whole = _side_by_side(whole, other, folder)
    return replace(whole, ids=[name], episode=np.zeros(len(whole.episode), dtype=np.int64), source=folder)


def _one_after_the_other(parts: Sequence[Rows], options: ReadOptions) -> Rows:
    """Join files with the same sensors in order of time, or of file name if they have no time or only a time of day."""
    for part in parts[1:]:
        require_same_columns(parts[0], part)
    ordered = sorted(parts, key=lambda part: _in_natural_order(part.source.name))
    dated = [part for part in parts if part.time is not None and part.time.clock is not None]
    if 0 < len(dated) < len(parts):
        without = next(part for part in parts if part.time is None or part.time.clock is None)
        raise DfstransError(
            f"expected times with their date in all files of a recording or in none, got one in {dated[0].source} and "
            f"none in {without.source.name}; write the same times in both"
        )
    if all(part.time is not None and not part.time.of_day for part in parts):
        ordered.sort(key=lambda part: _points_in_time(part).min())
        for before, after in pairwise(ordered):
            if not options.sort_time and _points_in_time(after).min() <= _points_in_time(before).max():
                raise DfstransError(
                    f"expected files of one recording that follow each other, or that have different sensors, got the "
                    f"same sensors and overlapping times in {before.source} and {after.source.name}; if the files have "
                    "different sensors, name the columns differently; if their rows alternate, sort them "
                    f"({option_name('sort_time', True)}); else remove one file"
                )
    joined = join_files(ordered)
    return replace(joined, time=None if joined.time is None else _from_the_start(joined.time))


def _in_natural_order(name: str) -> list[str | int]:
    """Return a sort key of file names.

    >>> sorted(["part_10", "part_2"], key=_in_natural_order)
    ['part_2', 'part_10']
    """
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"([0-9]+)", name)]


def _points_in_time(part: Rows) -> npt.NDArray[np.generic]:
    assert part.time is not None
    return part.time.values if part.time.clock is None else part.time.clock


def _from_the_start(times: Times) -> Times:
    """Count the seconds of dates from the start of the recording, not of each file."""
    if times.clock is None:
        return times
    return times._replace(values=(times.clock - times.clock.min()).astype(np.int64) / 1e9, unit="s")


def _side_by_side(left: Rows, right: Rows, folder: Path) -> Rows:
    """Join the sensors of files with the same times, or with the same number of points if they have none."""
    files = f"{left.source.name} and {right.source.name}"
    shared = sorted(set(left.sensors) & set(right.sensors))
    if shared:
        raise DfstransError(
            f"expected files of the recording {folder} with the same sensors (read one after the other) or different "
            f"ones (read side by side), got only some in both: {list_few(shared)} in {files}; rename them, or drop "
            f"them ({option_name('drop_sensors', ','.join(shared))})"
        )
    problem = _differing_times(left, right)
    if problem:
        raise DfstransError(
            f"expected the same times in files of different sensors of the recording {folder}, got {problem} in "
            f"{files}; resample them to the same times where they are written, or remove one file"
        )
    for role, own, other in (("label", left.labels, right.labels), ("group", left.group, right.group)):
        if own is not None and other is not None and not _as_words(own).equals(_as_words(other)):
            raise DfstransError(
                f"expected one {role} for each point of the recording {folder}, got different ones in {files}; keep "
                "the column in one of the files"
            )
    return replace(
        left,
        sensors=left.sensors + right.sensors,
        units=left.units + right.units,
        columns=[*left.columns, *right.columns],
        labels=right.labels if left.labels is None else left.labels,
        kind=right.kind if left.labels is None else left.kind,
        label_column=left.label_column or right.label_column,
        group=right.group if left.group is None else left.group,
    )


def _as_words(column: Any) -> Any:
    return (pa.array(column) if isinstance(column, np.ndarray) else column).cast(pa.string())


def _differing_times(left: Rows, right: Rows) -> str:
    """Say how the times of two files differ; empty if they are equal."""
    if (left.time is None) != (right.time is None):
        return "a time in only one"
    if len(left.episode) != len(right.episode):
        return f"{len(left.episode)} and {counted(len(right.episode), 'point')}"
    if left.time is None or np.array_equal(_points_in_time(left), _points_in_time(right)):
        return ""
    first = int(np.argmax(_points_in_time(left) != _points_in_time(right)))
    return f"{_points_in_time(left)[first]} and {_points_in_time(right)[first]} in data row {first + 1}"


# ---- the recordings of a folder -----------------------------------------------------------------------------------


def join_files(parts: Sequence[Rows]) -> Rows:
    """Join the rows of all files, one episode each, with the same sensors, matched by name."""
    first = parts[0]
    _warn_of_units_in_some_files(parts)
    columns = [dict(zip(part.sensors, part.columns, strict=True)) for part in parts]
    times = [part.time for part in parts if part.time is not None]
    labels = [part.labels for part in parts if part.labels is not None]
    groups = [part.group for part in parts if part.group is not None]
    return replace(
        first,
        columns=[np.concatenate([of_file[name] for of_file in columns]) for name in first.sensors],
        ids=[part.ids[0] for part in parts],
        episode=np.repeat(np.arange(len(parts)), [len(part.episode) for part in parts]),
        time=join_times(times, [part.source for part in parts]) if times else None,
        labels=np.concatenate(labels) if labels else None,
        group=to_codes(pa.chunked_array(groups)) if groups else None,
        kind=np.concatenate([np.asarray(part.kind) for part in parts]) if first.kind is not None else None,
    )


def lacks_zone(part: Rows) -> bool:
    """Return whether a file has dates without a time zone."""
    return part.time is not None and part.time.clock is not None and not part.time.zone


def require_same_columns(first: Rows, part: Rows) -> None:
    """Reject a file whose columns or units differ from those of another."""
    here, there = first.source.name, part.source.name
    drop = f"drop it ({option_name('drop_sensors')})"
    units = dict(zip(part.sensors, part.units, strict=True))
    missing = [name for name in first.sensors if name not in units]
    extra = sorted(set(units) - set(first.sensors), key=part.sensors.index)
    if missing or extra:
        got = [f"no {list_few(missing)}"] if missing else []
        got += [f"also {list_few(extra)}"] if extra else []
        raise DfstransError(
            f"expected the sensors of {here} in {part.source}, got {' and '.join(got)}; rename or add the column, "
            f"or {drop}"
        )
    for role, column in (("time", "time"), ("label", "words"), ("group", "group")):
        if (getattr(first, column) is None) != (getattr(part, column) is None):
            raise DfstransError(
                f"expected a {role} column in all files or in none, got one in only one of {here} and {there}; add or "
                "remove it"
            )
    if part.time is not None and first.time is not None and part.time.unit != first.time.unit:
        raise DfstransError(
            f"expected time in the same unit in all files, got {first.time.unit or 'no unit'} in {here} and "
            f"{part.time.unit or 'no unit'} in {there}; convert it to one unit and header, such as time [s], or {drop}"
        )
    zones = {one.source: one.time.zone for one in (first, part) if one.time and one.time.clock is not None}
    if len(zones) == 2 and lacks_zone(part) != lacks_zone(first):
        (has, zone), (lacks, _) = sorted(zones.items(), key=lambda one: one[1] == "")
        raise DfstransError(
            f"expected times with their zone in all files or in none, got {zone} in {has} and none in {lacks}; write "
            "all times in UTC (2024-05-31T12:00:00Z), or all without a zone"
        )
    for name, unit in zip(first.sensors, first.units, strict=True):
        if unit and units[name] and unit != units[name]:
            raise DfstransError(
                f"expected each sensor in the same unit in all files, got {name} in {unit} in {here} and in "
                f"{units[name]} in {there}; convert it to one unit, or {drop}"
            )


def _warn_of_units_in_some_files(parts: Sequence[Rows]) -> None:
    units = {part.source.name: dict(zip(part.sensors, part.units, strict=True)) for part in parts}
    for name in parts[0].sensors:
        known = [file for file, of_file in units.items() if of_file[name]]
        if 0 < len(known) < len(units):
            unknown = [file for file, of_file in units.items() if not of_file[name]]
            warnings.warn(
                f"{name} has a unit in {list_few(known, 3)} and none in {list_few(unknown, 3)}; the same unit is "
                "assumed for all: write it in all headers, or convert the values",
                stacklevel=2,
            )

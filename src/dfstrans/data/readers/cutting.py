"""Continuous recordings cut into episodes of one length."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.errors import DfstransError, counted, option_name, shortlist

AT = "@"  # between a recording and the first point of a piece, in the id of that piece
PIECE = re.compile(rf"(?P<recording>.+){AT}(?P<start>0|[1-9][0-9]{{0,17}})", re.DOTALL)
PLANTED = re.compile(r"\+[a-z]+(-[a-z]+)*$")


def recording_and_start(piece: str) -> tuple[str, int] | None:
    """The recording that a piece was cut from and its first point, by the id that `cut` gave it; None of others.

    What stands behind the sign in the id of a planted fault (`run_7+stuck@10`) is its strength.

    >>> recording_and_start("m1@10"), recording_and_start("journey_7"), recording_and_start("m1@10+lag@3")
    (('m1', 10), None, None)
    """
    found = PIECE.fullmatch(piece)
    return (found["recording"], int(found["start"])) if found and not PLANTED.search(found["recording"]) else None


def cut_as_told(recordings: Episodes, options: ReadOptions) -> Episodes:
    """The recordings cut by the length and stride of the options, with a warning of the ends that are in no piece."""
    if options.length is None:
        return recordings
    pieces = cut(recordings, options.length, options.stride)
    left = points_left(recordings.lengths, options.length, options.stride or options.length)
    counts = _pieces(recordings.lengths, options.length, options.stride or options.length)
    whole = _told_as_a_whole(recordings, counts)
    if whole:
        warnings.warn(
            f"all pieces of {counted(len(whole), 'anomalous recording')} count as anomalous: {shortlist(whole)}; where "
            "the fault is in a part of them only, label each row, or give a table of faults with start and end "
            f"({option_name('faults', ...)})",
            stacklevel=2,
        )
    empty = int(counts.sum()) - len(pieces)
    if empty:
        warnings.warn(
            f"left out: {counted(empty, 'piece')} of {counts.sum()} without any value, in gaps of the recordings",
            stacklevel=2,
        )
    losing = np.flatnonzero(left)
    if len(losing):
        named = shortlist(f"{recordings.ids[row]} ({left[row]})" for row in losing)
        warnings.warn(
            f"in no episode: {counted(int(left.sum()), 'point')} at the end of {len(losing)} of "
            f"{counted(len(recordings), 'recording')}: {named}; a {option_name('length')} that divides the recordings "
            f"leaves none over, with a shorter {option_name('stride')} fewer points than the stride are left",
            stacklevel=2,
        )
    return pieces


def _told_as_a_whole(recordings: Episodes, counts: npt.NDArray[np.int64]) -> list[str]:
    """Anomalous recordings of several pieces, where no recording tells which of its points are."""
    if recordings.labels is None or recordings.faults is not None:
        return []
    return [str(name) for name in recordings.ids[(recordings.labels == 1) & (counts > 1)]]


def points_left(lengths: npt.NDArray[np.int64], length: int, step: int) -> npt.NDArray[np.int64]:
    """How many points follow the last piece of each recording, beyond those that a wide step passes over anyway.

    >>> points_left(np.array([1999, 1800, 299]), 300, 300), points_left(np.array([1999]), 300, 500)
    (array([199,   0, 299]), array([0]))
    """
    counts = _pieces(lengths, length, step)
    end = (counts - 1) * step + max(length, step)
    return np.where(counts > 0, np.maximum(lengths - end, 0), lengths)


def _pieces(lengths: npt.NDArray[np.int64], length: int, step: int) -> npt.NDArray[np.int64]:
    """How many pieces each recording gives."""
    return np.maximum(0, (lengths - length) // step + 1)


def cut(
    recordings: Episodes,
    length: int,
    stride: int | None = None,
    points: Sequence[npt.NDArray[np.bool_]] | None = None,
) -> Episodes:
    """Pieces of `length` points, one every `stride` points (default: the length); the tails are dropped.

    So are pieces without any value, as a long gap gives them: there is nothing to learn from or to judge.

    A piece is anomalous when one of its points is: by `points` (one array per recording), else by the faults, else by
    the label of its recording. Its id is `recording@start`; its group is that of the recording, or the recording.

    >>> cut(Episodes.from_arrays(np.zeros((1, 2, 25)), [1], ids=["m1"]), length=10).ids
    array(['m1@0', 'm1@10'], dtype='<U5')
    """
    step = length if stride is None else stride
    counts = _pieces(recordings.lengths, length, step)
    total = int(counts.sum())
    if total == 0:
        raise DfstransError(
            f"expected recordings of at least {length} points, got at most {int(recordings.lengths.max())}; "
            f"choose a smaller {option_name('length')}"
        )
    values = np.empty((total, recordings.n_sensors, length), dtype=np.float32)
    labels = np.zeros(total, dtype=np.int8)
    ids: list[str] = []
    groups: list[str] = []
    faults: list[list[Fault]] = []
    for row, recording in enumerate(recordings):
        anomalous = _points(recordings, row) if points is None else points[row]
        for start in range(0, int(counts[row]) * step, step):
            piece = recording.values[:, start : start + length]
            if np.isnan(piece).all():
                continue
            values[len(ids)] = piece
            labels[len(ids)] = anomalous is not None and anomalous[start : start + length].any()
            faults.append(_clipped(recording.faults or (), start, length))
            ids.append(f"{recording.id}{AT}{start}")
            groups.append(recording.id if recording.group is None else recording.group)
    if not ids:
        raise DfstransError(
            f"expected recordings with values, got none in any of {counted(total, 'piece')}; are the sensors' columns "
            "empty, or read as missing?"
        )
    return Episodes.from_arrays(
        values[: len(ids)],
        None if points is None and recordings.labels is None else labels[: len(ids)],
        ids=ids,
        sensors=recordings.sensors,
        units=recordings.units,
        interval=recordings.interval,
        time_unit=recordings.time_unit,
        groups=groups,
        faults=None if recordings.faults is None else faults,
    )


def _points(recordings: Episodes, row: int) -> npt.NDArray[np.bool_] | None:
    """Which points of a recording are anomalous, as far as its faults or its label tell."""
    if recordings.labels is None:
        return None
    if recordings.faults is None or not recordings.faults[row]:
        return np.full(int(recordings.lengths[row]), bool(recordings.labels[row]))
    anomalous = np.zeros(int(recordings.lengths[row]), dtype=np.bool_)
    for fault in recordings.faults[row]:
        anomalous[fault.start : fault.stop] = True
    return anomalous


def _clipped(faults: Sequence[Fault], start: int, length: int) -> list[Fault]:
    inside = [fault for fault in faults if fault.start < start + length and fault.stop > start]
    return [fault._replace(start=max(fault.start - start, 0), stop=min(fault.stop - start, length)) for fault in inside]

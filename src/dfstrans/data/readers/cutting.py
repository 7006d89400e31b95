"""Cut continuous recordings into episodes of equal length."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dfstrans.data.conversion import as_starts
from dfstrans.data.episodes import Episode, Episodes, Fault, mark_points
from dfstrans.data.grid import seconds_of
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.errors import DfstransError, counted, list_few, option_name

_PIECE = re.compile(r"(?P<recording>.+)@(?P<start>0|[1-9][0-9]{0,17})", re.DOTALL)
_PLANTED = re.compile(r"\+[a-z]+(-[a-z]+)*$")


def cut(
    recordings: Episodes, length: int, stride: int | None = None, points: Sequence[npt.NDArray[np.bool_]] | None = None
) -> Episodes:
    """Cut pieces of `length` points, one every `stride` points (default: the length).

    Tails shorter than `length` and pieces without any value are dropped. A piece is anomalous if one of its points is:
    according to `points` (one array per recording), else the faults, else the label of its recording. Its id is
    `recording@start`; its group is that of the recording, or else the recording itself.

    >>> cut(Episodes.from_arrays(np.zeros((1, 2, 25)), [1], ids=["m1"]), length=10).ids
    array(['m1@0', 'm1@10'], dtype='<U5')
    """
    step = length if stride is None else stride
    counts = count_pieces(recordings.lengths, length, step)
    total = int(counts.sum())
    if total == 0:
        raise DfstransError(
            f"expected recordings of at least {length} points, got at most {int(recordings.lengths.max())}; "
            f"choose a smaller {option_name('length')}"
        )
    pieces: list[Episode] = []
    for row, recording in enumerate(recordings):
        anomalous = _anomalous_points(recordings, row) if points is None else points[row]
        group = recording.id if recording.group is None else recording.group
        for start in range(0, int(counts[row]) * step, step):
            values = recording.values[:, start : start + length]
            if not np.isnan(values).all():
                label = int(anomalous is not None and anomalous[start : start + length].any())
                faults = _clip(recording.faults or (), start, length)
                begin = _time_of_point(recordings, recording.start, start)
                pieces.append(Episode(f"{recording.id}@{start}", values, label, group, faults, begin))
    if not pieces:
        raise DfstransError(
            f"expected recordings with values, got none in any of {counted(total, 'piece')}; check whether the sensor "
            "columns are empty"
        )
    labelled = points is not None or recordings.labels is not None
    return replace(
        recordings,
        values=np.stack([piece.values for piece in pieces]),
        lengths=np.full(len(pieces), length),
        ids=np.array([piece.id for piece in pieces], dtype=np.str_),
        labels=np.array([piece.label for piece in pieces], dtype=np.int8) if labelled else None,
        groups=np.array([piece.group for piece in pieces], dtype=np.str_),
        faults=None if recordings.faults is None else tuple(piece.faults or () for piece in pieces),
        truth=None,
        starts=None if recordings.starts is None else as_starts([piece.start for piece in pieces], len(pieces)),
    )


def _time_of_point(recordings: Episodes, begin: np.datetime64 | None, point: int) -> np.datetime64 | None:
    """Return the date and time of a point of a recording that begins at `begin`; None if it is unknown."""
    seconds = seconds_of(recordings.interval, recordings.time_unit)
    if begin is None or point == 0:
        return begin
    return None if seconds is None else begin + np.timedelta64(round(point * seconds * 1e9), "ns")


def cut_if_requested(recordings: Episodes, options: ReadOptions) -> Episodes:
    """Cut recordings according to the `length` and `stride` of the options, and warn about lost points."""
    if options.length is None:
        return recordings
    if recordings.truth is not None:
        warnings.warn(f"{option_name('length', options.length)} drops the graded ground truth", stacklevel=2)
    pieces = cut(recordings, options.length, options.stride)
    step = options.stride or options.length
    counts = count_pieces(recordings.lengths, options.length, step)
    _warn_of_labels_for_whole_recordings(recordings, counts)
    empty = int(counts.sum()) - len(pieces)
    if empty:
        warnings.warn(f"skipped {counted(empty, 'piece')} of {counts.sum()} that lie in gaps", stacklevel=2)
    short = recordings.ids[counts == 0]
    if len(short):
        named = list_few(f"{name} ({n})" for name, n in zip(short, recordings.lengths[counts == 0], strict=True))
        warnings.warn(
            f"skipped {counted(len(short), 'recording')} of {len(recordings)} that "
            f"{'is' if len(short) == 1 else 'are'} shorter than {option_name('length', options.length)}: {named} "
            f"points; choose a smaller {option_name('length')} to keep {'it' if len(short) == 1 else 'them'}",
            stacklevel=2,
        )
    ends = (counts - 1) * step + max(options.length, step)  # points that a wide step skips are not left
    left = np.where(counts > 0, np.maximum(recordings.lengths - ends, 0), 0)
    cropped = np.flatnonzero(left)
    if len(cropped):
        named = list_few(f"{recordings.ids[row]} ({left[row]})" for row in cropped)
        warnings.warn(
            f"skipped {counted(int(left.sum()), 'point')} at the end of {len(cropped)} of "
            f"{counted(len(recordings), 'recording')}: {named}; choose a {option_name('length')} that divides the "
            f"recordings, or a shorter {option_name('stride')}",
            stacklevel=2,
        )
    return pieces


def recording_and_start(piece: str) -> tuple[str, int] | None:
    """Parse the recording and the first point of a piece from its id; None for an id that `cut` did not make.

    In the id of an injected fault (`run_7+stuck@10`) the number after the @ is its strength.

    >>> recording_and_start("m1@10"), recording_and_start("journey_7"), recording_and_start("m1@10+lag@3")
    (('m1', 10), None, None)
    """
    found = _PIECE.fullmatch(piece)
    return (found["recording"], int(found["start"])) if found and not _PLANTED.search(found["recording"]) else None


def origins(ids: npt.NDArray[np.str_], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of the recording that each episode is a piece of, and its first and last point there.

    Shape:
        (n_episodes,), (n_episodes,) → (n_episodes, 3)

    >>> origins(np.array(["m1@0", "m1@10", "m2"]), np.array([10, 10, 99])).tolist()
    [[0, 0, 9], [0, 10, 19], [1, 0, 98]]
    """
    found = [recording_and_start(str(name)) or (str(name), 0) for name in ids]
    numbers = np.unique([recording for recording, _ in found], return_inverse=True)[1]
    first = np.array([start for _, start in found], dtype=np.int64)
    return np.stack([numbers, first, first + lengths - 1], axis=1)


def count_labelled_pieces(recordings: Episodes, length: int) -> tuple[int, int]:
    """Return how many normal and how many anomalous pieces `cut` would make of labelled recordings, gaps included."""
    counts, anomalous = count_pieces(recordings.lengths, length, length), 0
    for row in np.flatnonzero(counts if recordings.labels is not None else 0).tolist():
        points = _anomalous_points(recordings, row)
        if points is not None:
            anomalous += int(points[: counts[row] * length].reshape(-1, length).any(axis=1).sum())
    return int(counts.sum()) - anomalous, anomalous


def count_pieces(lengths: npt.NDArray[np.int64], length: int, step: int) -> npt.NDArray[np.int64]:
    """Return how many pieces `cut` makes of recordings of these lengths."""
    return np.maximum(0, (lengths - length) // step + 1)


def _warn_of_labels_for_whole_recordings(recordings: Episodes, counts: npt.NDArray[np.int64]) -> None:
    """Warn about anomalous recordings with several pieces if it is unknown which points are anomalous."""
    if recordings.labels is None:
        return
    lengths = recordings.lengths.tolist()
    known = [any(fault.locates(n) for fault in of) for of, n in zip(recordings.known_faults, lengths, strict=True)]
    whole = recordings.ids[(recordings.labels == 1) & (counts > 1) & ~np.array(known)]
    if len(whole):
        warnings.warn(
            f"all pieces of {counted(len(whole), 'anomalous recording')} count as anomalous: {list_few(whole)}; if "
            "only a part of them is, label normal rows with 0; or give one label per recording in a label table "
            f"({option_name('labels', ...)}), and the start and end of each fault ({option_name('faults', ...)})",
            stacklevel=3,
        )


def _anomalous_points(recordings: Episodes, row: int) -> npt.NDArray[np.bool_] | None:
    """Mark the anomalous points of a recording: those within its faults, else all or none according to its label."""
    if recordings.labels is None:
        return None
    faults, length = recordings.known_faults[row], int(recordings.lengths[row])
    return mark_points(faults, length) if faults else np.full(length, bool(recordings.labels[row]))


def _clip(faults: Sequence[Fault], start: int, length: int) -> tuple[Fault, ...]:
    return tuple(
        fault._replace(start=max(fault.start - start, 0), stop=min(fault.stop - start, length))
        for fault in faults
        if fault.start < start + length and fault.stop > start
    )

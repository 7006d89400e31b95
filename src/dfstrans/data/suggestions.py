"""Suggest how to cut or resample recordings that are too long to train on, with a rough estimate of the time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import SECONDS
from dfstrans.data.segments import DEFAULT_SEGMENTS, MAX_DEFAULT_SEGMENT_LENGTH, MIN_SEGMENT_POINTS, count_segments
from dfstrans.data.splits import PAPER_FRACTIONS
from dfstrans.errors import counted, list_few, option_name, reading_option_name
from dfstrans.settings import default_batch_size, default_epochs

MANY_SEGMENTS = 50  # of 100 points: longer episodes train slowly, and the label of the whole says little about a part
GOOD_LENGTH = DEFAULT_SEGMENTS * MAX_DEFAULT_SEGMENT_LENGTH  # points
SECONDS_PER_CELL = 5e-4  # a (segment, sensor) cell of one episode in one epoch, on two processor cores


def estimate_training_seconds(n_episodes: int, n_segments: float, n_sensors: int) -> float:
    """Estimate roughly how long `train` takes: epochs × training episodes × segments × sensors × 0.5 ms.

    >>> round(estimate_training_seconds(1000, 10, 20))
    3850
    """
    training = max(1, round(PAPER_FRACTIONS[0] * n_episodes))
    epochs = default_epochs(training, default_batch_size(training))
    return epochs * training * n_segments * n_sensors * SECONDS_PER_CELL


def suggest_shorter(episodes: Episodes, partly: Sequence[str]) -> Iterator[str]:
    """Suggest a length, a resampling and a segment length if episodes are too long to train well."""
    median = float(np.median(episodes.lengths))
    if count_segments(int(median), MAX_DEFAULT_SEGMENT_LENGTH) <= MANY_SEGMENTS:
        return
    n, n_sensors = len(episodes), episodes.n_sensors
    segments = median / MAX_DEFAULT_SEGMENT_LENGTH
    length = length_of_parts(episodes, partly) or GOOD_LENGTH
    segment_length = length // DEFAULT_SEGMENTS
    pieces = int((episodes.lengths // length).sum())
    width = round_up(median / GOOD_LENGTH)
    cut = estimate_training_seconds(pieces, DEFAULT_SEGMENTS, n_sensors)
    coarse = estimate_training_seconds(n, median / width / segment_length, n_sensors)
    yield (
        f"episodes of {median:.0f} points (median) are too long to train well: {segments:.0f} segments of "
        f"{MAX_DEFAULT_SEGMENT_LENGTH} points each, {_about(estimate_training_seconds(n, segments, n_sensors))} of "
        f"training; cut them into {pieces} pieces ({reading_option_name('length', length)}, {_about(cut)}), or make "
        f"them coarser ({reading_option_name('resample', _duration(episodes, width))}, {_about(coarse)}), or both; "
        f"then train with {option_name('segment_length', segment_length)}"
    )


def suggest_cutting(episodes: Episodes, partly: Sequence[str]) -> Iterator[str]:
    """Suggest a length if the labels change within recordings; `partly` are the ids of those recordings."""
    length = length_of_parts(episodes, partly)
    if length is not None:
        yield (
            f"labels change within {counted(len(partly), 'recording')}: {list_few(partly)}; to label their parts and "
            f"not only the whole, cut them ({reading_option_name('length', length)})"
        )


def length_of_parts(episodes: Episodes, partly: Sequence[str]) -> int | None:
    """Return about twice the length of a typical anomaly, None if recordings are labelled, or too short, as a whole."""
    if not partly or episodes.faults is None or episodes.truth is not None:
        return None
    spans = [
        fault.stop - fault.start
        for faults, length in zip(episodes.faults, episodes.lengths.tolist(), strict=True)
        for fault in faults
        if fault.stop - fault.start < length
    ]
    wanted = max(2 * float(np.median(spans)), MIN_SEGMENT_POINTS * DEFAULT_SEGMENTS)
    length = min(int(round_up(wanted)), GOOD_LENGTH)
    return length if 4 * length <= np.median(episodes.lengths) else None


def round_up(number: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten.

    >>> round_up(3), round_up(730), round_up(1000)
    (5, 1000, 1000)
    """
    power = 10.0 ** math.floor(math.log10(number))
    rounded = next(step * power for step in (1, 2, 5, 10) if step * power >= number * (1 - 1e-9))
    return int(rounded) if rounded >= 1 else rounded


def _duration(episodes: Episodes, width: float) -> str:
    """Write `width` points as a duration in the unit of the recordings, or as points if they have no time."""
    unit = episodes.time_unit if episodes.time_unit in SECONDS else ""
    return f"{width * (episodes.interval or 1):g}{unit}"


def _about(seconds: float) -> str:
    """Round a time to what an estimate deserves.

    >>> _about(40), _about(700), _about(9000)
    ('about a minute', 'about 12 minutes', 'about 2.5 hours')
    """
    if seconds < 90:
        return "about a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.2g} hours"

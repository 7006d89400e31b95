"""Simple statistics of each sensor: how it moves within segments, and how these values spread over an episode."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dfstrans.data.coupling import Coupling
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import Segments, count_segments, cut_segments

Statistics = npt.NDArray[np.float64]
OF_SEGMENT = ("mean", "deviation", "minimum", "maximum", "mean step", "largest step")
OVER_SEGMENTS = ("mean", "minimum", "maximum", "deviation")
LOWEST, HIGHEST = (  # of all values: the minimum of minima and the maximum of maxima
    OVER_SEGMENTS.index(name) * len(OF_SEGMENT) + OF_SEGMENT.index(name) for name in ("minimum", "maximum")
)
OF_RESIDUAL = ("mean", "largest")  # size of a residual
N_STATISTICS = len(OF_SEGMENT) * len(OVER_SEGMENTS)
VALUES_AT_ONCE = 1 << 18  # of a batch


def episode_statistics(
    episodes: Episodes, scaler: SensorScaler, segment_length: int, coupling: Coupling | None = None
) -> Statistics:
    """Return the statistics of each sensor, on the scale of training; only a few episodes are in memory at a time.

    With a coupling, those of residuals follow. A sensor without any value in an episode has NaN.

    Shape:
        (n_episodes, n_sensors, N_STATISTICS), and 8 more with a coupling
    """
    more = 0 if coupling is None else len(OF_RESIDUAL) * len(OVER_SEGMENTS)
    found = np.empty((len(episodes), episodes.n_sensors, N_STATISTICS + more))
    at_once = max(1, VALUES_AT_ONCE // (episodes.n_sensors * int(episodes.lengths.max(initial=1))))
    for start in range(0, len(episodes), at_once):
        batch = episodes[start : start + at_once]
        segments = cut_segments(batch, scaler, segment_length)
        counted = mostly_filled(batch.lengths, segment_length, segments)
        rows = over_segments(segment_statistics(segments.values, coupling), counted)
        rows[[np.isnan(one.values).all(axis=1) for one in batch]] = np.nan
        found[start : start + len(batch)] = rows
    return found


def segment_statistics(values: npt.NDArray[np.float32], coupling: Coupling | None = None) -> Statistics:
    """Return mean, deviation, minimum, maximum, mean and largest step of each segment: (…, sensor, point) → (…, 6).

    With a coupling, the mean and the largest size of a residual follow: (…, 8).
    """
    exact = values.astype(np.float64)
    step = np.abs(np.diff(exact, axis=-1, append=exact[..., -1:]))  # a segment of one point has a step of 0
    mean_step = step.sum(axis=-1) / max(values.shape[-1] - 1, 1)
    columns = [exact.mean(-1), exact.std(-1), exact.min(-1), exact.max(-1), mean_step, step.max(-1)]
    if coupling is not None:
        size = np.abs(coupling.residuals(exact))  # segment by segment, so that they do not depend on batch mates
        columns += [size.mean(-1), size.max(-1)]
    return np.stack(columns, axis=-1)


def over_segments(statistics: Statistics, counted: npt.NDArray[np.bool_]) -> Statistics:
    """Summarise the statistics of the counted segments by mean, minimum, maximum and deviation; residuals come last.

    Shape:
        statistics (episode, segment, sensor, 6 or 8), counted (episode, segment)
        → (episode, sensor, N_STATISTICS or 8 more)
    """
    if statistics.shape[-1] > len(OF_SEGMENT):
        parts = np.split(statistics, [len(OF_SEGMENT)], axis=-1)
        return np.concatenate([over_segments(part, counted) for part in parts], axis=-1)
    mask = counted[:, :, None, None]
    n = mask.sum(axis=1)
    mean = np.where(mask, statistics, 0).sum(axis=1) / n
    variance = np.where(mask, (statistics - mean[:, None]) ** 2, 0).sum(axis=1) / n
    smallest, largest = (np.where(mask, statistics, bound) for bound in (np.inf, -np.inf))
    return np.concatenate([mean, smallest.min(axis=1), largest.max(axis=1), np.sqrt(variance)], axis=-1)


def columns_over_segments(summary: str, statistics: Statistics) -> list[int]:
    """Return where the statistics of segments are that `over_segments` summarised in one way.

    >>> columns_over_segments("minimum", np.zeros((1, N_STATISTICS + 8)))
    [6, 7, 8, 9, 10, 11, 26, 27]
    """
    n, k, place = len(OF_SEGMENT), len(OF_RESIDUAL), OVER_SEGMENTS.index(summary)
    of_residual = range(N_STATISTICS + place * k, N_STATISTICS + (place + 1) * k)
    return [*range(place * n, (place + 1) * n), *(of_residual if statistics.shape[-1] > N_STATISTICS else ())]


def mostly_filled(lengths: npt.NDArray[np.int64], segment_length: int, segments: Segments) -> npt.NDArray[np.bool_]:
    """Mark the segments of which at least half was recorded; the statistics of a short rest would mislead."""
    complete = lengths // segment_length
    half = (lengths % segment_length) * 2 >= segment_length
    counted: npt.NDArray[np.int64] = np.minimum(complete + half, count_segments(lengths, segment_length))
    return np.arange(segments.valid.shape[1]) < np.maximum(counted, 1)[:, None]

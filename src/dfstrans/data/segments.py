"""From recordings to what the network takes: scaled segments without gaps, and which of them are real."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import BEYOND_MEASURE, SensorScaler, beyond_measure, check_finite
from dfstrans.errors import DfstransError, option_name

if TYPE_CHECKING:
    from dfstrans.settings import NetworkShape

LONGEST_DEFAULT_SEGMENT = 100  # points; the paper's elevator
DEFAULT_SEGMENTS = 10  # the paper's public data sets
FEWEST_FILTERS = 8
FEWEST_POINTS = 8  # of a segment: each of three convolution blocks halves it


Count = TypeVar("Count", int, npt.NDArray[np.int64])


class Segments(NamedTuple):
    """Scaled episodes cut into segments.

    Shape:
        values (episode, segment, sensor, point) float32 without NaN; valid (episode, segment), False for padding
    """

    values: npt.NDArray[np.float32]
    valid: npt.NDArray[np.bool_]


def cut_segments(episodes: Episodes, scaler: SensorScaler, segment_length: int) -> Segments:
    """Scale a batch of episodes and cut each into consecutive segments.

    A missing value repeats the last one that was seen (the first one, at the beginning); a sensor that is missing
    altogether stands at its training mean. A last segment that is not full repeats the last value to its end.
    """
    values = np.asarray(episodes.values[np.arange(len(episodes))], dtype=np.float32)
    longest = int(episodes.lengths.max())
    n_segments = count_segments(longest, segment_length)
    padded = np.full((*values.shape[:2], n_segments * segment_length), np.nan, dtype=np.float32)
    padded[..., :longest] = values[..., :longest]
    padded[np.broadcast_to(_beyond(episodes.lengths, padded.shape[2])[:, None], padded.shape)] = np.nan
    for row in np.flatnonzero(np.isinf(padded).any(axis=(1, 2))):
        check_finite(padded[row], str(episodes.ids[row]), episodes.sensors)
    filled = hold_last(scaler.transform(padded), scaler.scaled_mean)
    # a gate or a ReLU may make an ordinary number of what is no measurement
    if max(filled.max(initial=0), -filled.min(initial=0)) > BEYOND_MEASURE:
        raise beyond_measure(episodes.ids[np.abs(filled).max(axis=(1, 2)) > BEYOND_MEASURE])
    n, s, _ = filled.shape
    cut = filled.reshape(n, s, n_segments, segment_length).transpose(0, 2, 1, 3)
    valid = np.arange(n_segments) < count_segments(episodes.lengths, segment_length)[:, None]
    return Segments(np.ascontiguousarray(cut), valid)


def hold_last(values: npt.NDArray[np.float32], fallback: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Fill each NaN with the last value before it, else the first after it, else the sensor's fallback.

    Shape:
        values (…, n_sensors, n_timepoints), fallback (n_sensors,)
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    source = np.where(missing, 0, np.arange(values.shape[-1]))
    np.maximum.accumulate(source, axis=-1, out=source)
    held = np.take_along_axis(values, source, axis=-1)
    first = np.take_along_axis(values, (~missing).argmax(axis=-1)[..., None], axis=-1)
    held = np.where(np.isnan(held), first, held)
    return np.where(np.isnan(held), fallback[:, None], held)


def count_segments(length: Count, segment_length: int) -> Count:
    """Segments that hold at least one point."""
    return -(-length // segment_length)


def default_segment_length(episodes: Episodes, network: NetworkShape) -> int:
    """A tenth of the median episode, but at most 100 points: the paper's choice for all four of its data sets.

    Never longer than the shortest episode, unless the longest would then have more segments than the faithful encoding
    can tell apart. The segment length of `network` plays no part.
    """
    tenth = int(np.median(episodes.lengths)) // DEFAULT_SEGMENTS
    shortest, longest = int(episodes.lengths.min()), int(episodes.lengths.max())
    length = max(min(tenth, LONGEST_DEFAULT_SEGMENT, shortest), 1 << network.blocks)
    while network.encoding == "faithful" and count_segments(longest, length) > network.width_for(length):
        length += 1
    return length


def default_filters(episodes: Episodes, network: NetworkShape, heads: int) -> int:
    """The fewest, or as many more as the heads and the faithful encoding ask for.

    The heads must divide the embedding's width, and the encoding needs a dimension per segment of the longest episode,
    with a quarter to spare for longer ones to come. The filters and heads of `network` play no part.
    """
    points = network.d_model // network.filters
    needed = 0
    if network.encoding == "faithful":
        needed = count_segments(int(episodes.lengths.max()), network.segment_length) * 5 // 4
    step = math.lcm(2, max(heads // math.gcd(heads, points), 1))
    enough = max(FEWEST_FILTERS, -(-needed // points))
    return -(-enough // step) * step


def looks_transposed(episodes: Episodes) -> bool:
    """Whether there are more sensors than points: possible, but more often the axes were swapped."""
    return episodes.n_sensors > episodes.n_timepoints


def check_segment_length(episodes: Episodes, segment_length: int) -> None:
    """Refuse segments longer than the shortest episode."""
    shortest = int(episodes.lengths.min())
    if segment_length > shortest:
        if looks_transposed(episodes) and segment_length <= episodes.n_sensors:
            raise DfstransError(
                f"expected episodes of at least {segment_length} points, a segment's length, got {shortest} points of "
                f"{episodes.n_sensors} sensors, which looks transposed; swap the last two axes to (episode, sensor, "
                f"timepoint), or, if it is right, train with a shorter {option_name('segment_length')}"
            )
        name = episodes.ids[int(episodes.lengths.argmin())]
        fewer = f" and fewer {option_name('blocks')}" if shortest < FEWEST_POINTS else ""
        raise DfstransError(
            f"expected episodes of at least {segment_length} points, the length of a segment, got {shortest} in "
            f"episode {str(name)!r}; train with a shorter {option_name('segment_length')}{fewer}, or leave short "
            "episodes out"
        )


def _beyond(lengths: npt.NDArray[np.int64], n_timepoints: int) -> npt.NDArray[np.bool_]:
    """True for the points behind each episode's end: (n_episodes, n_timepoints)."""
    return np.arange(n_timepoints) >= lengths[:, None]

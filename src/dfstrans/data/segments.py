"""Convert episodes to the input of the network: scaled segments without gaps, and a mask for padding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import LARGEST_SCALED_VALUE, SensorScaler, check_finite, too_large_values
from dfstrans.errors import DfstransError, option_name

if TYPE_CHECKING:
    from dfstrans.settings import NetworkShape  # needs pydantic, which the torch-free runtime does not require

MAX_DEFAULT_SEGMENT_LENGTH = 100  # points, as for the paper's elevator
DEFAULT_SEGMENTS = 10  # as for the paper's public data sets
MOST_WIDTH = 96  # by default, of an embedding of statistics
MIN_SEGMENT_POINTS = 8  # since each of three convolution blocks halves a segment

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

    A missing value is replaced by the previous one (at the beginning, the next one), a sensor without any value by its
    training mean. The last value fills an incomplete last segment.
    """
    values = np.asarray(episodes.values[np.arange(len(episodes))], dtype=np.float32)
    longest = int(episodes.lengths.max())
    n_segments = count_segments(longest, segment_length)
    padded = np.full((*values.shape[:2], n_segments * segment_length), np.nan, dtype=np.float32)
    padded[..., :longest] = values[..., :longest]
    padding = np.arange(padded.shape[2]) >= episodes.lengths[:, None]
    padded[np.broadcast_to(padding[:, None], padded.shape)] = np.nan
    for row in np.flatnonzero(np.isinf(padded).any(axis=(1, 2))):
        check_finite(padded[row], str(episodes.ids[row]), episodes.sensors)
    filled = hold_last(scaler.transform(padded), scaler.scaled_mean)
    # checked here, because a gate or a ReLU could hide such values in an ordinary logit
    if max(filled.max(initial=0), -filled.min(initial=0)) > LARGEST_SCALED_VALUE:
        raise too_large_values(episodes.ids[np.abs(filled).max(axis=(1, 2)) > LARGEST_SCALED_VALUE])
    n, s, _ = filled.shape
    cut = filled.reshape(n, s, n_segments, segment_length).transpose(0, 2, 1, 3)
    valid = np.arange(n_segments) < count_segments(episodes.lengths, segment_length)[:, None]
    return Segments(np.ascontiguousarray(cut), valid)


def hold_last(values: npt.NDArray[np.float32], fallback: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Fill each NaN with the previous value, else the next value, else the sensor's fallback.

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
    """Return the number of segments, including an incomplete last one."""
    return -(-length // segment_length)


def tenth_of_episode(episodes: Episodes) -> int:
    """Return a tenth of the median episode, at most 100 points and at most the shortest episode."""
    tenth = int(np.median(episodes.lengths)) // DEFAULT_SEGMENTS
    return max(min(tenth, MAX_DEFAULT_SEGMENT_LENGTH, int(episodes.lengths.min())), 1)


def default_segment_length(episodes: Episodes, network: NetworkShape) -> int:
    """Return a tenth of the median episode, at most 100 points: the paper's choice for all four of its data sets.

    It does not exceed the shortest episode, unless the longest would then have more segments than the faithful encoding
    can distinguish. The segment length of `network` is ignored.
    """
    longest = int(episodes.lengths.max())
    length = max(tenth_of_episode(episodes), 1 << network.blocks)
    while network.encoding == "faithful" and count_segments(longest, length) > network.width_for(length):
        length += 1
    return length


def default_filters(episodes: Episodes, network: NetworkShape, heads: int) -> int:
    """Return the smallest number of filters that suits the heads and the faithful encoding.

    The heads must divide the width of the embedding, and the encoding needs one dimension per segment of the longest
    episode, with a quarter in reserve for longer episodes later. `network` has the fewest filters; its heads do not
    matter.
    """
    points = network.segment_length >> network.blocks
    step = math.lcm(2, max(heads // math.gcd(heads, points), 1))
    enough = max(network.d_model // points, -(-_needed_width(episodes, network) // points))
    return -(-enough // step) * step


def default_width(episodes: Episodes, network: NetworkShape, heads: int) -> int:
    """Return the smallest width of an embedding of statistics that suits the heads and the faithful encoding.

    `network` has the smallest width; its heads do not matter.
    """
    step = math.lcm(2, heads)
    enough = max(network.d_model, _needed_width(episodes, network))
    return -(-enough // step) * step


def _needed_width(episodes: Episodes, network: NetworkShape) -> int:
    """Return the number of dimensions the encoding needs: one per segment of the longest episode, with a reserve."""
    if network.encoding != "faithful":
        return 0
    return count_segments(int(episodes.lengths.max()), network.segment_length) * 5 // 4


def looks_transposed(episodes: Episodes) -> bool:
    """Return whether there are more sensors than points, which usually means swapped axes."""
    return episodes.n_sensors > episodes.n_timepoints


def check_segment_length(episodes: Episodes, segment_length: int) -> None:
    """Reject segments longer than the shortest episode."""
    shortest = int(episodes.lengths.min(initial=segment_length))
    if segment_length <= shortest:
        return
    expected = f"expected episodes of at least {segment_length} points, the length of a segment"
    if looks_transposed(episodes) and segment_length <= episodes.n_sensors:
        raise DfstransError(
            f"{expected}, got {shortest} points of {episodes.n_sensors} sensors, which looks transposed; swap the last "
            "two axes to (episode, sensor, timepoint), or, if it is correct, train with a shorter "
            f"{option_name('segment_length')}"
        )
    name = episodes.ids[int(episodes.lengths.argmin())]
    fewer = " and fewer convolution blocks" if shortest < MIN_SEGMENT_POINTS else ""
    raise DfstransError(
        f"{expected}, got {shortest} in episode {str(name)!r}; train with a shorter "
        f"{option_name('segment_length')}{fewer}, or remove short episodes"
    )

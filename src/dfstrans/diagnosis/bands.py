"""Normal bands: the usual values of each score in normal episodes, and the usual range of signals.

A quantity that varies over time is kept twice: by segment, for episodes of the usual length, and pooled over all
segments, for others. Temporal attention is shared among all segments, so pooled values are multiples of an even
spread. Pooled embeddings are compared without their positional encoding (`content`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.scores import SCORES, Array, EpisodeScores

EDGE_QUANTILE = 0.99  # share of normal episodes below the edge of a band
BANDS = (*SCORES, "contribution")  # median and upper edge
SPREAD_QUANTITIES = ("level", "embedding", "content")  # mean and standard deviation
BY_SEGMENT = (*BANDS, "level", "embedding")
POOLED = (*BANDS, "level", "content")
BETWEEN_SEGMENTS = ("temporal_attention", "global_temporal_attention")  # the last two axes are segments
WITHOUT_SEGMENTS = ("global_spatial_attention", "global_spatial_relevance")
MAX_POOLED_SAMPLES = 1 << 14
MAX_BAND_SIZE = 1 << 22  # numbers in a band by segment; larger ones are only kept pooled


@dataclass(frozen=True)
class NormalBand:
    """The usual value of a quantity and its variation in normal episodes; shapes broadcast to the quantity's.

    For a band, the centre is the median and the width extends to the upper edge; for a spread, they are mean and
    deviation.
    """

    centre: Array
    width: Array
    floor: float  # minimum width, for sensors that never move and attention that never changes

    @classmethod
    def of(cls, name: str, centre: Array, width: Array) -> NormalBand:
        """Create a band with the floor of its quantity; for temporal attention, that is a share of an even spread."""
        floor = 1e-2 if name in ("embedding", "content") else 1e-3
        return cls(centre, width, floor / centre.shape[-1] if name in BETWEEN_SEGMENTS else floor)

    def excess(self, values: Array) -> Array:
        """Return how far values are above the centre, in widths: 0 is usual, 1 the edge of a band."""
        return np.asarray((values - self.centre) / np.maximum(self.width, self.floor))

    @property
    def edge(self) -> Array:
        """The upper edge."""
        return self.centre + np.maximum(self.width, self.floor)

    def fit_length(self, name: str, n_segments: int) -> NormalBand:
        """Adapt this pooled band to an episode of `n_segments` segments."""
        if name not in BETWEEN_SEGMENTS:
            return self
        return NormalBand(self.centre / n_segments, self.width / n_segments, self.floor / n_segments)


def bands_by_segment(scores: Sequence[EpisodeScores], max_size: int = MAX_BAND_SIZE) -> dict[str, NormalBand]:
    """Return a band for each quantity, in its shape, from episodes of equal length; omit those that are too large."""
    small = [name for name in BY_SEGMENT if name not in BANDS or getattr(scores[0], name).size <= max_size]
    return {
        name: NormalBand.of(name, *_centre_and_width(name, np.stack([getattr(one, name) for one in scores])))
        for name in small
    }


def pooled_band(
    name: str, scores: Sequence[EpisodeScores], seed: int = 0, max_samples: int = MAX_POOLED_SAMPLES
) -> NormalBand:
    """Return a band over all segments of episodes of any length; segment axes have length one, or are absent if first.

    Every episode contributes the same number of samples, if it has enough.
    """
    random, most = np.random.default_rng(seed), max(max_samples // len(scores), 1)
    samples = []
    for one in scores:
        own = _samples(one, name)
        if len(own) > most:
            own = own[random.choice(len(own), most, replace=False)]
        samples.append(own * one.n_segments if name in BETWEEN_SEGMENTS else own)  # 1 is an even spread
    trailing = (1,) * (2 if name in BETWEEN_SEGMENTS else 1 if name == "temporal_relevance" else 0)
    parts = _centre_and_width(name, np.concatenate(samples))
    return NormalBand.of(name, *(np.reshape(part, np.shape(part) + trailing) for part in parts))


def _samples(scores: EpisodeScores, name: str) -> Array:
    """Return a view of a quantity with its segments, or pairs of segments, as the first axis."""
    values: Array = getattr(scores, name)
    if name in WITHOUT_SEGMENTS:
        return values[None]
    if name in BETWEEN_SEGMENTS:
        return np.moveaxis(values.reshape(*values.shape[:-2], -1), -1, 0)
    return values.T if name == "temporal_relevance" else values


def _centre_and_width(name: str, samples: Array) -> tuple[Array, Array]:
    """Return the centre and the width over the first axis."""
    if name in SPREAD_QUANTITIES:
        return samples.mean(axis=0), samples.std(axis=0)
    centre, edge = np.quantile(samples, (0.5, EDGE_QUANTILE), axis=0)
    return centre, edge - centre


# ---- signals --------------------------------------------------------------------------------------------------------

CELL_STATISTICS = ("mean", "std", "max", "min")
COURSE_TAIL = 0.01  # share of normal recordings below the band of a signal, and also above


@dataclass(frozen=True)
class NormalCourse:
    """The lowest and the highest value of each sensor in normal recordings, without the most extreme 1 % on each side.

    Shape:
        by_segment (segment, sensor, 2), without a segment if lengths vary; pooled (sensor, 2); in the sensors' units
    """

    by_segment: Array
    pooled: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int, n_segments: int) -> NormalCourse:
        """Learn from normal episodes; values by segment come from those with `n_segments` segments (0: none)."""
        ends = [CELL_STATISTICS.index("min"), CELL_STATISTICS.index("max")]
        extremes = [cell_statistics(episode.values, segment_length)[..., ends] for episode in normal]
        alike = [one for one in extremes if len(one) == n_segments]
        by_segment = _course(np.stack(alike)) if alike else np.zeros((0, normal.n_sensors, 2))
        return cls(by_segment, _course(np.concatenate(extremes)))

    def of_length(self, n_segments: int) -> Array:
        """Return the course for `n_segments` segments, the same in every segment if that length is unusual."""
        if len(self.by_segment) == n_segments:
            return self.by_segment
        return np.broadcast_to(self.pooled, (n_segments, *self.pooled.shape))


def _course(extremes: Array) -> Array:
    """Return a low quantile of the lowest values and a high one of the highest, over the first axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # cells without any values get a band of NaN
        low = np.nanquantile(extremes[..., 0], COURSE_TAIL, axis=0)
        high = np.nanquantile(extremes[..., 1], 1 - COURSE_TAIL, axis=0)
    return np.stack([low, high], axis=-1)


def cell_statistics(values: npt.NDArray[np.float32], segment_length: int) -> npt.NDArray[Any]:
    """Return mean, standard deviation, maximum and minimum of each cell; NaN for a cell without values.

    Shape:
        (n_sensors, length) → (n_segments, n_sensors, n_statistics)
    """
    n_sensors, length = values.shape
    n_segments = count_segments(length, segment_length)
    padded = np.full((n_sensors, n_segments * segment_length), np.nan)
    padded[:, :length] = values
    cells = padded.reshape(n_sensors, n_segments, segment_length).transpose(1, 0, 2)
    missing = np.isnan(cells)
    count = np.where(missing.all(axis=-1), np.nan, (~missing).sum(axis=-1))
    mean = np.where(missing, 0.0, cells).sum(axis=-1) / count
    variance = np.where(missing, 0.0, (cells - mean[..., None]) ** 2).sum(axis=-1) / count
    return np.stack([mean, np.sqrt(variance), np.fmax.reduce(cells, axis=-1), np.fmin.reduce(cells, axis=-1)], axis=-1)

"""Where normal recordings run: the band in which each sensor stays at each moment, to be drawn behind a signal."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.normal_cells import STATISTICS, cell_statistics

Array = npt.NDArray[np.float64]
OUTSIDE = 0.01  # share of normal recordings that goes below the band, and as many above
EXTREMES = [STATISTICS.index("min"), STATISTICS.index("max")]


@dataclass(frozen=True)
class NormalCourse:
    """The lowest and the highest value of each sensor in normal recordings, but for the most extreme ones.

    Shape:
        by_moment (segment, sensor, 2), without a segment where lengths vary; over_moments (sensor, 2); own units
    """

    by_moment: Array
    over_moments: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int, n_segments: int) -> NormalCourse:
        """From normal episodes, moment by moment from those of `n_segments` segments (0: none)."""
        extremes = [cell_statistics(episode.values, segment_length)[..., EXTREMES] for episode in normal]
        alike = [one for one in extremes if len(one) == n_segments]
        by_moment = _band(np.stack(alike)) if alike else np.zeros((0, normal.n_sensors, 2))
        return cls(by_moment, _band(np.concatenate(extremes)))

    def of(self, n_segments: int) -> Array:
        """The band for a recording of so many segments; the same at every moment where lengths vary."""
        if len(self.by_moment) == n_segments:
            return self.by_moment
        return np.broadcast_to(self.over_moments, (n_segments, *self.over_moments.shape))


def _band(extremes: Array) -> Array:
    """Quantiles over the first axis: low ones of the lowest values, high ones of the highest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a cell that is never there has no band: NaN
        low = np.nanquantile(extremes[..., 0], OUTSIDE, axis=0)
        high = np.nanquantile(extremes[..., 1], 1 - OUTSIDE, axis=0)
    return np.stack([low, high], axis=-1)

"""The normal recording that resembles one the most: what to look at beside a faulty one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.normal_cells import STATISTICS, cell_statistics

Array = npt.NDArray[np.float64]
MOST_RECORDINGS = 300  # to choose from; of more, some are drawn


@dataclass(frozen=True, eq=False)
class NormalRecordings:
    """Normal recordings to choose from, each by the mean of every sensor in every segment.

    Shape:
        levels: for each recording (segment, sensor), on the scale of training
    """

    normal: Episodes
    scaler: SensorScaler
    segment_length: int
    levels: list[Array]

    @classmethod
    def of(cls, episodes: Episodes, scaler: SensorScaler, segment_length: int) -> NormalRecordings:
        """Those labelled normal, read once, one at a time; none where there are no labels."""
        rows = np.flatnonzero(episodes.labels == 0) if episodes.labels is not None else np.zeros(0, dtype=np.int64)
        if len(rows) > MOST_RECORDINGS:
            rows = np.sort(np.random.default_rng(0).choice(rows, MOST_RECORDINGS, replace=False))
        normal = episodes[rows]
        return cls(normal, scaler, segment_length, [_levels(one, scaler, segment_length) for one in normal])

    def nearest(self, episode: Episode) -> Episode | None:
        """The one of the same length that is nearest in most sensors, or None.

        The median over the sensors of the root mean square difference: what a fault does to a few sensors counts
        little, so that a recording of the same work is found.
        """
        own = _levels(episode, self.scaler, self.segment_length)
        alike = [
            (_difference(levels, own), row)
            for row, levels in enumerate(self.levels)
            if levels.shape == own.shape and str(self.normal.ids[row]) != episode.id
        ]
        if not alike:
            return None
        (found,) = self.normal[min(alike)[1]]
        return found


def _levels(episode: Episode, scaler: SensorScaler, segment_length: int) -> Array:
    cells = cell_statistics(scaler.transform(episode.values), segment_length)[..., STATISTICS.index("mean")]
    return np.where(np.isnan(cells), scaler.scaled_mean, cells)


def _difference(one: Array, other: Array) -> float:
    return float(np.median(np.sqrt(((one - other) ** 2).mean(axis=0))))

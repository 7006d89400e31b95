"""The z-score baseline, which any ranking should beat: statistics of each cell relative to normal episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import check_finite
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.bands import CELL_STATISTICS, cell_statistics
from dfstrans.errors import DfstransError

SMALLEST_DEVIATION = 0.001  # of a sensor's normal range, or of 1 if it is constant

Array = npt.NDArray[Any]


class TooFewNormalError(DfstransError):
    """Too few normal episodes for z-scores; other rankings can still be evaluated."""


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Mean and deviation of each statistic of each (segment, sensor) cell over normal episodes.

    A cell with values in fewer than two normal episodes is compared with all cells of its sensor.

    Shape:
        mean, deviation (n_segments, n_sensors, n_statistics); sensor_mean, sensor_deviation (n_sensors, n_statistics)
    """

    sensors: tuple[str, ...]
    segment_length: int
    mean: Array
    deviation: Array
    sensor_mean: Array
    sensor_deviation: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int) -> Self:
        """Learn from normal episodes in one pass, with one of them in memory at a time (Welford)."""
        if len(normal) < 2:
            raise TooFewNormalError(
                f"expected at least two normal episodes to compare with, got {len(normal)}; add recordings "
                "labelled normal"
            )
        shape = (count_segments(int(normal.lengths.max()), segment_length), normal.n_sensors, len(CELL_STATISTICS))
        count, mean, squares = np.zeros((*shape[:2], 1)), np.zeros(shape), np.zeros(shape)
        lowest, highest = np.full(normal.n_sensors, np.inf), np.full(normal.n_sensors, -np.inf)
        for episode in normal:
            check_finite(episode.values, episode.id, normal.sensors)
            found = cell_statistics(episode.values, segment_length)
            here = slice(len(found))
            present = ~np.isnan(found[..., :1])
            count[here] += present
            step = np.where(present, found - mean[here], 0.0)
            mean[here] += step / np.maximum(count[here], 1)
            squares[here] += step * np.where(present, found - mean[here], 0.0)
            lowest = np.fmin(lowest, np.fmin.reduce(found[..., CELL_STATISTICS.index("min")]))
            highest = np.fmax(highest, np.fmax.reduce(found[..., CELL_STATISTICS.index("max")]))
        span = np.where(highest > lowest, highest - lowest, 1.0)
        smallest = SMALLEST_DEVIATION * span[:, None]
        every = np.where(count.any(axis=0), count.sum(axis=0), np.nan)
        sensor_mean = (count * mean).sum(axis=0) / every
        sensor_squares = (squares + count * (mean - sensor_mean) ** 2).sum(axis=0)
        sensor_deviation = np.maximum(np.sqrt(sensor_squares / every), smallest)
        known = count >= 2
        deviation = np.maximum(np.sqrt(squares / np.maximum(count, 1)), smallest)
        return cls(
            normal.sensors,
            segment_length,
            np.where(known, mean, sensor_mean),
            np.where(known, deviation, sensor_deviation),
            sensor_mean,
            sensor_deviation,
        )

    def scores(self, episodes: Episodes) -> Iterator[Array]:
        """Yield, for each episode, the root mean square of z over the statistics of each cell.

        z = (statistic − its normal mean) / its normal deviation. A cell without values, or of a sensor without
        values in normal episodes, scores 0.

        Shape:
            (n_segments, n_sensors) each
        """
        if episodes.sensors != self.sensors:
            raise DfstransError(
                f"expected the sensors of the normal episodes, {', '.join(self.sensors)}, got "
                f"{', '.join(episodes.sensors)}; select the same sensors in the same order"
            )
        for episode in episodes:
            check_finite(episode.values, episode.id, episodes.sensors)
            found = cell_statistics(episode.values, self.segment_length)
            mean, deviation = self._by_segment(len(found))
            z = np.nan_to_num((found - mean) / deviation, nan=0.0)
            yield np.sqrt((z**2).mean(axis=-1))

    def _by_segment(self, n_segments: int) -> tuple[Array, Array]:
        """Return mean and deviation by segment; beyond the longest normal episode, those of the whole sensor."""
        beyond = max(n_segments - len(self.mean), 0)
        mean = np.concatenate([self.mean, np.tile(self.sensor_mean, (beyond, 1, 1))])
        deviation = np.concatenate([self.deviation, np.tile(self.sensor_deviation, (beyond, 1, 1))])
        return mean[:n_segments], deviation[:n_segments]

"""Recordings as they are drawn beside a diagnosis: with their units and the normal recording most like them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.inputs import match_sensors
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.examples import STATISTICS, Array, cell_statistics

if TYPE_CHECKING:
    from dfstrans.diagnosis.inspection import Detector


@dataclass(frozen=True)
class Recording:
    """An episode as it is drawn: with its sampling interval, its sensors' units and, if any, a normal one beside it."""

    episode: Episode
    interval: float | None
    units: tuple[str, ...]
    nearest: Episode | None = None
    time_unit: str = ""  # of the interval, where it is known

    @property
    def step(self) -> float:
        """From one point to the next, in the unit of time; points where no interval is known."""
        return self.interval or 1.0

    @property
    def time_title(self) -> str:
        """What the axis of time is called."""
        unit = self.time_unit if self.interval else "points"
        return f"time in {unit}" if unit else "time"


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


def recordings_of(detector: Detector, episodes: Episodes, beside: Episodes | None = None) -> Callable[[int], Recording]:
    """A function from an episode's row to what its pictures need."""
    normal = None
    if beside is not None:
        alike = match_sensors(beside, detector.sensors_)  # of any length: one that cannot be scored does no harm here
        normal = NormalRecordings.of(alike, detector.scaler_, detector.network_settings_.segment_length)

    def recording(row: int) -> Recording:
        (episode,) = detector.check_input(episodes[row])
        nearest = None if normal is None else normal.nearest(episode)
        return Recording(episode, episodes.interval, detector.units_, nearest, episodes.time_unit)

    return recording

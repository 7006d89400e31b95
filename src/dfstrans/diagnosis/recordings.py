"""The recorded signals: statistics of cells, and recordings to plot with a diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.inputs import match_sensors
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.scores import Array

if TYPE_CHECKING:  # loads torch
    from dfstrans.diagnosis.inspection import Detector

CELL_STATISTICS = ("mean", "std", "max", "min")
MAX_RECORDINGS = 300  # to choose from; a random sample if there are more


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


# ---- recordings to plot ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """An episode to plot, with its sampling interval, its sensors' units and optionally a similar normal episode."""

    episode: Episode
    interval: float | None
    units: tuple[str, ...]
    nearest: Episode | None = None
    why_no_nearest: str = ""  # empty if there is one, or none was looked for
    time_unit: str = ""  # of the interval, if known

    @property
    def step(self) -> float:
        """Time from one point to the next; 1 if no interval is known."""
        return self.interval or 1.0

    @property
    def time_title(self) -> str:
        """Title of the time axis."""
        unit = self.time_unit if self.interval else "points"
        return f"time in {unit}" if unit else "time"


@dataclass(frozen=True, eq=False)
class NormalRecordings:
    """Normal recordings to choose from.

    Shape:
        levels: for each recording the mean of each cell (segment, sensor), on the scale of training
    """

    normal: Episodes
    scaler: SensorScaler
    segment_length: int
    levels: list[Array]

    @classmethod
    def of(cls, episodes: Episodes, scaler: SensorScaler, segment_length: int) -> NormalRecordings:
        """Collect the episodes labelled normal, reading one at a time; none without labels."""
        rows = np.flatnonzero(episodes.labels == 0) if episodes.labels is not None else np.zeros(0, dtype=np.int64)
        if len(rows) > MAX_RECORDINGS:
            rows = np.sort(np.random.default_rng(0).choice(rows, MAX_RECORDINGS, replace=False))
        normal = episodes[rows]
        return cls(normal, scaler, segment_length, [_levels(one, scaler, segment_length) for one in normal])

    def nearest(self, episode: Episode) -> tuple[Episode | None, str]:
        """Return the nearest other recording of the same length, of the same machine if it has one, or say why not.

        The distance is the median over sensors of the root mean square difference: a fault in a few sensors has little
        effect, so a recording of the same operation is found.
        """
        if not self.levels:
            return None, "none of these recordings is labelled normal"
        groups = self.normal.groups
        own = _levels(episode, self.scaler, self.segment_length)
        alike = [
            (
                groups is not None and str(groups[row]) != episode.group,  # other machines only if this one has none
                float(np.median(np.sqrt(((levels - own) ** 2).mean(axis=0)))),
                row,
            )
            for row, levels in enumerate(self.levels)
            if levels.shape == own.shape and str(self.normal.ids[row]) != episode.id
        ]
        if not alike:
            return None, "no other normal recording is as long as this one"
        (found,) = self.normal[min(alike)[-1]]
        return found, ""


def _levels(episode: Episode, scaler: SensorScaler, segment_length: int) -> Array:
    means = cell_statistics(scaler.transform(episode.values), segment_length)[..., CELL_STATISTICS.index("mean")]
    return np.where(np.isnan(means), scaler.scaled_mean, means)


def recordings_of(detector: Detector, episodes: Episodes, beside: Episodes | None = None) -> Callable[[int], Recording]:
    """Return a function from an episode's row to its recording; normal recordings for comparison come from `beside`."""
    normal = None
    if beside is not None:
        alike = match_sensors(beside, detector.sensors_)  # any length will do, since these are not scored
        normal = NormalRecordings.of(alike, detector.scaler_, detector.network_settings_.segment_length)

    def recording(row: int) -> Recording:
        (episode,) = detector.check_input(episodes[row])
        nearest, why = (None, "") if normal is None else normal.nearest(episode)
        return Recording(episode, episodes.interval, detector.units_, nearest, why, episodes.time_unit)

    return recording

"""Is it the machine or the instrument? Each sensor of an episode, compared with itself in normal training episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler

Array = npt.NDArray[np.float64]


class Symptom(NamedTuple):
    """A sign of an unhealthy sensor: how it is called, and the share of points below which it is never one."""

    name: str
    least: float


SYMPTOMS = (
    Symptom("missing", 0.05),
    Symptom("stuck", 0.2),
    Symptom("clipped", 0.02),
    Symptom("out of training range", 0.1),
)
LARGEST_OF_NORMAL = 0.99  # quantile of a share over normal episodes that an unhealthy sensor exceeds


class Finding(NamedTuple):
    """One symptom of one sensor: in which share of its points, and the most that normal episodes have."""

    sensor: str
    symptom: str
    share: float
    usual: float


@dataclass(frozen=True)
class HealthReference:
    """The largest share of each symptom that normal training episodes have.

    Shape:
        usual (symptom, sensor)
    """

    usual: Array

    @classmethod
    def fit(cls, normal: Episodes, scaler: SensorScaler) -> HealthReference:
        """From normal episodes, one at a time."""
        shares = [symptom_shares(episode.values, scaler) for episode in normal]
        if not shares:
            return cls(np.zeros((len(SYMPTOMS), len(scaler.sensors))))
        return cls(np.quantile(shares, LARGEST_OF_NORMAL, axis=0))

    def examine(self, values: npt.NDArray[np.float32], scaler: SensorScaler) -> tuple[Finding, ...]:
        """What is wrong with the sensors of one episode (sensor, point), the most unusual first."""
        shares = symptom_shares(values, scaler)
        least = np.array([symptom.least for symptom in SYMPTOMS])[:, None]
        unhealthy = np.argwhere(shares > np.maximum(self.usual, least))
        findings = [
            Finding(
                scaler.sensors[sensor],
                SYMPTOMS[symptom].name,
                float(shares[symptom, sensor]),
                float(self.usual[symptom, sensor]),
            )
            for symptom, sensor in unhealthy
        ]
        return tuple(sorted(findings, key=lambda finding: finding.usual - finding.share))


def symptom_shares(values: npt.NDArray[np.float32], scaler: SensorScaler) -> Array:
    """The share of an episode's points with each symptom, sensor by sensor.

    Missing: no value. Stuck: the longest run of one value. Clipped: the largest or the smallest value, wherever it is
    held for at least three points. Out of range: beyond what training saw.

    Shape:
        (sensor, point) → (symptom, sensor)
    """
    n = max(values.shape[1], 1)
    low, high = scaler.minimum[:, None], scaler.maximum[:, None]
    shares: Array = (
        np.array(
            [
                np.isnan(values).sum(axis=1),
                [_longest_run(row) for row in values],
                [_held_extremes(row) for row in values],
                ((values < low) | (values > high)).sum(axis=1),
            ],
            dtype=np.float64,
        )
        / n
    )
    return shares


def _runs(row: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The value and the length of each run of equal values; NaN is equal to nothing."""
    if not len(row):
        return row, np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    return row[starts], np.diff(np.r_[starts, len(row)])


def _longest_run(row: npt.NDArray[np.float32]) -> int:
    lengths = _runs(row)[1]
    return int(lengths.max()) if lengths.any() and lengths.max() > 1 else 0


def _held_extremes(row: npt.NDArray[np.float32]) -> int:
    present = row[~np.isnan(row)]
    if not len(present) or present.min() == present.max():  # constant: stuck, not clipped
        return 0
    values, lengths = _runs(row)
    extreme = (values == present.min()) | (values == present.max())
    return int(lengths[extreme & (lengths >= 3)].sum())

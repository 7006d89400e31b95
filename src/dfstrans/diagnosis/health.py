"""Sensor health: is it the machine or the instrument? Compares each sensor with itself in normal training episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.schema import HealthFinding
from dfstrans.diagnosis.scores import Array

Values = npt.NDArray[np.float32]

SYMPTOMS = {"missing": 0.05, "stuck": 0.2, "clipped": 0.02, "out of training range": 0.1}
"""The smallest share of points with a symptom that makes a sensor unhealthy."""
NORMAL_QUANTILE = 0.99  # of a symptom's share over normal episodes; an unhealthy sensor exceeds it
SHORTEST_HOLD = 3  # points


@dataclass(frozen=True)
class HealthReference:
    """The largest normal share of each symptom in normal training episodes.

    Shape:
        usual (symptom, sensor)
    """

    usual: Array

    @classmethod
    def fit(cls, normal: Episodes, scaler: SensorScaler) -> HealthReference:
        """Learn from normal episodes, one at a time; a sensor that rests at a limit in all of them is never clipped."""
        shares = np.array([symptom_shares(episode.values, scaler) for episode in normal])
        usual = np.quantile(shares, NORMAL_QUANTILE, axis=0)
        clipped = list(SYMPTOMS).index("clipped")
        usual[clipped, shares[:, clipped].min(axis=0) >= SYMPTOMS["clipped"]] = 1.0
        return cls(usual)

    def examine(self, values: Values, scaler: SensorScaler) -> tuple[HealthFinding, ...]:
        """Return the symptoms of the sensors of one episode (sensor, point), the most unusual first."""
        shares = symptom_shares(values, scaler)
        names, least = list(SYMPTOMS), np.array(list(SYMPTOMS.values()))[:, None]
        findings = [
            HealthFinding(
                scaler.sensors[sensor], names[row], float(shares[row, sensor]), float(self.usual[row, sensor])
            )
            for row, sensor in np.argwhere(shares > np.maximum(self.usual, least))
        ]
        return tuple(sorted(findings, key=lambda finding: finding.normal - finding.share))


def symptom_shares(values: Values, scaler: SensorScaler) -> Array:
    """Return the share of an episode's points with each symptom, for each sensor.

    Missing: no value. Stuck: the longest run of one value. Clipped: the largest or smallest value, held for at least
    three points. Out of range: outside the values of training.

    Shape:
        (sensor, point) → (symptom, sensor)
    """
    low, high = scaler.minimum[:, None], scaler.maximum[:, None]
    counts = [
        np.isnan(values).sum(axis=1),
        [_longest_run(row) for row in values],
        [_held_extremes(row) for row in values],
        ((values < low) | (values > high)).sum(axis=1),
    ]
    return np.asarray(np.array(counts, dtype=np.float64) / max(values.shape[1], 1))


def _runs(row: Values) -> tuple[Values, npt.NDArray[np.int64]]:
    """Return the value and the length of each run of equal values; NaN equals nothing."""
    if not len(row):
        return row, np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    return row[starts], np.diff(np.r_[starts, len(row)])


def _longest_run(row: Values) -> int:
    longest = int(_runs(row)[1].max(initial=0))
    return longest if longest > 1 else 0


def _held_extremes(row: Values) -> int:
    present = row[~np.isnan(row)]
    if not len(present) or present.min() == present.max():  # constant: stuck, not clipped
        return 0
    values, lengths = _runs(row)
    extreme = (values == present.min()) | (values == present.max())
    return int(lengths[extreme & (lengths >= SHORTEST_HOLD)].sum())

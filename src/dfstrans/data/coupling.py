"""How sensors move together in normal recordings: what each reads beyond what the others make likely [ADR 25]."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import Segments, cut_segments

POINTS = 20  # of each recording, evenly spaced
RIDGE = 1e-3  # times the mean variance of a sensor
EPISODES_AT_ONCE = 16


class Coupling(NamedTuple):
    """A ridge regression of each sensor on all others at the same moment, on the scale of training.

    Shape:
        weights (sensor, sensor), 1 on the diagonal; centre (sensor,)
    """

    weights: npt.NDArray[np.float64]
    centre: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, normal: Episodes, scaler: SensorScaler, segment_length: int) -> Self:
        """Learn from normal episodes."""
        found = []
        for batch in normal.batches(EPISODES_AT_ONCE):
            found += _points(cut_segments(batch, scaler, segment_length))
        points = np.concatenate(found, axis=1)
        centre, covariance = points.mean(axis=1), np.atleast_2d(np.cov(points, bias=True))
        ridge = max(RIDGE * float(np.trace(covariance)) / len(covariance), 1e-12)
        precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
        return cls(precision / np.diag(precision)[:, None], centre)

    def residuals(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return how far each value is from what the other sensors make likely: (…, sensor, point) → same."""
        return np.asarray(np.matmul(self.weights, values - self.centre[:, None]))


def _points(segments: Segments) -> list[npt.NDArray[np.float64]]:
    """Return a few points of each episode: (sensor, point)."""
    found = []
    for values, valid in zip(segments.values, segments.valid, strict=True):
        course = values[valid].transpose(1, 0, 2).reshape(values.shape[1], -1)
        found.append(course[:, np.linspace(0, course.shape[1] - 1, POINTS).astype(np.int64)].astype(np.float64))
    return found

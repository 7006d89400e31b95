"""How far each cell of an episode is from normal: from the nearest examples, and beyond the ways normal ones differ.

A mean and a deviation cannot tell a rare but normal course from a faulty one: journeys up and down, full and empty lie
around a mean that none of them has. Hence a few normal examples of each cell, and the main ways in which whole normal
episodes differ from each other. See ADR 0012 for what was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import check_finite
from dfstrans.data.segments import count_segments
from dfstrans.errors import DfstransError

STATISTICS = ("mean", "std", "max", "min")  # of the points of a cell
SMALLEST_DEVIATION = 0.001  # of a sensor's normal range, or of 1 where it never moves

Array = npt.NDArray[Any]


class TooFewNormalError(DfstransError):
    """Nothing to compare with; other rankings can still be measured."""


@dataclass(frozen=True, eq=False)
class NormalCells:
    """Mean and deviation of each statistic of each (segment, sensor) cell over normal episodes.

    A cell that fewer than two normal episodes have is compared with all cells of its sensor.

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
        """Learn from normal episodes in one pass that holds one of them at a time (Welford)."""
        if len(normal) < 2:
            raise TooFewNormalError(
                f"expected at least two normal episodes to compare with, got {len(normal)}; add recordings "
                "labelled normal"
            )
        shape = (count_segments(int(normal.lengths.max()), segment_length), normal.n_sensors, len(STATISTICS))
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
            lowest = np.fmin(lowest, np.fmin.reduce(found[..., STATISTICS.index("min")]))
            highest = np.fmax(highest, np.fmax.reduce(found[..., STATISTICS.index("max")]))
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
        """For each episode, one at a time, the root mean square of z over the statistics of each cell.

        z = (statistic − its normal mean) / its normal deviation. A cell without points, or of a sensor that no normal
        episode has, scores 0.

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
            mean, deviation = self._until(len(found))
            z = np.nan_to_num((found - mean) / deviation, nan=0.0)
            yield np.sqrt((z**2).mean(axis=-1))

    def _until(self, n_segments: int) -> tuple[Array, Array]:
        """Mean and deviation of the first segments; those behind the longest normal episode have their sensor's."""
        beyond = max(n_segments - len(self.mean), 0)
        mean = np.concatenate([self.mean, np.tile(self.sensor_mean, (beyond, 1, 1))])
        deviation = np.concatenate([self.deviation, np.tile(self.sensor_deviation, (beyond, 1, 1))])
        return mean[:n_segments], deviation[:n_segments]


def cell_statistics(values: npt.NDArray[np.float32], segment_length: int) -> Array:
    """Mean, standard deviation, maximum and minimum of each cell over its points that are there; NaN without any.

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


EXAMPLES = 64  # of each moment
EXAMPLES_OF_ALL = 256  # where moments are not told apart; more where there are many of them
MOST_CODES = 1 << 21  # numbers kept, 4 MB as they are stored; long episodes of many sensors have fewer examples
LEAST_EXAMPLES = 8
DIRECTIONS = 16  # of an embedding, for each sensor those in which normal ones vary most; what is beyond counts in full
NEAREST = 3
WAYS = 2  # in which whole normal episodes differ most
COMPANY = 0.5  # how much a cell is stranger where the other sensors are strange at the same moment
SMALLEST = 0.05  # in normal deviations: where normal ones hardly differ, a little more is no alarm


@dataclass(frozen=True, eq=False)
class NormalExamples:
    """Some normal embeddings and the main ways all of them differ, in normal deviations from their mean.

    Shape:
        directions (sensor, d_model, direction), orthonormal; codes (segment, sensor, example, direction);
        usual_distance (segment, sensor); ways (way, segment, sensor, d_model), orthonormal over all but the first axis;
        usual_rest (1,). Where moments are not told apart, there is one segment for all, and no way.
    """

    directions: Array
    codes: Array
    usual_distance: Array
    ways: Array
    usual_rest: Array

    @classmethod
    def fit(cls, normal: Array, varying: Array, most: int = EXAMPLES) -> NormalExamples:
        """From normal embeddings in deviations from their mean, the first of which, half at most, become examples.

        Shape:
            normal (episode, segment, sensor, d_model), varying (segment, sensor): how many dimensions vary
        """
        n, t, s, _ = normal.shape
        directions = _main_directions(normal)
        most = int(np.clip(MOST_CODES // (t * s * directions.shape[-1]), LEAST_EXAMPLES, most))
        count = max(1, min(most, n // 2))
        codes = np.stack([_encode(one, directions) for one in normal[:count]], axis=2)
        ways = _main_ways(normal) if t > 1 else normal[:0]
        unfinished = cls(directions, codes, np.zeros((t, s), np.float32), ways, np.ones(1, np.float32))
        held_out = normal[count:] if n > count else normal
        distances = [unfinished.distance(one, varying) for one in held_out]
        rests = [unfinished.rest(one) ** 2 for one in normal]
        usual_rest = np.sqrt(np.mean(rests, dtype=np.float64, keepdims=True)).reshape(1).astype(np.float32)
        return cls(directions, codes, np.asarray(np.mean(distances, axis=0, dtype=np.float32)), ways, usual_rest)

    def deviation(self, embedding: Array, varying: Array) -> npt.NDArray[np.float64]:
        """How far each cell is from normal: 1 is usual.

        D = √(distance · rest), each relative to what normal episodes have, times (Π_s D)^(1/2S) over the S sensors: a
        moment at which all are a little strange is strange. Where moments are not told apart there is no rest.

        Shape:
            embedding (segment, sensor, d_model) in deviations from the normal mean → (segment, sensor)
        """
        near = (self.distance(embedding, varying) + SMALLEST) / (self.usual_distance + SMALLEST)
        if len(self.ways):
            near = np.sqrt(near * (self.rest(embedding) + SMALLEST) / (self.usual_rest + SMALLEST))
        size = np.log(near, dtype=np.float64)
        return np.asarray(np.exp(size + COMPANY * size.mean(axis=1, keepdims=True)))

    def distance(self, embedding: Array, varying: Array) -> Array:
        """The root mean square distance from the nearest examples of the same sensor and moment: (segment, sensor)."""
        code = _encode(embedding, self.directions)
        size = (code**2).sum(axis=-1)
        squares = size[..., None] + self._sizes - 2 * (self.codes @ code[..., None])[..., 0]
        nearest = np.partition(squares, min(NEAREST, squares.shape[-1]) - 1, axis=-1)[..., :NEAREST].mean(axis=-1)
        outside = (embedding**2).sum(axis=-1) - size  # what no direction shows
        squares = np.maximum(nearest + np.maximum(outside, 0), 0)
        return np.asarray(np.sqrt(squares / np.maximum(varying, 1)))

    @cached_property
    def _sizes(self) -> Array:
        """The squared length of each code, which every distance needs: (segment, sensor, example)."""
        return np.asarray((self.codes**2).sum(axis=-1))

    def rest(self, embedding: Array) -> Array:
        """The root mean square of what the main ways do not explain of each cell: (segment, sensor)."""
        along = np.tensordot(self.ways, embedding, axes=embedding.ndim)  # (way,)
        left = embedding - np.tensordot(along, self.ways, axes=1)
        return np.asarray(np.sqrt((left**2).mean(axis=-1)))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays of 16 bits, for a file."""
        # safetensors writes memory as it lies, so it must lie in the order of the axes
        return {field.name: getattr(self, field.name).astype(np.float16, order="C") for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> NormalExamples:
        """The inverse of `to_arrays`, but for the rounding."""
        return cls(**{field.name: arrays[field.name].astype(np.float32) for field in fields(cls)})


def _encode(embedding: Array, directions: Array) -> Array:
    """(segment, sensor, d_model) → (segment, sensor, direction)."""
    return np.asarray((embedding.transpose(1, 0, 2) @ directions).transpose(1, 0, 2))


def _main_directions(normal: Array) -> Array:
    """For each sensor the directions in which its embeddings vary most over episodes and moments: (sensor, d, q)."""
    d = normal.shape[-1]
    of_sensor = (normal[:, :, sensor].reshape(-1, d) for sensor in range(normal.shape[2]))
    _, vectors = np.linalg.eigh(np.stack([rows.T @ rows for rows in of_sensor]))  # the largest is the last
    return np.ascontiguousarray(vectors[..., ::-1][..., :DIRECTIONS])


def _main_ways(normal: Array) -> Array:
    """The first principal components of whole episodes, from their products with each other: (way, …)."""
    n = len(normal)
    rows = normal.reshape(n, -1)
    sizes, vectors = np.linalg.eigh((rows @ rows.T).astype(np.float64))
    kept = [k for k in range(n - 1, max(n - 1 - WAYS, -1), -1) if sizes[k] > 1e-6 * max(sizes[-1], 1e-12)]
    weights = vectors[:, kept] / np.sqrt(sizes[kept])
    return np.asarray(weights.T.astype(np.float32) @ rows).reshape(-1, *normal.shape[1:])

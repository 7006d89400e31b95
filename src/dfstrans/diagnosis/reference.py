"""The reference of normal episodes with which every score is compared.

From the normal episodes of its training part, a model keeps a band of each score and examples of embeddings. Mean and
deviation alone cannot distinguish a rare but normal course from a faulty one: journeys up and down, full and empty,
scatter around a mean that none of them matches. See ADR 0012 for the alternatives that were tried.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.habits import Fleet
from dfstrans.diagnosis.inspection import Detector, episode_scores
from dfstrans.diagnosis.scores import (
    BANDS,
    POOLED,
    SCORES,
    SPREAD_QUANTITIES,
    Array,
    EpisodeScores,
    NormalBand,
    bands_by_segment,
    pooled_band,
)
from dfstrans.errors import DfstransError

Arrays = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[Any]  # 32 or 64 bits

MAX_EPISODES = 400  # enough for a 99 % quantile
MIN_EPISODES = 30
MAX_VALUES = 1 << 25  # numbers in memory, unless that leaves fewer than MIN_EPISODES episodes
MIN_OF_USUAL_LENGTH = 10
MAX_DISTANCES = 50  # episodes that show how far a machine usually is from the others

EXAMPLES = 64  # per segment
POOLED_EXAMPLES = 256  # more for episodes of many segments
MIN_EXAMPLES = 8
MAX_CODES = 1 << 21  # numbers, 4 MB in a file; long episodes of many sensors have fewer examples
DIRECTIONS = 16  # of an embedding: per sensor those of largest variance; the remainder counts fully
NEAREST_EXAMPLES = 3
COMPONENTS = 2  # principal components of whole normal episodes
COMPANY = 0.5  # how much the deviation of other sensors in the same segment raises that of a cell
SMALLEST_DISTANCE = 0.05  # in normal deviations; avoids alarms where normal episodes hardly differ


@dataclass(frozen=True)
class Norms:
    """The bands of quantities by name, and examples of normal embeddings."""

    bands: dict[str, NormalBand]
    examples: NormalExamples


@dataclass(frozen=True)
class NormalReference:
    """The normal values of a detector, by segment and pooled over segments.

    `n_segments` is the usual number of segments; it is 0, without values by segment, if lengths vary.
    """

    n_episodes: int
    n_segments: int
    by_segment: Norms | None
    pooled: Norms
    fleet: Fleet

    @classmethod
    def fit(cls, detector: Detector, normal: Episodes, seed: int = 0) -> NormalReference:
        """Learn from normal episodes, or from a random selection that fits into memory."""
        if not len(normal):
            raise DfstransError("expected normal episodes for the reference, got none; add episodes with label 0")
        most = _max_episodes(normal, detector)
        sample = normal
        if len(normal) > most:
            sample = normal[np.sort(np.random.default_rng(seed).choice(len(normal), most, replace=False))]
        scores = list(episode_scores(detector, sample))
        n_segments = _usual_segments(scores)
        return cls(
            n_episodes=len(scores),
            n_segments=n_segments,
            by_segment=_norms_by_segment([one for one in scores if one.n_segments == n_segments], seed),
            pooled=_pooled_norms(scores, seed),
            fleet=Fleet.fit(sample, normal, detector.scaler_, detector.network_settings_.segment_length, n_segments),
        )

    def with_machines(self, detector: Detector, normal: Episodes) -> NormalReference:
        """Return this reference with the habits of machines beside those of training, of each with enough episodes."""
        length = detector.network_settings_.segment_length
        fleet = self.fleet.with_machines(normal, detector.scaler_, length, self.n_segments)
        machines = dict(fleet.machines)
        for name in set(normal.require_groups().tolist()) & set(machines):
            rows = np.flatnonzero(normal.groups == name)
            some = normal[rows[:: -(-len(rows) // MAX_DISTANCES)]]
            distances = [self.deviation(scores) for scores in episode_scores(detector, some)]
            machines[name] = machines[name].with_distances(distances)
        return replace(self, fleet=replace(fleet, machines=machines))

    def bands(self, n_segments: int) -> dict[str, NormalBand]:
        """Return the normal band of each of the eight scores, for an episode of `n_segments` segments."""
        return {name: self.band(n_segments, name) for name in SCORES}

    def band(self, n_segments: int, name: str) -> NormalBand:
        """Return the normal band of a quantity, for an episode of `n_segments` segments."""
        if self.by_segment is not None and n_segments == self.n_segments and name in self.by_segment.bands:
            return self.by_segment.bands[name]
        return self.pooled.bands[name].fit_length(name, n_segments)

    def mean_embedding(self, encoding: Array) -> Array:
        """Return the mean embedding of normal episodes, for an episode with this positional encoding.

        Shape:
            (segment, d) → (segment, sensor, d)
        """
        name = self._embedding(len(encoding))
        centre = self.band(len(encoding), name).centre
        return np.asarray(centre + encoding[:, None]) if name == "content" else centre

    def deviation(self, scores: EpisodeScores) -> Array:
        """Return the distance of each cell's embedding from normal examples: (segment, sensor).

        The distance is relative to that of normal episodes, so 1 is typical; see `NormalExamples.deviation`.
        """
        name = self._embedding(scores.n_segments)
        band = self.band(scores.n_segments, name)
        standardised = band.excess(getattr(scores, name)).astype(np.float32)
        norms = self.by_segment if self.by_segment is not None and name == "embedding" else self.pooled
        return norms.examples.deviation(standardised, _varying(band))

    def _embedding(self, n_segments: int) -> Literal["embedding", "content"]:
        return "embedding" if n_segments == self.n_segments else "content"

    def to_arrays(self) -> Arrays:
        """Return everything as named arrays, for a file."""
        arrays: Arrays = {
            "counts": np.array([self.n_episodes, self.n_segments], dtype=np.int64),
            **self.fleet.to_arrays(),
        }
        for kind, norms in (("by_segment", self.by_segment), ("pooled", self.pooled)):
            if norms is not None:
                for name, band in norms.bands.items():
                    arrays[f"{kind}.{name}.centre"] = np.asarray(band.centre, dtype=np.float32)
                    arrays[f"{kind}.{name}.width"] = np.asarray(band.width, dtype=np.float32)
                arrays |= {f"{kind}.examples.{name}": part for name, part in norms.examples.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> NormalReference:
        """The inverse of `to_arrays`, except for rounding."""
        n_episodes, n_segments = (int(count) for count in arrays["counts"])

        def doubles(name: str) -> Array:
            return arrays[name].astype(np.float64)

        def norms(kind: str) -> Norms:
            bands = {
                name: NormalBand.of(name, doubles(f"{kind}.{name}.centre"), doubles(f"{kind}.{name}.width"))
                for name in BANDS + SPREAD_QUANTITIES
                if f"{kind}.{name}.centre" in arrays
            }
            return Norms(bands, NormalExamples.from_arrays(arrays, f"{kind}.examples."))

        return cls(
            n_episodes,
            n_segments,
            norms("by_segment") if n_segments else None,
            norms("pooled"),
            Fleet.from_arrays(arrays, n_episodes),
        )


def _max_episodes(normal: Episodes, detector: Detector) -> int:
    """Return the number of episodes whose scores fit into memory."""
    network = detector.network_settings_
    s, t = normal.n_sensors, count_segments(int(normal.lengths.max()), network.segment_length)
    values = s * t * t + t * s * s + t * s * (network.d_model + 4)
    return int(np.clip(MAX_VALUES // values, MIN_EPISODES, MAX_EPISODES))


def _usual_segments(scores: list[EpisodeScores]) -> int:
    """Return the number of segments shared by at least half of the episodes and at least ten of them, else 0."""
    usual, count = Counter(one.n_segments for one in scores).most_common(1)[0]
    return usual if count >= max(MIN_OF_USUAL_LENGTH, len(scores) / 2) else 0


def _norms_by_segment(alike: list[EpisodeScores], seed: int) -> Norms | None:
    if not alike:
        return None
    bands = bands_by_segment(alike)
    shuffled = np.random.default_rng(seed).permutation(len(alike))
    return Norms(bands, _examples(bands["embedding"], [alike[row].embedding for row in shuffled], EXAMPLES))


def _pooled_norms(scores: list[EpisodeScores], seed: int) -> Norms:
    bands = {name: pooled_band(name, scores, seed) for name in POOLED}
    most = max(POOLED_EXAMPLES, NEAREST_EXAMPLES * max(one.n_segments for one in scores))
    return Norms(bands, _examples(bands["content"], _cycle_segments(scores, 2 * most, seed), most))


def _examples(band: NormalBand, embeddings: list[Array], most: int) -> NormalExamples:
    standardised = np.stack([band.excess(one).astype(np.float32) for one in embeddings])
    return NormalExamples.fit(standardised, np.broadcast_to(_varying(band), standardised.shape[1:3]), most)


def _varying(band: NormalBand) -> npt.NDArray[np.float32]:
    """Return how many dimensions of an embedding vary: each counts 1, or less below the floor."""
    return np.asarray((np.minimum(band.width / band.floor, 1) ** 2).sum(axis=-1), dtype=np.float32)


def _cycle_segments(scores: list[EpisodeScores], most: int, seed: int) -> list[Array]:
    """Return the content of segments from random episodes, (1, sensor, d), cycling through the places in time.

    All places are represented equally often, give or take one, so that events that occur once per episode have
    examples.
    """
    random = np.random.default_rng(seed)
    lengths = np.array([one.n_segments for one in scores])
    turns = [
        (turn, random.random(), place, row)
        for place in range(int(lengths.max()))
        for turn, row in enumerate(random.permutation(np.flatnonzero(lengths > place)))
    ]
    chosen = [(scores[row], place) for _, _, place, row in sorted(turns)[:most]]
    return [one.embedding[place : place + 1] - one.encoding[place] for one, place in chosen]


@dataclass(frozen=True, eq=False)
class NormalExamples:
    """Examples of normal embeddings and the principal components of whole episodes, in standardised units.

    Shape:
        directions (sensor, d_model, direction), orthonormal; codes (segment, sensor, example, direction);
        usual_distance (segment, sensor); components (component, segment, sensor, d_model), orthonormal;
        usual_residual (1,). Pooled, there is one segment and no component.
    """

    directions: Floats
    codes: Floats
    usual_distance: Floats
    components: Floats
    usual_residual: Floats

    @classmethod
    def fit(cls, normal: Floats, varying: Floats, most: int = EXAMPLES, max_codes: int = MAX_CODES) -> NormalExamples:
        """Learn from standardised normal embeddings; the first ones, at most half of them, become examples.

        Shape:
            normal (episode, segment, sensor, d_model), varying (segment, sensor): how many dimensions vary
        """
        n, t, s, _ = normal.shape
        directions = _main_directions(normal)
        most = int(np.clip(max_codes // (t * s * directions.shape[-1]), MIN_EXAMPLES, most))
        count = max(1, min(most, n // 2))
        codes = np.stack([_encode(one, directions) for one in normal[:count]], axis=2)
        components = _main_components(normal) if t > 1 else normal[:0]
        unscaled = cls(directions, codes, np.zeros((t, s), np.float32), components, np.ones(1, np.float32))
        held_out = normal[count:] if n > count else normal
        distances = [unscaled.distance(one, varying) for one in held_out]
        squares = [unscaled.residual(one) ** 2 for one in normal]
        residual = np.sqrt(np.mean(squares, dtype=np.float64, keepdims=True)).reshape(1).astype(np.float32)
        return cls(directions, codes, np.asarray(np.mean(distances, axis=0, dtype=np.float32)), components, residual)

    def deviation(self, embedding: Floats, varying: Floats) -> Array:
        """Return how far each cell is from normal: 1 is typical.

        D = √(distance · residual), each relative to that of normal episodes, times (Π_s D)^(1/2S) over the S sensors,
        so that a segment in which all sensors deviate a little stands out. Pooled, there is no residual.

        Shape:
            embedding (segment, sensor, d_model), standardised → (segment, sensor)
        """
        near = (self.distance(embedding, varying) + SMALLEST_DISTANCE) / (self.usual_distance + SMALLEST_DISTANCE)
        if len(self.components):
            near = np.sqrt(
                near * (self.residual(embedding) + SMALLEST_DISTANCE) / (self.usual_residual + SMALLEST_DISTANCE)
            )
        size = np.log(near, dtype=np.float64)
        return np.asarray(np.exp(size + COMPANY * size.mean(axis=1, keepdims=True)))

    def distance(self, embedding: Floats, varying: Floats) -> Floats:
        """Return the root mean square distance from the nearest examples of the same cell: (segment, sensor)."""
        code = _encode(embedding, self.directions)
        size = (code**2).sum(axis=-1)
        squares = size[..., None] + self._squared_lengths - 2 * (self.codes @ code[..., None])[..., 0]
        nearest = np.partition(squares, min(NEAREST_EXAMPLES, squares.shape[-1]) - 1, axis=-1)[
            ..., :NEAREST_EXAMPLES
        ].mean(axis=-1)
        outside = (embedding**2).sum(axis=-1) - size  # the part outside all directions
        squares = np.maximum(nearest + np.maximum(outside, 0), 0)
        return np.asarray(np.sqrt(squares / np.maximum(varying, 1)))

    @cached_property
    def _squared_lengths(self) -> Floats:
        """Squared length of each code: (segment, sensor, example)."""
        return np.asarray((self.codes**2).sum(axis=-1))

    def residual(self, embedding: Floats) -> Floats:
        """Return the root mean square of the part not explained by the principal components: (segment, sensor)."""
        along = np.tensordot(self.components, embedding, axes=embedding.ndim)  # (component,)
        left = embedding - np.tensordot(along, self.components, axes=1)
        return np.asarray(np.sqrt((left**2).mean(axis=-1)))

    def to_arrays(self) -> Arrays:
        """Return everything as named arrays of 16 bits, for a file."""
        # safetensors writes the memory as is, so arrays must be contiguous
        return {field.name: getattr(self, field.name).astype(np.float16, order="C") for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, prefix: str = "") -> NormalExamples:
        """The inverse of `to_arrays`, except for rounding."""
        return cls(**{field.name: arrays[prefix + field.name].astype(np.float32) for field in fields(cls)})


def _encode(embedding: Floats, directions: Floats) -> Floats:
    """(segment, sensor, d_model) → (segment, sensor, direction)."""
    return np.asarray((embedding.transpose(1, 0, 2) @ directions).transpose(1, 0, 2))


def _main_directions(normal: Floats) -> Floats:
    """Return each sensor's directions of largest variance over episodes and segments: (sensor, d_model, direction)."""
    d = normal.shape[-1]
    of_sensor = (normal[:, :, sensor].reshape(-1, d) for sensor in range(normal.shape[2]))
    _, vectors = np.linalg.eigh(np.stack([rows.T @ rows for rows in of_sensor]))  # the largest is the last
    return np.ascontiguousarray(vectors[..., ::-1][..., :DIRECTIONS])


def _main_components(normal: Floats) -> Floats:
    """Return the first principal components of episodes, from their Gram matrix: (component, segment, sensor, d)."""
    n = len(normal)
    rows = normal.reshape(n, -1)
    sizes, vectors = np.linalg.eigh((rows @ rows.T).astype(np.float64))
    kept = [k for k in range(n - 1, max(n - 1 - COMPONENTS, -1), -1) if sizes[k] > 1e-6 * max(sizes[-1], 1e-12)]
    weights = vectors[:, kept] / np.sqrt(sizes[kept])
    return np.asarray(weights.T.astype(np.float32) @ rows).reshape(-1, *normal.shape[1:])

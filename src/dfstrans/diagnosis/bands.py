"""What is usual of a quantity in normal episodes: of each score a band, of levels and embeddings a spread.

A quantity that has moments is kept twice: moment by moment, for recordings of the usual length, and over all moments,
for others. There embeddings are compared by their content alone, since their positional encoding only tells the moment.
Temporal attention is spread over as many moments as there are, so over lengths it is compared as a multiple of an even
spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.scores import EpisodeScores

Array = npt.NDArray[np.float64]

WIDTH = 0.99  # share of normal episodes below the edge of a band
# the eight scores in the order of the paper's equations: A^(s), a^(s), A^G, a^G, B^(τ), b^(τ), B^G, b^G
SCORES = (
    "temporal",
    "temporal_relevance",
    "global_temporal",
    "segment",
    "spatial",
    "spatial_relevance",
    "global_spatial",
    "sensor",
)
BANDS = (*SCORES, "contribution")  # with a median and an edge
SPREADS = ("level", "embedding", "content")  # with a mean and a deviation
BY_MOMENT = ("level", "embedding")
OVER_MOMENTS = ("level", "content")
BETWEEN_MOMENTS = ("temporal", "global_temporal")  # whose last two axes are moments
WITHOUT_MOMENTS = ("global_spatial", "sensor")
# widths below these are taken for these: a sensor that never moves, an attention that never changes
FLOORS = {**dict.fromkeys(BANDS, 1e-3), "level": 1e-3, "embedding": 1e-2, "content": 1e-2}
MOST_SAMPLES = 1 << 14  # moments from which it is told what is usual over all of them
MOST_BY_MOMENT = 1 << 22  # numbers of a band that are kept moment by moment; beyond, only over all moments


@dataclass(frozen=True)
class Usual:
    """The usual value of a quantity and how far normal episodes stray from it; shapes as the quantity's, or broadcast.

    Of a band, the centre is the median and the width reaches to its upper edge; of a spread, mean and deviation.
    """

    centre: Array
    width: Array
    floor: float

    def strangeness(self, values: Array) -> Array:
        """How far values lie above the centre, in widths: 0 is as usual; for a band 1 is its edge."""
        return np.asarray((values - self.centre) / np.maximum(self.width, self.floor))

    @property
    def edge(self) -> Array:
        """From where on a value is outside."""
        return self.centre + np.maximum(self.width, self.floor)

    def divided(self, by: float) -> Usual:
        """The same of the quantity divided by a number."""
        return Usual(self.centre / by, self.width / by, self.floor / by)


def kept_by_moment(alike: Sequence[EpisodeScores]) -> list[str]:
    """The quantities whose every moment is kept: all but matrices that are too large for it; none without episodes."""
    small = [name for name in BANDS if alike and getattr(alike[0], name).size <= MOST_BY_MOMENT]
    return [*small, *(BY_MOMENT if alike else ())]


def usual_by_moment(name: str, alike: Sequence[EpisodeScores]) -> Usual:
    """Of episodes with the same number of segments, in the quantity's shape."""
    return _usual(name, np.stack([getattr(one, name) for one in alike]))


def usual_over_moments(name: str, scores: Sequence[EpisodeScores], seed: int) -> Usual:
    """Of episodes of any length, in the quantity's shape with one moment, or none where that axis is the first."""
    if name in WITHOUT_MOMENTS:
        return _usual(name, np.stack([getattr(one, name) for one in scores]))
    samples = _drawn(scores, name, seed)
    usual = _usual(name, samples)
    return known_usual(name, *(_with_place_for_moments(name, values) for values in (usual.centre, usual.width)))


def fitted_to(usual: Usual, name: str, n_segments: int) -> Usual:
    """What is usual over all moments, for an episode with so many segments."""
    return usual.divided(n_segments) if name in BETWEEN_MOMENTS else usual


def _moments(scores: EpisodeScores, name: str) -> Array:
    """A view of a quantity with its moments, or pairs of moments, as the first axis."""
    values = getattr(scores, name)
    if name in BETWEEN_MOMENTS:
        return np.moveaxis(values.reshape(*values.shape[:-2], -1), -1, 0)
    return np.asarray(values.T) if name == "temporal_relevance" else np.asarray(values)


def _with_place_for_moments(name: str, values: Array) -> Array:
    """Axes of length one where a score has its moments last."""
    last = {"temporal": 2, "global_temporal": 2, "temporal_relevance": 1}.get(name, 0)
    return np.reshape(values, np.shape(values) + (1,) * last)


def _drawn(scores: Sequence[EpisodeScores], name: str, seed: int) -> Array:
    """Moments of all episodes, at most as many as are needed, and as many of each; (sample, …)."""
    random, most = np.random.default_rng(seed), max(MOST_SAMPLES // len(scores), 1)
    samples = []
    for one in scores:
        moments = _moments(one, name)
        if len(moments) > most:
            moments = moments[random.choice(len(moments), most, replace=False)]
        samples.append(moments * len(one.segment) if name in BETWEEN_MOMENTS else moments)  # 1 is an even spread
    return np.concatenate(samples)


def _usual(name: str, samples: Array) -> Usual:
    """What is usual of a quantity over samples, the first axis."""
    if name in SPREADS:
        return known_usual(name, samples.mean(axis=0), samples.std(axis=0))
    centre, edge = np.quantile(samples, (0.5, WIDTH), axis=0)
    return known_usual(name, centre, edge - centre)


def known_usual(name: str, centre: Array, width: Array) -> Usual:
    """What is usual of a quantity, with the floor of its width: of temporal attention a share of an even spread."""
    moments = np.shape(centre)[-1] if name in BETWEEN_MOMENTS and np.ndim(centre) > 1 else 1  # one: over all of them
    return Usual(centre, width, FLOORS[name] / moments)


class BeyondBand(NamedTuple):
    """Attention above what 99 % of normal episodes have, over segments that follow one another.

    `sensors` is one sensor (its global relevance b^G), none (the global relevance a^G of the moments), or two: the
    first attends to the second. Excess is the distance from the normal median; 1 is the edge of the band.
    """

    sensors: tuple[str, ...]
    first: int
    last: int
    start: float
    end: float
    excess: float

    @property
    def sentence(self) -> str:
        """In plain words."""
        when = f"segment {self.first}" if self.first == self.last else f"segments {self.first}-{self.last}"
        what = (
            f"relevance of {when}",
            f"relevance of {'-'.join(self.sensors)}",
            f"{'-'.join(self.sensors)} coupling in {when}",
        )[len(self.sensors)]
        return f"{what} is above its 99 % normal band ({self.excess:.1f} times the edge)"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "sensors": list(self.sensors), "sentence": self.sentence}


def beyond_band(
    sensors: Sequence[str],
    segment_bounds: Array,
    sensor_excess: Array,
    segment_excess: Array,
    pair_excess: Array,
    changed_pairs: Iterable[tuple[str, str, int, float]],
) -> list[BeyondBand]:
    """Sensors, then moments, then changed pairs, each the furthest first; a pair around its strangest moment.

    Shape:
        segment_bounds (segment, 2), sensor_excess (sensor,), segment_excess (segment,), pair_excess (segment, looking,
        at)
    """

    def described(names: tuple[str, ...], run: tuple[int, int], excess: float) -> BeyondBand:
        return BeyondBand(names, *run, float(segment_bounds[run[0], 0]), float(segment_bounds[run[1], 1]), excess)

    throughout = (0, len(segment_bounds) - 1)
    by_sensor = zip(sensors, sensor_excess.tolist(), strict=True)
    of_sensors = [described((name,), throughout, excess) for name, excess in by_sensor if excess > 1]
    of_moments = [
        described((), run, float(segment_excess[run[0] : run[1] + 1].max())) for run in runs_above(segment_excess)
    ]
    of_pairs = []
    for looking, at, segment, excess in changed_pairs:
        course = pair_excess[:, sensors.index(looking), sensors.index(at)]
        run = next(run for run in runs_above(course) if run[0] <= segment <= run[1])
        of_pairs.append(described((looking, at), run, excess))
    return [one for found in (of_sensors, of_moments, of_pairs) for one in sorted(found, key=lambda one: -one.excess)]


def runs_above(excess: Array) -> list[tuple[int, int]]:
    """First and last of each stretch of values above 1, the edge of the band.

    >>> runs_above(np.array([2.0, 0.5, 1.5, 3.0]))
    [(0, 0), (2, 3)]
    """
    changes = np.flatnonzero(np.diff(np.concatenate([[False], excess > 1, [False]])))
    return [(int(first), int(after) - 1) for first, after in changes.reshape(-1, 2)]

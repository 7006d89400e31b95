"""What normal episodes look like to the network, so that no score is ever read without its reference.

A model keeps, from the normal episodes of its training part, the median and the upper edge of each score, mean and
deviation of levels and embeddings, and some embeddings as examples. Recordings of the usual length are compared moment
by moment; others with all moments together; see `usual`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.bands import (
    BANDS,
    OVER_MOMENTS,
    SCORES,
    SPREADS,
    Usual,
    fitted_to,
    kept_by_moment,
    known_usual,
    usual_by_moment,
    usual_over_moments,
)
from dfstrans.diagnosis.examples import EXAMPLES, EXAMPLES_OF_ALL, NEAREST, STATISTICS, NormalExamples, cell_statistics
from dfstrans.diagnosis.health import HealthReference
from dfstrans.diagnosis.inspection import Detector, episode_scores
from dfstrans.diagnosis.scores import EpisodeScores
from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float64]
OUTSIDE = 0.01  # share of normal recordings that goes below the band, and as many above
EXTREMES = [STATISTICS.index("min"), STATISTICS.index("max")]


@dataclass(frozen=True)
class NormalCourse:
    """The lowest and the highest value of each sensor in normal recordings, but for the most extreme ones.

    Shape:
        by_moment (segment, sensor, 2), without a segment where lengths vary; over_moments (sensor, 2); own units
    """

    by_moment: Array
    over_moments: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int, n_segments: int) -> NormalCourse:
        """From normal episodes, moment by moment from those of `n_segments` segments (0: none)."""
        extremes = [cell_statistics(episode.values, segment_length)[..., EXTREMES] for episode in normal]
        alike = [one for one in extremes if len(one) == n_segments]
        by_moment = _band(np.stack(alike)) if alike else np.zeros((0, normal.n_sensors, 2))
        return cls(by_moment, _band(np.concatenate(extremes)))

    def of(self, n_segments: int) -> Array:
        """The band for a recording of so many segments; the same at every moment where lengths vary."""
        if len(self.by_moment) == n_segments:
            return self.by_moment
        return np.broadcast_to(self.over_moments, (n_segments, *self.over_moments.shape))


def _band(extremes: Array) -> Array:
    """Quantiles over the first axis: low ones of the lowest values, high ones of the highest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a cell that is never there has no band: NaN
        low = np.nanquantile(extremes[..., 0], OUTSIDE, axis=0)
        high = np.nanquantile(extremes[..., 1], 1 - OUTSIDE, axis=0)
    return np.stack([low, high], axis=-1)


Arrays = dict[str, npt.NDArray[Any]]

MOST_EPISODES = 400  # enough for a 99 % quantile
LEAST_EPISODES = 30
MOST_VALUES = 1 << 25  # numbers held at once, unless fewer than LEAST_EPISODES episodes would be left


@dataclass(frozen=True)
class NormalReference:
    """What is usual of each quantity, moment by moment and over all moments, and how healthy sensors are.

    `n_segments` is the number of segments that most episodes have; 0, and no reference by moment, where lengths vary.
    """

    n_episodes: int
    n_segments: int
    by_moment: dict[str, Usual]
    over_moments: dict[str, Usual]
    health: HealthReference
    examples_by_moment: NormalExamples | None = None  # None in models that were saved before there were any
    examples_over_moments: NormalExamples | None = None
    course: NormalCourse | None = None  # None in models of before it was kept

    @classmethod
    def fit(cls, detector: Detector, normal: Episodes, seed: int = 0) -> NormalReference:
        """From normal episodes; of many, a number chosen by the seed that fits into memory."""
        if not len(normal):
            raise DfstransError("expected normal episodes for the reference, got none; add episodes with label 0")
        most = _most_episodes(normal, detector)
        if len(normal) > most:
            normal = normal[np.sort(np.random.default_rng(seed).choice(len(normal), most, replace=False))]
        scores = list(episode_scores(detector, normal))
        usual = _usual_segments(scores)
        alike = [one for one in scores if len(one.segment) == usual]
        by_moment = {name: usual_by_moment(name, alike) for name in kept_by_moment(alike)}
        over_moments = {name: usual_over_moments(name, scores, seed) for name in BANDS + OVER_MOMENTS}
        shuffled = np.random.default_rng(seed).permutation(len(alike))
        of_all = max(EXAMPLES_OF_ALL, NEAREST * max(len(one.segment) for one in scores))
        return cls(
            n_episodes=len(scores),
            n_segments=usual,
            by_moment=by_moment,
            over_moments=over_moments,
            health=HealthReference.fit(normal, detector.scaler_),
            examples_by_moment=_examples(by_moment["embedding"], [alike[row].embedding for row in shuffled], EXAMPLES)
            if usual
            else None,
            examples_over_moments=_examples(
                over_moments["content"], _moments_in_turn(scores, 2 * of_all, seed), of_all
            ),
            course=NormalCourse.fit(normal, detector.network_settings_.segment_length, usual),
        )

    def bands(self, scores: EpisodeScores) -> dict[str, Usual]:
        """The normal band of each of the eight scores, for an episode of that length; of those that the model keeps."""
        return {name: self._usual(len(scores.segment), name) for name in SCORES if name in self.over_moments}

    def strangeness(self, scores: EpisodeScores, name: str) -> Array:
        """How unusual one quantity of an episode is, in its shape; see `Usual.strangeness`."""
        return self._usual(len(scores.segment), name).strangeness(getattr(scores, name))

    def usual(self, scores: EpisodeScores, name: str) -> Array:
        """The usual value of a quantity for an episode of that length; without the moment where lengths vary."""
        return self._usual(len(scores.segment), name).centre

    def usual_embedding(self, encoding: Array) -> Array:
        """The mean embedding of normal episodes, for one whose segments have this positional encoding.

        Shape:
            (segment, d) → (segment, sensor, d), or (sensor, d) of models that kept no content of embeddings
        """
        name = self._embeddings(len(encoding))
        centre = self._usual(len(encoding), name).centre
        return np.asarray(centre + encoding[:, None]) if name == "content" else centre

    def deviation(self, scores: EpisodeScores) -> Array:
        """How far each sensor at each moment is from normal, as the network sees it: (segment, sensor).

        The distance of its embedding from normal examples, relative to what normal episodes have: 1 is usual; see
        `NormalExamples.deviation`. In models without examples, the distance from the normal mean.
        """
        n_segments = len(scores.segment)
        name = self._embeddings(n_segments)
        usual = self._usual(n_segments, name)
        examples = self.examples_by_moment if n_segments == self.n_segments else self.examples_over_moments
        strangeness, varying = usual.strangeness(getattr(scores, name)), _varying(usual)
        if examples is None:
            return np.asarray(np.sqrt((strangeness**2).sum(axis=-1) / np.maximum(varying, 1)))
        return examples.deviation(strangeness.astype(np.float32), varying)

    def _embeddings(self, n_segments: int) -> Literal["embedding", "content"]:
        """What embeddings of an episode with so many segments are compared by."""
        over_moments = n_segments != self.n_segments and "content" in self.over_moments  # not in models of before
        return "content" if over_moments else "embedding"

    def _usual(self, n_segments: int, name: str) -> Usual:
        if n_segments == self.n_segments and name in self.by_moment:
            return self.by_moment[name]
        return fitted_to(self.over_moments[name], name, n_segments)

    def to_arrays(self) -> Arrays:
        """Everything as named arrays, for a file."""
        arrays: Arrays = {
            "counts": np.array([self.n_episodes, self.n_segments], dtype=np.int64),
            "health": self.health.usual.astype(np.float32),
        }
        for kind, usual in (("by_moment", self.by_moment), ("over_moments", self.over_moments)):
            for name, one in usual.items():
                arrays[f"{kind}.{name}.centre"] = np.asarray(one.centre, dtype=np.float32)
                arrays[f"{kind}.{name}.width"] = np.asarray(one.width, dtype=np.float32)
        for kind, examples in (("by_moment", self.examples_by_moment), ("over_moments", self.examples_over_moments)):
            if examples is not None:
                arrays |= {f"{kind}.examples.{name}": values for name, values in examples.to_arrays().items()}
        if self.course is not None:
            arrays["course.by_moment"] = self.course.by_moment.astype(np.float32)
            arrays["course.over_moments"] = self.course.over_moments.astype(np.float32)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> NormalReference:
        """The inverse of `to_arrays`, but for the rounding to 32 bits."""
        n_episodes, n_segments = (int(count) for count in arrays["counts"])
        by_moment, over_moments = (
            {
                name: known_usual(
                    name, *(arrays[f"{kind}.{name}.{part}"].astype(np.float64) for part in ("centre", "width"))
                )
                for name in BANDS + SPREADS
                if f"{kind}.{name}.centre" in arrays
            }
            for kind in ("by_moment", "over_moments")
        )
        health = HealthReference(arrays["health"].astype(np.float64))
        examples = {kind: _stored_examples(arrays, f"{kind}.examples.") for kind in ("by_moment", "over_moments")}
        course = None
        if "course.by_moment" in arrays:
            course = NormalCourse(
                *(arrays[f"course.{kind}"].astype(np.float64) for kind in ("by_moment", "over_moments"))
            )
        return cls(
            n_episodes,
            n_segments,
            by_moment,
            over_moments,
            health,
            examples["by_moment"],
            examples["over_moments"],
            course,
        )


def _varying(usual: Usual) -> npt.NDArray[np.float32]:
    """How many dimensions of an embedding vary: 1 for each that does, less for one below the floor."""
    return np.asarray((np.minimum(usual.width / usual.floor, 1) ** 2).sum(axis=-1), dtype=np.float32)


def _examples(usual: Usual, embeddings: list[Array], most: int) -> NormalExamples:
    strangeness = np.stack([usual.strangeness(one).astype(np.float32) for one in embeddings])
    return NormalExamples.fit(strangeness, np.broadcast_to(_varying(usual), strangeness.shape[1:3]), most)


def _moments_in_turn(scores: list[EpisodeScores], most: int, seed: int) -> list[Array]:
    """The content of each place of some episode, in random order; and again, of other episodes: (1, sensor, d).

    So each place is among the first of them as often as any other, but for one: what always happens once, at its own
    time, is not left without examples by chance.
    """
    random = np.random.default_rng(seed)
    lengths = np.array([len(one.segment) for one in scores])
    turns = [
        (turn, random.random(), place, row)
        for place in range(int(lengths.max()))
        for turn, row in enumerate(random.permutation(np.flatnonzero(lengths > place)))
    ]
    chosen = [(scores[row], place) for _, _, place, row in sorted(turns)[:most]]
    return [one.embedding[place : place + 1] - one.encoding[place] for one, place in chosen]


def _stored_examples(arrays: Arrays, prefix: str) -> NormalExamples | None:
    own = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
    return NormalExamples.from_arrays(own) if own else None


def _usual_segments(scores: list[EpisodeScores]) -> int:
    """The number of segments that at least half of the episodes, and no fewer than ten, have; otherwise 0."""
    usual, count = Counter(len(one.segment) for one in scores).most_common(1)[0]
    return usual if count >= max(10, len(scores) / 2) else 0


def _most_episodes(normal: Episodes, detector: Detector) -> int:
    """How many episodes' scores may be held at once."""
    network = detector.network_settings_
    s, t = normal.n_sensors, -(-int(normal.lengths.max()) // network.segment_length)
    values = s * t * t + t * s * s + t * s * (network.d_model + 4)
    return int(np.clip(MOST_VALUES // values, LEAST_EPISODES, MOST_EPISODES))

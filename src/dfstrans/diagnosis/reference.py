"""What the scores of normal episodes are, so that attention is never read without its reference.

A model keeps, from the normal episodes of its training part, the median and the 99 % band of each score. Recordings of
one usual length get a band for each moment; others are compared with the band over all moments.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.episode_scores import EpisodeScores, episode_scores
from dfstrans.diagnosis.health import HealthReference
from dfstrans.errors import DfstransError

if TYPE_CHECKING:
    from dfstrans.diagnoser import Diagnoser

Array = npt.NDArray[np.float64]
MOST_EPISODES = 400  # normal episodes that make the band: enough for a 99 % quantile, and a bounded memory
WIDTH = 0.99  # share of normal episodes within the band
SCORES = ("sensor", "segment", "cell", "pair")  # "pair": B^(τ), how strongly one sensor looks at another at a moment


@dataclass(frozen=True)
class Band:
    """Median and upper edge of a score over normal episodes; shapes as the score's, or without the moment."""

    median: Array
    edge: Array

    def exceedance(self, score: Array) -> Array:
        """How far a score lies above the median, in half-widths of the band: 1 is its edge, 0 as usual."""
        width = np.maximum(self.edge - self.median, 1e-3)  # relevances are around 1; less than a thousandth is nothing
        return np.asarray((score - self.median) / width)


@dataclass(frozen=True)
class NormalReference:
    """The bands of all scores, and how healthy sensors are, in normal training episodes.

    `n_segments` is the usual number of segments, for which there is a band for each moment; 0 where there is none.
    """

    n_episodes: int
    n_segments: int
    by_moment: dict[str, Band]
    over_moments: dict[str, Band]
    health: HealthReference

    @classmethod
    def fit(cls, detector: Diagnoser, normal: Episodes, seed: int = 0) -> NormalReference:
        """From normal episodes, of which at most `MOST_EPISODES`, chosen by the seed, are looked at."""
        if len(normal) > MOST_EPISODES:
            rows = np.random.default_rng(seed).choice(len(normal), MOST_EPISODES, replace=False)
            normal = normal[np.sort(rows)]
        scores = list(episode_scores(detector, normal))
        if not scores:
            raise DfstransError("expected normal episodes for the reference, got none; add episodes with label 0")
        usual = _usual_segments(scores)
        alike = [one for one in scores if len(one.segment) == usual]
        return cls(
            n_episodes=len(scores),
            n_segments=usual,
            by_moment={name: _band([_score(one, name) for one in alike]) for name in SCORES} if usual else {},
            over_moments={name: _band(_over_moments(scores, name)) for name in SCORES},
            health=HealthReference.fit(normal, detector.scaler_),
        )

    def exceedance(self, scores: EpisodeScores, name: str) -> Array:
        """How far one score of an episode lies above its normal band, in the score's shape: 1 is the edge."""
        score = _score(scores, name)
        if len(scores.segment) == self.n_segments:
            return self.by_moment[name].exceedance(score)
        return self.over_moments[name].exceedance(score)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays of float32, for a file."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "counts": np.array([self.n_episodes, self.n_segments], dtype=np.int64),
            "health": self.health.usual.astype(np.float32),
        }
        for kind, bands in (("by_moment", self.by_moment), ("over_moments", self.over_moments)):
            for name, band in bands.items():
                arrays[f"{kind}.{name}.median"] = band.median.astype(np.float32)
                arrays[f"{kind}.{name}.edge"] = band.edge.astype(np.float32)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> NormalReference:
        """The inverse of `to_arrays`, but for the rounding to float32."""
        bands: dict[str, dict[str, Band]] = {"by_moment": {}, "over_moments": {}}
        for kind, group in bands.items():
            for name in SCORES:
                if f"{kind}.{name}.median" in arrays:
                    group[name] = Band(
                        *(arrays[f"{kind}.{name}.{part}"].astype(np.float64) for part in ("median", "edge"))
                    )
        n_episodes, n_segments = (int(count) for count in arrays["counts"])
        health = HealthReference(arrays["health"].astype(np.float64))
        return cls(n_episodes, n_segments, bands["by_moment"], bands["over_moments"], health)


def _score(scores: EpisodeScores, name: str) -> Array:
    score: Array = scores.spatial if name == "pair" else getattr(scores, name)
    return score


def _usual_segments(scores: list[EpisodeScores]) -> int:
    """The number of segments that at least half of the episodes, and no fewer than ten, have; otherwise 0."""
    usual, count = Counter(len(one.segment) for one in scores).most_common(1)[0]
    return usual if count >= max(10, len(scores) / 2) else 0


def _band(samples: list[Array]) -> Band:
    """Median and upper edge over the first axis."""
    return Band(*(np.quantile(samples, share, axis=0) for share in (0.5, WIDTH)))


def _over_moments(scores: list[EpisodeScores], name: str) -> list[Array]:
    """Samples of a score without its moment; a sensor's global relevance has none."""
    if name == "sensor":
        return [one.sensor for one in scores]
    return [moment for one in scores for moment in _score(one, name)]

"""The paper's eight attention scores of an episode, what else the network computes for each cell, and normal bands.

Arrays are named `[global_]` + `temporal|spatial` + `_attention` (matrix) or `_relevance` (its column sums).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float64]

SCORES = (  # in the order of the paper's equations
    "temporal_attention",
    "temporal_relevance",
    "global_temporal_attention",
    "global_temporal_relevance",
    "spatial_attention",
    "spatial_relevance",
    "global_spatial_attention",
    "global_spatial_relevance",
)


@dataclass(frozen=True, eq=False)
class AttentionScores:
    """The eight scores, all derived from two attention tensors [eq:temporal_diag_scores, …spatial…].

    Shape:
        temporal_attention A^(s) (sensor, query, key), spatial_attention B^(τ) (segment, query, key): the last layer's,
        heads averaged, real segments only
    """

    temporal_attention: Array
    spatial_attention: Array

    @property
    def n_segments(self) -> int:
        """Number of segments of the episode."""
        return len(self.spatial_attention)

    @cached_property
    def temporal_relevance(self) -> Array:
        """How much each segment of a sensor acts on its others, a^(s)_τ = Σ_τ' A^(s)_τ'τ: (sensor, segment)."""
        return np.asarray(self.temporal_attention.sum(axis=-2))

    @cached_property
    def global_temporal_attention(self) -> Array:
        """Temporal attention averaged over sensors, A^G = (1/S) Σ_s A^(s): (query, key)."""
        return np.asarray(self.temporal_attention.mean(axis=0))

    @cached_property
    def global_temporal_relevance(self) -> Array:
        """How much each segment matters over all sensors, a^G_τ = (1/S) Σ_s a^(s)_τ: (segment,)."""
        return np.asarray(self.temporal_relevance.mean(axis=0))

    @cached_property
    def spatial_relevance(self) -> Array:
        """How much each sensor acts on the others in a segment, b^(τ)_s = Σ_s' B^(τ)_s's: (segment, sensor)."""
        return np.asarray(self.spatial_attention.sum(axis=-2))

    @cached_property
    def global_spatial_attention(self) -> Array:
        """Spatial attention weighted by the relevance of each segment, B^G = (1/N_w) Σ_τ B^(τ) a^G_τ: (query, key)."""
        weighted = np.einsum("tqk,t->qk", self.spatial_attention, self.global_temporal_relevance)
        return np.asarray(weighted / self.n_segments)

    @cached_property
    def global_spatial_relevance(self) -> Array:
        """How much each sensor matters over all segments, b^G_s = Σ_s' B^G_s's: (sensor,)."""
        return np.asarray(self.global_spatial_attention.sum(axis=0))

    @property
    def cell_relevance(self) -> Array:
        """a^(s)_τ · b^(τ)_s, how much a sensor in a segment acts on everything else: (segment, sensor)."""
        return self.temporal_relevance.T * self.spatial_relevance


@dataclass(frozen=True, eq=False)
class EpisodeScores(AttentionScores):
    """What the network computes for one episode.

    Shape:
        embedding (segment, sensor, d_model), which includes the positional encoding (segment, d_model);
        contribution (segment, sensor) to the logit;
        features (width,), the input of the classifier
    """

    logit: float
    embedding: Array
    encoding: Array
    contribution: Array
    features: Array

    @property
    def content(self) -> Array:
        """The embedding without its positional encoding: (segment, sensor, d_model)."""
        return np.asarray(self.embedding - self.encoding[:, None])


def rank_sensors(cells: Array) -> Array:
    """Rank each sensor by its highest cell: (segment, sensor) → (sensor,)."""
    return np.asarray(cells.max(axis=0))


def rank_segments(cells: Array) -> Array:
    """Rank each segment by its highest cell: (segment, sensor) → (segment,)."""
    return np.asarray(cells.max(axis=1))


def runs(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first and last index of each run of True.

    >>> runs(np.array([True, False, True, True]))
    [(0, 0), (2, 3)]
    """
    changes = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [(int(first), int(after) - 1) for first, after in changes.reshape(-1, 2)]


def largest(values: Array, n: int) -> npt.NDArray[np.intp]:
    """Return the indices of the n largest values, the largest first."""
    if n < 0:
        raise DfstransError(f"expected n to be at least 0, got {n}; correct it")
    return np.argsort(-values, kind="stable")[:n]


@dataclass(frozen=True)
class AttentionTrust:
    """The drop in the logit when k % of the attention weights are set to zero.

    Shape:
        percentages (k,); top and bottom (episode, k); random (episode, k, draw)
    """

    percentages: Array
    top: Array
    bottom: Array
    random: Array

    def mean(self) -> dict[str, list[float]]:
        """AT_k [eq. of "Evaluation of attention"] and its two controls, averaged over episodes."""
        return {
            "k": self.percentages.tolist(),
            "top": self.top.mean(axis=0).tolist(),
            "random": self.random.mean(axis=(0, 2)).tolist(),
            "bottom": self.bottom.mean(axis=0).tolist(),
        }

    def percentile(self) -> Array:
        """The share of random draws with a smaller drop than the top weights, ties counted half: (episode, k)."""
        top = self.top[..., None]
        return np.asarray((self.random < top).mean(axis=-1) + 0.5 * (self.random == top).mean(axis=-1))


# ---- normal bands ---------------------------------------------------------------------------------------------------
#
# A quantity that varies over time is kept twice: by segment, for episodes of the usual length, and pooled over all
# segments, for others. Temporal attention is shared among all segments, so pooled values are multiples of an even
# spread. Pooled embeddings are compared without their positional encoding (`content`).

EDGE_QUANTILE = 0.99  # share of normal episodes below the edge of a band
BANDS = (*SCORES, "contribution")  # median and upper edge
SPREAD_QUANTITIES = ("embedding", "content")  # mean and standard deviation
BY_SEGMENT = (*BANDS, "embedding")
POOLED = (*BANDS, "content")
BETWEEN_SEGMENTS = ("temporal_attention", "global_temporal_attention")  # the last two axes are segments
WITHOUT_SEGMENTS = ("global_spatial_attention", "global_spatial_relevance")
MAX_POOLED_SAMPLES = 1 << 14
MAX_BAND_SIZE = 1 << 22  # numbers in a band by segment; larger ones are only kept pooled


@dataclass(frozen=True)
class NormalBand:
    """The normal value of a quantity and its variation in normal episodes; shapes broadcast to the quantity's.

    For a band, the centre is the median and the width extends to the upper edge; for a spread, they are mean and
    deviation.
    """

    centre: Array
    width: Array
    floor: float  # minimum width, for sensors that never move and attention that never changes

    @classmethod
    def of(cls, name: str, centre: Array, width: Array) -> NormalBand:
        """Create a band with the floor of its quantity; for temporal attention, that is a share of an even spread."""
        floor = 1e-2 if name in ("embedding", "content") else 1e-3
        return cls(centre, width, floor / centre.shape[-1] if name in BETWEEN_SEGMENTS else floor)

    def excess(self, values: Array) -> Array:
        """Return how far values are above the centre, in widths: 0 is the centre, 1 the edge of a band."""
        return np.asarray((values - self.centre) / np.maximum(self.width, self.floor))

    @property
    def edge(self) -> Array:
        """The upper edge."""
        return self.centre + np.maximum(self.width, self.floor)

    def fit_length(self, name: str, n_segments: int) -> NormalBand:
        """Adapt this pooled band to an episode of `n_segments` segments."""
        if name not in BETWEEN_SEGMENTS:
            return self
        return NormalBand(self.centre / n_segments, self.width / n_segments, self.floor / n_segments)


def bands_by_segment(scores: Sequence[EpisodeScores], max_size: int = MAX_BAND_SIZE) -> dict[str, NormalBand]:
    """Return a band for each quantity, in its shape, from episodes of equal length; omit those that are too large."""
    small = [name for name in BY_SEGMENT if name not in BANDS or getattr(scores[0], name).size <= max_size]
    return {
        name: NormalBand.of(name, *_centre_and_width(name, np.stack([getattr(one, name) for one in scores])))
        for name in small
    }


def pooled_band(
    name: str, scores: Sequence[EpisodeScores], seed: int = 0, max_samples: int = MAX_POOLED_SAMPLES
) -> NormalBand:
    """Return a band over all segments of episodes of any length; segment axes have length one, or are absent if first.

    Every episode contributes the same number of samples, if it has enough.
    """
    random, most = np.random.default_rng(seed), max(max_samples // len(scores), 1)
    samples = []
    for one in scores:
        own = _samples(one, name)
        if len(own) > most:
            own = own[random.choice(len(own), most, replace=False)]
        samples.append(own * one.n_segments if name in BETWEEN_SEGMENTS else own)  # 1 is an even spread
    trailing = (1,) * (2 if name in BETWEEN_SEGMENTS else 1 if name == "temporal_relevance" else 0)
    parts = _centre_and_width(name, np.concatenate(samples))
    return NormalBand.of(name, *(np.reshape(part, np.shape(part) + trailing) for part in parts))


def _samples(scores: EpisodeScores, name: str) -> Array:
    """Return a view of a quantity with its segments, or pairs of segments, as the first axis."""
    values: Array = getattr(scores, name)
    if name in WITHOUT_SEGMENTS:
        return values[None]
    if name in BETWEEN_SEGMENTS:
        return np.moveaxis(values.reshape(*values.shape[:-2], -1), -1, 0)
    return values.T if name == "temporal_relevance" else values


def _centre_and_width(name: str, samples: Array) -> tuple[Array, Array]:
    """Return the centre and the width over the first axis."""
    if name in SPREAD_QUANTITIES:
        return samples.mean(axis=0), samples.std(axis=0)
    centre, edge = np.quantile(samples, (0.5, EDGE_QUANTILE), axis=0)
    return centre, edge - centre

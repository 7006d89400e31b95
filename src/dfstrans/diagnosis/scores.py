"""The paper's eight attention scores of an episode, and the other values that the network computes for each cell.

Arrays are named `[global_]` + `temporal|spatial` + `_attention` (matrix) or `_relevance` (its column sums).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

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
        contribution (segment, sensor) to the logit; level (segment, sensor), the mean of the scaled values;
        features (width,), the input of the classifier
    """

    logit: float
    embedding: Array
    encoding: Array
    contribution: Array
    level: Array
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

"""The eight diagnostic scores of an episode, and what else the network knows of each sensor at each moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def temporal_relevance(temporal_attention: Array) -> Array:
    """How much each moment of a sensor acts on its others: a^(s)_τ = Σ_τ' A^(s)_τ'τ.

    Shape:
        (sensor, query, key) → (sensor, segment)
    """
    return np.asarray(temporal_attention.sum(axis=-2))


def global_temporal_attention(temporal_attention: Array) -> Array:
    """The temporal attention of the mean sensor: A^G = (1/S) Σ_s A^(s).

    Shape:
        (sensor, query, key) → (query, key)
    """
    return np.asarray(temporal_attention.mean(axis=0))


def global_temporal_relevance(temporal_attention: Array) -> Array:
    """How much each moment matters over all sensors: a^G_τ = (1/S) Σ_s a^(s)_τ.

    Shape:
        (sensor, query, key) → (segment,)
    """
    return np.asarray(temporal_relevance(temporal_attention).mean(axis=0))


def spatial_relevance(spatial_attention: Array) -> Array:
    """How much each sensor acts on the others at a moment: b^(τ)_s = Σ_s' B^(τ)_s's.

    Shape:
        (segment, query, key) → (segment, sensor)
    """
    return np.asarray(spatial_attention.sum(axis=-2))


def global_spatial_attention(spatial_attention: Array, moment_weight: Array) -> Array:
    """The spatial attention of the mean moment, each weighed by its relevance: B^G = (1/N_w) Σ_τ B^(τ) a^G_τ.

    Shape:
        (segment, query, key), (segment,) → (query, key)
    """
    return np.asarray(np.einsum("tqk,t->qk", spatial_attention, moment_weight) / len(moment_weight))


def global_spatial_relevance(spatial_attention: Array, moment_weight: Array) -> Array:
    """How much each sensor matters over all moments: b^G_s = Σ_s' B^G_s's.

    Shape:
        (segment, query, key), (segment,) → (sensor,)
    """
    return np.asarray(global_spatial_attention(spatial_attention, moment_weight).sum(axis=0))


@dataclass(frozen=True)
class EpisodeScores:
    """Local and global, temporal and spatial, attention and relevance [eq:temporal_diag_scores, …spatial…].

    Shape:
        temporal (sensor, query, key) A^(s); spatial (segment, query, key) B^(τ); heads averaged, real segments only;
        embedding (segment, sensor, d_model), in which the positional encoding (segment, d_model) is;
        contribution (segment, sensor), what each adds to the logit;
        level (segment, sensor), the mean of the scaled values; features (width,), what the classifier sees
    """

    logit: float
    temporal: Array
    spatial: Array
    embedding: Array
    encoding: Array
    contribution: Array
    level: Array
    features: Array

    @property
    def content(self) -> Array:
        """The embedding without its place in time: (segment, sensor, d_model)."""
        return np.asarray(self.embedding - self.encoding[:, None])

    @cached_property
    def temporal_relevance(self) -> Array:
        """a^(s)_τ: (sensor, segment)."""
        return temporal_relevance(self.temporal)

    @cached_property
    def spatial_relevance(self) -> Array:
        """b^(τ)_s: (segment, sensor)."""
        return spatial_relevance(self.spatial)

    @cached_property
    def global_temporal(self) -> Array:
        """A^G: (query segment, key segment)."""
        return global_temporal_attention(self.temporal)

    @cached_property
    def segment(self) -> Array:
        """a^G_τ, the global temporal relevance: (segment,)."""
        return global_temporal_relevance(self.temporal)

    @cached_property
    def global_spatial(self) -> Array:
        """B^G: (query sensor, key sensor)."""
        return global_spatial_attention(self.spatial, self.segment)

    @cached_property
    def sensor(self) -> Array:
        """b^G_s, the global spatial relevance: (sensor,)."""
        return np.asarray(self.global_spatial.sum(axis=0))

    @cached_property
    def cell(self) -> Array:
        """a^(s)_τ · b^(τ)_s, how much a sensor at a moment acts on all the rest: (segment, sensor)."""
        return self.temporal_relevance.T * self.spatial_relevance

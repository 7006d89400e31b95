"""The eight diagnostic scores of an episode, made from its attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dfstrans.diagnosis.scores import (
    Array,
    global_spatial_attention,
    global_temporal_attention,
    global_temporal_relevance,
    spatial_relevance,
    temporal_relevance,
)

if TYPE_CHECKING:
    from dfstrans.diagnoser import Diagnoser
    from dfstrans.model.network import AttentionPair


@dataclass(frozen=True)
class EpisodeScores:
    """Local and global, temporal and spatial, attention and relevance [eq:temporal_diag_scores, …spatial…].

    Shape:
        temporal (sensor, query, key) A^(s); spatial (segment, query, key) B^(τ); heads averaged, real segments only
    """

    temporal: Array
    spatial: Array

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
        relevance: Array = self.global_spatial.sum(axis=0)
        return relevance

    @cached_property
    def cell(self) -> Array:
        """a^(s)_τ · b^(τ)_s, how much a sensor at a moment acts on all the rest: (segment, sensor)."""
        return self.temporal_relevance.T * self.spatial_relevance


def episode_scores(detector: Diagnoser, episodes: Any) -> Iterator[EpisodeScores]:
    """The scores of each episode from the last layer's attention, one batch in memory at a time."""
    for forward in detector.forward(episodes, return_attention=True):
        assert forward.attention is not None  # it was asked for
        yield from scores_of(forward.attention)


def scores_of(attention: AttentionPair) -> Iterator[EpisodeScores]:
    """The scores of each episode of a batch."""
    temporal, spatial = (weights[:, -1].mean(dim=2).double().numpy() for weights in attention)
    for a, b in zip(temporal, spatial, strict=True):
        there = int((b.sum(axis=(1, 2)) > 0).sum())  # padded segments carry no attention
        yield EpisodeScores(a[:, :there, :there], b[:there])

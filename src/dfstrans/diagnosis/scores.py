"""The paper's diagnostic scores, as pure functions of one episode's attention [eq:temporal_diag_scores].

The last axis of an attention matrix is the key: what is attended to. Its rows sum to 1, so a relevance (a column sum)
of 1 means "unremarkable". Heads are averaged first.
"""

from __future__ import annotations

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

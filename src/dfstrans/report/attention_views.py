"""Attention as its pictures show it: a matrix and its column sums, each beside what is normal of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.diagnosis import Diagnosis

Array = npt.NDArray[np.float64]


class AttentionView(NamedTuple):
    """A matrix whose rows attend to its columns, its column sums, and of each the edge of the 99 % normal band.

    Unknown (NaN) edges are those of scores whose band the model does not keep.

    Shape:
        attention, usual (the normal median) and attention_edge (query, key); relevance and relevance_edge (key,)
    """

    attention: Array
    usual: Array
    attention_edge: Array
    relevance: Array
    relevance_edge: Array

    @property
    def cells_beyond(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns of the weights above their normal band."""
        rows, columns = np.nonzero(self.attention > self.attention_edge)
        return rows, columns

    @property
    def bars_beyond(self) -> npt.NDArray[np.bool_]:
        """Which relevances are above their normal band."""
        return np.asarray(self.relevance > self.relevance_edge)


def between_moments(diagnosis: Diagnosis) -> AttentionView:
    """A^G and a^G: how moments attend to one another, over all sensors."""
    return _view(diagnosis, "global_temporal", "segment", ())


def between_sensors(diagnosis: Diagnosis, segment: int | None = None) -> AttentionView:
    """B^G and b^G: how sensors attend to one another, over all moments; B^(τ) and b^(τ) at one of them."""
    if segment is None:
        return _view(diagnosis, "global_spatial", "sensor", ())
    return _view(diagnosis, "spatial", "spatial_relevance", (segment,))


def relevance_edge(diagnosis: Diagnosis, sensor: int) -> Array:
    """The edge of the normal band of a^(s), one sensor's temporal relevance: (segment,); NaN where it is not kept."""
    return _of_band(diagnosis, "temporal_relevance", "edge", (sensor,))


def _view(diagnosis: Diagnosis, matrix: str, sums: str, at: tuple[int, ...]) -> AttentionView:
    return AttentionView(
        getattr(diagnosis.scores, matrix)[at],
        _of_band(diagnosis, matrix, "centre", at),
        _of_band(diagnosis, matrix, "edge", at),
        getattr(diagnosis.scores, sums)[at],
        _of_band(diagnosis, sums, "edge", at),
    )


def _of_band(diagnosis: Diagnosis, score: str, what: str, at: tuple[int, ...]) -> Array:
    band, shape = diagnosis.bands.get(score), getattr(diagnosis.scores, score).shape
    return np.asarray(np.broadcast_to(np.nan if band is None else getattr(band, what), shape)[at])

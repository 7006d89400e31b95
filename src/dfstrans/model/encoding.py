"""Positional encodings of segments, and a check of which episodes an encoding supports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import check_segment_length, count_segments
from dfstrans.errors import DfstransError, option_name, reading_option_name

if TYPE_CHECKING:  # the runtime of exported files loads this module without pydantic
    from dfstrans.settings import Encoding


def positional_encoding(name: Encoding, n_segments: int, d_model: int) -> npt.NDArray[np.float64]:
    """Return the encoding of this name; "none" is all zeros, for ablations.

    Shape:
        (n_segments, d_model)
    """
    if name == "none":
        return np.zeros((n_segments, d_model))
    return (faithful_encoding if name == "faithful" else vanilla_encoding)(n_segments, d_model)


def faithful_encoding(n_segments: int, d_model: int) -> npt.NDArray[np.float64]:
    """Return the real discrete Fourier coefficients of each position's one-hot vector [eq:positional_encoding_DFT].

    e^(τ) = √(2/d) · (1/√2, cos ω₁τ, sin ω₁τ, …, cos ω_Kτ, sin ω_Kτ, cos(πτ)/√2),  ω_k = 2πk/d,  K = d/2 − 1

    The rows are orthonormal, so all pairs of positions are equally far apart. Beyond d segments the encoding would
    repeat itself, so that raises an error.

    Shape:
        (n_segments, d_model)

    >>> encoding = faithful_encoding(4, 8)
    >>> np.allclose(encoding @ encoding.T, np.eye(4))
    True
    """
    frequency = lattice_frequencies(d_model)[1:-1]  # ω₁ … ω_K
    if n_segments > d_model:
        raise DfstransError(
            f"expected at most {d_model} segments (the embedding width d_model), got {n_segments}: beyond that the "
            "faithful encoding repeats itself and is no longer faithful; use a longer "
            f"{option_name('segment_length')}, more filters, or the vanilla encoding"
        )
    position = np.arange(n_segments)[:, None]  # τ from 0: the Gram matrix is the same as from 1
    encoding = np.empty((n_segments, d_model))
    encoding[:, 0] = 1 / math.sqrt(2)
    encoding[:, 1:-1:2] = np.cos(position * frequency)
    encoding[:, 2:-1:2] = np.sin(position * frequency)
    encoding[:, -1] = np.cos(math.pi * position[:, 0]) / math.sqrt(2)
    return math.sqrt(2 / d_model) * encoding


def vanilla_encoding(n_segments: int, d_model: int, rho: float = 10_000.0) -> npt.NDArray[np.float64]:
    """Return the sinusoidal encoding of the original transformer [eq:positional_encoding_vaswani512].

    e^(τ) = (sin w₀τ, cos w₀τ, sin w₂τ, cos w₂τ, …, sin w_{d−2}τ, cos w_{d−2}τ),  w_k = ρ^(−k/d)

    Shape:
        (n_segments, d_model)
    """
    position = np.arange(n_segments)[:, None]
    frequency = vanilla_frequencies(d_model, rho)
    encoding = np.empty((n_segments, d_model))
    encoding[:, 0::2] = np.sin(position * frequency)
    encoding[:, 1::2] = np.cos(position * frequency)
    return encoding


def lattice_frequencies(d_model: int) -> npt.NDArray[np.float64]:
    """Return the frequencies of the discrete Fourier transform on d points: ω_k = 2πk/d, k = 0 … d/2.

    Shape:
        (d_model / 2 + 1,)
    """
    _check_width(d_model)
    return 2 * math.pi / d_model * np.arange(d_model // 2 + 1, dtype=np.float64)


def vanilla_frequencies(d_model: int, rho: float = 10_000.0) -> npt.NDArray[np.float64]:
    """Return the frequencies of the vanilla encoding, the fastest first: w_l = ρ^(−l/d), l = 0, 2, …, d − 2.

    Shape:
        (d_model / 2,)
    """
    _check_width(d_model)
    frequencies: npt.NDArray[np.float64] = rho ** (-np.arange(0, d_model, 2) / d_model)
    return frequencies


class Cut(Protocol):
    """The settings that determine how a network cuts and encodes episodes."""

    @property
    def segment_length(self) -> int:
        """Points per segment."""

    @property
    def d_model(self) -> int:
        """Width of the embedding."""

    @property
    def encoding(self) -> Encoding:
        """Name of the positional encoding."""


def check_fits(episodes: Episodes, cut: Cut, *, trained: bool = False) -> None:
    """Reject episodes that are shorter than a segment, or have more segments than the encoding can distinguish.

    For a `trained` network the settings are fixed, so the error suggests shorter episodes instead of other settings.
    """
    if len(episodes) == 0:
        return
    check_segment_length(episodes, cut.segment_length)
    n_segments = count_segments(int(episodes.lengths.max()), cut.segment_length)
    if trained and cut.encoding == "faithful" and n_segments > cut.d_model:
        name, longest = episodes.ids[int(episodes.lengths.argmax())], int(episodes.lengths.max())
        raise DfstransError(
            f"expected episodes of at most {cut.d_model * cut.segment_length} points, the {cut.d_model} segments of "
            f"{cut.segment_length} points that this model can distinguish, got {longest} in episode {str(name)!r}; cut "
            f"the recordings (tables and folders of them: {reading_option_name('length', ...)}), or train again with "
            "longer segments"
        )
    positional_encoding(cut.encoding, n_segments, cut.d_model)


def _check_width(d_model: int) -> None:
    if d_model < 2 or d_model % 2:
        even = max(2, d_model + 1)
        raise DfstransError(
            f"expected an even d_model of at least 2, got {d_model}, since sine and cosine come in pairs; use {even}"
        )

"""Fourier analysis of positional encodings, and a check whether an encoding keeps positions apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform

from dfstrans.errors import DfstransError, list_few
from dfstrans.model.encoding import faithful_encoding, lattice_frequencies, vanilla_frequencies

Verdict = Literal["faithful", "blurred", "ambiguous"]
SAME = 1e-6  # of the typical distance from the mean code: closer codes count as equal
WORST_CONDITION = 1 / float(np.finfo(np.float32).eps)  # networks compute in single precision
_SIZES = (1e-100, 1e100)  # range in which squares neither overflow nor underflow


@dataclass(frozen=True)
class Faithfulness:
    """How well an encoding keeps positions apart; positions count from 0.

    `verdict`: "ambiguous" when some positions share a code; "blurred" when each has its own, but mixtures of positions
    cannot be recovered from mixtures of codes in single precision; otherwise "faithful".
    """

    gram: npt.NDArray[np.float64]  # (n_positions, n_positions): e^(s) · e^(t)
    d_model: int
    collisions: tuple[tuple[int, ...], ...]  # groups of positions that share a code
    smallest_distance: float
    largest_distance: float
    closest: tuple[int, int]
    rank: int  # in double precision
    condition_number: float  # infinite when the rank is less than the number of positions
    directions: float  # (Σλ)² / Σλ² of the Gram matrix's eigenvalues: the effective number of directions
    orthonormal: bool  # up to one common factor

    @property
    def n_positions(self) -> int:
        """The number of positions."""
        return len(self.gram)

    @property
    def injective(self) -> bool:
        """Whether every position has its own code."""
        return not self.collisions

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        if not self.injective:
            return "ambiguous"
        return "faithful" if self.condition_number <= WORST_CONDITION else "blurred"

    @property
    def explanation(self) -> str:
        """The verdict in a sentence."""
        if self.verdict == "ambiguous":
            groups = list_few(
                (" = ".join(map(str, group[:4])) + " …" * (len(group) > 4) for group in self.collisions), 3
            )
            return f"some positions share a code and cannot be distinguished: {groups}"
        if self.verdict == "blurred":
            return (
                f"every position has its own code, but the codes overlap: {self.n_positions} positions span about "
                f"{self.directions:.1f} directions, and mixtures of positions cannot be recovered in single precision"
            )
        if self.orthonormal:
            return "all positions are equally far apart, and any mixture of positions can be recovered exactly"
        return (
            "any mixture of positions can be recovered from its code; "
            f"errors grow at most {self.condition_number:.3g}-fold"
        )

    def to_dict(self) -> dict[str, Any]:
        """The numbers for JSON, without the Gram matrix."""
        measured = {name: value for name, value in vars(self).items() if name not in ("gram", "d_model")}
        return {
            "positions": self.n_positions,
            "width": self.d_model,
            "verdict": self.verdict,
            "explanation": self.explanation,
            "injective": self.injective,
            **measured,
            "condition_number": self.condition_number if np.isfinite(self.condition_number) else None,
        }


def check_faithfulness(encoding: npt.ArrayLike) -> Faithfulness:
    """Check how well an encoding keeps positions apart [Definition "Faithfulness of PE"].

    Shape:
        (n_positions, d_model)

    >>> check_faithfulness([[1, 0], [0, 1]]).verdict
    'faithful'
    >>> check_faithfulness([[1, 0], [0, 1], [1, 0]]).collisions
    ((0, 2),)
    """
    codes = as_codes(encoding)
    n_positions, d_model = codes.shape
    distances = squareform(pdist(codes))
    gram = codes @ codes.T
    singular = np.linalg.svd(codes, compute_uv=False)  # λ = singular²
    rank = int((singular > singular.max() * max(codes.shape) * np.finfo(np.float64).eps).sum())
    energy = singular**2 / (np.square(singular).max() or 1.0)
    first, second = np.unravel_index(np.argmin(distances + np.diag(np.full(n_positions, np.inf))), distances.shape)
    scale = float(np.trace(gram)) / n_positions
    return Faithfulness(
        gram=gram,
        d_model=d_model,
        collisions=_groups(distances <= _resolution(codes)),
        smallest_distance=float(distances[first, second]),
        largest_distance=float(distances.max()),
        closest=(int(first), int(second)),
        rank=rank,
        condition_number=float(singular[0] / singular[-1]) if rank == n_positions else np.inf,
        directions=float(energy.sum() ** 2 / (np.square(energy).sum() or 1.0)),
        orthonormal=bool(np.abs(gram - scale * np.eye(n_positions)).max() < SAME * scale),
    )


def as_codes(encoding: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """An encoding as a matrix of finite numbers; anything else is refused.

    Shape:
        (n_positions, d_model)
    """
    try:
        given = np.asarray(encoding)
    except ValueError as error:  # rows of different lengths
        raise DfstransError(
            f"expected a matrix (n_positions, d_model) of numbers, got rows of different lengths ({error}); "
            "give every position a code of the same width"
        ) from error
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        raise DfstransError(
            f"expected a matrix (n_positions, d_model) of real numbers, got shape {given.shape} of {given.dtype}; "
            "give one row per position, without a batch axis"
        )
    if given.shape[0] < 2 or given.shape[1] < 1:
        raise DfstransError(
            f"expected at least 2 positions and 1 column, got shape {given.shape}; give one row per position"
        )
    codes = given.astype(np.float64)
    if not (finite := np.isfinite(codes)).all():
        position, column = np.argwhere(~finite)[0]
        raise DfstransError(
            f"expected finite numbers, got {int((~finite).sum())} that are nan or infinite, the first at position "
            f"{position}, column {column} (from 0); remove these positions or correct them"
        )
    largest = np.abs(codes).max()
    if largest and not _SIZES[0] < largest < _SIZES[1]:
        raise DfstransError(
            f"expected values between {_SIZES[0]:g} and {_SIZES[1]:g} in size, got {largest:g}; scale the encoding: "
            "the verdict does not depend on its size"
        )
    return codes


def _resolution(codes: npt.NDArray[np.float64]) -> float:
    """The distance up to which two codes count as equal: a tiny part of their spread, or rounding."""
    spread = np.sqrt(np.square(codes - codes.mean(axis=0)).sum(axis=1).mean())
    rounding = 8 * np.finfo(np.float64).eps * np.linalg.norm(codes, axis=1).max()
    return float(max(SAME * spread, rounding))


def _groups(same: npt.NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """The groups of positions whose codes are equal, directly or through others."""
    n_groups, label = connected_components(coo_array(same), directed=False)
    groups = (np.flatnonzero(label == group) for group in range(n_groups) if (label == group).sum() > 1)
    return tuple(tuple(group.tolist()) for group in groups)


# ---- frequencies ----------------------------------------------------------------------------------------------------

RHO = 10_000.0  # eq:positional_encoding_vaswani512
BANDWIDTH_BINS = 4  # σ = 4 · 2π/d [fig:frequencyRatio]


def vanilla_distribution(d_model: int) -> npt.NDArray[np.float64]:
    """g_k of the vanilla encoding, concentrated at the lowest frequencies [fig:frequencyRatio, black].

    A kernel estimate of the density of its frequencies w_l at those of a lattice of d points [sec:Fourier_PE]:
    g_k = (1/R) Σ_l exp(−(ω_k − w_l)² / 2σ²),  Σ_k g_k = 1,  σ = 4 · 2π/d

    Shape:
        (d_model / 2 + 1,)
    """
    lattice, frequencies = lattice_frequencies(d_model), vanilla_frequencies(d_model, RHO)
    sigma = BANDWIDTH_BINS * 2 * math.pi / d_model
    exponents = -((lattice[:, None] - frequencies) ** 2) / (2 * sigma**2)
    kernel = np.exp(exponents - exponents.max()).sum(axis=1)  # R cancels the factor
    return np.asarray(kernel / kernel.sum())


def faithful_distribution(d_model: int) -> npt.NDArray[np.float64]:
    """g_k of the faithful encoding: 1/d at both ends, 2/d in between [fig:frequencyRatio, red].

    Shape:
        (d_model / 2 + 1,)

    >>> faithful_distribution(4).tolist()
    [0.25, 0.5, 0.25]
    """
    shares = np.full(len(lattice_frequencies(d_model)), 2 / d_model)
    shares[[0, -1]] = 1 / d_model
    return shares


def as_density(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The shares of frequencies divided by the width of their bins, with sum 1: the bins at 0 and π are half as wide.

    The faithful encoding's density is flat; its shares are flat except at the ends. A kernel estimate is a density.

    Shape:
        (d_model / 2 + 1,) → the same

    >>> as_density(faithful_distribution(4)).round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    density = np.array(shares, dtype=np.float64)
    density[[0, -1]] *= 2
    return np.asarray(density / density.sum())


def lowest_bin_crossing(d_model: int) -> float:
    """The index l from which the vanilla encoding's frequencies are below the lattice's lowest, 2π/d = ρ^(−l/d).

    l = d · log(d/2π) / log ρ, which is (d/4) · log₁₀(d/2π): 103 for d = 256, 245 for d = 512.
    """
    lowest = lattice_frequencies(d_model)[1]
    return d_model * -math.log(lowest) / math.log(RHO)


def lowest_bin_entries(d_model: int) -> int:
    """How many of a vanilla encoding's d entries are slower than the lattice's lowest frequency 2π/d.

    These are the entries beyond the crossing: 152 of 256, 266 of 512.
    """
    return 2 * int((vanilla_frequencies(d_model, RHO) < lattice_frequencies(d_model)[1]).sum())


# ---- reconstruction -------------------------------------------------------------------------------------------------

NOTICEABLE = 0.1  # of the peak


def position_functions(positions: tuple[int, ...], d_model: int) -> npt.NDArray[np.float64]:
    """The one-hot functions δ_{t,s} of some positions s on a lattice of d points.

    Shape:
        (len(positions), d_model)
    """
    return np.asarray(np.arange(d_model) == np.array(positions)[:, None], dtype=np.float64)


def reconstruct(functions: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Functions after weighting their Fourier coefficients, with the same ℓ2 norm [algo:reference_reconstruction].

    a_0 ← a_0 g_0,  a_k ← a_k g_k,  b_k ← b_k g_k,  b_0 ← b_0 g_{K+1};  then back, at the same norm

    Shape:
        functions (..., d_model), weights (d_model / 2 + 1,) → (..., d_model)
    """
    d_model = functions.shape[-1]
    basis = faithful_encoding(d_model, d_model)  # φ_j(t) as (t, j): orthonormal
    per_coefficient = np.repeat(weights / weights.max(), 2)[1:-1]  # g_0, g_1, g_1, …, g_K, g_K, g_{K+1}
    weighted = functions @ basis * per_coefficient
    before = np.linalg.norm(functions, axis=-1, keepdims=True)
    after = np.linalg.norm(weighted, axis=-1, keepdims=True)
    return np.asarray((weighted * (before / np.where(after == 0, 1.0, after))) @ basis.T)


@dataclass(frozen=True)
class Blur:
    """How sharply a reconstruction represents a single position."""

    position: int
    height: float  # value at the position; 1 is perfect
    kept: float  # share of the squared norm at the position
    reach: int  # number of positions above a tenth of the peak
    error: float  # largest difference from the one-hot function


def blur_of(reconstruction: npt.NDArray[np.float64], position: int) -> Blur:
    """How sharply a reconstruction of δ_{t,position} represents the position.

    Shape:
        reconstruction (d_model,)

    >>> blur_of(np.array([0.0, 0.0, 1.0, 0.0]), 2)
    Blur(position=2, height=1.0, kept=1.0, reach=1, error=0.0)
    """
    height = float(reconstruction[position])
    (truth,) = position_functions((position,), len(reconstruction))
    return Blur(
        position=position,
        height=height,
        kept=height**2 / float(reconstruction @ reconstruction),
        reach=int((reconstruction > NOTICEABLE * reconstruction.max()).sum()),
        error=float(np.abs(reconstruction - truth).max()),
    )

"""What is left of a position after an encoding's frequencies have weighed it [algo:reference_reconstruction]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError
from dfstrans.model.encoding import faithful_encoding

NOTICEABLE = 0.1  # of the peak


def position_functions(positions: tuple[int, ...], d_model: int) -> npt.NDArray[np.float64]:
    """The one-hot functions δ_{t,s} of some positions s on a lattice of d points.

    Shape:
        (len(positions), d_model)
    """
    outside = [position for position in positions if not 0 <= position < d_model]
    if outside:
        raise DfstransError(
            f"expected positions from 0 to {d_model - 1}, got {', '.join(map(str, outside))}; "
            "choose others or a larger d_model"
        )
    functions = np.zeros((len(positions), d_model))
    functions[np.arange(len(positions)), list(positions)] = 1
    return functions


def reconstruct(functions: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Functions whose Fourier coefficients are weighed, with their ℓ2 norm kept [algo:reference_reconstruction].

    a_0 ← a_0 g_0,  a_k ← a_k g_k,  b_k ← b_k g_k,  b_0 ← b_0 g_{K+1};  then back, and scaled to the norm it had

    Shape:
        functions (..., d_model), weights (d_model / 2 + 1,) → (..., d_model)
    """
    functions, weights = np.asarray(functions, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    _check(functions, weights)
    d_model = functions.shape[-1]
    basis = faithful_encoding(d_model, d_model)  # φ_j(t) as (t, j): orthonormal
    per_coefficient = np.repeat(weights / (weights.max() or 1.0), 2)[1:-1]  # g_0, g_1, g_1, …, g_K, g_K, g_{K+1}
    weighed = functions @ basis * per_coefficient
    before = np.linalg.norm(functions, axis=-1, keepdims=True)
    after = np.linalg.norm(weighed, axis=-1, keepdims=True)
    if (lost := (after == 0) & (before > 0)).any():
        raise DfstransError(
            f"expected weights above 0 at some frequency of each function, got none for {int(lost.sum())} of "
            f"{lost.size}; nothing is left to reconstruct: use wider weights or another function"
        )
    return np.asarray((weighed * (before / np.where(after == 0, 1.0, after))) @ basis.T)


@dataclass(frozen=True)
class Blur:
    """How much of a single position a reconstruction kept."""

    position: int
    height: float  # of the value there; 1 is perfect
    kept: float  # share of the squared norm that stayed there
    reach: int  # positions at which it is above a tenth of its peak
    error: float  # largest difference to the one-hot function


def blur_of(reconstruction: npt.NDArray[np.float64], position: int) -> Blur:
    """How much of δ_{t,position} is left in its reconstruction.

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


def _check(functions: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> None:
    if functions.ndim < 1 or weights.ndim != 1 or functions.shape[-1] != 2 * (len(weights) - 1):
        raise DfstransError(
            f"expected functions on an even number d of points and d/2 + 1 weights, got shapes {functions.shape} and "
            f"{weights.shape}; fill the functions up with zeros, or take the weights for their d"
        )
    if not np.isfinite(functions).all():
        raise DfstransError("expected finite values of the functions, got nan or infinity; replace them")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise DfstransError(
            f"expected finite weights of at least 0, got values from {weights.min():g} to {weights.max():g}; "
            "give a distribution over frequencies"
        )

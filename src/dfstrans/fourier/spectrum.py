"""How the frequencies of an encoding are spread over those of the discrete Fourier transform."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError
from dfstrans.model.encoding import lattice_frequencies, vanilla_frequencies

RHO = 10_000.0  # eq:positional_encoding_vaswani512
BANDWIDTH_BINS = 4  # σ = 4 · 2π/d [fig:frequencyRatio]


def frequency_distribution(
    frequencies: npt.NDArray[np.float64], d_model: int, bandwidth: float | None = None
) -> npt.NDArray[np.float64]:
    """The kernel estimate of how dense some frequencies are at those of a lattice of d points [sec:Fourier_PE].

    g_k = (1/R) Σ_l exp(−(ω_k − w_l)² / 2σ²),  Σ_k g_k = 1;  σ is the bandwidth, 4 · 2π/d unless given

    Shape:
        frequencies (n,), each from 0 to π → (d_model / 2 + 1,)
    """
    lattice = lattice_frequencies(d_model)
    sigma = BANDWIDTH_BINS * 2 * math.pi / d_model if bandwidth is None else bandwidth
    if not (math.isfinite(sigma) and sigma > 0):
        raise DfstransError(f"expected a bandwidth greater than 0, got {sigma}; leave it out for 4 · 2π/d")
    frequencies = np.asarray(frequencies, dtype=np.float64)
    if frequencies.ndim != 1 or not frequencies.size or not ((frequencies >= 0) & (frequencies <= math.pi)).all():
        raise DfstransError(
            f"expected a list of frequencies from 0 to π, got shape {frequencies.shape} with values from "
            f"{frequencies.min(initial=math.inf):g} to {frequencies.max(initial=-math.inf):g}; "
            "give radians per position"
        )
    exponents = -((lattice[:, None] - frequencies) ** 2) / (2 * sigma**2)
    kernel = np.exp(exponents - exponents.max()).sum(axis=1)  # R takes the factor out again
    return np.asarray(kernel / kernel.sum())


def vanilla_distribution(d_model: int, rho: float = RHO, bandwidth: float | None = None) -> npt.NDArray[np.float64]:
    """g_k of the vanilla encoding: nearly all of it at the lowest frequencies [fig:frequencyRatio, black].

    Shape:
        (d_model / 2 + 1,)
    """
    _check_rho(rho)
    return frequency_distribution(vanilla_frequencies(d_model, rho), d_model, bandwidth)


def faithful_distribution(d_model: int) -> npt.NDArray[np.float64]:
    """g_k of the faithful encoding: 1/d at both ends, 2/d between them [fig:frequencyRatio, red].

    Shape:
        (d_model / 2 + 1,)

    >>> faithful_distribution(4).tolist()
    [0.25, 0.5, 0.25]
    """
    shares = np.full(len(lattice_frequencies(d_model)), 2 / d_model)
    shares[[0, -1]] = 1 / d_model
    return shares


def as_density(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Shares of the frequencies per width of their bins, with the sum 1: the bins at 0 and π are half as wide.

    The faithful encoding's shares are flat but for their ends; its density is flat throughout. A kernel estimate is a
    density already.

    Shape:
        (d_model / 2 + 1,) → the same

    >>> as_density(faithful_distribution(4)).round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    density = np.array(shares, dtype=np.float64)
    density[[0, -1]] *= 2
    return np.asarray(density / density.sum())


def lowest_bin_crossing(d_model: int, rho: float = RHO) -> float:
    """The index l from which the vanilla encoding's frequencies are below the lattice's lowest, 2π/d = ρ^(−l/d).

    l = d · log(d/2π) / log ρ, which is (d/4) · log₁₀(d/2π) for ρ = 10 000: 103 for d = 256, 245 for d = 512. Below 0
    all of them are.
    """
    _check_rho(rho)
    lowest = lattice_frequencies(d_model)[1]
    return d_model * -math.log(lowest) / math.log(rho)


def lowest_bin_entries(d_model: int, rho: float = RHO) -> int:
    """How many of a vanilla encoding's d entries are slower than the lattice's lowest frequency 2π/d.

    These are the entries beyond the crossing: 152 of 256, 266 of 512.
    """
    _check_rho(rho)
    return 2 * int((vanilla_frequencies(d_model, rho) < lattice_frequencies(d_model)[1]).sum())


def _check_rho(rho: float) -> None:
    if not (math.isfinite(rho) and rho > 1):
        raise DfstransError(f"expected rho to be greater than 1, got {rho}; the usual value is 10000")

"""Whether an encoding tells every position from every other, for any matrix of codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform

from dfstrans.errors import DfstransError, shortlist

Verdict = Literal["faithful", "blurred", "ambiguous"]
SAME = 1e-6  # of the typical distance from the mean code: two codes that are closer count as one
WORST_CONDITION = 1 / float(np.finfo(np.float32).eps)  # networks compute in single precision
_SIZES = (1e-100, 1e100)  # squares of these are still numbers


@dataclass(frozen=True)
class Faithfulness:
    """What an encoding keeps of positions; these are counted from 0.

    `verdict`: "ambiguous" when some positions share a code; "blurred" when each has its own, but mixtures of positions
    cannot be read back from mixtures of codes in single precision; otherwise "faithful".
    """

    gram: npt.NDArray[np.float64]  # (n_positions, n_positions): e^(s) · e^(t)
    d_model: int
    collisions: tuple[tuple[int, ...], ...]  # groups of positions that share a code
    smallest_distance: float
    largest_distance: float
    closest: tuple[int, int]
    rank: int  # in double precision
    condition_number: float  # infinite when the rank is less than the number of positions
    directions: float  # (Σλ)² / Σλ² of the Gram matrix's eigenvalues: the number of directions that matter
    orthonormal: bool  # up to one common factor

    @property
    def n_positions(self) -> int:
        """How many positions there are."""
        return len(self.gram)

    @property
    def injective(self) -> bool:
        """Whether every position has a code of its own."""
        return not self.collisions

    @property
    def verdict(self) -> Verdict:
        """The outcome in one word."""
        if not self.injective:
            return "ambiguous"
        return "faithful" if self.condition_number <= WORST_CONDITION else "blurred"

    @property
    def explanation(self) -> str:
        """The outcome in plain words."""
        if self.verdict == "ambiguous":
            groups = shortlist(
                (" = ".join(map(str, group[:4])) + " …" * (len(group) > 4) for group in self.collisions), 3
            )
            return f"some positions share a code, so nobody can tell them apart: {groups}"
        if self.verdict == "blurred":
            return (
                f"every position has a code of its own, but the codes overlap: {self.n_positions} positions fill about "
                f"{self.directions:.1f} directions, and mixtures of positions cannot be read back in single precision"
            )
        if self.orthonormal:
            return (
                "every position is equally far from every other, and any mixture of positions can be read back exactly"
            )
        return (
            "any mixture of positions can be read back from its code; "
            f"errors grow at most {self.condition_number:.3g}-fold on the way"
        )

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON; without the Gram matrix."""
        return {
            "positions": self.n_positions,
            "width": self.d_model,
            "verdict": self.verdict,
            "explanation": self.explanation,
            "injective": self.injective,
            "orthonormal": self.orthonormal,
            "collisions": [list(group) for group in self.collisions],
            "smallest_distance": self.smallest_distance,
            "largest_distance": self.largest_distance,
            "closest": list(self.closest),
            "rank": self.rank,
            "condition_number": self.condition_number if np.isfinite(self.condition_number) else None,
            "directions": self.directions,
        }


def check_faithfulness(encoding: npt.ArrayLike) -> Faithfulness:
    """What any encoding keeps of positions [Definition "Faithfulness of PE"].

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
    """An encoding as a matrix of finite numbers, or an error that says what it is instead.

    Shape:
        (n_positions, d_model)
    """
    try:
        given = np.asarray(encoding)
    except ValueError as error:  # rows of different lengths
        raise DfstransError(
            f"expected a matrix (n_positions, d_model) of numbers, got rows that do not fit together ({error}); "
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
            f"{position}, column {column} (from 0); leave such positions out or mend how they are made"
        )
    largest = np.abs(codes).max()
    if largest and not _SIZES[0] < largest < _SIZES[1]:
        raise DfstransError(
            f"expected values between {_SIZES[0]:g} and {_SIZES[1]:g} in size, got {largest:g}; scale the encoding: "
            "the verdict does not depend on its size"
        )
    return codes


def _resolution(codes: npt.NDArray[np.float64]) -> float:
    """The distance up to which two codes count as the same: tiny beside their spread, or rounding of their values."""
    spread = np.sqrt(np.square(codes - codes.mean(axis=0)).sum(axis=1).mean())
    rounding = 8 * np.finfo(np.float64).eps * np.linalg.norm(codes, axis=1).max()
    return float(max(SAME * spread, rounding))


def _groups(same: npt.NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """The groups of at least two positions that are the same, directly or through others."""
    n_groups, label = connected_components(coo_array(same), directed=False)
    groups = (np.flatnonzero(label == group) for group in range(n_groups) if (label == group).sum() > 1)
    return tuple(tuple(group.tolist()) for group in groups)

"""Rankings with ties: where each item may stand when equal scores are put in a random order.

A metric of a ranking is its expected value over that order. Constant scores therefore earn exactly what a random
ranking earns, and the chance level of a metric is its value for constant scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class DegenerateTruthError(DfstransError):
    """A truth that tells no ranking from another; `reason` says it in a few words."""

    def __init__(self, expected: str, reason: str) -> None:
        super().__init__(f"expected {expected}, got {reason}, which tells no ranking from another; leave it out")
        self.reason = reason


class Places(NamedTuple):
    """Of each item, how many items score higher, and how many share its score (itself included).

    Its rank is one of above + 1 … above + tied, each with the same probability.

    Shape:
        above, tied (n_items,)
    """

    above: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]


def places(scores: Array) -> Places:
    """Where each item stands, the highest score first.

    >>> places(np.array([0.5, 2.0, 0.5]))
    Places(above=array([1, 0, 1]), tied=array([2, 1, 2]))
    """
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return Places(above=(len(scores) - counts.cumsum())[group], tied=counts[group])


def in_top(scores: Array, n: int) -> Array:
    """The probability of each item to be among the first n.

    >>> in_top(np.array([0.5, 2.0, 0.5]), 2)
    array([0.5, 1. , 0.5])
    """
    above, tied = places(scores)
    probability: Array = np.clip((n - above) / tied, 0.0, 1.0)
    return probability


def checked_scores(scores: npt.ArrayLike, n_items: int) -> Array:
    """Scores as numbers, one per item; cells (segment, sensor) become one row of items."""
    found = np.asarray(scores, dtype=np.float64).ravel()
    if len(found) != n_items:
        raise DfstransError(f"expected a score for each of {n_items} items, got {len(found)} scores")
    if np.isnan(found).any():
        raise DfstransError(
            f"expected a number as score of each item, got NaN for {int(np.isnan(found).sum())} of {n_items}; "
            "score what is not known as the least suspicious"
        )
    return found


def checked(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> tuple[Array, Mask]:
    """Scores and truth of the same items, of which some but not all are blamed."""
    mask = np.asarray(blamed, dtype=np.bool_).ravel()
    if mask.all() or not mask.any():
        reason = f"{'all' if mask.any() else 'none'} of {len(mask)} blamed"
        raise DegenerateTruthError("a truth that blames some items, but not all", reason)
    return checked_scores(scores, len(mask)), mask

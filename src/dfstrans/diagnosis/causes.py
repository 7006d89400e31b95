"""Which known faults an anomaly resembles: its nearest neighbours among anomalies whose kind is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

NEIGHBOURS = 5


class Resemblance(NamedTuple):
    """How many of the nearest known cases are of a kind."""

    kind: str
    cases: int
    of: int


def resembling(
    features: npt.NDArray[np.float64],
    known: npt.NDArray[np.float64],
    kinds: Sequence[str],
    neighbours: int = NEIGHBOURS,
) -> tuple[Resemblance, ...]:
    """The kinds of the nearest known cases, the most frequent first; of equally many the nearer first.

    Features are what the classifier sees of an episode; near means a small angle between them.

    Shape:
        features (width,), known (n_known, width)

    >>> resembling(np.array([1.0, 0.1]), np.array([[1, 0], [0.9, 0], [0, 1]]), ["bump", "bump", "rust"], 2)
    (Resemblance(kind='bump', cases=2, of=2),)
    """
    nearest = np.argsort(-(_unit(known) @ _unit(features)), kind="stable")[:neighbours]
    counted = Counter(kinds[case] for case in nearest)  # keeps the order of first appearance, which is nearness
    return tuple(Resemblance(kind, n, len(nearest)) for kind, n in counted.most_common())


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: npt.NDArray[np.float64] = rows / np.where(lengths > 0, lengths, 1)
    return unit

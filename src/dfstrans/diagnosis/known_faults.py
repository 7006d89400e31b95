"""The anomalies of known kind that a model keeps, so that a diagnosis can tell which of them it resembles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.inspection import Detector, episode_scores

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


MOST_CASES = 1000  # that a model keeps; of more, the first


@dataclass(frozen=True, eq=False)
class KnownCases:
    """Anomalies whose kind of fault is known, as a model keeps them to compare others with.

    Shape:
        ids and kinds (n_cases,), features (n_cases, width)
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    features: npt.NDArray[np.float32]

    @classmethod
    def none(cls) -> Self:
        """Where no kind is known."""
        return cls((), (), np.zeros((0, 0), dtype=np.float32))

    @classmethod
    def of(cls, detector: Detector, episodes: Episodes) -> Self:
        """Those of the episodes whose kind is known; none where all are of one kind, which would tell nothing."""
        kinds = episodes.fault_kinds()
        rows = [row for row, kind in enumerate(kinds) if kind][:MOST_CASES]
        if len({kinds[row] for row in rows}) < 2:
            return cls.none()
        features = [scores.features for scores in episode_scores(detector, episodes[rows])]
        ids = tuple(str(episodes.ids[row]) for row in rows)
        return cls(ids, tuple(kinds[row] for row in rows), np.stack(features).astype(np.float32))

    def resembled_by(self, episode_id: str, features: npt.NDArray[np.float64]) -> tuple[Resemblance, ...]:
        """What an episode resembles, itself aside; see `resembling`."""
        others = [case for case, name in enumerate(self.ids) if name != episode_id]
        if not others:
            return ()
        kinds = [self.kinds[case] for case in others]
        rarest = min(Counter(kinds).values())
        neighbours = min(NEIGHBOURS, 2 * rarest - 1)  # so few that the rarest kind can be the most frequent of them
        return resembling(features, self.features[others].astype(np.float64), kinds, neighbours)

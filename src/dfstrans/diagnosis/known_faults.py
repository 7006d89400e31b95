"""Training anomalies of known kind, which a model keeps to find those most similar to an episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.diagnosis.inspection import Detector, episode_scores
from dfstrans.diagnosis.schema import Resemblance
from dfstrans.diagnosis.scores import Array

NEAREST_CASES = 5
MAX_CASES = 1000  # per model


@dataclass(frozen=True, eq=False)
class KnownCases:
    """Anomalies of known kind.

    Shape:
        ids and kinds (n_cases,), features (n_cases, width)
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    features: npt.NDArray[np.float32]

    @classmethod
    def none(cls) -> Self:
        """No known case."""
        return cls((), (), np.zeros((0, 0), dtype=np.float32))

    @classmethod
    def of(cls, detector: Detector, episodes: Episodes) -> Self:
        """Collect at most `MAX_CASES` episodes of known kind; none if all are of one kind, which is uninformative."""
        kinds = episodes.fault_kinds()
        rows = [row for row, kind in enumerate(kinds) if kind][:MAX_CASES]
        if len({kinds[row] for row in rows}) < 2:
            return cls.none()
        features = [scores.features for scores in episode_scores(detector, episodes[rows])]
        ids = tuple(str(episodes.ids[row]) for row in rows)
        return cls(ids, tuple(kinds[row] for row in rows), np.stack(features).astype(np.float32))

    def resembled_by(self, episode_id: str, features: Array) -> tuple[Resemblance, ...]:
        """Return the kinds that an episode resembles, excluding itself; see `resembling`."""
        others = [case for case, name in enumerate(self.ids) if name != episode_id]
        if not others:
            return ()
        kinds = [self.kinds[case] for case in others]
        rarest = min(Counter(kinds).values())
        n_nearest = min(NEAREST_CASES, 2 * rarest - 1)  # few enough for the rarest kind to win
        return resembling(features, self.features[others].astype(np.float64), kinds, n_nearest)


def resembling(
    features: Array, known: Array, kinds: Sequence[str], n_nearest: int = NEAREST_CASES
) -> tuple[Resemblance, ...]:
    """Return the kinds of the nearest known cases, the most frequent first; ties are ordered by nearness.

    Features are the input of the classifier; nearness is measured by the angle between them.

    Shape:
        features (width,), known (n_known, width)

    >>> resembling(np.array([1.0, 0.1]), np.array([[1, 0], [0.9, 0], [0, 1]]), ["bump", "bump", "rust"], 2)
    (Resemblance(kind='bump', cases=2, of=2),)
    """
    nearest = np.argsort(-(_unit(known) @ _unit(features)), kind="stable")[:n_nearest]
    counted = Counter(kinds[case] for case in nearest)  # keeps the order of first appearance, which is nearness
    return tuple(Resemblance(kind, n, len(nearest)) for kind, n in counted.most_common())


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))

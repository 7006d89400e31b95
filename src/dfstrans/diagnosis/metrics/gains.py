"""Discounted gain of a ranking, where truth may be graded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.metrics.ties import DegenerateTruthError, checked_scores, places
from dfstrans.errors import DfstransError


def ndcg(scores: npt.ArrayLike, gains: npt.ArrayLike) -> float:
    """NDCG = DCG / best DCG over all items, DCG = Σ_i gain_i / log2(rank_i + 1), expected over the order of ties.

    The gain is linear: 1 for a blamed item and 0 for others, or the graded relevance itself.

    Chance: Σ_i gain_i times the mean of 1 / log2(rank + 1) over all ranks, divided by the best DCG.

    Shape:
        scores, gains (n_items,), or both (n_segments, n_sensors)

    >>> round(ndcg([3, 2, 1], [0, 1, 0]), 4)  # 1 / log2(3)
    0.6309
    """
    grades = np.asarray(gains, dtype=np.float64).ravel()
    if not np.isfinite(grades).all() or (grades < 0).any():
        raise DfstransError("expected gains of 0 or more, got negative, infinite or missing ones; mend the truth")
    if not len(grades):
        raise DegenerateTruthError("gains that differ", "none at all")
    if grades.max() == grades.min():
        raise DegenerateTruthError("gains that differ", f"a gain of {grades[0]:g} for all of {len(grades)}")
    above, tied = places(checked_scores(scores, len(grades)))
    discounts = 1 / np.log2(np.arange(len(grades)) + 2)
    until = np.append(0.0, discounts.cumsum())
    expected = (until[above + tied] - until[above]) / tied
    return float(grades @ expected / (-np.sort(-grades) @ discounts))

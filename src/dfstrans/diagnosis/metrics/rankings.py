"""Metrics of a ranking of items, some of which are blamed.

G is the set of blamed items, top_n the n items with the highest scores (all items if n is larger). Each function
returns the value for one episode, as the expectation over a random order of equal scores.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class DegenerateTruthError(DfstransError):
    """A truth for which all rankings are equally good; `reason` says why in a few words."""

    def __init__(self, expected: str, reason: str) -> None:
        super().__init__(f"expected {expected}, got {reason}, for which all rankings are equally good; exclude it")
        self.reason = reason


class TiedPlaces(NamedTuple):
    """For each item, how many items score higher, and how many share its score (itself included).

    Its rank is one of above + 1 … above + tied, each with the same probability.

    Shape:
        above, tied (n_items,)
    """

    above: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]


def places(scores: Array) -> TiedPlaces:
    """Return the places of items, the highest score first.

    >>> places(np.array([0.5, 2.0, 0.5]))
    TiedPlaces(above=array([1, 0, 1]), tied=array([2, 1, 2]))
    """
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return TiedPlaces(above=(len(scores) - counts.cumsum())[group], tied=counts[group])


def in_top(scores: Array, n: int) -> Array:
    """Return the probability of each item being among the first n.

    >>> in_top(np.array([0.5, 2.0, 0.5]), 2)
    array([0.5, 1. , 0.5])
    """
    above, tied = places(scores)
    probability: Array = np.clip((n - above) / tied, 0.0, 1.0)
    return probability


def checked_scores(scores: npt.ArrayLike, n_items: int) -> Array:
    """Return scores as numbers, one per item; cells (segment, sensor) become one list of items."""
    found = np.asarray(scores, dtype=np.float64).ravel()
    if len(found) != n_items:
        raise DfstransError(f"expected a score for each of {n_items} items, got {len(found)} scores")
    if np.isnan(found).any():
        raise DfstransError(
            f"expected a number as the score of each item, got NaN for {int(np.isnan(found).sum())} of {n_items}; "
            "use the lowest score for unknown items"
        )
    return found


def checked(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> tuple[Array, Mask]:
    """Check and return scores and truth of the same items, some but not all of which are blamed."""
    mask = np.asarray(blamed, dtype=np.bool_).ravel()
    if mask.all() or not mask.any():
        reason = f"{'all' if mask.any() else 'none'} of {len(mask)} blamed"
        raise DegenerateTruthError("a truth that blames some items but not all", reason)
    return checked_scores(scores, len(mask)), mask


def auprc(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> float:
    """Average precision: (1/|G|) Σ over blamed items of the precision at their rank, expected over the order of ties.

    In a tie of t items, m of them blamed, below a items, b of them blamed, each place j = 1 … t is equally likely.
    Up to the rank a + j of a blamed item, b + 1 + (j − 1)(m − 1)/(t − 1) blamed items are expected.

    Chance, for n items: (|G| − 1)/(n − 1) + (n − |G|)/(n (n − 1)) · H_n with H_n = 1 + 1/2 + … + 1/n; for many items
    this is the share of blamed items.

    Shape:
        scores, blamed (n_items,), or both (n_segments, n_sensors)

    >>> round(auprc([4, 3, 2, 1], [1, 0, 1, 0]), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    values, mask = checked(scores, blamed)
    order = np.argsort(-values, kind="stable")
    above, tied = (found[order] for found in places(values))
    until = np.append(0, mask[order].cumsum())
    blamed_above, blamed_tied = until[above], until[above + tied] - until[above]
    place = np.arange(len(values)) - above  # j − 1
    others = place * np.maximum(blamed_tied - 1, 0) / np.maximum(tied - 1, 1)
    precision = (blamed_above + 1 + others) / (above + place + 1)
    return float((blamed_tied / tied * precision).sum() / mask.sum())


def auroc(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> float:
    """The probability that a blamed item scores higher than one that is not, a tie counting as one half.

    Chance: 1/2.

    Shape:
        scores, blamed (n_items,), or both (n_segments, n_sensors)

    >>> auroc([4, 3, 2, 1], [1, 0, 1, 0])
    0.75
    """
    values, mask = checked(scores, blamed)
    above, tied = places(values)
    mean_rank = above + (tied + 1) / 2
    n_blamed = int(mask.sum())
    beaten_by = (
        mean_rank[mask].sum() - n_blamed * (n_blamed + 1) / 2
    )  # pairs in which the item that is not blamed comes first
    return float(1 - beaten_by / (n_blamed * (len(values) - n_blamed)))


def hit_rate(scores: npt.ArrayLike, blamed: npt.ArrayLike, percent: int = 100) -> float:
    """HitRate@P = |top_n ∩ G| / |G| with n = ⌊P·|G|⌋.

    Chance: min(n, n_items) / n_items.

    Shape:
        scores, blamed (n_items,)

    >>> hit_rate([0.9, 0.8, 0.1, 0.3], [True, False, False, True]), hit_rate([4, 3, 1, 2], [1, 0, 0, 1], percent=150)
    (0.5, 1.0)
    """
    if percent < 1:
        raise DfstransError(f"expected a percentage of at least 1, got {percent}; the usual ones are 100 and 150")
    values, mask = checked(scores, blamed)
    n_blamed = int(mask.sum())
    return float(in_top(values, percent * n_blamed // 100)[mask].sum() / n_blamed)


def rc_top_k(scores: npt.ArrayLike, blamed: npt.ArrayLike, k: int) -> float:
    """RC-Top-k: 1 if top_k ∩ G is not empty, else 0.

    Chance: 1 − C(n_items − |G|, k) / C(n_items, k).

    Shape:
        scores, blamed (n_items,)

    >>> rc_top_k([4, 3, 2, 1], [0, 0, 1, 0], k=2), rc_top_k([4, 3, 2, 1], [0, 0, 1, 0], k=3)
    (0.0, 1.0)
    """
    _check_place(k)
    above, tied, n_blamed = _first_blamed(scores, blamed)
    drawn = min(max(k - above, 0), tied)
    return 1.0 - comb(tied - n_blamed, drawn) / comb(tied, drawn)


def ac_at_k(scores: npt.ArrayLike, blamed: npt.ArrayLike, k: int) -> float:
    """AC@k = |top_k ∩ G| / min(k, |G|).

    Chance: min(k, n_items) · |G| / (n_items · min(k, |G|)).

    Shape:
        scores, blamed (n_items,)

    >>> ac_at_k([4, 3, 2, 1], [1, 0, 1, 0], k=2)
    0.5
    """
    _check_place(k)
    values, mask = checked(scores, blamed)
    return float(in_top(values, k)[mask].sum() / min(k, int(mask.sum())))


def avg_at_k(scores: npt.ArrayLike, blamed: npt.ArrayLike, k: int) -> float:
    """Avg@k = (1/k) Σ_j AC@j, j = 1 … k.

    Chance: the same mean of the chances of AC@j.

    Shape:
        scores, blamed (n_items,)

    >>> avg_at_k([4, 3, 2, 1], [1, 0, 1, 0], k=2)
    0.75
    """
    _check_place(k)
    return float(np.mean([ac_at_k(scores, blamed, j) for j in range(1, k + 1)]))


def reciprocal_rank(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> float:
    """1 / rank of the first blamed item; its mean over episodes is the mean reciprocal rank (MRR).

    Chance: Σ_j P(first blamed at j) / j with P(first at j) = C(n_items − j, |G| − 1) / C(n_items, |G|).

    Shape:
        scores, blamed (n_items,)

    >>> reciprocal_rank([4, 3, 2, 1], [0, 1, 1, 0])
    0.5
    """
    above, tied, n_blamed = _first_blamed(scores, blamed)
    before = np.arange(tied - n_blamed + 1)  # items of the tie that may come before its first blamed one
    none_yet = np.cumprod(np.append(1.0, (tied - n_blamed - before[:-1]) / (tied - before[:-1])))
    first_here = none_yet * n_blamed / (tied - before)
    return float((first_here / (above + before + 1)).sum())


def _check_place(k: int) -> None:
    if k < 1:
        raise DfstransError(f"expected a place k of at least 1, got {k}; correct it")


def _first_blamed(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> tuple[int, int, int]:
    """Count the items that score higher than the best blamed item, that tie with it, and that tie and are blamed."""
    values, mask = checked(scores, blamed)
    above, tied = places(values)
    first = int(above[mask].min())
    same = above == first
    return first, int(tied[same][0]), int((same & mask).sum())


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
        raise DfstransError("expected gains of 0 or more, got negative, infinite or missing ones; correct the truth")
    if not len(grades):
        raise DegenerateTruthError("gains that differ", "none at all")
    if grades.max() == grades.min():
        raise DegenerateTruthError("gains that differ", f"a gain of {grades[0]:g} for all of {len(grades)}")
    above, tied = places(checked_scores(scores, len(grades)))
    discounts = 1 / np.log2(np.arange(len(grades)) + 2)
    until = np.append(0.0, discounts.cumsum())
    expected = (until[above + tied] - until[above]) / tied
    return float(grades @ expected / (-np.sort(-grades) @ discounts))


Points = npt.NDArray[np.int64]


def time_overlap(scores: npt.ArrayLike, faulty_points: npt.ArrayLike, points: npt.ArrayLike) -> float:
    """Intersection over union of the time of the top n segments, P, and the faulty time, W: |P ∩ W| / |P ∪ W|.

    n is the number of segments with a faulty point. Time is counted in points: a segment that is faulty for a
    tenth counts for a tenth, and 1 can only be reached if faults fill whole segments. The expectation over ties is
    exact, over all equally probable choices among the segments that share the last place.

    Chance: the mean over all choices of n segments.

    Shape:
        scores, faulty_points, points (n_segments,): in each segment, how many points it has and how many are faulty

    >>> time_overlap([0.9, 0.1, 0.5], [4, 2, 0], [10, 10, 10])  # P = 20 points, W = 6, both: 4
    0.18181818181818182
    """
    faulty, whole = np.asarray(faulty_points, dtype=np.int64), np.asarray(points, dtype=np.int64)
    if faulty.shape != whole.shape or (faulty < 0).any() or (faulty > whole).any():
        raise DfstransError(
            "expected at most as many faulty points as points in each segment, got more; correct the truth"
        )
    values, touched = checked(scores, faulty > 0)
    n = int(touched.sum())
    above, tied = places(values)
    certain, possible = above + tied <= n, (above < n) & (above + tied > n)
    flagged, both = int(whole[certain].sum()), int(faulty[certain].sum())
    total = int(faulty.sum())
    ways = _ways(faulty[possible], whole[possible], n - int(certain.sum()))
    every = sum(ways.values())
    return sum(
        count / every * (both + more_both) / (flagged + more + total - both - more_both)
        for (more_both, more), count in ways.items()
    )


def _ways(faulty: Points, points: Points, n: int) -> dict[tuple[int, int], int]:
    """Return the number of choices of n segments by their total (faulty points, points)."""
    ways: dict[tuple[int, int, int], int] = {(0, 0, 0): 1}
    for (bad, long), alike in Counter(zip(faulty.tolist(), points.tolist(), strict=True)).items():
        longer: dict[tuple[int, int, int], int] = defaultdict(int)
        for (taken, both, flagged), count in ways.items():
            for more in range(min(alike, n - taken) + 1):
                longer[taken + more, both + more * bad, flagged + more * long] += count * comb(alike, more)
        ways = longer
    return {(both, flagged): count for (taken, both, flagged), count in ways.items() if taken == n}

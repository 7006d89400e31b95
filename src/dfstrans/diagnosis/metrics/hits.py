"""How many of the blamed items stand at the top of a ranking, and where the first of them does.

G are the blamed items, top_n the n items with the highest scores (all items, where n is more). Each function is the
value for one episode, expected over a random order of equal scores; over episodes it is averaged.
"""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.metrics.ties import checked, in_top, places
from dfstrans.errors import DfstransError


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
    """RC-Top-k: 1 where top_k ∩ G is not empty, else 0.

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
    before = np.arange(tied - n_blamed + 1)  # innocent items of the tie that may come before its first blamed one
    none_yet = np.cumprod(np.append(1.0, (tied - n_blamed - before[:-1]) / (tied - before[:-1])))
    first_here = none_yet * n_blamed / (tied - before)
    return float((first_here / (above + before + 1)).sum())


def _check_place(k: int) -> None:
    if k < 1:
        raise DfstransError(f"expected a place k of at least 1, got {k}; correct it")


def _first_blamed(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> tuple[int, int, int]:
    """Of the highest score that a blamed item has: how many items score higher, have it, and are blamed and have it."""
    values, mask = checked(scores, blamed)
    above, tied = places(values)
    first = int(above[mask].min())
    same = above == first
    return first, int(tied[same][0]), int((same & mask).sum())

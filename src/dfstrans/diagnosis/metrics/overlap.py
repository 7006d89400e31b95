"""How much of the time that is pointed at is the time that was faulty."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import comb

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.metrics.ties import checked, places
from dfstrans.errors import DfstransError

Points = npt.NDArray[np.int64]


def time_overlap(scores: npt.ArrayLike, faulty_points: npt.ArrayLike, points: npt.ArrayLike) -> float:
    """Intersection over union of the time of the top n segments, P, and of the faulty time, W: |P ∩ W| / |P ∪ W|.

    n is the number of segments with a faulty point. Time is counted in points, so that a segment which is faulty for a
    tenth counts for a tenth, and the best value is 1 only where faults fill whole segments. Expected over the order of
    ties, exactly: over all equally probable choices among the segments that share the last place.

    Chance: the mean over all choices of n segments.

    Shape:
        scores, faulty_points, points (n_segments,): in each segment, how many points it has and how many are faulty

    >>> time_overlap([0.9, 0.1, 0.5], [4, 2, 0], [10, 10, 10])  # P = 20 points, W = 6, both: 4
    0.18181818181818182
    """
    faulty, whole = np.asarray(faulty_points, dtype=np.int64), np.asarray(points, dtype=np.int64)
    if faulty.shape != whole.shape or (faulty < 0).any() or (faulty > whole).any():
        raise DfstransError("expected for each segment at most as many faulty points as it has points, got others")
    values, touched = checked(scores, faulty > 0)
    n = int(touched.sum())
    above, tied = places(values)
    surely, perhaps = above + tied <= n, (above < n) & (above + tied > n)
    flagged, both = int(whole[surely].sum()), int(faulty[surely].sum())
    total = int(faulty.sum())
    ways = _ways(faulty[perhaps], whole[perhaps], n - int(surely.sum()))
    every = sum(ways.values())
    return sum(
        count / every * (both + more_both) / (flagged + more + total - both - more_both)
        for (more_both, more), count in ways.items()
    )


def _ways(faulty: Points, points: Points, n: int) -> dict[tuple[int, int], int]:
    """In how many choices of n of these segments they have so many (faulty points, points) together."""
    ways: dict[tuple[int, int, int], int] = {(0, 0, 0): 1}
    for (bad, long), alike in Counter(zip(faulty.tolist(), points.tolist(), strict=True)).items():
        longer: dict[tuple[int, int, int], int] = defaultdict(int)
        for (taken, both, flagged), count in ways.items():
            for more in range(min(alike, n - taken) + 1):
                longer[taken + more, both + more * bad, flagged + more * long] += count * comb(alike, more)
        ways = longer
    return {(both, flagged): count for (taken, both, flagged), count in ways.items() if taken == n}


def points_per_segment(faulty: npt.NDArray[np.bool_], segment_length: int) -> tuple[Points, Points]:
    """Faulty points and points of each segment of an episode, of which the last may be shorter.

    Shape:
        faulty (n_timepoints,) → (n_segments,), (n_segments,)

    >>> points_per_segment(np.array([0, 1, 1, 1, 0], dtype=bool), 2)
    (array([1, 2, 0]), array([2, 2, 1]))
    """
    starts = np.arange(0, len(faulty), segment_length)
    return np.add.reduceat(faulty.astype(np.int64), starts), np.diff(np.append(starts, len(faulty)))

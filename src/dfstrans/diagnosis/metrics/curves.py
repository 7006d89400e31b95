"""Areas under the precision-recall curve and under the ROC curve of one episode's ranking."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dfstrans.diagnosis.metrics.ties import checked, places


def auprc(scores: npt.ArrayLike, blamed: npt.ArrayLike) -> float:
    """Average precision: (1/|G|) Σ over blamed items of the precision at their rank, expected over the order of ties.

    An item of a tie of t items, m of them blamed, with a items and b blamed ones above it, stands at each place
    j = 1 … t alike. If it is blamed, b + 1 + (j − 1)(m − 1)/(t − 1) blamed items are expected up to its rank a + j.

    Chance, for n items: (|G| − 1)/(n − 1) + (n − |G|)/(n (n − 1)) · H_n with H_n = 1 + 1/2 + … + 1/n; for many items
    this is the share that is blamed.

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
    beaten_by = mean_rank[mask].sum() - n_blamed * (n_blamed + 1) / 2  # pairs in which the other one is first
    return float(1 - beaten_by / (n_blamed * (len(values) - n_blamed)))

"""Whether one model is better than another, or was only luckier with its splits.

The corrected resampled t-test of Nadeau and Bengio (Inference for the generalization error, Machine Learning 52, 2003).
The splits share most of their training episodes, so their figures hang together, and the usual paired t-test takes
luck for skill. The correction widens the variance by the share of test to training episodes:

    t = d̄ / √((1/k + n_test/n_train) · s²),  k − 1 degrees of freedom

Its weakness is that there are few splits: with five of them and parts of 70/15/15 the mean difference has to be 1.8
times its standard deviation to be significant at 0.05. Finding none does not mean that there is none. Nor does it know
of luck with the seed of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

LEVEL = 0.95  # of the interval
FEWEST_SPLITS = 3  # with two, a single difference would have to tell what chance does


class PairedTest(NamedTuple):
    """How much better the first of two models is, over the splits that both have."""

    splits: int
    difference: float  # the mean over splits
    low: float | None  # the interval of the mean difference; None where it cannot be told
    high: float | None
    p: float | None
    p_adjusted: float | None = None  # for the number of rivals, by Holm

    @property
    def interval(self) -> str:
        """As it is printed."""
        if self.low is not None:
            return f"{self.low:+.3f} to {self.high:+.3f}"
        return "too few splits" if self.splits < FEWEST_SPLITS else "–"


def corrected_t_test(first: Sequence[float], second: Sequence[float], test_to_train: float) -> PairedTest:
    """Compare the figures of two models, between 0 and 1, on the same splits.

    The interval is cut off where no difference can be, below −1 and above 1. `test_to_train` is how many test episodes
    there are for each one of training. With fewer than three splits, or with the same difference on every split, there
    is nothing to tell chance by.
    """
    differences = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    k, mean = len(differences), float(differences.mean())
    variance = float(differences.var(ddof=1)) if k >= FEWEST_SPLITS else 0.0
    if variance < 1e-18:
        return PairedTest(k, mean, None, None, None)
    error = math.sqrt((1 / k + test_to_train) * variance)
    reach = float(student.ppf((1 + LEVEL) / 2, k - 1)) * error
    low, high = max(mean - reach, -1.0), min(mean + reach, 1.0)
    return PairedTest(k, mean, low, high, float(2 * student.sf(abs(mean) / error, k - 1)))


def adjusted(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """The tests with p-values for their number, by Holm: the smallest times n, the next times n − 1, never falling."""
    order = sorted((row for row, test in enumerate(tests) if test.p is not None), key=lambda row: tests[row].p or 0.0)
    found, highest = list(tests), 0.0
    for rank, row in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * (tests[row].p or 0.0)))
        found[row] = tests[row]._replace(p_adjusted=highest)
    return found

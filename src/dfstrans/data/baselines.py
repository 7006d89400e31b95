"""Baselines: the normal statistics of each machine, learned from its recordings without any label."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.statistics import Statistics

MIN_RECORDINGS = 3  # of a machine, for a baseline
ENOUGH_RECORDINGS = 10  # with fewer, a baseline counts as short
STEADY = 0.5  # of the typical spread; a larger change of the median between halves means that more recordings help
BY_CHANCE = 2.5  # times 1/√n: twice the typical change of the median, in spreads, of n recordings that do not drift
BORROWED = 5  # recordings that the spread of other machines is worth
RELIED_ON = 3  # recordings at which the comparison with the own machine has half of its largest weight
LARGEST_WEIGHT = 0.75  # of that comparison; the rest belongs to the comparison with the fleet
RESTING = 8  # recordings after which a statistic that hardly changed counts as resting
SMALLEST_SPREAD = 1e-3  # of a sensor's range in training
AT_REST = 1e-9  # largest spread of a statistic that does not move, apart from rounding


class Baseline(NamedTuple):
    """The normal statistics of one machine.

    Shape:
        median, spread (the distance between the quartiles) and deviation (the standard one): (sensor, statistic)
    """

    n_recordings: int
    median: Statistics
    spread: Statistics
    deviation: Statistics

    @classmethod
    def of(cls, statistics: Statistics) -> Self:
        """Learn from a machine's recordings (recording, sensor, statistic); a quarter of them may be anomalous.

        A sensor that has no value in any of them has NaN.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN|Degrees of freedom", RuntimeWarning)
            quantile = np.nanquantile if np.isnan(statistics).any() else np.quantile  # the same, but much faster
            low, median, high = quantile(statistics, [0.25, 0.5, 0.75], axis=0)
            return cls(len(statistics), median, high - low, np.nanstd(statistics, axis=0))


class Suitability(NamedTuple):
    """Whether a baseline rests on enough recordings.

    `change` is the typical difference between the medians of two halves of the recordings, as a share of the spread.
    """

    n_recordings: int
    change: float | None
    sufficient: bool
    note: str


@dataclass(frozen=True, eq=False)
class Baselines:
    """The baselines of all known machines, and the spread that is typical within a machine.

    Shape:
        typical_spread (sensor, statistic)
    """

    machines: dict[str, Baseline]
    typical_spread: Statistics

    @classmethod
    def fit(cls, statistics: Statistics, groups: Sequence[str] | npt.NDArray[np.str_]) -> Self:
        """Learn one baseline for each group with enough recordings; there has to be one."""
        names, counts = np.unique(np.asarray(groups), return_counts=True)
        found = {
            str(name): Baseline.of(statistics[np.asarray(groups) == name])
            for name, count in zip(names, counts, strict=True)
            if count >= MIN_RECORDINGS
        }
        spreads = np.nan_to_num([one.spread for one in found.values()])
        return cls(found, np.median(spreads, axis=0))

    def add(self, machine: str, statistics: Statistics) -> Self:
        """Return these baselines and one more machine's."""
        return type(self)({**self.machines, machine: Baseline.of(statistics)}, self.typical_spread)

    def deviations(self, statistics: Statistics, groups: npt.NDArray[np.str_] | None) -> Statistics:
        """Return arcsinh((x − median) / spread) of each statistic on its machine, 0 without a baseline or a value.

        Shape:
            (episode, sensor, statistic) → same
        """
        found = np.zeros_like(statistics)
        for name, rows in self._rows(groups):
            one = self.machines[name]
            found[rows] = np.nan_to_num(np.arcsinh((statistics[rows] - one.median) / self._scale(one)))
        return found

    def weights(self, groups: npt.NDArray[np.str_] | None, n_episodes: int) -> npt.NDArray[np.float64]:
        """Return how much the comparison with its own machine counts for each episode, from 0 to below 1."""
        found = np.zeros(n_episodes)
        for name, rows in self._rows(groups):
            n = self.machines[name].n_recordings
            found[rows] = LARGEST_WEIGHT * n / (n + RELIED_ON)
        return found

    def _rows(self, groups: npt.NDArray[np.str_] | None) -> list[tuple[str, npt.NDArray[np.intp]]]:
        if groups is None:
            return []
        return [(str(name), np.flatnonzero(groups == name)) for name in np.unique(groups) if str(name) in self.machines]

    def _scale(self, baseline: Baseline) -> Statistics:
        """Return the spread to compare with: the machine's own, shrunk towards the typical one if recordings are few.

        A statistic that hardly ever changed over many recordings rests, so that a change counts as large.
        """
        n = baseline.n_recordings
        shrunk = np.sqrt((n * baseline.spread**2 + BORROWED * self.typical_spread**2) / (n + BORROWED))
        resting = (baseline.spread <= AT_REST) & (n >= RESTING)
        return np.maximum(np.where(resting, baseline.deviation, shrunk), SMALLEST_SPREAD)


def assess_baseline(statistics: Statistics) -> Suitability:
    """Tell whether recordings suffice for a baseline: enough of them, and medians that no longer move.

    Shape:
        statistics (recording, sensor, statistic)
    """
    n, statistics = len(statistics), statistics[:, ~np.isnan(statistics).any(axis=(0, 2))]  # sensors without gaps
    if n < 2 * MIN_RECORDINGS:
        note = f"{n} recordings are too few to tell how stable the baseline is; add {ENOUGH_RECORDINGS} or more"
        return Suitability(n, None, False, note)
    one, other = (np.median(half, axis=0) for half in (statistics[::2], statistics[1::2]))
    low, high = np.quantile(statistics, [0.25, 0.75], axis=0)
    moving = high - low > SMALLEST_SPREAD
    spread = np.maximum(high - low, SMALLEST_SPREAD)
    change = float(np.median((np.abs(one - other) / spread)[moving])) if moving.any() else 0.0
    sufficient = n >= ENOUGH_RECORDINGS and change <= max(STEADY, BY_CHANCE / math.sqrt(n))
    between = f"the typical values of two halves of them differ by {100 * change:.0f} % of the usual spread"
    if sufficient:
        return Suitability(n, change, True, f"{n} recordings are enough: {between}")
    return Suitability(n, change, False, f"{n} recordings may not be enough: {between}; add more")

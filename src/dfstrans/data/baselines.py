"""Baselines: the normal statistics of each machine, learned from its recordings without any label."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.statistics import HIGHEST, LOWEST, Statistics, columns_over_segments

MIN_RECORDINGS = 3  # of a machine, for a baseline
BORROWED = 5  # recordings that the spread of other machines is worth
RELIED_ON = 3  # recordings at which the comparisons with the own machine and with the fleet count equally
RESTING = 8  # recordings after which a statistic that hardly changed counts as resting
SMALLEST_SPREAD = 1e-3  # of a sensor's range in training
REACH = 2.0  # spreads by which normal recordings may exceed the typical lowest and highest value
AT_REST = 1e-9  # largest spread of a statistic that does not move, apart from rounding


class Baseline(NamedTuple):
    """The normal statistics of one machine.

    `threshold` is the lowest probability of an alarm on this machine; NaN: that of the model.

    Shape:
        median, spread (the distance between the quartiles) and deviation (the standard one): (sensor, statistic)
    """

    n_recordings: int
    median: Statistics
    spread: Statistics
    deviation: Statistics
    threshold: float = math.nan

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

    @property
    def range(self) -> npt.NDArray[np.float64]:
        """The lowest and highest value of each sensor that are normal here, on the scale of training: (sensor, 2)."""
        ends = zip((LOWEST, HIGHEST), (-REACH, REACH), strict=True)
        return np.stack([self.median[:, one] + times * self.spread[:, one] for one, times in ends], axis=-1)


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

    def with_thresholds(self, thresholds: Mapping[str, float]) -> Self:
        """Return these baselines with thresholds for machines among them."""
        changed = {name: self.machines[name]._replace(threshold=value) for name, value in thresholds.items()}
        return type(self)({**self.machines, **changed}, self.typical_spread)

    def thresholds(
        self, groups: npt.NDArray[np.str_] | None, n_episodes: int, default: float
    ) -> npt.NDArray[np.float64]:
        """Return the threshold of each episode: that of its machine, or the default."""
        found = np.full(n_episodes, default)
        for name, rows in self._rows(groups):
            if not math.isnan(self.machines[name].threshold):
                found[rows] = self.machines[name].threshold
        return found

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

    def of_segments(self, groups: npt.NDArray[np.str_] | None, n_episodes: int) -> npt.NDArray[np.float64]:
        """Return centre and spread of each statistic of a segment on its machine, NaN without a baseline.

        Within a recording, segments spread as their statistics deviate; between recordings, as the means of these do.

        Shape:
            (n_episodes, sensor, 2, 6 or 8), see `segment_statistics`
        """
        of_mean, of_deviation = (columns_over_segments(name, self.typical_spread) for name in ("mean", "deviation"))
        found = np.full((n_episodes, len(self.typical_spread), 2, len(of_mean)), np.nan)
        for name, rows in self._rows(groups):
            one = self.machines[name]
            within, between = one.median[:, of_deviation], self._scale(one)[:, of_mean]
            found[rows] = np.stack([one.median[:, of_mean], np.hypot(within, between)], axis=1)
        return found

    def weights(self, groups: npt.NDArray[np.str_] | None, n_episodes: int) -> npt.NDArray[np.float64]:
        """Return how much the comparison with its own machine counts for each episode, from 0 to below 1."""
        found = np.zeros(n_episodes)
        for name, rows in self._rows(groups):
            n = self.machines[name].n_recordings
            found[rows] = n / (n + RELIED_ON)
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

"""How trees explain a decision: which (segment, sensor) cells lower the logit when they are made normal [ADR 25].

Trees see statistics of cells. A cell is made normal by replacing its statistics by those that are normal at that moment
for the machine, or for the fleet if the machine has no baseline. Trees have no attention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.baselines import SMALLEST_SPREAD
from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import cut_segments
from dfstrans.data.statistics import (
    N_STATISTICS,
    OF_RESIDUAL,
    OF_SEGMENT,
    OVER_SEGMENTS,
    Statistics,
    mostly_filled,
    over_segments,
    segment_statistics,
)
from dfstrans.diagnosis.habits import Arrays, Fleet
from dfstrans.diagnosis.inspection import Detector
from dfstrans.diagnosis.scores import Array
from dfstrans.errors import DfstransError
from dfstrans.model.machine_trees import MachineTrees

Mask = npt.NDArray[np.bool_]
MAX_EPISODES = 400  # enough for a median
MAX_VALUES = 1 << 24  # numbers in memory
MIN_OF_USUAL_LENGTH = 10
SMALLEST_TYPICAL = 0.1  # of a deviation, for cells that hardly differ between normal recordings
VARIANT_VALUES_AT_ONCE = 1 << 22
FLEET, OWN = "fleet", "own"


class NormalStatistics(NamedTuple):
    """The statistics of cells in normal recordings.

    Shape:
        median and spread (segment, sensor, statistic); typical (segment, sensor), the median size of a deviation
    """

    median: Array
    spread: Array
    typical: Array

    @classmethod
    def of(cls, cells: Array) -> Self:
        """Learn from the cells of normal recordings: (recording, segment, sensor, statistic)."""
        median = np.median(cells, axis=0)
        spread = np.maximum(np.sqrt(((cells - median) ** 2).mean(axis=0)), SMALLEST_SPREAD)
        sizes = np.sqrt((((cells - median) / spread) ** 2).mean(axis=-1))
        return cls(median, spread, np.maximum(np.median(sizes, axis=0), SMALLEST_TYPICAL))


class EpisodeCells(NamedTuple):
    """The cells of one episode as trees see them, and normal ones in their place.

    Shape:
        statistics, normal and spread (segment, sensor, statistic); typical (segment, sensor);
        counted (segment,), False for a short rest at the end; silent (sensor,), True without any value
    """

    trees: MachineTrees
    machine: str | None
    statistics: Statistics
    normal: Statistics
    spread: Statistics
    typical: Array
    counted: Mask
    silent: Mask

    @property
    def shape(self) -> tuple[int, int]:
        """Number of segments and of sensors."""
        n_segments, n_sensors = self.statistics.shape[:2]
        return n_segments, n_sensors

    @property
    def logit(self) -> float:
        """The logit of the episode."""
        return float(self.logits(np.zeros((1, *self.shape), dtype=np.bool_))[0])

    @property
    def features(self) -> Array:
        """The largest deviation of each statistic of each sensor, on a mild scale, to find similar episodes."""
        z = self.standardised
        strongest = np.take_along_axis(z, np.abs(z).argmax(axis=0)[None], axis=0)[0]
        return np.asarray(np.arcsinh(strongest).ravel())

    @property
    def standardised(self) -> Array:
        """The distance of each statistic from normal, in spreads; 0 where the trees do not look."""
        found = (self.statistics - self.normal) / self.spread
        found[~self.counted] = 0
        found[:, self.silent] = 0
        return np.asarray(found)

    @property
    def deviation(self) -> Array:
        """The root mean square distance of each cell from normal: 1 is typical."""
        return np.asarray(np.sqrt((self.standardised**2).mean(axis=-1)) / self.typical)

    def logits(self, replaced: Mask) -> Array:
        """Return the logit of each variant: (variant, segment, sensor), True if a cell is made normal → (variant,)."""
        at_once = max(1, VARIANT_VALUES_AT_ONCE // self.statistics.size)
        found = []
        for start in range(0, len(replaced), at_once):
            masks = replaced[start : start + at_once]
            variants = np.where(masks[..., None], self.normal, self.statistics)
            rows = over_segments(variants, np.broadcast_to(self.counted, masks.shape[:2]))
            rows[:, self.silent] = np.nan
            groups = None if self.machine is None else np.full(len(rows), self.machine)
            found.append(self.trees.logits(rows, groups))
        return np.concatenate(found)

    def drops(self) -> Array:
        """Return how much each cell raises the logit: (segment, sensor).

        The mean of two changes: the drop if only this cell is made normal, and the rise if all are normal and only this
        one is restored. The former alone would miss faults that show in several cells, each of which is enough.
        """
        t, s = self.shape
        ones = np.eye(t * s, dtype=np.bool_).reshape(-1, t, s)
        found = self.logits(np.concatenate([ones, ~ones, np.zeros((1, t, s), np.bool_), np.ones((1, t, s), np.bool_)]))
        without, alone = found[: t * s], found[t * s : -2]
        return np.asarray((found[-2] - without + alone - found[-1]) / 2).reshape(t, s)


@dataclass(frozen=True)
class TreeReference:
    """What is normal for each cell, on the fleet, and on a machine beside its baseline; see `NormalReference`.

    `n_segments` is the normal number of segments; it is 0, without values by segment, if lengths vary. `bands` has
    statistics by what they are of: "fleet.pooled", and "own.by_segment" and so on where there are any; "own" ones are
    beside the baseline of the machine.
    """

    n_episodes: int
    n_segments: int
    bands: dict[str, NormalStatistics]
    fleet: Fleet

    @classmethod
    def fit(cls, detector: Detector, normal: Episodes, seed: int = 0) -> Self:
        """Learn from normal episodes, or from a random selection that fits into memory."""
        if not len(normal):
            raise DfstransError("expected normal episodes for the reference, got none; add episodes with label 0")
        length, sample = detector.network_settings_.segment_length, normal
        per_episode = normal.n_sensors * len(OF_SEGMENT + OF_RESIDUAL) * (int(normal.lengths.max()) // length + 1)
        most = max(min(MAX_EPISODES, MAX_VALUES // per_episode), 1)
        if len(normal) > most:
            sample = normal[np.sort(np.random.default_rng(seed).choice(len(normal), most, replace=False))]
        cells = [_cells(detector, sample[[row]])[0] for row in range(len(sample))]
        counts = np.array([len(one) for one in cells])
        usual = int(np.bincount(counts).argmax())
        n_segments = usual if (counts == usual).sum() >= max(MIN_OF_USUAL_LENGTH, len(cells) / 2) else 0
        assert detector.trees_ is not None
        shifts = [_shift(detector.trees_, episode.group) for episode in sample]
        own = [one - shift for one, shift in zip(cells, shifts, strict=True) if shift is not None]
        bands = {}
        for kind, found in ((FLEET, cells), (OWN, own)):
            if found:
                bands[f"{kind}.pooled"] = NormalStatistics.of(np.concatenate(found)[:, None])
            alike = [one for one in found if len(one) == n_segments]
            if len(alike) >= MIN_OF_USUAL_LENGTH:
                bands[f"{kind}.by_segment"] = NormalStatistics.of(np.stack(alike))
        return cls(len(cells), n_segments, bands, Fleet.fit(sample, normal, detector.scaler_, length, n_segments))

    def with_machines(self, detector: Detector, normal: Episodes) -> TreeReference:
        """Return this reference with the habits of machines beside those of training, of each with enough episodes."""
        length = detector.network_settings_.segment_length
        return replace(self, fleet=self.fleet.with_machines(normal, detector.scaler_, length, self.n_segments))

    def cells(self, detector: Detector, episode: Episodes) -> EpisodeCells:
        """Return the cells of one checked episode, beside normal ones."""
        statistics, counted, (one,) = *_cells(detector, episode), episode
        assert detector.trees_ is not None
        shift = _shift(detector.trees_, one.group)
        kind = FLEET if shift is None or f"{OWN}.pooled" not in self.bands else OWN
        by_segment = self.bands.get(f"{kind}.by_segment") if len(statistics) == self.n_segments else None
        band = by_segment or self.bands[f"{kind}.pooled"]
        normal = band.median + (shift if kind == OWN and shift is not None else 0)
        return EpisodeCells(
            detector.trees_,
            one.group,
            statistics,
            np.broadcast_to(normal, statistics.shape),
            np.broadcast_to(band.spread, statistics.shape),
            np.broadcast_to(band.typical, statistics.shape[:2]),
            counted,
            np.asarray(np.isnan(one.values).all(axis=1)),
        )

    def to_arrays(self) -> Arrays:
        """Return everything as named arrays, for a file."""
        arrays: Arrays = {"counts": np.array([self.n_episodes, self.n_segments], dtype=np.int64)}
        for kind, band in self.bands.items():
            arrays |= {f"cells.{kind}.{name}": array.astype(np.float32) for name, array in band._asdict().items()}
        return arrays | self.fleet.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The inverse of `to_arrays`, except for rounding."""
        n_episodes, n_segments = (int(count) for count in arrays["counts"])
        kinds = [f"{kind}.{part}" for kind in (FLEET, OWN) for part in ("pooled", "by_segment")]
        bands = {
            kind: NormalStatistics(
                *(arrays[f"cells.{kind}.{name}"].astype(np.float64) for name in NormalStatistics._fields)
            )
            for kind in kinds
            if f"cells.{kind}.median" in arrays
        }
        return cls(n_episodes, n_segments, bands, Fleet.from_arrays(arrays, n_episodes))


def _cells(detector: Detector, episode: Episodes) -> tuple[Statistics, Mask]:
    """Return the statistics (segment, sensor, statistic) of one episode, and which segments count (segment,)."""
    length, trees = detector.network_settings_.segment_length, detector.trees_
    segments = cut_segments(episode, detector.scaler_, length)
    statistics = segment_statistics(segments.values, None if trees is None else trees.coupling)
    return statistics[0], mostly_filled(episode.lengths, length, segments)[0]


def _shift(trees: MachineTrees, machine: str | None) -> Statistics | None:
    """Return how a machine's baseline differs from the fleet, 0 if unknown: (sensor, statistic); None without one."""
    if machine is None or trees.baselines is None or machine not in trees.baselines.machines:
        return None
    n = trees.usual.shape[1] // len(OVER_SEGMENTS)
    means = [*range(len(OF_SEGMENT)), *range(N_STATISTICS, N_STATISTICS + n - len(OF_SEGMENT))]
    return np.nan_to_num(trees.baselines.machines[machine].median[:, means] - trees.usual[:, means])

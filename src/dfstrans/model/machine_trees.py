"""Extra-trees on the statistics of each sensor, which they also compare with the machine's own baseline [ADR 25]."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans.data.baselines import MIN_RECORDINGS, SMALLEST_SPREAD, Baseline, Baselines
from dfstrans.data.coupling import Coupling
from dfstrans.data.statistics import N_STATISTICS, Statistics
from dfstrans.errors import Note, reading_option_name
from dfstrans.model.forest import Features, Forest
from dfstrans.model.novelty import FEWEST_RECORDINGS, MOST_RECORDINGS, N_TREES, Leaves, Memory, Seen

N_LARGEST = 8  # sensors that deviate most, whichever they are
EPISODES_AT_ONCE = 64
Groups = npt.NDArray[np.str_] | None


class MachineTrees(NamedTuple):
    """Two forests: one sees the statistics on the scale of the fleet, the other also their deviation from the machine.

    Only the second one sees residuals, since other machines are coupled in other ways.

    The more recordings the baseline of a machine rests on, the more the second forest counts. Without any baseline, the
    first answers alone. A sensor without any value counts as usual.

    Shape:
        usual (sensor, statistic), the median over the training part
    """

    usual: Statistics
    fleet: Forest
    own: Forest | None = None
    baselines: Baselines | None = None
    coupling: Coupling | None = None  # of the statistics; None: they have no residuals
    memory: Memory | None = None  # of the training recordings; None: they are too few to tell what is unlike them

    @classmethod
    def fit(
        cls,
        statistics: Statistics,
        labels: npt.NDArray[Any],
        groups: Groups,
        *,
        weight: float,
        trees: int,
        seed: int,
        threads: int = 1,
        coupling: Coupling | None = None,
    ) -> Self:
        """Learn the baselines and both forests; `weight` is that of an anomalous episode."""
        from sklearn.ensemble import ExtraTreesClassifier  # which prediction does without

        def grow(features: Callable[[slice], Features]) -> Forest:
            model = ExtraTreesClassifier(trees, random_state=seed, n_jobs=threads)
            rows = _stacked(features, len(statistics))
            return Forest.from_votes(model.fit(rows, labels, np.where(labels == 1, weight, 1.0)))

        sensors = range(statistics.shape[1])  # one by one, since a median copies what it is of
        usual = np.stack([np.nanmedian(statistics[:, sensor], axis=0) for sensor in sensors])
        baselines = _baselines(statistics, groups)
        fleet = grow(lambda part: fleet_features(_fill(statistics[part], usual)))
        if baselines is None or groups is None:
            return cls(usual, fleet, coupling=coupling)

        def beside(part: slice) -> Features:
            deviations = baselines.deviations(statistics[part], groups[part])
            return own_features(_fill(statistics[part], usual), deviations)

        return cls(usual, fleet, grow(beside), baselines, coupling)

    def with_baselines(self, statistics: Statistics, groups: Groups) -> Self:
        """Return the same forests with the baselines of these recordings beside those of training."""
        if self.baselines is None or groups is None:
            return self
        baselines = self.baselines
        for name, count in zip(*np.unique(groups, return_counts=True), strict=True):
            if count >= MIN_RECORDINGS:
                baselines = baselines.add(str(name), statistics[groups == name])
        return self._replace(baselines=baselines)

    def logits(self, statistics: Statistics, groups: Groups) -> npt.NDArray[np.float64]:
        """Return the logit of each episode: (episode, sensor, statistic) → (episode,)."""
        found = np.empty(len(statistics))
        for start in range(0, len(found), EPISODES_AT_ONCE):
            part = slice(start, start + EPISODES_AT_ONCE)
            found[part] = self._logits(statistics[part], None if groups is None else groups[part])
        return found

    def _logits(self, statistics: Statistics, groups: Groups) -> npt.NDArray[np.float64]:
        complete = _fill(statistics, self.usual)
        found = self.fleet.vote_logits(fleet_features(complete))
        if self.own is None or self.baselines is None:
            return found
        weights = self.baselines.weights(groups, len(statistics))
        rows = np.flatnonzero(weights)
        if len(rows):
            known = groups[rows] if groups is not None else None
            deviations = self.baselines.deviations(statistics[rows], known)
            beside = self.own.vote_logits(own_features(complete[rows], deviations))
            found[rows] += weights[rows] * (beside - found[rows])
        return found

    # ---- how unlike training a recording is -------------------------------------------------------------------------

    def with_memory(self, statistics: Statistics, groups: Groups, origins: npt.NDArray[np.int64]) -> Self:
        """Return the same forests with what tells whether a recording is unlike these, of the training part.

        Shape:
            origins (recording, 3): the number of the whole recording, and the first and the last point from it
        """
        kept = np.arange(len(statistics))
        if len(kept) < FEWEST_RECORDINGS:
            return self
        if len(kept) > MOST_RECORDINGS:
            kept = np.sort(np.random.default_rng(0).choice(kept, MOST_RECORDINGS, replace=False))
        columns = zip(statistics[kept, :, :N_STATISTICS].swapaxes(0, 1), self.usual[:, :N_STATISTICS], strict=True)
        spread = np.stack([np.ptp(np.quantile(_fill(*one), [0.25, 0.75], axis=0), axis=0) for one in columns])
        spread = np.maximum(spread, SMALLEST_SPREAD)

        def seen(rows: npt.NDArray[np.intp], machines: Groups) -> Seen:
            views = [self._view(statistics[part], _of(machines, part), spread) for part in _parts(rows)]
            leaves, deviations = (np.concatenate(column) for column in zip(*views, strict=True))
            number, first, last = origins[rows].T
            overlap = (first[:, None] <= last) & (first <= last[:, None])
            return Seen.learn(leaves, deviations, (number[:, None] == number) & overlap)

        own = kept[self.compared(groups, len(statistics))[kept]]
        memory = Memory(spread, seen(kept, None), seen(own, groups) if len(own) >= FEWEST_RECORDINGS else None)
        return self._replace(memory=memory)

    def novelty(self, statistics: Statistics, groups: Groups) -> npt.NDArray[np.float64]:
        """Return how unlike training each recording is: above 1 it counts as not seen before; NaN if that is unknown.

        A recording of a machine with a baseline is compared as in the second forest.

        Shape:
            (episode, sensor, statistic) → (episode,)
        """
        found = np.full(len(statistics), np.nan)
        if self.memory is None:
            return found
        own = self.compared(groups, len(found)) & (self.memory.own is not None)
        for seen, rows, machines in ((self.memory.fleet, ~own, None), (self.memory.own, own, groups)):
            for part in _parts(np.flatnonzero(rows)):
                assert seen is not None  # if there are such rows
                found[part] = seen.novelty(*self._view(statistics[part], _of(machines, part), self.memory.spread))
        return found

    def strangest_sensor(self, statistics: Statistics, groups: Groups) -> int | None:
        """Return the sensor that makes a recording unlike training most: without it, the recording is less so.

        None if no single sensor does.

        Shape:
            statistics (1, sensor, statistic), groups (1,)
        """
        median = self.usual
        if groups is not None and self.baselines is not None and str(groups[0]) in self.baselines.machines:
            median = self.baselines.machines[str(groups[0])].median
        n = len(self.usual)
        variants = np.repeat(statistics, n + 1, axis=0)
        variants[range(n), range(n)] = median
        *without, whole = self.novelty(variants, None if groups is None else np.repeat(groups, n + 1))
        return int(np.argmin(without)) if min(without) < whole else None

    def _view(self, statistics: Statistics, groups: Groups, spread: Statistics) -> tuple[Leaves, Statistics]:
        """Return the leaves (episode, tree) and the deviations (episode, feature) in the view of one forest.

        Without groups, it is the forest of the fleet.
        """
        complete = _fill(statistics, self.usual)
        if groups is None or self.own is None or self.baselines is None:
            deviations = (complete - self.usual)[..., :N_STATISTICS] / spread
            leaves = self.fleet.keep(N_TREES).leaves(fleet_features(complete))
            return leaves, _rows(np.nan_to_num(np.arcsinh(deviations)))
        deviations = self.baselines.deviations(statistics, groups)
        return self.own.keep(N_TREES).leaves(own_features(complete, deviations)), _rows(deviations)

    def compared(self, groups: Groups, n_episodes: int) -> npt.NDArray[np.bool_]:
        """Return which episodes are compared with their own machine: (n_episodes,)."""
        if self.own is None or self.baselines is None:
            return np.zeros(n_episodes, dtype=np.bool_)
        return self.baselines.weights(groups, n_episodes) > 0

    # ---- as arrays, for a saved model -------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name; `machines` has the names that are not in them."""
        arrays = {"usual": self.usual, **{f"fleet.{name}": array for name, array in self.fleet._asdict().items()}}
        if self.coupling is not None:
            arrays |= {f"coupling.{name}": array for name, array in self.coupling._asdict().items()}
        if self.memory is not None:
            arrays |= {f"memory.{name}": array for name, array in self.memory.to_arrays().items()}
        if self.own is not None and self.baselines is not None:
            arrays |= {f"own.{name}": array for name, array in self.own._asdict().items()}
            arrays["baselines.typical_spread"] = self.baselines.typical_spread
            for name in Baseline._fields:
                arrays[f"baselines.{name}"] = np.array([getattr(one, name) for one in self.baselines.machines.values()])
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that have a baseline."""
        return () if self.baselines is None else tuple(self.baselines.machines)

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]], machines: tuple[str, ...]) -> Self:
        """Restore the result of `to_arrays`."""
        fleet = Forest(**{name: arrays[f"fleet.{name}"] for name in Forest._fields})
        coupling = None
        if "coupling.weights" in arrays:  # which models of earlier versions lack
            coupling = Coupling(**{name: arrays[f"coupling.{name}"] for name in Coupling._fields})
        remembered = {name.removeprefix("memory."): one for name, one in arrays.items() if name.startswith("memory.")}
        memory = Memory.from_arrays(remembered) if remembered else None
        if "own.first" not in arrays:
            return cls(arrays["usual"], fleet, coupling=coupling, memory=memory)
        own = Forest(**{name: arrays[f"own.{name}"] for name in Forest._fields})
        unset = {"baselines.threshold": np.full(len(machines), np.nan)} | arrays  # models of earlier versions lack it
        columns = [unset[f"baselines.{name}"] for name in Baseline._fields]
        found = {name: Baseline(int(n), *rest) for name, n, *rest in zip(machines, *columns, strict=True)}
        return cls(arrays["usual"], fleet, own, Baselines(found, arrays["baselines.typical_spread"]), coupling, memory)


def fleet_features(statistics: Statistics) -> Features:
    """Return the statistics without residuals, in scikit-learn's precision: (episode, sensor · statistic)."""
    return _rows(statistics[..., :N_STATISTICS]).astype(np.float32)


def own_features(statistics: Statistics, deviations: Statistics) -> Features:
    """Return the statistics, their deviations from the machine's baseline, and the largest of these over all sensors.

    The latter do not depend on which sensor deviates, so they serve machines whose faults are in other sensors.
    """
    size = np.abs(deviations)
    largest = np.sort(size.max(axis=2), axis=1)[:, ::-1][:, :N_LARGEST]
    columns = [_rows(statistics), _rows(deviations), size.max(axis=1), largest]
    return np.concatenate(columns, axis=1, dtype=np.float32)


def _stacked(features: Callable[[slice], Features], n_episodes: int) -> Features:
    """Return the features of all episodes; besides the result, only those of a few are in memory."""
    width = features(slice(0, 1)).shape[1]
    found = np.empty((n_episodes, width), dtype=np.float32)
    for start in range(0, n_episodes, EPISODES_AT_ONCE):
        part = slice(start, start + EPISODES_AT_ONCE)
        found[part] = features(part)
    return found


def _rows(cells: Statistics) -> Statistics:
    n, sensors, statistics = cells.shape
    return cells.reshape(n, sensors * statistics)


def _parts(rows: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
    for start in range(0, len(rows), EPISODES_AT_ONCE):
        yield rows[start : start + EPISODES_AT_ONCE]


def _of(groups: Groups, rows: npt.NDArray[np.intp]) -> Groups:
    return None if groups is None else groups[rows]


def _fill(statistics: Statistics, usual: Statistics) -> Statistics:
    """Replace the statistics of sensors without any value by the usual ones."""
    return np.where(np.isnan(statistics), usual, statistics)


def _baselines(statistics: Statistics, groups: Groups) -> Baselines | None:
    """Return the baselines of the machines; None, with a note, if most recordings are of machines with too few.

    A single machine is enough: what is learned from its deviations holds for others, once they have a baseline.
    """
    if groups is None:
        return None
    counts = np.unique(groups, return_counts=True)[1]
    enough = counts >= MIN_RECORDINGS
    if counts[enough].sum() * 2 >= len(groups):
        return Baselines.fit(statistics, groups)
    warnings.warn(
        f"no machine is compared with itself, because {counts[~enough].sum()} of {len(groups)} training episodes are "
        f"of groups with fewer than {MIN_RECORDINGS}; if groups are machines, add recordings, or cut long ones "
        f"({reading_option_name('length', ...)}); else name the column of the machine "
        f"({reading_option_name('group_column', ...)})",
        Note,
        stacklevel=2,
    )
    return None

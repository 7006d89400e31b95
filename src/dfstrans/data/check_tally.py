"""What one look through all values counts, a batch at a time."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.rates import times_slower

STUCK_SHARE = 0.5  # of an episode in one run of equal values
LIVELY_STEPS = 0.5  # of a sensor's steps change its value: an episode in which it is lively


class Tally:
    """Running counts over batches; its size does not grow with the number of points."""

    def __init__(self, n_sensors: int) -> None:
        self.points = 0
        self.finite = np.zeros(n_sensors, dtype=np.int64)
        self.infinite = np.zeros(n_sensors, dtype=np.int64)
        self.sum = np.zeros(n_sensors)
        self.min = np.full(n_sensors, np.inf)
        self.max = np.full(n_sensors, -np.inf)
        self.present = np.zeros(n_sensors, dtype=np.int64)  # episodes with a value
        self.lively = np.zeros(n_sensors, dtype=np.int64)  # episodes in which most steps change the value
        self.switched = np.zeros(n_sensors, dtype=np.int64)  # episodes in which all values are 0, or all are 1
        self.stuck = np.zeros(n_sensors, dtype=np.int64)  # episodes with a long run of one value
        self.stuck_examples: list[list[str]] = [[] for _ in range(n_sensors)]
        self.sensor_digests = [hashlib.blake2b(digest_size=16) for _ in range(n_sensors)]
        self.episode_digests: dict[bytes, list[str]] = defaultdict(list)
        self.gaps: dict[str, int] = {}  # points without any value, by episode
        self.slower: dict[str, int] = {}  # how many times, of episodes with a value at every so many points only
        self.empty_episodes: list[str] = []
        self.peaks = [(np.full(n_sensors, np.inf), np.full(n_sensors, -np.inf)) for _ in range(2)]  # by label
        self.time_steps = _Mean()
        self.sensor_steps = _Mean()

    def add(self, batch: Episodes) -> None:
        """Count one batch, which is in memory."""
        values = np.asarray(batch.values)
        inside = np.arange(batch.n_timepoints) < batch.lengths[:, np.newaxis]
        values = np.where(inside[:, np.newaxis], values, np.float32(np.nan))
        finite = np.isfinite(values)
        self.points += int(batch.lengths.sum())
        self.finite += finite.sum(axis=(0, 2))
        self.infinite += np.isinf(values).sum(axis=(0, 2))
        self.sum += np.where(finite, values, 0).sum(axis=(0, 2), dtype=np.float64)
        self.min = np.minimum(self.min, np.where(finite, values, np.inf).min(axis=(0, 2)))
        self.max = np.maximum(self.max, np.where(finite, values, -np.inf).max(axis=(0, 2)))
        self.present += finite.any(axis=2).sum(axis=0)
        for state in (0, 1):
            self.switched += (finite.any(axis=2) & (~finite | (values == state)).all(axis=2)).sum(axis=0)
        self._add_gaps(batch, inside & np.isnan(values).all(axis=1))
        self._add_peaks(batch, np.where(finite, values, -np.inf).max(axis=2), finite.any(axis=2))
        self._add_steps(batch, values, finite)
        self._add_digests(batch, values)

    def _add_gaps(self, batch: Episodes, empty: npt.NDArray[np.bool_]) -> None:
        counts = empty.sum(axis=1)
        for row in np.flatnonzero(counts).tolist():
            name, times = str(batch.ids[row]), times_slower(~empty[row, : batch.lengths[row]])
            self.gaps[name] = int(counts[row])
            if times > 1:
                self.slower[name] = times
        self.empty_episodes += batch.ids[counts == batch.lengths].tolist()

    def _add_peaks(self, batch: Episodes, peaks: npt.NDArray[np.float32], present: npt.NDArray[np.bool_]) -> None:
        """The lowest and the highest of the peaks (episode, sensor) in each class."""
        if batch.labels is None:
            return
        for label, (lowest, highest) in enumerate(self.peaks):
            of_class = present & (batch.labels[:, np.newaxis] == label)
            np.minimum(lowest, np.where(of_class, peaks, np.inf).min(axis=0), out=lowest)
            np.maximum(highest, np.where(of_class, peaks, -np.inf).max(axis=0), out=highest)

    @property
    def switch_between_episodes(self) -> npt.NDArray[np.bool_]:
        """Whether a sensor is 0 throughout some episodes and 1 throughout the others, as a label is."""
        return np.asarray((self.switched == self.present) & (self.min == 0) & (self.max == 1), dtype=np.bool_)

    @property
    def telltale(self) -> npt.NDArray[np.bool_]:
        """Whether a sensor peaks at one value in all normal and at another in all anomalous episodes."""
        (low0, high0), (low1, high1) = self.peaks
        return np.asarray((low0 == high0) & (low1 == high1) & (low0 != low1), dtype=np.bool_)

    def _add_steps(self, batch: Episodes, values: npt.NDArray[np.float32], finite: npt.NDArray[np.bool_]) -> None:
        pairs = finite[..., 1:] & finite[..., :-1]
        equal = pairs & (values[..., 1:] == values[..., :-1])
        steps, still = pairs.sum(axis=2), equal.sum(axis=2)
        self.lively += ((steps > 0) & (steps - still >= LIVELY_STEPS * steps)).sum(axis=0)
        stuck = (longest_runs(equal) + 1 > STUCK_SHARE * batch.lengths[:, np.newaxis]) & (steps > 1)
        self.stuck += stuck.sum(axis=0)
        for sensor, examples in enumerate(self.stuck_examples):
            if not examples:
                examples += batch.ids[stuck[:, sensor]][:1].tolist()
        known = np.where(finite, values, np.float32(np.nan))
        self.time_steps.add(np.abs(np.diff(known, axis=2)))
        self.sensor_steps.add(np.abs(np.diff(known, axis=1)))

    def _add_digests(self, batch: Episodes, values: npt.NDArray[np.float32]) -> None:
        for sensor, digest in enumerate(self.sensor_digests):
            digest.update(np.ascontiguousarray(values[:, sensor]).tobytes())
        for row, length in enumerate(batch.lengths.tolist()):
            content = np.ascontiguousarray(values[row, :, :length]).tobytes()
            self.episode_digests[hashlib.blake2b(content, digest_size=16).digest()].append(str(batch.ids[row]))


class _Mean:
    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def add(self, steps: npt.NDArray[np.float32]) -> None:
        self.sum += float(np.nansum(steps, dtype=np.float64))
        self.count += int(steps.size - np.isnan(steps).sum())

    @property
    def value(self) -> float:
        return self.sum / self.count if self.count else float("nan")


def longest_runs(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The length of the longest run of True along the last axis.

    >>> longest_runs(np.array([[True, True, False, True], [False, False, False, False]]))
    array([2, 0])
    """
    if flags.shape[-1] == 0:
        return np.zeros(flags.shape[:-1], dtype=np.int64)
    place = np.arange(flags.shape[-1], dtype=np.int32)
    last_false = np.maximum.accumulate(np.where(flags, np.int32(-1), place), axis=-1)
    return np.asarray((place - last_false).max(axis=-1), dtype=np.int64)

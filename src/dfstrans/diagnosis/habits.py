"""What is normal for one machine: the range of its signals over time, and how often its sensors show symptoms.

A machine is a group of episodes. It is compared with its own normal recordings if there are enough of them, in training
or when it was commissioned, else with those of all machines.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.health import HealthReference
from dfstrans.diagnosis.recordings import CELL_STATISTICS, cell_statistics
from dfstrans.diagnosis.scores import Array

Arrays = dict[str, npt.NDArray[Any]]

MIN_RECORDINGS = 5  # normal ones of a machine; fewer do not show what is normal
MAX_RECORDINGS = 300  # of a machine; a random sample if there are more
MAX_VALUES = 1 << 19  # numbers in the courses of single machines, 2 MB in a file

COURSE_TAIL = 0.01  # share of normal values below the range of a signal, and also above
PLACES = 200  # in an episode, at which the range is known
POINTS_AT_PLACE = 8  # of each recording
SMALLEST_RANGE = 1e-6  # for sensors that never move
MAX_LEVEL = 1e3
REACH = 2  # neighbouring places on each side that smooth the range
DISTANCE_PLACES = 20  # in a recording, at which its typical distance from normal is known
OUTSIDE = 0.1  # smallest share of points on one side of the range that counts if the mean is within it


@dataclass(frozen=True)
class NormalCourse:
    """The lowest and the highest value of each sensor in normal recordings, without the most extreme 1 % on each side.

    Shape:
        by_segment (place, sensor, 2), with the same number of places in each segment; if lengths vary, evenly spaced
        over each episode from its start to its end; pooled (sensor, 2); in the sensors' units
    """

    by_segment: Array
    pooled: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int, n_segments: int) -> NormalCourse:
        """Learn from normal episodes; values by place come from those with `n_segments` segments (0: lengths vary)."""
        alike, anything = [], []
        n_places, per_place = PLACES, POINTS_AT_PLACE
        if n_segments:
            n_places = n_segments * places_per_segment(segment_length, n_segments)
            per_place = min(per_place, n_segments * segment_length // n_places)
        for episode in normal:
            values, length = episode.values, episode.values.shape[1]
            anything.append(values[:, _evenly(length, min(length, PLACES))])
            if n_segments and count_segments(length, segment_length) != n_segments:
                continue
            points = n_segments * segment_length or length
            padded = np.pad(values, ((0, 0), (0, points - length)), constant_values=np.nan)
            chosen = padded[:, _evenly(points, n_places * per_place)]
            alike.append(chosen.reshape(len(values), n_places, per_place))
        pooled = _range(np.concatenate(anything, axis=1))
        if not alike:
            return cls(np.zeros((0, *pooled.shape)), pooled)
        return cls(smooth_range(_range(np.concatenate(alike, axis=2)).transpose(1, 0, 2)), pooled)

    def of_length(self, length: int, segment_length: int, usual: int) -> Array:
        """Return the course for an episode of `length` points: (place, sensor, 2).

        It is constant unless the episode has the `usual` number of segments; if there is none (0), the range is known
        by the share of the episode that has passed.
        """
        n_segments = count_segments(length, segment_length)
        if n_segments == usual and len(self.by_segment):
            return self.by_segment
        if usual or not len(self.by_segment):
            return np.broadcast_to(self.pooled, (n_segments, *self.pooled.shape))
        n_places = n_segments * places_per_segment(segment_length, n_segments)
        passed = (np.arange(n_places) + 0.5) * (n_segments * segment_length / n_places) / length
        rows = np.minimum(passed * len(self.by_segment), len(self.by_segment) - 1)
        return self.by_segment[rows.astype(np.int64)]


def places_per_segment(segment_length: int, n_segments: int) -> int:
    """Return at how many places of a segment the range of normal values is known."""
    return int(np.clip(PLACES // max(n_segments, 1), 1, segment_length))


def _evenly(length: int, count: int) -> npt.NDArray[np.int64]:
    """Return the indices of evenly spaced points; if there are fewer, they are repeated."""
    return ((np.arange(count) + 0.5) * length / max(count, 1)).astype(np.int64)


def _range(values: npt.NDArray[np.floating]) -> Array:
    """Return a low and a high quantile over the last axis, as the last axis."""
    quantile = np.nanquantile if np.isnan(values).any() else np.quantile  # the same, but much faster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # places without any values get a range of NaN
        return np.stack(quantile(values, [COURSE_TAIL, 1 - COURSE_TAIL], axis=-1), axis=-1, dtype=np.float64)


def smooth_range(course: Array, reach: int = REACH) -> Array:
    """Widen the range at each place to that of its neighbours and average it, so that it never becomes narrower.

    Shape:
        (place, sensor, 2)
    """
    padded = np.pad(course, ((2 * reach, 2 * reach), (0, 0), (0, 0)), mode="edge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # places without any values
        near = sliding_window_view(padded, 2 * reach + 1, axis=0)
        widest = np.stack([np.nanmin(near[..., 0, :], axis=-1), np.nanmax(near[..., 1, :], axis=-1)], axis=-1)
        smooth = np.nanmean(sliding_window_view(widest, 2 * reach + 1, axis=0), axis=-1)
    return np.where(np.isnan(course), np.nan, smooth)


def level_in_range(values: npt.NDArray[np.float32], segment_length: int, course: Array) -> Array:
    """Return where the mean of each cell lies in its normal range: 0 is the middle, −1 and 1 are the edges.

    If the mean is within the range, but many points are above it and far fewer below, 1 plus their share; likewise
    below. Cells without any value, or without a normal range, are in the middle.

    Shape:
        values (sensor, point), course (place, sensor, 2) → (segment, sensor)
    """
    mean = cell_statistics(values, segment_length)[..., CELL_STATISTICS.index("mean")]
    with np.errstate(invalid="ignore"):
        low, high = np.moveaxis(course.reshape(len(mean), -1, *course.shape[1:]).mean(axis=1), -1, 0)
        level = np.nan_to_num((mean - (low + high) / 2) / np.maximum((high - low) / 2, SMALLEST_RANGE))
    above, below = _shares_outside(values, segment_length, course)
    for share, other, sign in ((above, below, 1), (below, above, -1)):
        level = np.where((np.abs(level) <= 1) & (share >= OUTSIDE) & (share > 2 * other), sign * (1 + share), level)
    return np.asarray(np.clip(level, -MAX_LEVEL, MAX_LEVEL))


def _shares_outside(values: npt.NDArray[np.float32], segment_length: int, course: Array) -> tuple[Array, Array]:
    """Return the shares of each cell's points above and below the range at their place: (segment, sensor) each."""
    length = values.shape[1]
    n_segments = count_segments(length, segment_length)
    rows = np.arange(length) * len(course) // (n_segments * segment_length)
    low, high = np.moveaxis(course[rows], (0, 2), (2, 0))  # (sensor, point)
    starts = np.arange(n_segments) * segment_length
    points = np.diff(np.append(starts, length))
    above, below = (
        np.add.reduceat(mask, starts, axis=1, dtype=np.float64).T / points[:, None]
        for mask in (values > high, values < low)
    )
    return above, below


# ---- one machine and all machines -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Habits:
    """What is normal for one machine, or for all machines together.

    `why_all` says why all machines are taken together; it is empty where machines are not told apart. `distance` is how
    far each sensor of this machine usually is from the normal examples of training, from the start of a recording to
    its end: 1, or more on machines beside them.

    Shape:
        distance (place, sensor), evenly spaced over a recording
    """

    course: NormalCourse
    health: HealthReference
    recordings: int
    distance: Array
    machine: str = ""  # empty: all machines
    why_all: str = ""

    @classmethod
    def fit(
        cls, normal: Episodes, scaler: SensorScaler, segment_length: int, n_segments: int, name: str = ""
    ) -> Habits:
        """Learn from normal episodes; `n_segments` is their usual number of segments (0: none)."""
        course = NormalCourse.fit(normal, segment_length, n_segments)
        return cls(course, HealthReference.fit(normal, scaler), len(normal), np.ones((1, normal.n_sensors)), name)

    def typical_distance(self, n_segments: int) -> Array:
        """Return how far each cell of this machine usually is from normal examples of training: (segment, sensor)."""
        return self.distance[_evenly(len(self.distance), n_segments)]

    def with_distances(self, deviations: Sequence[Array]) -> Habits:
        """Return these habits with the typical distance of a machine's normal recordings: each (segment, sensor)."""
        alike = [one[_evenly(len(one), DISTANCE_PLACES)] for one in deviations]
        return replace(self, distance=np.maximum(np.median(alike, axis=0), 1))

    @classmethod
    def of_machine(
        cls, name: str, normal: Episodes, scaler: SensorScaler, segment_length: int, n_segments: int
    ) -> Habits:
        """Learn from a machine's normal episodes, or a random selection of them."""
        if len(normal) > MAX_RECORDINGS:
            normal = normal[np.sort(np.random.default_rng(0).choice(len(normal), MAX_RECORDINGS, replace=False))]
        return cls.fit(normal, scaler, segment_length, n_segments, name)


@dataclass(frozen=True)
class Fleet:
    """The habits of all machines together, and of each machine with enough normal recordings."""

    together: Habits
    machines: dict[str, Habits] = field(default_factory=dict)
    told_apart: bool | None = False  # whether the episodes had groups; None if the model is too old to tell

    @classmethod
    def fit(
        cls, sample: Episodes, normal: Episodes, scaler: SensorScaler, segment_length: int, n_segments: int
    ) -> Fleet:
        """Learn what is normal for all machines from a sample, and for each machine from all its normal episodes."""
        together = Habits.fit(sample, scaler, segment_length, n_segments)
        most = MAX_VALUES // max(together.course.by_segment.size, together.course.pooled.size)
        return cls(together).with_machines(normal, scaler, segment_length, n_segments, most)

    def with_machines(
        self, normal: Episodes, scaler: SensorScaler, segment_length: int, n_segments: int, most: int | None = None
    ) -> Fleet:
        """Return this fleet with the habits of the machines of these episodes, of each with enough of them.

        With `most`, only of those with the most episodes.
        """
        if normal.groups is None:
            return self
        names, counts = np.unique(normal.groups, return_counts=True)
        machines = dict(self.machines)
        for row in np.argsort(-counts, kind="stable")[:most]:
            name = str(names[row])
            machines.pop(name, None)  # what was usual before is outdated
            if counts[row] >= MIN_RECORDINGS:
                own = normal[np.flatnonzero(normal.groups == name)]
                machines[name] = Habits.of_machine(name, own, scaler, segment_length, n_segments)
        return replace(self, machines=machines, told_apart=True)

    def of(self, machine: str | None) -> Habits:
        """Return what is normal for a machine, or for all machines, with the reason.

        A symptom of an unknown machine is unusual only if it is for every known one.
        """
        if machine in self.machines:
            return self.machines[machine]
        usual = np.max([one.health.usual for one in (self.together, *self.machines.values())], axis=0)
        return replace(self.together, health=HealthReference(usual), why_all=self._why_all(machine))

    def _why_all(self, machine: str | None) -> str:
        if self.told_apart is None:
            return "the model was saved by an earlier version, which did not tell machines apart; train it again"
        if not self.told_apart:
            return ""
        if machine is None:
            return "it is not known which machine this is"
        return f"the model has learned from fewer than {MIN_RECORDINGS} normal recordings of {machine}"

    def to_arrays(self) -> Arrays:
        """Return everything as named arrays, for a file."""
        names = json.dumps(
            {
                "told_apart": self.told_apart,
                "recordings": [(name, one.recordings) for name, one in self.machines.items()],
            }
        )
        arrays = {"machines": np.frombuffer(names.encode(), dtype=np.uint8), **_to_arrays(self.together)}
        for number, one in enumerate(self.machines.values()):
            arrays |= {f"machine.{number}.{name}": values for name, values in _to_arrays(one).items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_episodes: int) -> Fleet:
        """The inverse of `to_arrays`, except for rounding; models of earlier versions know no single machines."""
        together = _from_arrays(arrays, "", n_episodes)
        if "machines" not in arrays:
            return cls(together, told_apart=None)
        known = json.loads(arrays["machines"].tobytes())
        machines = {
            name: _from_arrays(arrays, f"machine.{number}.", recordings, name)
            for number, (name, recordings) in enumerate(known["recordings"])
        }
        return cls(together, machines, known["told_apart"])


def _to_arrays(habits: Habits) -> Arrays:
    arrays = {
        "health": habits.health.usual,
        "course.by_segment": habits.course.by_segment,
        "course.pooled": habits.course.pooled,
        "distance": habits.distance,
    }
    return {name: values.astype(np.float32, order="C") for name, values in arrays.items()}


def _from_arrays(arrays: Arrays, prefix: str, recordings: int, machine: str = "") -> Habits:
    health, by_segment, pooled = (
        arrays[prefix + name].astype(np.float64) for name in ("health", "course.by_segment", "course.pooled")
    )
    distance = arrays.get(prefix + "distance", np.ones((1, len(pooled)))).astype(np.float64)
    return Habits(NormalCourse(by_segment, pooled), HealthReference(health), recordings, distance, machine)

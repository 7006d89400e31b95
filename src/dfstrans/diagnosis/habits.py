"""What is normal for one machine: the range of its signals over time, and how often its sensors show symptoms.

A machine is a group of episodes. It is compared with its own normal recordings if there are enough of them, else with
those of all machines.
"""

from __future__ import annotations

import json
import warnings
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
PLACES = 200  # in an episode of the usual length, at which the range is known
POINTS_AT_PLACE = 8  # of each recording
SMALLEST_RANGE = 1e-6  # for sensors that never move
MAX_LEVEL = 1e3
REACH = 2  # neighbouring places on each side that smooth the range


@dataclass(frozen=True)
class NormalCourse:
    """The lowest and the highest value of each sensor in normal recordings, without the most extreme 1 % on each side.

    Shape:
        by_segment (place, sensor, 2), with the same number of places in each segment, and none if lengths vary;
        pooled (sensor, 2); in the sensors' units
    """

    by_segment: Array
    pooled: Array

    @classmethod
    def fit(cls, normal: Episodes, segment_length: int, n_segments: int) -> NormalCourse:
        """Learn from normal episodes; values by place come from those with `n_segments` segments (0: none)."""
        alike, anything = [], []
        n_places = n_segments * places_per_segment(segment_length, n_segments)
        for episode in normal:
            values, length = episode.values, episode.values.shape[1]
            anything.append(values[:, _evenly(length, PLACES)])
            if n_places and count_segments(length, segment_length) == n_segments:
                points = n_segments * segment_length
                padded = np.pad(values, ((0, 0), (0, points - length)), constant_values=np.nan)
                per_place = min(POINTS_AT_PLACE, points // n_places)
                chosen = padded[:, _evenly(points, n_places * per_place)]
                alike.append(chosen.reshape(len(values), n_places, per_place))
        pooled = _range(np.concatenate(anything, axis=1))
        if not alike:
            return cls(np.zeros((0, *pooled.shape)), pooled)
        return cls(smooth_range(_range(np.concatenate(alike, axis=2)).transpose(1, 0, 2)), pooled)

    def of_length(self, n_segments: int, usual: int) -> Array:
        """Return the course for `n_segments` segments (place, sensor, 2): constant unless that number is `usual`."""
        if n_segments == usual and len(self.by_segment):
            return self.by_segment
        return np.broadcast_to(self.pooled, (n_segments, *self.pooled.shape))


def places_per_segment(segment_length: int, n_segments: int) -> int:
    """Return at how many places of a segment the range of normal values is known."""
    return int(np.clip(PLACES // max(n_segments, 1), 1, segment_length))


def _evenly(length: int, most: int) -> npt.NDArray[np.int64]:
    """Return the indices of at most `most` evenly spaced points."""
    count = min(length, most)
    return ((np.arange(count) + 0.5) * length / max(count, 1)).astype(np.int64)


def _range(values: npt.NDArray[np.floating]) -> Array:
    """Return a low and a high quantile over the last axis, as the last axis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # places without any values get a range of NaN
        return np.stack(np.nanquantile(values, [COURSE_TAIL, 1 - COURSE_TAIL], axis=-1), axis=-1, dtype=np.float64)


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

    Cells without any value, or without a normal range, are in the middle.

    Shape:
        values (sensor, point), course (place, sensor, 2) → (segment, sensor)
    """
    mean = cell_statistics(values, segment_length)[..., CELL_STATISTICS.index("mean")]
    with np.errstate(invalid="ignore"):
        low, high = np.moveaxis(course.reshape(len(mean), -1, *course.shape[1:]).mean(axis=1), -1, 0)
        level = (mean - (low + high) / 2) / np.maximum((high - low) / 2, SMALLEST_RANGE)
    return np.asarray(np.clip(np.nan_to_num(level), -MAX_LEVEL, MAX_LEVEL))


# ---- one machine and all machines -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Habits:
    """What is normal for one machine, or for all machines together.

    `why_all` says why all machines are taken together; it is empty where machines are not told apart.
    """

    course: NormalCourse
    health: HealthReference
    recordings: int
    machine: str = ""  # empty: all machines
    why_all: str = ""

    @classmethod
    def fit(
        cls, normal: Episodes, scaler: SensorScaler, segment_length: int, n_segments: int, name: str = ""
    ) -> Habits:
        """Learn from normal episodes; `n_segments` is their usual number of segments (0: none)."""
        course = NormalCourse.fit(normal, segment_length, n_segments)
        return cls(course, HealthReference.fit(normal, scaler), len(normal), name)


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
        if normal.groups is None:
            return cls(together)
        names, counts = np.unique(normal.groups, return_counts=True)
        most = MAX_VALUES // max(together.course.by_segment.size, together.course.pooled.size)
        machines = {}
        for row in np.argsort(-counts, kind="stable")[:most]:
            if counts[row] >= MIN_RECORDINGS:
                name, own = str(names[row]), np.flatnonzero(normal.groups == names[row])
                if len(own) > MAX_RECORDINGS:
                    own = np.sort(np.random.default_rng(0).choice(own, MAX_RECORDINGS, replace=False))
                machines[name] = Habits.fit(normal[own], scaler, segment_length, n_segments, name)
        return cls(together, machines, told_apart=True)

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
    }
    return {name: values.astype(np.float32, order="C") for name, values in arrays.items()}


def _from_arrays(arrays: Arrays, prefix: str, recordings: int, machine: str = "") -> Habits:
    health, by_segment, pooled = (
        arrays[prefix + name].astype(np.float64) for name in ("health", "course.by_segment", "course.pooled")
    )
    return Habits(NormalCourse(by_segment, pooled), HealthReference(health), recordings, machine)

"""Count, in one pass over recordings, what the data check judges: ranges, gaps, steps, copies."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import is_hidden_by_offset, is_rounded, sampling_stride

MIN_EPISODES = 4  # of each class: 70 % of four leaves the two that training needs
STUCK_SHARE = 0.5  # share of an episode with a single value
ACTIVE_STEPS = 0.5  # share of steps that change the value; above it, a sensor is active in an episode
ACTIVE_EPISODES = 0.25  # share of active episodes; a sensor with fewer is a switch, which is never stuck
FAR = 100  # interquartile ranges from the median; a value beyond is more likely an error than a measurement
SAMPLE = 10_000  # values of a sensor kept for its quartiles
_WRONG = re.compile(r"alarm|anomal|fault|fail|error|defect|label|störung|fehler", re.IGNORECASE)
MOST_CODES = 10  # distinct numbers; a sensor with more is no code
COUNTER_STEPS = 20  # a sensor that rises in each of at least so many steps counts up


@dataclass(frozen=True)
class Finding:
    """Something suspicious, with its remedy; an error prevents training.

    A finding about files has the number of cases, an example (file and line) and the option that resolves it.
    """

    level: Literal["error", "warning", "info"]
    message: str
    count: int | None = None
    file: str | None = None
    line: int | None = None
    option: str | None = None


@dataclass(frozen=True)
class SensorRange:
    """The range of a sensor's values; None without values."""

    min: float | None
    max: float | None
    mean: float | None


@dataclass(frozen=True)
class FarValues:
    """The episodes in which a sensor is absurdly far from its median, and the farthest value with its episode."""

    episodes: int
    value: float
    example: str


@dataclass(frozen=True)
class DataCheck:
    """The summary and findings of a check; shares are between 0 and 1."""

    episodes: int
    anomalous: int
    normal: int
    unlabelled: int
    sensors: tuple[str, ...]
    units: dict[str, str]  # only of sensors with a unit
    shortest: int
    median_length: float
    longest: int
    interval: float | None
    groups: int | None
    fault_kinds: dict[str, int]  # number of episodes by kind of fault
    missing: float
    missing_by_sensor: dict[str, float]  # the worst first
    ranges: dict[str, SensorRange]
    constant_sensors: tuple[str, ...]
    empty_sensors: tuple[str, ...]
    stuck_sensors: dict[str, int]  # number of episodes in which an otherwise active sensor does not change
    duplicated_sensors: tuple[tuple[str, ...], ...]
    infinite_values: dict[str, int]
    duplicated_episodes: tuple[tuple[str, ...], ...]
    gaps: dict[str, int]  # points without any value, by episode
    slower_episodes: dict[str, int]  # n, if only every n-th point has values, unlike in others; not counted as gaps
    empty_episodes: tuple[str, ...]
    rounded_sensors: tuple[str, ...]  # with only a few distinct float32 values
    offset_sensors: tuple[str, ...]  # constant and large: perhaps rounded to one float32 value
    label_like_sensors: tuple[str, ...]  # 0 or 1 throughout each episode; or in each point, if the name says so
    code_sensors: dict[str, tuple[int, ...]]  # one whole number throughout each episode: the few, most frequent first
    telltale_sensors: tuple[str, ...]  # the same maximum in all normal episodes, and another in all anomalous ones
    partly_anomalous: tuple[str, ...]
    far_values: dict[str, FarValues]
    counters: tuple[str, ...]  # sensors that rise in every step of every episode
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether training is possible."""
        return all(finding.level != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "ok": self.ok}


# ---- one pass over the values -------------------------------------------------------------------------------------


class Tally:
    """Running counts over batches, in memory that does not depend on the number of points."""

    def __init__(self, n_sensors: int) -> None:
        self.points = 0
        self.finite, self.infinite, self.present, self.active, self.two_state, self.stuck = np.zeros(
            (6, n_sensors), dtype=np.int64
        )  # the first two count values, the others episodes
        self.sum, self.min, self.max = np.zeros(n_sensors), np.full(n_sensors, np.inf), np.full(n_sensors, -np.inf)
        self.stuck_example: dict[int, str] = {}  # an episode by sensor
        self.sensor_digests = [hashlib.blake2b(digest_size=16) for _ in range(n_sensors)]
        self.episode_digests: dict[bytes, list[str]] = defaultdict(list)
        self.gaps: dict[str, int] = {}
        self.strides: dict[str, int] = {}
        self.empty_episodes: list[str] = []
        self.peaks = [(np.full(n_sensors, np.inf), np.full(n_sensors, -np.inf)) for _ in range(2)]  # range by label
        self.sample: npt.NDArray[np.float32] = np.empty((n_sensors, 0), dtype=np.float32)
        self.sample_step = 1
        self.lowest: list[npt.NDArray[np.float32]] = []  # (episode, sensor) of each batch
        self.highest: list[npt.NDArray[np.float32]] = []
        self.steps, self.rising_steps = np.zeros((2, n_sensors), dtype=np.int64)
        self.time_steps, self.sensor_steps = np.zeros(2), np.zeros(2)  # sum and number of absolute differences

    def add(self, batch: Episodes) -> None:
        """Add one batch, which is in memory."""
        inside = np.arange(batch.n_timepoints) < batch.lengths[:, np.newaxis]
        values = np.where(inside[:, np.newaxis], np.asarray(batch.values), np.float32(np.nan))
        finite = np.isfinite(values)
        present, peaks = np.asarray(finite.any(axis=2)), np.where(finite, values, -np.inf).max(axis=2)
        self.points += int(batch.lengths.sum())
        self.finite += finite.sum(axis=(0, 2))
        self.infinite += np.isinf(values).sum(axis=(0, 2))
        self.sum += np.where(finite, values, 0).sum(axis=(0, 2), dtype=np.float64)
        lowest = np.where(finite, values, np.inf).min(axis=2)
        self.min = np.minimum(self.min, lowest.min(axis=0))
        self.max = np.maximum(self.max, peaks.max(axis=0))
        self.lowest.append(lowest)
        self.highest.append(peaks)
        self._add_sample(values)
        self.present += present.sum(axis=0)
        for state in (0, 1):
            self.two_state += (present & (~finite | (values == state)).all(axis=2)).sum(axis=0)
        self._add_gaps(batch, inside & np.isnan(values).all(axis=1))
        self._add_peaks(batch, peaks, present)
        self._add_steps(batch, values, finite)
        self._add_digests(batch, values)

    def _add_sample(self, values: npt.NDArray[np.float32]) -> None:
        """Keep every n-th value; n doubles whenever the sample is full."""
        of_sensors = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
        self.sample = np.hstack([self.sample, of_sensors[:, :: self.sample_step]])
        while self.sample.shape[1] > SAMPLE:
            self.sample, self.sample_step = self.sample[:, ::2], 2 * self.sample_step

    def _add_gaps(self, batch: Episodes, empty: npt.NDArray[np.bool_]) -> None:
        counts = empty.sum(axis=1)
        for row in np.flatnonzero(counts).tolist():
            name, stride = str(batch.ids[row]), sampling_stride(~empty[row, : batch.lengths[row]])
            self.gaps[name] = int(counts[row])
            if stride > 1:
                self.strides[name] = stride
        self.empty_episodes += batch.ids[counts == batch.lengths].tolist()

    def _add_peaks(self, batch: Episodes, peaks: npt.NDArray[np.float32], present: npt.NDArray[np.bool_]) -> None:
        if batch.labels is None:
            return
        for label, (lowest, highest) in enumerate(self.peaks):
            of_class = present & (batch.labels[:, np.newaxis] == label)
            np.minimum(lowest, np.where(of_class, peaks, np.inf).min(axis=0), out=lowest)
            np.maximum(highest, np.where(of_class, peaks, -np.inf).max(axis=0), out=highest)

    def _add_steps(self, batch: Episodes, values: npt.NDArray[np.float32], finite: npt.NDArray[np.bool_]) -> None:
        pairs = finite[..., 1:] & finite[..., :-1]
        equal = pairs & (values[..., 1:] == values[..., :-1])
        steps, still = pairs.sum(axis=2), equal.sum(axis=2)
        self.steps += steps.sum(axis=0)
        self.rising_steps += (pairs & (values[..., 1:] > values[..., :-1])).sum(axis=(0, 2))
        self.active += ((steps > 0) & (steps - still >= ACTIVE_STEPS * steps)).sum(axis=0)
        stuck = (_longest_runs(equal) + 1 > STUCK_SHARE * batch.lengths[:, np.newaxis]) & (steps > 1)
        self.stuck += stuck.sum(axis=0)
        for sensor in np.flatnonzero(stuck.any(axis=0)).tolist():
            self.stuck_example.setdefault(sensor, str(batch.ids[stuck[:, sensor].argmax()]))
        known = np.where(finite, values, np.float32(np.nan))
        for total, axis in ((self.time_steps, 2), (self.sensor_steps, 1)):
            differences = np.abs(np.diff(known, axis=axis))
            total += np.nansum(differences, dtype=np.float64), np.count_nonzero(~np.isnan(differences))

    def _add_digests(self, batch: Episodes, values: npt.NDArray[np.float32]) -> None:
        for sensor, digest in enumerate(self.sensor_digests):
            digest.update(np.ascontiguousarray(values[:, sensor]).tobytes())
        for row, length in enumerate(batch.lengths.tolist()):
            content = np.ascontiguousarray(values[row, :, :length]).tobytes()
            self.episode_digests[hashlib.blake2b(content, digest_size=16).digest()].append(str(batch.ids[row]))


def _far_values(tally: Tally, episodes: Episodes) -> dict[str, FarValues]:
    """Find sensors with values that are absurdly far from their median; those without a spread are skipped."""
    found: dict[str, FarValues] = {}
    lowest, highest = np.concatenate(tally.lowest).astype(np.float64), np.concatenate(tally.highest).astype(np.float64)
    for sensor, name in enumerate(episodes.sensors):
        known = tally.sample[sensor][np.isfinite(tally.sample[sensor])].astype(np.float64)
        if not len(known):
            continue
        low, median, high = np.quantile(known, (0.25, 0.5, 0.75), method="nearest")
        above, below = highest[:, sensor] - median, median - lowest[:, sensor]
        distance = np.maximum(above, below)  # -inf in episodes without a value
        far = distance > FAR * (high - low)
        if high > low and far.any():
            row = int(distance.argmax())
            value = highest[row, sensor] if above[row] >= below[row] else lowest[row, sensor]
            found[name] = FarValues(int(far.sum()), float(value), str(episodes.ids[row]))
    return found


def _named_like_a_label(tally: Tally, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Mark sensors with only two values whose name says that something is wrong."""
    two_values = (np.isnan(tally.sample) | np.isin(tally.sample, (0, 1))).all(axis=1)
    return two_values & np.array([_WRONG.search(name) is not None for name in names], dtype=np.bool_)


def _codes(tally: Tally, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the sensors with one whole number in each episode, and these numbers, if they are few."""
    lowest, highest = np.concatenate(tally.lowest), np.concatenate(tally.highest)
    coded = ((lowest == highest) & (lowest == np.round(lowest))).all(axis=0)
    found = {}
    for sensor in np.flatnonzero(coded).tolist():
        numbers = Counter(lowest[:, sensor].astype(int).tolist())
        if 1 < len(numbers) <= min(MOST_CODES, len(lowest) / 3):
            found[names[sensor]] = tuple(number for number, _ in numbers.most_common())
    return found


def _longest_runs(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the length of the longest run of True along the last axis.

    >>> _longest_runs(np.array([[True, True, False, True], [False, False, False, False]]))
    array([2, 0])
    """
    place = np.arange(flags.shape[-1], dtype=np.int32)
    last_false = np.maximum.accumulate(np.where(flags, np.int32(-1), place), axis=-1)
    return np.asarray((place - last_false).max(axis=-1, initial=0), dtype=np.int64)


def summarize(episodes: Episodes, tally: Tally) -> DataCheck:
    """Return what the counts say about recordings, without findings."""
    names, n = episodes.sensors, len(episodes)

    def named(mask: Any) -> tuple[str, ...]:
        return tuple(names[i] for i in np.flatnonzero(mask))

    missing = 1 - (tally.finite + tally.infinite) / max(tally.points, 1)
    empty = tally.finite == 0
    constant = ~empty & (tally.min == tally.max)
    active = (tally.active >= np.maximum(ACTIVE_EPISODES * tally.present, 2)) & ~constant
    (low, high), (anomalous_low, anomalous_high) = tally.peaks
    telltale = (low == high) & (anomalous_low == anomalous_high) & (low != anomalous_low)
    enough = min(episodes.n_anomalous, n - episodes.n_anomalous) >= MIN_EPISODES  # with fewer, it may be chance
    same_sensors: dict[bytes, list[str]] = defaultdict(list)
    for sensor in np.flatnonzero(~empty & ~constant):
        same_sensors[tally.sensor_digests[sensor].digest()].append(names[sensor])
    faults = episodes.known_faults
    kinds = Counter(kind for known in faults for kind in {fault.kind for fault in known} - {""})
    partly = [
        any(fault.start > 0 or fault.stop < length for fault in known)
        for known, length in zip(faults, episodes.lengths.tolist(), strict=True)
    ]
    lengths = episodes.lengths if n else np.zeros(1, dtype=np.int64)
    slower = tally.strides if len(tally.strides) < n - len(tally.empty_episodes) else {}  # all alike: none slower
    return DataCheck(
        episodes=n,
        anomalous=episodes.n_anomalous,
        normal=0 if episodes.labels is None else n - episodes.n_anomalous,
        unlabelled=n if episodes.labels is None else 0,
        sensors=names,
        units={name: unit for name, unit in zip(names, episodes.units, strict=True) if unit},
        shortest=int(lengths.min()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        interval=episodes.interval,
        groups=None if episodes.groups is None else len(set(episodes.groups.tolist())),
        fault_kinds=dict(sorted(kinds.items())),
        missing=float(missing.mean()),
        missing_by_sensor={names[i]: float(missing[i]) for i in np.argsort(-missing, kind="stable")},
        ranges={
            name: SensorRange(low, high, total / count) if count else SensorRange(None, None, None)
            for name, low, high, total, count in zip(
                names, tally.min.tolist(), tally.max.tolist(), tally.sum.tolist(), tally.finite.tolist(), strict=True
            )
        },
        constant_sensors=named(constant),
        empty_sensors=named(empty),
        stuck_sensors={names[i]: int(tally.stuck[i]) for i in np.flatnonzero(active & (tally.stuck > 0))},
        duplicated_sensors=tuple(tuple(group) for group in same_sensors.values() if len(group) > 1),
        infinite_values={names[i]: int(tally.infinite[i]) for i in np.flatnonzero(tally.infinite)},
        duplicated_episodes=tuple(tuple(ids) for ids in tally.episode_digests.values() if len(ids) > 1),
        gaps={name: count for name, count in tally.gaps.items() if name not in slower},
        slower_episodes=slower,
        empty_episodes=tuple(tally.empty_episodes),
        rounded_sensors=named(is_rounded(tally.min, tally.max)),
        offset_sensors=named(is_hidden_by_offset(tally.min, tally.max)),
        label_like_sensors=named(
            (tally.min == 0)
            & (tally.max == 1)
            & ((tally.two_state == tally.present) | _named_like_a_label(tally, names))
        ),
        code_sensors=_codes(tally, names) if n else {},
        telltale_sensors=named(telltale & enough),
        partly_anomalous=tuple(episodes.ids[partly].tolist()),
        far_values=_far_values(tally, episodes) if n else {},
        counters=named((tally.steps >= COUNTER_STEPS) & (tally.rising_steps == tally.steps)),
    )

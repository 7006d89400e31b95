"""`check_episodes`: summarise recordings and report what looks suspicious."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import (
    describe_hidden,
    describe_rounded,
    describe_slow_rates,
    is_hidden_by_offset,
    is_rounded,
    sampling_stride,
)
from dfstrans.data.segments import MIN_SEGMENT_POINTS
from dfstrans.data.suggestions import length_of_parts, suggest_cutting, suggest_shorter
from dfstrans.errors import counted, list_few, reading_option_name

MIN_EPISODES = 4  # of each class: 70 % of four leaves the two that training needs
FEW_EPISODES = 10  # of the rarer class: fewer leave only one or two for validation
IMBALANCED = 0.01  # share of the rarer class
MUCH_MISSING = 0.2  # of a sensor's values
LENGTH_RATIO = 4.0  # longest to shortest
STUCK_SHARE = 0.5  # share of an episode with a single value
ACTIVE_STEPS = 0.5  # share of steps that change the value; above it, a sensor is active in an episode
ACTIVE_EPISODES = 0.25  # share of active episodes; a sensor with fewer is a switch, which is never stuck
ALIKE_RATIO = 0.3  # ratio of differences between sensors to differences in time; below it, the axes may be swapped
ALIKE_SENSORS = 10  # with fewer, sensors may be alike by chance
FAR = 100  # interquartile ranges from the median; a value beyond is more likely an error than a measurement
SAMPLE = 10_000  # values of a sensor kept for its quartiles
COUNTER_STEPS = 20  # a sensor that rises in each of at least so many steps counts up
BATCH_BYTES = 16_000_000  # of values in memory at a time


@dataclass(frozen=True)
class Finding:
    """Something suspicious, with its remedy; an error prevents training.

    A finding about files has the number of cases, an example (file and line) and the option that settles it.
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
    label_like_sensors: tuple[str, ...]  # 0 throughout some episodes, 1 throughout the others
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


def check_episodes(
    episodes: Episodes, progress: Callable[[int], None] = lambda _: None, *, batch_bytes: int = BATCH_BYTES
) -> DataCheck:
    """Check recordings in one pass, batch by batch; `progress` receives the number of episodes in each batch."""
    tally = _Tally(episodes.n_sensors)
    for batch in episodes.batches(max(1, batch_bytes // (4 * episodes.n_sensors * episodes.n_timepoints))):
        tally.add(batch)
        progress(len(batch))
    check = _summarize(episodes, tally)
    return replace(check, findings=tuple(_findings(check, episodes, tally)))


# ---- one pass over the values -------------------------------------------------------------------------------------


class _Tally:
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


def _far_values(tally: _Tally, episodes: Episodes) -> dict[str, FarValues]:
    """Find sensors with values that are absurdly far from their median; those without a spread are left out."""
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


def _longest_runs(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the length of the longest run of True along the last axis.

    >>> _longest_runs(np.array([[True, True, False, True], [False, False, False, False]]))
    array([2, 0])
    """
    place = np.arange(flags.shape[-1], dtype=np.int32)
    last_false = np.maximum.accumulate(np.where(flags, np.int32(-1), place), axis=-1)
    return np.asarray((place - last_false).max(axis=-1, initial=0), dtype=np.int64)


def _summarize(episodes: Episodes, tally: _Tally) -> DataCheck:
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
        label_like_sensors=named((tally.two_state == tally.present) & (tally.min == 0) & (tally.max == 1)),
        telltale_sensors=named(telltale & enough),
        partly_anomalous=tuple(episodes.ids[partly].tolist()),
        far_values=_far_values(tally, episodes) if n else {},
        counters=named((tally.steps >= COUNTER_STEPS) & (tally.rising_steps == tally.steps)),
    )


# ---- findings -----------------------------------------------------------------------------------------------------

_error, _warning, _info = partial(Finding, "error"), partial(Finding, "warning"), partial(Finding, "info")


def _findings(check: DataCheck, episodes: Episodes, tally: _Tally) -> Iterator[Finding]:
    if check.episodes == 0:
        yield _error("no episodes; check whether the file is complete")
        return
    yield from _class_findings(check, episodes)
    yield from _episode_findings(check, episodes)
    yield from _value_findings(check)
    yield from _presence_findings(check, tally)
    yield from _shape_findings(check, episodes.n_timepoints, tally)
    yield from map(_warning, suggest_shorter(episodes, check.partly_anomalous))
    if check.normal or check.unlabelled:  # else the finding about the missing class suggests it
        yield from map(_info, suggest_cutting(episodes, check.partly_anomalous))


def _class_findings(check: DataCheck, episodes: Episodes) -> Iterator[Finding]:
    """Report missing labels, and a missing or rare class."""
    rarer = min(check.anomalous, check.normal)
    name, other = ("anomalous", "normal") if rarer == check.anomalous else ("normal", "anomalous")
    only = f"only {rarer} of {check.episodes} episodes {'is' if rarer == 1 else 'are'} {name}"
    no_labels = "no labels: fine for prediction; to train, add a label column or a label table"
    if check.unlabelled and check.label_like_sensors:
        yield _warning(
            f"{no_labels}; is {list_few(check.label_like_sensors)}, read as a sensor, the label? it is 0 in some "
            "episodes and 1 in the others; if so, move it into an array called labels, or name the column "
            f"({reading_option_name('label_column', check.label_like_sensors[0])})"
        )
    elif check.unlabelled:
        yield _info(no_labels)
    elif rarer == 0 and (length := length_of_parts(episodes, check.partly_anomalous)):
        yield _error(
            "each recording has an anomaly in a part of it: training needs normal episodes, too; cut the recordings "
            f"({reading_option_name('length', length)})"
        )
    elif rarer == 0:
        yield _error(f"all episodes are {other}: training needs both classes; add the other")
    elif rarer < MIN_EPISODES:
        yield _error(f"{only}: training needs at least {MIN_EPISODES} of each class; add more of them")
    elif rarer < FEW_EPISODES or rarer < IMBALANCED * check.episodes:
        yield _warning(f"{only}: scores will be uncertain; add more of them, and do not rely on a single split")


def _episode_findings(check: DataCheck, episodes: Episodes) -> Iterator[Finding]:
    """Report episodes that are partly anomalous, empty or slower, or have gaps or faults of unknown sensors."""
    if check.partly_anomalous:
        yield _info(
            f"{counted(len(check.partly_anomalous), 'episode')} with a fault in only a part: "
            f"{list_few(check.partly_anomalous)}; the label applies to the whole episode; the location of the "
            "fault is used to evaluate diagnoses"
        )
    if check.empty_episodes:
        yield _warning(f"episodes without any value: {list_few(check.empty_episodes)}; leave them out")
    if check.slower_episodes:
        yield _warning(describe_slow_rates(check.slower_episodes))
    if check.gaps:
        shown = [f"{name} ({count})" for name, count in check.gaps.items()]
        yield _info(
            f"{counted(sum(check.gaps.values()), 'point')} without a value of any sensor, in "
            f"{counted(len(check.gaps), 'episode')}: {list_few(shown)}; gaps in time are filled with such points, and "
            "the network sees the previous value there"
        )
    faulty = {name for faults in episodes.known_faults for fault in faults for name in fault.sensors}
    unknown = sorted(faulty - set(episodes.sensors))
    if unknown:
        yield _warning(
            f"known faults name sensors that do not exist: {list_few(unknown)}; diagnoses cannot be evaluated with "
            "them: correct the names, or keep these sensors"
        )


def _value_findings(check: DataCheck) -> Iterator[Finding]:
    """Report sensors that are infinite, empty, constant, rounded, copies of others, or reveal the label."""
    drop = reading_option_name("drop_sensors", ...)
    if check.infinite_values:
        yield _error(
            f"infinite values in {list_few(check.infinite_values)}: correct them, or read them as missing "
            f"({reading_option_name('infinite_as_missing', True)}); numbers above 3.4e38 are infinite in float32"
        )
    if check.empty_sensors:
        without = reading_option_name("drop_sensors", ",".join(check.empty_sensors))
        yield _error(f"sensors without any value: {list_few(check.empty_sensors)}; leave them out ({without})")
    if check.far_values:
        shown = [
            f"{name} ({far.value:g} in {far.example}; in {counted(far.episodes, 'episode')})"
            for name, far in check.far_values.items()
        ]
        yield _warning(
            f"values more than {FAR} interquartile ranges from the median: {list_few(shown)}; if they are errors and "
            f"not measurements, read them as missing ({reading_option_name('clip_beyond', FAR)})"
        )
    if check.counters:
        time = reading_option_name("time_column", check.counters[0])
        yield _warning(
            f"sensors that rise at every step: {list_few(check.counters)}; "
            + (f"if one is the time, name it ({time}); " if check.interval is None else "")
            + "a counter tells a detector when something was recorded, and not how it went, so leave it out "
            f"({reading_option_name('drop_sensors', ','.join(check.counters))})"
        )
    constant = [name for name in check.constant_sensors if name not in check.offset_sensors]
    if constant:
        yield _info(f"constant sensors, which carry no information and may be left out: {list_few(constant)}")
    if check.offset_sensors:
        yield _warning(describe_hidden(check.offset_sensors))
    if check.rounded_sensors:
        yield _warning(describe_rounded(check.rounded_sensors))
    if check.telltale_sensors:
        yield _warning(
            f"sensors that reveal the label: {list_few(check.telltale_sensors)} (one maximum in all normal, another "
            f"in all anomalous episodes); if this is the label and not a measurement, drop it ({drop})"
        )
    if check.duplicated_sensors:
        groups = [" = ".join(group) for group in check.duplicated_sensors]
        yield _warning(f"identical sensors: {list_few(groups)}; keep one of each ({drop}), or they share the relevance")


def _presence_findings(check: DataCheck, tally: _Tally) -> Iterator[Finding]:
    """Report sensors that are missing or stuck in some episodes."""
    between = sum(tally.gaps[name] for name in check.slower_episodes) / max(tally.points, 1)  # points of slower rates
    much = [
        f"{name} ({share:.0%})"
        for name, share in check.missing_by_sensor.items()
        if share - between > MUCH_MISSING and share < 1
    ]
    if much:
        drop = reading_option_name("drop_sensors", ...)
        yield _warning(f"many missing values in {list_few(much)}: find out why, or leave the sensors out ({drop})")
    filled = check.episodes - len(check.empty_episodes)
    absent = [
        f"{name} ({counted(filled - n, 'episode')})"
        for name, n in zip(check.sensors, tally.present.tolist(), strict=True)
        if 0 < n < filled
    ]
    if absent:
        yield _warning(f"no value in some episodes: {list_few(absent)}; was the sensor off or renamed?")
    off: list[str] = []
    stuck: list[str] = []
    for name, count in check.stuck_sensors.items():
        example = tally.stuck_example[check.sensors.index(name)]
        shown = f"{name} ({counted(count, 'episode')}, such as {example})"
        (off if count > check.episodes / 2 else stuck).append(shown)
    if off:
        yield _info(f"constant in most episodes, but active in others: {list_few(off)}; switched off, or stuck?")
    if stuck:
        yield _warning(
            f"constant for more than half of some episodes, but active in others: {list_few(stuck)}; stuck, or unused "
            "there? correct the recordings or leave the episodes out"
        )


def _shape_findings(check: DataCheck, n_timepoints: int, tally: _Tally) -> Iterator[Finding]:
    """Report swapped axes, short or very different lengths, and repeated episodes."""
    (time_sum, time_count), (sensor_sum, sensor_count) = tally.time_steps, tally.sensor_steps
    ratio = np.inf if time_sum == 0 or sensor_count == 0 else (sensor_sum / sensor_count) / (time_sum / time_count)
    swap = "are the axes transposed? expected (episode, sensor, timepoint); swap them"
    if len(check.sensors) > 2 * n_timepoints:
        yield _warning(f"{len(check.sensors)} sensors and only {n_timepoints} points: {swap}")
    elif len(check.sensors) >= ALIKE_SENSORS and ratio < ALIKE_RATIO:
        yield _warning(
            f"neighbouring sensors are {1 / max(ratio, 1e-9):.0f} times more alike than neighbouring points: {swap}"
        )
    if 0 < check.shortest < MIN_SEGMENT_POINTS:
        yield _warning(
            f"the shortest episode has {check.shortest} points, but training needs {MIN_SEGMENT_POINTS}, unless "
            "the network has fewer than three convolution blocks; leave short episodes out"
        )
    if check.longest > LENGTH_RATIO * check.shortest:
        yield _info(
            f"lengths from {check.shortest} to {check.longest} points: the classes should not differ in length, "
            "and a segment must fit into the shortest episode"
        )
    if check.duplicated_episodes:
        copies = sum(len(ids) - 1 for ids in check.duplicated_episodes)
        shown = [" = ".join(ids) for ids in check.duplicated_episodes]
        yield _warning(
            f"{counted(copies, 'episode')} of {check.episodes} {'is a copy' if copies == 1 else 'are copies'} of "
            f"others: {list_few(shown)}; keep one of each ({reading_option_name('drop_duplicates', True)})"
        )

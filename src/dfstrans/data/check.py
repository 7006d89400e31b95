"""What one look through all values counts, a batch at a time."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import FEWEST_POINTS
from dfstrans.data.timing import (
    ONE_LARGE_VALUE,
    REMEDY,
    REMEDY_IF_SEVERAL,
    ROUNDED,
    coarse,
    describe_slow_rates,
    may_hide_a_signal,
    times_slower,
)
from dfstrans.errors import counted, option_name, reading_option_name, shortlist


@dataclass(frozen=True)
class Finding:
    """Something worth knowing, with what to do about it; an error keeps one from training."""

    level: Literal["error", "warning", "info"]
    message: str


@dataclass(frozen=True)
class SensorRange:
    """What a sensor measured; None when it never did."""

    min: float | None
    max: float | None
    mean: float | None


@dataclass(frozen=True)
class DataCheck:
    """What was read. Sensors are named worst first in `missing_by_sensor`; fractions are between 0 and 1.

    `units` holds the sensors that have one; `fault_kinds` counts the episodes with a fault of each known kind; `gaps`
    counts the points at which no sensor has a value, by episode; `empty_episodes` consist of such points;
    `slower_episodes` have a value at every so many points only, unlike others, and no gaps are counted there;
    `telltale_sensors` peak at one value in all normal and at another in all anomalous episodes; `label_like_sensors`
    are 0 throughout some episodes and 1 throughout the others; of `rounded_sensors` and `offset_sensors` 32 bits tell a
    few values, or a single one.
    """

    episodes: int
    anomalous: int
    normal: int
    unlabelled: int
    sensors: tuple[str, ...]
    units: dict[str, str]
    shortest: int
    median_length: float
    longest: int
    interval: float | None
    groups: int | None
    fault_kinds: dict[str, int]
    missing: float
    missing_by_sensor: dict[str, float]
    ranges: dict[str, SensorRange]
    constant_sensors: tuple[str, ...]
    empty_sensors: tuple[str, ...]
    stuck_sensors: dict[str, int]
    duplicated_sensors: tuple[tuple[str, ...], ...]
    infinite_values: dict[str, int]
    duplicated_episodes: tuple[tuple[str, ...], ...]
    gaps: dict[str, int]
    slower_episodes: dict[str, int]
    empty_episodes: tuple[str, ...]
    rounded_sensors: tuple[str, ...]
    offset_sensors: tuple[str, ...]
    label_like_sensors: tuple[str, ...]
    telltale_sensors: tuple[str, ...]
    partly_anomalous: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing keeps one from training."""
        return all(finding.level != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and texts, for JSON."""
        return {**asdict(self), "ok": self.ok}


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


LIVELY_IN = 0.25  # of the episodes: then a sensor that stands still in others is no switch
_BATCH_BYTES = 16_000_000  # of values in memory at a time


def check_episodes(episodes: Episodes, progress: Callable[[int], None] | None = None) -> DataCheck:
    """Look through all values once, a batch at a time; `progress` is told the number of episodes after each batch."""
    tally = Tally(episodes.n_sensors)
    size = max(1, _BATCH_BYTES // (4 * episodes.n_sensors * episodes.n_timepoints))
    for batch in episodes.batches(size):
        tally.add(batch)
        if progress is not None:
            progress(len(batch))
    return _summary(episodes, tally)


def _fault_kinds(episodes: Episodes) -> dict[str, int]:
    """In how many episodes each kind of fault is known."""
    kinds = [{fault.kind for fault in faults if fault.kind} for faults in episodes.faults or ()]
    return dict(sorted(Counter(kind for found in kinds for kind in found).items()))


def _summary(episodes: Episodes, tally: Tally) -> DataCheck:
    names = episodes.sensors
    n = len(episodes)
    missing = 1 - (tally.finite + tally.infinite) / max(tally.points, 1)
    empty = tally.finite == 0
    constant = ~empty & (tally.min == tally.max)
    lively = (tally.lively >= np.maximum(LIVELY_IN * tally.present, 2)) & ~constant
    enough = min(episodes.n_anomalous, n - episodes.n_anomalous) >= FEWEST  # else it is chance
    alike: dict[bytes, list[str]] = defaultdict(list)
    for sensor in np.flatnonzero(~empty & ~constant):
        alike[tally.sensor_digests[sensor].digest()].append(names[sensor])
    lengths = episodes.lengths if n else np.zeros(1, dtype=np.int64)
    filled = n - len(tally.empty_episodes)
    slower = tally.slower if len(tally.slower) < filled else {}  # than whom?
    between = sum(tally.gaps[name] for name in slower)
    check = DataCheck(
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
        fault_kinds=_fault_kinds(episodes),
        missing=float(missing.mean()),
        missing_by_sensor={names[i]: float(missing[i]) for i in np.argsort(-missing, kind="stable")},
        ranges={name: _range(tally, sensor) for sensor, name in enumerate(names)},
        constant_sensors=tuple(names[i] for i in np.flatnonzero(constant)),
        empty_sensors=tuple(names[i] for i in np.flatnonzero(empty)),
        stuck_sensors={names[i]: int(tally.stuck[i]) for i in np.flatnonzero(lively & (tally.stuck > 0))},
        duplicated_sensors=tuple(tuple(group) for group in alike.values() if len(group) > 1),
        infinite_values={names[i]: int(tally.infinite[i]) for i in np.flatnonzero(tally.infinite)},
        duplicated_episodes=tuple(tuple(ids) for ids in tally.episode_digests.values() if len(ids) > 1),
        gaps={name: count for name, count in tally.gaps.items() if name not in slower},
        slower_episodes=slower,
        empty_episodes=tuple(tally.empty_episodes),
        rounded_sensors=tuple(names[i] for i in np.flatnonzero(coarse(tally.min, tally.max))),
        offset_sensors=tuple(names[i] for i in np.flatnonzero(constant & may_hide_a_signal(tally.max))),
        label_like_sensors=tuple(names[i] for i in np.flatnonzero(tally.switch_between_episodes)),
        telltale_sensors=tuple(names[i] for i in np.flatnonzero(tally.telltale & enough)),
        partly_anomalous=_partly_anomalous(episodes),
    )
    absent = {names[i]: filled - int(tally.present[i]) for i in np.flatnonzero(~empty & (tally.present < filled))}
    examples = dict(zip(names, tally.stuck_examples, strict=True))
    findings = [
        *class_findings(check),
        *place_findings(check),
        *truth_findings(episodes),
        *sensor_findings(check, absent, examples, between=between / max(tally.points, 1)),
        *shape_findings(check, episodes.n_timepoints, tally),
    ]
    if n == 0:
        findings = [Finding("error", "no episodes at all: was the file written to its end?")]
    return replace(check, findings=tuple(findings))


def _range(tally: Tally, sensor: int) -> SensorRange:
    if tally.finite[sensor] == 0:
        return SensorRange(None, None, None)
    mean = tally.sum[sensor] / tally.finite[sensor]
    return SensorRange(float(tally.min[sensor]), float(tally.max[sensor]), float(mean))


def _partly_anomalous(episodes: Episodes) -> tuple[str, ...]:
    """The episodes of which it is known that a part of them only is anomalous."""
    if episodes.faults is None:
        return ()
    known = zip(episodes.ids.tolist(), episodes.lengths.tolist(), episodes.faults, strict=True)
    return tuple(name for name, length, faults in known if any(f.start > 0 or f.stop < length for f in faults))


FEWEST = 4  # of each class: 70 % of them are the two that training needs
FEW_ANOMALIES = 10  # fewer leave one or two for validation
LOPSIDED = 0.01  # of the episodes in the rarer class
MUCH_MISSING = 0.2  # of a sensor's values
LENGTH_RATIO = 4.0  # longest to shortest
ALIKE_RATIO = 0.3  # neighbouring "sensors" this much more alike than neighbouring points
ALIKE_SENSORS = 10  # with fewer, likeness is chance


def class_findings(check: DataCheck) -> list[Finding]:
    """Whether both classes are there, and enough of each."""
    if check.unlabelled:
        guess = ""
        if check.label_like_sensors:
            named = check.label_like_sensors[0]
            guess = (
                f"; is it {shortlist(check.label_like_sensors)}, now read as a sensor, which is 0 in some episodes and "
                f"1 in the others? then say so ({reading_option_name('label_column', named)}); of arrays, move it into "
                "one called labels and leave the sensor out"
            )
        said = f"no labels: good for prediction; to train, add a label column or a label table{guess}"
        return [Finding("warning" if guess else "info", said)]
    if check.anomalous == 0 or check.normal == 0:
        only = "normal" if check.anomalous == 0 else "anomalous"
        return [Finding("error", f"all episodes are {only}: training needs both classes; add the other")]
    rarer = min(check.anomalous, check.normal)
    name = "anomalous" if rarer == check.anomalous else "normal"
    if rarer < FEWEST:
        verb = "is" if rarer == 1 else "are"
        return [
            Finding(
                "error",
                f"only {rarer} of {check.episodes} episodes {verb} {name}: training needs at least {FEWEST} of each "
                "class; add more of them",
            )
        ]
    if rarer < FEW_ANOMALIES or rarer < LOPSIDED * check.episodes:
        return [
            Finding(
                "warning",
                f"only {rarer} of {check.episodes} episodes are {name}: scores will be uncertain; "
                "add more of them, and do not trust a single split",
            )
        ]
    return []


def place_findings(check: DataCheck) -> list[Finding]:
    """Episodes that are empty, repeated, partly anomalous, or have gaps."""
    found = []
    if check.partly_anomalous:
        found.append(
            Finding(
                "info",
                "the label changes within, or the place of the fault is known in, "
                f"{counted(len(check.partly_anomalous), 'episode')}: {shortlist(check.partly_anomalous)}; each counts "
                "as anomalous as a whole, and the place is kept to judge a diagnosis by",
            )
        )
    if check.empty_episodes:
        found.append(
            Finding(
                "warning",
                f"no value at all in {shortlist(check.empty_episodes)}: there is nothing to learn from such an "
                "episode; record it again, or leave it out",
            )
        )
    if check.slower_episodes:
        found.append(Finding("warning", describe_slow_rates(check.slower_episodes)))
    if check.gaps:
        shown = [f"{name} ({count})" for name, count in check.gaps.items()]
        found.append(
            Finding(
                "info",
                f"{counted(sum(check.gaps.values()), 'point')} without a value of any sensor, in "
                f"{counted(len(check.gaps), 'episode')}: {shortlist(shown)}; so are gaps in time filled, and the "
                "network sees the last value there",
            )
        )
    return found


def truth_findings(episodes: Episodes) -> list[Finding]:
    """Sensors that known faults name and that were not recorded."""
    blamed = {name for faults in episodes.faults or () for fault in faults for name in fault.sensors}
    unknown = sorted(blamed - set(episodes.sensors))
    if not unknown:
        return []
    return [
        Finding(
            "warning",
            f"known faults are in sensors that are not there: {shortlist(unknown)}; no diagnosis can be judged by "
            "them: mend the names, or keep these sensors",
        )
    ]


def sensor_findings(
    check: DataCheck, absent: dict[str, int], examples: dict[str, list[str]], between: float
) -> list[Finding]:
    """Sensors that are missing, constant, stuck, copies of others, or tell the answer.

    `between` is the share of points that are missing because an episode was recorded more slowly than others.
    """
    found: list[Finding] = []

    def add(level: Literal["error", "warning", "info"], message: str) -> None:
        found.append(Finding(level, message))

    if check.infinite_values:
        add(
            "error",
            f"infinite values in {shortlist(check.infinite_values)}: correct them, or read them as missing "
            f"({reading_option_name('infinite_as_missing', True)}); beyond 3.4e38, 32 bits end",
        )
    if check.empty_sensors:
        remedy = f"leave them out ({reading_option_name('drop_sensors', ...)})"
        add("error", f"no value at all in {shortlist(check.empty_sensors)}: {remedy}")
    constant = [name for name in check.constant_sensors if name not in check.offset_sensors]
    if constant:
        add(
            "info",
            f"one value throughout, which tells nothing and may be left out: {shortlist(constant)}",
        )
    if check.offset_sensors:
        add(
            "warning",
            f"{ONE_LARGE_VALUE}: {shortlist(check.offset_sensors)}; {REMEDY_IF_SEVERAL}",
        )
    if check.rounded_sensors:
        add("warning", f"{ROUNDED}: {shortlist(check.rounded_sensors)}; {REMEDY}")
    if check.telltale_sensors:
        add(
            "warning",
            f"as good as the label: {shortlist(check.telltale_sensors)} has one highest value in all normal and "
            "another in all anomalous episodes; if it is a label and no measurement, leave it out "
            f"({reading_option_name('drop_sensors', ...)})",
        )
    if check.duplicated_sensors:
        groups = [" = ".join(group) for group in check.duplicated_sensors]
        add(
            "warning",
            f"identical sensors: {shortlist(groups)}; keep one of each ({reading_option_name('drop_sensors', ...)}), "
            "or blame will be shared",
        )
    much = [name for name, share in check.missing_by_sensor.items() if share - between > MUCH_MISSING and share < 1]
    if much:
        shares = [f"{name} ({check.missing_by_sensor[name]:.0%})" for name in much]
        add(
            "warning",
            f"many missing values in {shortlist(shares)}: find out why, or leave the sensors out "
            f"({reading_option_name('drop_sensors', ...)})",
        )
    if absent:
        shown = [f"{name} ({counted(count, 'episode')})" for name, count in absent.items()]
        add("warning", f"without a single value in some episodes: {shortlist(shown)}; was the sensor off or renamed?")
    still = {
        name: f"{name} ({counted(count, 'episode')}, such as {examples[name][0]})"
        for name, count in check.stuck_sensors.items()
    }
    off = [shown for name, shown in still.items() if check.stuck_sensors[name] > check.episodes / 2]
    stuck = [shown for shown in still.values() if shown not in off]
    if off:
        add(
            "info",
            f"standing still in most episodes, though lively in others: {shortlist(off)}; switched off, or stuck?",
        )
    if stuck:
        add(
            "warning",
            f"standing still for more than half of some episodes, though lively in others: {shortlist(stuck)}; "
            "stuck, or a machine that does not use it? correct the recordings or leave the episodes out",
        )
    return found


def shape_findings(check: DataCheck, n_timepoints: int, tally: Tally) -> list[Finding]:
    """Lengths that differ much or are too short, and arrays that look transposed."""
    found = []
    likeness = tally.sensor_steps.value / tally.time_steps.value if tally.time_steps.value > 0 else np.inf
    many = len(check.sensors) > 2 * n_timepoints
    smooth = len(check.sensors) >= ALIKE_SENSORS and likeness < ALIKE_RATIO
    if many or smooth:
        why = (
            f"{len(check.sensors)} sensors and only {n_timepoints} points"
            if many
            else f"neighbouring sensors are {1 / max(likeness, 1e-9):.0f} times more alike than neighbouring points"
        )
        found.append(
            Finding("warning", f"{why}: are the axes transposed? expected (episode, sensor, timepoint); swap them")
        )
    if 0 < check.shortest < FEWEST_POINTS:
        found.append(
            Finding(
                "warning",
                f"the shortest episode has {check.shortest} points, and training needs {FEWEST_POINTS} (fewer with "
                f"fewer {option_name('blocks')}); leave short episodes out",
            )
        )
    if check.longest > LENGTH_RATIO * check.shortest:
        found.append(
            Finding(
                "info",
                f"lengths from {check.shortest} to {check.longest} points: the classes should not differ by length, "
                "and the shortest must hold a segment",
            )
        )
    for ids in check.duplicated_episodes[:5]:
        found.append(Finding("warning", f"episodes with the same content: {shortlist(ids)}; keep one of them"))
    if len(check.duplicated_episodes) > 5:
        more = len(check.duplicated_episodes) - 5
        found.append(Finding("warning", f"{more} more sets of episodes with the same content; keep one of each"))
    return found

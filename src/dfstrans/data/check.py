"""`check_episodes`: summarise recordings, report what looks suspicious, and suggest how to cut or resample them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import SECONDS, seconds_of
from dfstrans.data.readers.cutting import count_labelled_pieces, count_pieces
from dfstrans.data.scaling import describe_hidden, describe_rounded, describe_slow_rates
from dfstrans.data.segments import DEFAULT_SEGMENTS, MAX_DEFAULT_SEGMENT_LENGTH, MIN_SEGMENT_POINTS, count_segments
from dfstrans.data.splits import PAPER_FRACTIONS
from dfstrans.data.tally import FAR, MIN_EPISODES, DataCheck, Finding, Tally, summarize
from dfstrans.errors import counted, list_few, option_name, reading_option_name
from dfstrans.progress import about
from dfstrans.settings import default_batch_size, default_epochs

FEW_EPISODES = 10  # of the rarer class: fewer leave only one or two for validation
IMBALANCED = 0.01  # share of the rarer class
MUCH_MISSING = 0.2  # of a sensor's values
LENGTH_RATIO = 4.0  # longest to shortest
ALIKE_RATIO = 0.3  # ratio of differences between sensors to differences in time; below it, the axes may be swapped
ALIKE_SENSORS = 10  # with fewer, sensors may be alike by chance
BATCH_BYTES = 16_000_000  # of values in memory at a time
MANY_SEGMENTS = 50  # of 100 points: longer episodes train slowly, and the label of the whole says little about a part
GOOD_LENGTH = DEFAULT_SEGMENTS * MAX_DEFAULT_SEGMENT_LENGTH  # points
MIN_LENGTH = DEFAULT_SEGMENTS * MIN_SEGMENT_POINTS
ROUND_LENGTHS = tuple(step * power for power in (10, 100) for step in (1, 2, 5) if step * power >= MIN_LENGTH)
FAST = 0.01  # seconds between points, from which a signal is a vibration
# of a (segment, sensor) cell of one episode in one epoch with default settings: 7e-6 of one core for SMD, in pieces of
# ten segments and 38 sensors; more is said, since loading, validation and slower processors take longer
SECONDS_PER_CELL = 1e-5

_error, _warning, _info = partial(Finding, "error"), partial(Finding, "warning"), partial(Finding, "info")


def check_episodes(
    episodes: Episodes, progress: Callable[[int], None] = lambda _: None, *, batch_bytes: int = BATCH_BYTES
) -> DataCheck:
    """Check recordings in one pass, batch by batch; `progress` receives the number of episodes in each batch."""
    tally = Tally(episodes.n_sensors)
    for batch in episodes.batches(max(1, batch_bytes // (4 * episodes.n_sensors * episodes.n_timepoints))):
        tally.add(batch)
        progress(len(batch))
    check = summarize(episodes, tally)
    return replace(check, findings=tuple(_findings(check, episodes, tally)))


# ---- findings -----------------------------------------------------------------------------------------------------


def _findings(check: DataCheck, episodes: Episodes, tally: Tally) -> Iterator[Finding]:
    if check.episodes == 0:
        yield _error("no episodes; check whether the file is complete")
        return
    yield from _class_findings(check, episodes)
    yield from _episode_findings(check, episodes)
    yield from _value_findings(check)
    yield from _presence_findings(check, tally)
    yield from _shape_findings(check, episodes.n_timepoints, tally)
    yield from _copy_findings(check, episodes)
    yield from map(_warning, _suggest_shorter(episodes, check.partly_anomalous))
    if check.normal or check.unlabelled:  # else the finding about the missing class suggests it
        yield from map(_info, _suggest_cutting(episodes, check.partly_anomalous))


def _class_findings(check: DataCheck, episodes: Episodes) -> Iterator[Finding]:
    """Report missing labels, and a missing or rare class."""
    rarer = min(check.anomalous, check.normal)
    name, other = ("anomalous", "normal") if rarer == check.anomalous else ("normal", "anomalous")
    only = f"only {rarer} of {check.episodes} episodes {'is' if rarer == 1 else 'are'} {name}"
    no_labels = "no labels: fine for prediction; to train, add a label column or a label table"
    if check.unlabelled and check.label_like_sensors:
        yield _warning(
            f"{no_labels}; is {list_few(check.label_like_sensors)}, read as a sensor, the label? it is always 0 or 1; "
            "if so, move it into an array called labels, or name the column "
            f"({reading_option_name('label_column', check.label_like_sensors[0])})"
        )
    elif check.unlabelled and check.code_sensors:
        code, numbers = next(iter(check.code_sensors.items()))
        normal = numbers[0] if 0 not in numbers else 0
        yield _warning(
            f"{no_labels}; is {code}, read as a sensor, the label? it has one number in each episode "
            f"({list_few(sorted(numbers), 10)}); if so, name it and its number for normal "
            f"({reading_option_name('label_column', code)} and {reading_option_name('normal_value', normal)}), if it "
            f"is a batch or a machine, {reading_option_name('group_column', code)}"
        )
    elif check.unlabelled:
        yield _info(no_labels)
    elif check.normal == 0 and (cut := _cut_into_parts(episodes, check.partly_anomalous)):
        yield _error(
            "every recording contains an anomaly, but training also needs normal episodes; cut the recordings "
            f"({reading_option_name('length', cut.length)}): {cut}"
        )
    elif rarer == 0:
        yield _error(f"all episodes are {other}: training needs both classes; add episodes of the other")
    elif rarer < MIN_EPISODES:
        yield _error(f"{only}: training needs at least {MIN_EPISODES} of each class; add more of them")
    elif rarer < FEW_EPISODES or rarer < IMBALANCED * check.episodes:
        yield _warning(f"{only}: scores will be uncertain; add more of them, and do not rely on a single split")


def _episode_findings(check: DataCheck, episodes: Episodes) -> Iterator[Finding]:
    """Report episodes that are partly anomalous, empty or slower, or have gaps or faults of unknown sensors."""
    if check.partly_anomalous:
        yield _info(
            f"{counted(len(check.partly_anomalous), 'episode')} with a fault in only part of the episode: "
            f"{list_few(check.partly_anomalous)}; the label applies to the whole episode; the location of the "
            "fault is used to evaluate diagnoses"
        )
    if check.interval is not None and not episodes.time_unit:
        yield _info(
            f"the unit of the time is unknown (a step of {check.interval:g}): write it into the header, such as "
            "time [s] or time [min], so that durations can be given and shown; or leave out the time column "
            f"({reading_option_name('drop_sensors', ...)}) and give the points per second "
            f"({reading_option_name('sampling_rate', ...)})"
        )
    if check.empty_episodes:
        yield _warning(f"episodes without any value: {list_few(check.empty_episodes)}; leave them out")
    if check.slower_episodes:
        yield _warning(describe_slow_rates(check.slower_episodes))
    if check.gaps:
        shown = [f"{name} ({count})" for name, count in check.gaps.items()]
        yield _info(
            f"no sensor has a value at {counted(sum(check.gaps.values()), 'point')} in time, in "
            f"{counted(len(check.gaps), 'episode')}: {list_few(shown)}; this is how gaps in the time are read, and the "
            "network sees the last value before them"
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
            f"values more than {FAR} interquartile ranges from the median: {list_few(shown)}; if they are errors "
            f"rather than measurements, read them as missing ({reading_option_name('clip_beyond', FAR)})"
        )
    if check.counters:
        time = reading_option_name("time_column", check.counters[0])
        yield _warning(
            f"sensors that rise at every step: {list_few(check.counters)}; "
            + (f"if one is the time, name it ({time}); " if check.interval is None else "")
            + "a counter only tells a detector when something was recorded, so drop it "
            f"({reading_option_name('drop_sensors', ','.join(check.counters))})"
        )
    constant = [name for name in check.constant_sensors if name not in check.offset_sensors]
    if constant:
        yield _info(f"constant sensors, which carry no information and may be dropped: {list_few(constant)}")
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
        yield _warning(
            f"identical sensors: {list_few(groups)}; keep one of each ({drop}), or they split their relevance"
        )


def _presence_findings(check: DataCheck, tally: Tally) -> Iterator[Finding]:
    """Report sensors that are missing or stuck in some episodes."""
    between = sum(tally.gaps[name] for name in check.slower_episodes) / max(tally.points, 1)  # points of slower rates
    much = [
        f"{name} ({100 * share:.0f} %)"
        for name, share in check.missing_by_sensor.items()
        if share - between > MUCH_MISSING and share < 1
    ]
    if much:
        drop = reading_option_name("drop_sensors", ...)
        yield _warning(f"many missing values in {list_few(much)}: find out why, or drop the sensors ({drop})")
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


def _shape_findings(check: DataCheck, n_timepoints: int, tally: Tally) -> Iterator[Finding]:
    """Report swapped axes, and short or very different lengths."""
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


def _copy_findings(check: DataCheck, episodes: Episodes) -> Iterator[Finding]:
    """Report episodes with the same values, and those of them whose labels differ."""
    if check.duplicated_episodes:
        copies = sum(len(ids) - 1 for ids in check.duplicated_episodes)
        shown = [" = ".join(ids) for ids in check.duplicated_episodes]
        yield _warning(
            f"{counted(copies, 'episode')} of {check.episodes} {'is a copy' if copies == 1 else 'are copies'} of "
            f"others: {list_few(shown)}; keep one of each ({reading_option_name('drop_duplicates', True)})"
        )
        contradicting = episodes.contradicting_copies()
        if contradicting:
            yield _warning(
                f"episodes with the same values as others, but another label: {list_few(contradicting)}; check which "
                "label is right"
            )


# ---- suggestions for recordings that are too long to train on -----------------------------------------------------


def estimate_training_seconds(n_episodes: int, n_segments: float, n_sensors: int) -> float:
    """Estimate roughly how long `train` takes: epochs × training episodes × segments × sensors × `SECONDS_PER_CELL`.

    >>> round(estimate_training_seconds(1000, 10, 20))
    77
    """
    training = max(1, round(PAPER_FRACTIONS[0] * n_episodes))
    epochs = default_epochs(training, default_batch_size(training))
    return epochs * estimate_epoch_seconds(training, n_segments, n_sensors)


def estimate_epoch_seconds(n_episodes: int, n_segments: float, n_sensors: int) -> float:
    """Estimate roughly how long an epoch of so many episodes takes."""
    return n_episodes * n_segments * n_sensors * SECONDS_PER_CELL


class _Cut(NamedTuple):
    """What cutting with a length gives: pieces of both classes, and how many recordings are too short for it."""

    length: int
    normal: int
    anomalous: int
    left_out: int

    @property
    def pieces(self) -> int:
        return self.normal + self.anomalous

    def __str__(self) -> str:
        parts = [f"{self.anomalous} anomalous and {self.normal} normal pieces"]
        if min(self.anomalous, self.normal) < MIN_EPISODES:
            parts.append(f"still too few, since training needs {MIN_EPISODES} of each class")
        if self.left_out:
            parts.append(f"without {counted(self.left_out, 'recording')} that would be too short")
        return ", ".join(parts)


def _suggest_shorter(episodes: Episodes, partly: Sequence[str]) -> Iterator[str]:
    """Suggest a length, a resampling and a segment length if episodes are too long for effective training."""
    median, shortest = float(np.median(episodes.lengths)), int(episodes.lengths.min())
    if count_segments(int(median), MAX_DEFAULT_SEGMENT_LENGTH) <= MANY_SEGMENTS:
        return
    n, n_sensors = len(episodes), episodes.n_sensors
    segments = median / MAX_DEFAULT_SEGMENT_LENGTH
    cut = _cut_into_parts(episodes, partly) or _best_cut(episodes, GOOD_LENGTH)
    segment_length = cut.length // DEFAULT_SEGMENTS
    seconds = estimate_training_seconds(cut.pieces, DEFAULT_SEGMENTS, n_sensors)
    left_out = f", without {counted(cut.left_out, 'recording')} that would be too short" if cut.left_out else ""
    remedies = [
        f"cut them into {cut.pieces} pieces ({reading_option_name('length', cut.length)}, {about(seconds)}{left_out})"
    ]
    width = round_up(median / GOOD_LENGTH)
    if shortest >= width * MIN_SEGMENT_POINTS:
        segment_length = int(min(segment_length, shortest // width))
        seconds = estimate_training_seconds(n, median / width / segment_length, n_sensors)
        remedies.append(f"make them coarser ({_coarser(episodes, width)}, {about(seconds)})")
    yield (
        f"episodes of {median:.0f} points (median) are too long for effective training: {segments:.0f} segments of "
        f"{MAX_DEFAULT_SEGMENT_LENGTH} points each, {about(estimate_training_seconds(n, segments, n_sensors))} of "
        f"training; {', or '.join(remedies)}; then train with {option_name('segment_length', segment_length)}"
    )


def _coarser(episodes: Episodes, width: float) -> str:
    """Return the options that summarize `width` points in one."""
    seconds = seconds_of(episodes.interval, episodes.time_unit)
    coarser = reading_option_name("resample", _duration(episodes, width))
    if seconds is not None and seconds <= FAST:  # the mean of a vibration says nothing
        coarser += f" and {reading_option_name('resample_by', 'mean,rms,peak')}"
    return coarser


def _suggest_cutting(episodes: Episodes, partly: Sequence[str]) -> Iterator[str]:
    """Suggest a length if the labels change within recordings; `partly` are the ids of those recordings."""
    cut = _cut_into_parts(episodes, partly)
    if cut is not None:
        yield (
            f"labels change within {counted(len(partly), 'recording')}: {list_few(partly)}; to label parts instead of "
            f"whole recordings, cut them ({reading_option_name('length', cut.length)}): {cut}"
        )


def _cut_into_parts(episodes: Episodes, partly: Sequence[str]) -> _Cut | None:
    """Return a cut into about twice the length of a typical anomaly; None for short recordings, or one label each."""
    if not partly or episodes.faults is None or episodes.truth is not None:
        return None
    spans = [
        fault.stop - fault.start
        for faults, length in zip(episodes.faults, episodes.lengths.tolist(), strict=True)
        for fault in faults
        if fault.stop - fault.start < length
    ]
    wanted = max(2 * float(np.median(spans)), MIN_LENGTH)
    length = min(int(round_up(wanted)), GOOD_LENGTH)
    return _best_cut(episodes, length) if 4 * length <= np.median(episodes.lengths) else None


def _best_cut(episodes: Episodes, wanted: int) -> _Cut:
    """Return the cut with the greatest length up to `wanted` that suits all recordings and gives enough of each class.

    If there is none, the one that leaves out the fewest recordings, or else has the greatest length.
    """
    cuts = []
    for length in sorted({wanted, *(n for n in ROUND_LENGTHS if n < wanted)}, reverse=True):
        left_out = int((count_pieces(episodes.lengths, length, length) == 0).sum())
        cuts.append(_Cut(length, *count_labelled_pieces(episodes, length), left_out))
    enough = [cut for cut in cuts if episodes.labels is None or min(cut.normal, cut.anomalous) >= MIN_EPISODES]
    return min(enough or cuts, key=lambda cut: cut.left_out)


def round_up(number: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten.

    >>> round_up(3), round_up(730), round_up(1000)
    (5, 1000, 1000)
    """
    power = 10.0 ** math.floor(math.log10(number))
    rounded = next(step * power for step in (1, 2, 5, 10) if step * power >= number * (1 - 1e-9))
    return int(rounded) if rounded >= 1 else rounded


def _duration(episodes: Episodes, width: float) -> str:
    """Write `width` points as a duration in the unit of the recordings, or as points if they have no time."""
    unit = episodes.time_unit if episodes.time_unit in SECONDS else ""
    return f"{width * (episodes.interval or 1):g}{unit}"

"""Prepare whole recordings according to the read options: drop sensors, remove absurd values, fill gaps, resample."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dfstrans.data.conversion import pad
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.grid import SECONDS, parse_duration
from dfstrans.data.readers.columns import dropped_columns, require_dropped
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.storage import StoredValues, infinite_to_nan
from dfstrans.errors import DfstransError, Note, counted, list_few, option_name

Array = npt.NDArray[np.float32]
Index = npt.NDArray[np.int64]

_ROUNDING = 1e-9  # of a bin: a point this close to a border is on it


def prepare(recordings: Episodes, options: ReadOptions) -> Episodes:
    """Clip, reject or remove infinite values, fill and resample, in this order."""
    if options.clip_beyond is not None:
        recordings = clip_beyond(recordings, options.clip_beyond)
    recordings = _handle_infinite(recordings, options)
    if options.fill == "forward":
        recordings = fill_forward(recordings)
    return recordings if options.resample is None else resample(recordings, options.resample, options.resample_by)


# ---- sensors and values -------------------------------------------------------------------------------------------


def drop_sensors(episodes: Episodes, options: ReadOptions, source: Path) -> Episodes:
    """Return the episodes without the sensors in `drop_sensors`."""
    require_dropped(episodes.sensors, options, source)
    dropped = dropped_columns(episodes.sensors, options)
    if len(dropped) == episodes.n_sensors:
        raise DfstransError(
            f"expected at least one sensor of {source} to be kept, got all in {option_name('drop_sensors')}; correct it"
        )
    return episodes.select_sensors([name for name in episodes.sensors if name not in dropped]) if dropped else episodes


def clip_beyond(episodes: Episodes, spreads: float) -> Episodes:
    """Make values missing that are further than `spreads` interquartile ranges from the median of their sensor.

    Median and quartiles are those of all recordings. A sensor whose quartiles are equal is left as it is.
    """
    episodes = episodes.load()
    values = np.array(episodes.values)
    inside = np.arange(episodes.n_timepoints) < episodes.lengths[:, np.newaxis]
    removed: list[str] = []
    unspread: list[str] = []
    for sensor, name in enumerate(episodes.sensors):
        of_sensor = values[:, sensor]
        known = of_sensor[inside & ~np.isnan(of_sensor)].astype(np.float64)
        if not len(known):
            continue
        low, median, high = np.quantile(known, (0.25, 0.5, 0.75), method="nearest")
        if high > low:
            far = inside & (np.abs(of_sensor - median) > spreads * (high - low))
            of_sensor[far] = np.nan
            removed += [f"{name} ({far.sum()})"] if far.any() else []
        elif (known != median).any():
            unspread.append(name)
    said = [f"made values missing: {list_few(removed, 20)}"] if removed else ["found no such value"]
    said += [f"left {list_few(unspread)} unchanged, since most values are equal"] if unspread else []
    warnings.warn(f"{option_name('clip_beyond', spreads)} {', and '.join(said)}", Note, stacklevel=2)
    return replace(episodes, values=values)


def _handle_infinite(episodes: Episodes, options: ReadOptions) -> Episodes:
    """Treat infinite values as missing, or raise an error; values in a file are only checked when they are used."""
    if isinstance(episodes.values, StoredValues):
        lazy = options.infinite_as_missing
        return replace(episodes, values=episodes.values.with_infinite_as_missing()) if lazy else episodes
    infinite = np.isinf(episodes.values)
    if not infinite.any():
        return episodes
    if options.infinite_as_missing:
        return replace(episodes, values=infinite_to_nan(episodes.values))
    rows, sensors, _ = np.nonzero(infinite)
    raise DfstransError(
        f"expected finite values (32 bits: up to 3.4e38), got {len(rows)} infinite ones in sensors "
        f"{list_few(episodes.sensors[i] for i in np.unique(sensors))}, episodes: "
        f"{list_few(episodes.ids[np.unique(rows)])}; correct them, or treat them as missing "
        f"({option_name('infinite_as_missing', True)})"
    )


def fill_forward(episodes: Episodes) -> Episodes:
    """Carry the last value of each sensor forward over missing ones, within each recording.

    >>> fill_forward(Episodes.from_arrays(np.array([[[np.nan, 1, np.nan, 2]]]))).values
    array([[[nan,  1.,  1.,  2.]]], dtype=float32)
    """
    values = np.asarray(episodes.load().values)
    source = np.where(np.isnan(values), 0, np.arange(episodes.n_timepoints))
    np.maximum.accumulate(source, axis=2, out=source)
    return replace(episodes, values=np.take_along_axis(values, source, axis=2))


# ---- resampling ---------------------------------------------------------------------------------------------------


def _mean(values: Array, first: Index) -> Array:
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0).astype(np.float64), first, axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.add.reduceat(known, first, axis=1, dtype=np.int64), dtype=np.float32)


def _rms(values: Array, first: Index) -> Array:
    return np.sqrt(_mean(np.square(values), first))


def _peak(values: Array, first: Index) -> Array:
    return np.asarray(np.fmax.reduceat(np.abs(values), first, axis=1), dtype=np.float32)


_SUMMARIES: dict[str, Callable[[Array, Index], Array]] = {"mean": _mean, "rms": _rms, "peak": _peak}


def resample(episodes: Episodes, duration: str, by: Sequence[str] = ("mean",)) -> Episodes:
    """Summarize the points of each `duration` in one: by their mean, root mean square (rms) or largest size (peak).

    The bins of a recording begin with its first point; the last one may be incomplete. Missing values are ignored. A
    plain number is a duration in the unit of the time column, or a number of points if the recordings have no time.
    Unless the mean is the only summary, the channels are called `sensor mean`, `sensor rms` and `sensor peak`. A fault
    covers each bin with one of its points.

    >>> vibration = Episodes.from_arrays(np.array([[[3, -4, 0, 2, 5]]]), sensors=["a"], interval=0.5, time_unit="s")
    >>> resample(vibration, "1s", by=["mean", "peak"]).values
    array([[[-0.5,  1. ,  5. ],
            [ 4. ,  2. ,  5. ]]], dtype=float32)
    """
    width = points_per_bin(episodes, duration)
    if episodes.truth is not None:
        warnings.warn(f"{option_name('resample', duration)} drops the graded ground truth", stacklevel=2)
    renamed = tuple(by) != ("mean",)
    channels = {name: tuple(f"{name} {way}" for way in by) if renamed else (name,) for name in episodes.sensors}
    series: list[Array] = []
    faults: list[tuple[Fault, ...]] = []
    for episode in episodes:
        first = first_of_bins(episode.values.shape[1], width)
        summaries = [_SUMMARIES[way](episode.values, first) for way in by]
        series.append(np.stack(summaries, axis=1).reshape(-1, len(first)))
        faults.append(tuple(_coarser(fault, first, channels) for fault in episode.faults or ()))
    values, lengths = pad(series)
    return replace(
        episodes,
        values=values,
        lengths=lengths,
        sensors=tuple(name for sensor in episodes.sensors for name in channels[sensor]),
        units=tuple(unit for unit in episodes.units for _ in by),
        interval=None if episodes.interval is None else float(f"{width * episodes.interval:.9g}"),
        faults=None if episodes.faults is None else tuple(faults),
        truth=None,
    )


def first_of_bins(n_points: int, width: float) -> Index:
    """Return the first point of each bin of `width` points, which need not be whole.

    >>> first_of_bins(8, 2.5)
    array([0, 3, 5])
    """
    n_bins = max(1, int(np.ceil(n_points / width - _ROUNDING)))
    first = np.ceil(np.arange(n_bins) * width - _ROUNDING).astype(np.int64)
    return np.asarray(first[first < n_points])


def points_per_bin(episodes: Episodes, duration: str) -> float:
    """Return how many points a duration has; reject one below the interval, or above the length of a recording."""
    number, unit = parse_duration(duration)
    option = option_name("resample", duration)
    if unit and (episodes.interval is None or episodes.time_unit not in SECONDS):
        got = "no time" if episodes.interval is None else f"a time in {episodes.time_unit or 'an unknown unit'}"
        plain = "points" if episodes.interval is None else "in the unit of the time column"
        raise DfstransError(
            f"expected recordings whose time has a known unit for {option}, got {got}; name the time column "
            f"({option_name('time_column', ...)}) and write its unit into the header, such as time [s], or give the "
            f"points per second of recordings without time ({option_name('sampling_rate', ...)}), or a plain number: "
            f"{plain}"
        )
    interval = 1.0 if episodes.interval is None else episodes.interval
    wanted = number * SECONDS[unit] / SECONDS[episodes.time_unit] if unit else number
    width = wanted / interval
    shown = counted(1, "point") if episodes.interval is None else f"{interval:g} {episodes.time_unit}".rstrip()
    if width < 1 - 1e-6:
        raise DfstransError(
            f"expected {option_name('resample')} of at least the interval of the recordings, {shown}, got {duration}; "
            "choose a longer one: a finer one would invent points"
        )
    unit_shown = "points" if episodes.interval is None else episodes.time_unit
    short = np.flatnonzero(episodes.lengths < width - _ROUNDING)
    if len(short):
        named = list_few(f"{episodes.ids[row]} ({episodes.lengths[row] * interval:g} {unit_shown})" for row in short)
        raise DfstransError(
            f"expected recordings of at least {duration} for {option}, got {len(short)} of {len(episodes)} that are "
            f"shorter: {named}, at an interval of {shown}; choose a shorter duration, or leave them out"
        )
    return max(width, 1.0)


def _coarser(fault: Fault, first: Index, channels: dict[str, tuple[str, ...]]) -> Fault:
    """Return a fault in bins, and in the channels of its sensors."""
    start, last = np.searchsorted(first, [fault.start, fault.stop - 1], side="right") - 1
    sensors = tuple(channel for name in fault.sensors for channel in channels.get(name, (name,)))
    return fault._replace(start=int(start), stop=int(last) + 1, sensors=sensors)

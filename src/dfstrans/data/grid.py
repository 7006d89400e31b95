"""Units of time, and the regular grid on which the points of a recording lie."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError, list_few, option_name

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SECONDS = {  # in a unit of time
    **{"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0},
    **{"min": 60.0, "h": 3600.0, "d": 86_400.0},
}

_DURATION = re.compile(r"(?P<number>\d+\.?\d*|\.\d+)\s*(?P<unit>[a-zµ]*)")
_DAY = 86_400.0  # seconds
_JITTER = 0.2  # maximum distance of a step from a multiple of the interval, as a share of the interval
_MOST_INSERTED = 20  # times the existing points; a longer gap more likely separates two recordings
_STEPS_AT_MIDNIGHT = 5  # maximum gap; an episode whose time falls by less was more likely recorded twice
_NOISE_DIGITS = 4  # minimum, out of nine: 1/1024 has seven digits, none of which is noise


def seconds_of(interval: float | None, unit: str) -> float | None:
    """Return an interval in seconds, None if it or its unit is unknown.

    >>> seconds_of(500, "ms"), seconds_of(1, ""), seconds_of(None, "s")
    (0.5, None, None)
    """
    return None if interval is None or unit not in SECONDS else interval * SECONDS[unit]


def parse_duration(text: str) -> tuple[float, str]:
    """Split a duration such as `10s` into number and unit, which is empty for a plain number.

    >>> parse_duration("1.5 min"), parse_duration("50")
    ((1.5, 'min'), (50.0, ''))
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or float(found["number"]) == 0 or (found["unit"] and found["unit"] not in SECONDS):
        raise DfstransError(
            f"expected a duration such as 10s, 1min or 50ms (units: {', '.join(SECONDS)}), or a number of points, for "
            f"{option_name('resample')}, got {text!r}; correct it"
        )
    return float(found["number"]), found["unit"]


def grid_positions(
    time: Floats, episode: Index, ids: Sequence[str], interval: float | None = None
) -> tuple[Index, float | None]:
    """Return how many intervals each point is after the first of its episode, and the interval (the median step).

    A finer `interval` may be given. `episode` is the episode number of each point, in ascending order. Positions of
    missing points are skipped.

    >>> grid_positions(np.array([0.0, 0.1, 0.4]), np.zeros(3, dtype=np.int64), ["a"])
    (array([0, 1, 4]), 0.1)
    """
    steps = np.diff(time)
    inside = np.diff(episode) == 0
    if not inside.any():
        return np.zeros(len(time), dtype=np.int64), None
    _require_rising(time, steps, inside, episode, ids)
    interval = _median_step(time, steps, inside) if interval is None else interval
    if not (np.abs(steps - interval)[inside] > _JITTER * interval).any():
        return row_positions(episode), interval
    with np.errstate(over="ignore"):
        intervals = np.where(inside, steps / interval, 1.0)
    whole = np.maximum(np.rint(intervals), 1.0)
    off = np.flatnonzero(np.abs(intervals - whole) > _JITTER)
    remedy = f"use the rows in order ({option_name('irregular_time', 'ignore')})"
    if len(off):
        worst = int(off[0])
        _require_one_rate(time, episode, ids, interval, np.unique(episode[off]))
        raise DfstransError(
            f"expected regular time (median step {interval:g}), got {len(off)} irregular steps, the first of "
            f"{steps[worst]:g} in episode {ids[episode[worst]]!r} after time {time[worst]:g}; resample the data, or "
            f"{remedy}"
        )
    if whole.sum() > _MOST_INSERTED * len(time) + 1000:
        worst = int(np.argmax(whole))
        raise DfstransError(
            f"expected recordings without long gaps, got one of {whole[worst]:.0f} points in episode "
            f"{ids[episode[worst]]!r} after time {time[worst]:g}; split the episode there, or {remedy}"
        )
    run = np.concatenate([[0], np.cumsum(whole.astype(np.int64))])
    return run - _at_first_point(run, first_points(episode)), interval


def common_interval(time: Floats, episode: Index) -> tuple[float, float] | None:
    """Return an interval that divides those of all episodes, and the longest of these.

    None if all are equal, or if nothing divides them.

    >>> common_interval(np.array([0, 1, 2, 0, 1.5, 3]), np.array([0, 0, 0, 1, 1, 1]))
    (0.5, 1.5)
    """
    bounds = np.append(first_points(episode), len(episode))
    found = [median_interval(time[a:b], episode[a:b]) for a, b in pairwise(bounds.tolist())]
    rates = {rate for rate in found if rate is not None}
    if len(rates) < 2:
        return None
    exact = [Fraction(str(rate)) for rate in rates]
    scale = math.lcm(*(rate.denominator for rate in exact))
    common = math.gcd(*(int(rate * scale) for rate in exact)) / scale
    return (common, max(rates)) if max(rates) / _MOST_INSERTED <= common <= min(rates) else None


def row_positions(episode: Index) -> Index:
    """Return how many points of its episode precede each point.

    >>> row_positions(np.array([0, 0, 0, 1, 1]))
    array([0, 1, 2, 0, 1])
    """
    rows = np.arange(len(episode))
    return rows - _at_first_point(rows, first_points(episode))


def first_points(episode: Index) -> Index:
    """Return the index of the first point of each episode."""
    return np.concatenate([[0], np.flatnonzero(np.diff(episode)) + 1]).astype(np.int64)


def _at_first_point(values: Index, starts: Index) -> Index:
    """Return for each point the value at the first point of its episode."""
    return np.repeat(values[starts], np.diff([*starts, len(values)]))


def median_interval(time: Floats, episode: Index) -> float | None:
    """Return the median step within episodes, or None if time does not advance."""
    steps, inside = np.diff(time), np.diff(episode) == 0
    median = _median_step(time, steps, inside) if inside.any() else 0.0
    return median if median > 0 and np.isfinite(median) else None


def unwrap_midnight(time: Floats, episode: Index, ids: Sequence[str]) -> Floats:
    """Make times of day in seconds continue past midnight within an episode; rows may be in any order.

    An episode passes midnight where time falls by nearly a day, if it falls nowhere else. An unsorted episode with
    points only in the evening and the morning raises an error, because sorting would put the evening after the morning.

    >>> unwrap_midnight(np.array([86398.0, 86399.0, 0.0, 1.0]), np.zeros(4, dtype=np.int64), ["a"])
    array([86398., 86399., 86400., 86401.])
    """
    order = np.argsort(episode, kind="stable")
    steps, inside, number = np.diff(time[order]), np.diff(episode[order]) == 0, episode[order][1:]
    back = inside & (steps < -_DAY / 2)
    if not back.any():
        return time
    in_time = np.lexsort((time, episode))
    apart = np.where(inside, np.diff(time[in_time]), 0.0)
    midnight = back & (steps + _DAY >= 0) & (steps + _DAY <= _STEPS_AT_MIDNIGHT * _lower_median(apart[apart > 0]))
    unsorted = number[inside & (steps < 0) & ~midnight]
    two_parts = np.intersect1d(number[back], np.intersect1d(unsorted, number[apart > _DAY / 2]))
    unclear = np.setdiff1d(two_parts, _episodes_with_repeated_times(time, episode))
    if len(unclear):
        raise DfstransError(
            "expected times of day that go back only at midnight, got unsorted times, or a gap at midnight, in "
            f"{list_few(ids[i] for i in unclear)}; write the times with their date"
        )
    nights = np.concatenate([[0], np.cumsum(midnight & ~np.isin(number, unsorted))])
    unwrapped = time.copy()
    unwrapped[order] += _DAY * (nights - _at_first_point(nights, first_points(episode[order])))
    return unwrapped


def require_no_clock_change(clock: npt.NDArray[np.datetime64], episode: Index, ids: Sequence[str]) -> None:
    """Reject episodes whose clock, which has no time zone, is set forward or back by an hour, as for summer time.

    That is a step of an hour more or less than the median, in the night to a Sunday in spring or autumn.
    """
    steps, inside = np.diff(clock).astype("timedelta64[ns]").astype(np.float64) / 1e9, np.diff(episode) == 0
    rising = steps[inside & (steps > 0)]
    if not len(rising):
        return
    usual = _lower_median(rising)
    later = clock[1:]
    sunday = (later.astype("datetime64[D]").astype(np.int64) + 4) % 7 == 0  # 1970 began on a Thursday
    month = later.astype("datetime64[M]").astype(np.int64) % 12 + 1
    night = (later - later.astype("datetime64[D]")) <= np.timedelta64(4, "h")
    hour = np.abs(np.abs(steps - usual) - 3600) <= _JITTER * min(usual, 3600)
    changed = np.flatnonzero(inside & hour & sunday & night & np.isin(month, (3, 4, 9, 10, 11)))
    if len(changed):
        found = [
            f"{ids[episode[row]]} (row {row + 2 - int(np.searchsorted(episode, episode[row]))}: "
            f"{_to_second(clock[row + 1])} after {_to_second(clock[row])})"
            for row in changed.tolist()
        ]
        raise DfstransError(
            f"expected times that advance evenly, got an hour too many or too few in {list_few(found)}: was the clock "
            "changed to or from summer time? write the times in UTC, or with their zone (2024-05-31T12:00:00+02:00), "
            f"or use the rows in order ({option_name('irregular_time', 'ignore')})"
        )


def _to_second(time: np.datetime64) -> str:
    return str(time.astype("datetime64[s]"))


def _median_step(time: Floats, steps: Floats, inside: npt.NDArray[np.bool_]) -> float:
    """Return the median of the steps that are `inside`, without rounding noise.

    This is the lower of two medians, because the mean of a step and a gap would be neither. A large time has a coarser
    64-bit resolution than a step, but n equal steps together are n times as precise as one. Within that precision,
    meaningless digits are removed.

    >>> for time in (1710400000 + np.arange(4) / 1000, np.arange(4) / 1024):
    ...     print(_median_step(time, np.diff(time), np.full(3, True)))
    0.001
    0.0009765625
    """
    resolution = float(np.spacing(np.abs(time).max()))
    median = float(steps[np.argmax(inside)])  # any of them will do if most are equal
    equal = _equal_steps(steps, median, resolution) & inside
    if 2 * np.count_nonzero(equal) <= np.count_nonzero(inside):
        median = _lower_median(steps[inside])
        equal = _equal_steps(steps, median, resolution) & inside
    others = np.concatenate([[-1], np.flatnonzero(~equal), [len(equal)]])
    longest = int(np.argmax(np.diff(others)))
    first, last = int(others[longest]) + 1, int(others[longest + 1])
    if last > first:
        median = float(time[last] - time[first]) / (last - first)
        resolution /= last - first
    shortest = len(f"{median:.8e}".split("e")[0].rstrip("0").replace(".", "").lstrip("-")) - _NOISE_DIGITS
    rounded = (float(f"{median:.{digits}g}") for digits in range(1, shortest + 1))
    return next((few for few in rounded if abs(few - median) <= resolution), float(f"{median:.9g}"))


def _equal_steps(steps: Floats, step: float, resolution: float) -> npt.NDArray[np.bool_]:
    """Mark the steps that equal this one up to rounding."""
    with np.errstate(invalid="ignore"):
        return np.abs(steps - step) <= 2 * resolution


def _lower_median(steps: Floats) -> float:
    # a full sort, because np.partition is several times slower for few distinct values, as in regular time
    return float(np.sort(steps)[(len(steps) - 1) // 2])


def _require_rising(
    time: Floats, steps: Floats, inside: npt.NDArray[np.bool_], episode: Index, ids: Sequence[str]
) -> None:
    if not np.isfinite(time).all():
        row = int(np.flatnonzero(~np.isfinite(time))[0])
        raise DfstransError(f"expected finite times, got {time[row]} in episode {ids[episode[row]]!r}; correct it")
    back = np.flatnonzero(inside & (steps <= 0))
    if not len(back):
        return
    row = int(back[0])
    number = row + 2 - int(np.searchsorted(episode, episode[row]))
    where = f"in episode {ids[episode[row]]!r}: {time[row + 1]:.12g} after {time[row]:.12g} in its row {number}"
    repeated = _episodes_with_repeated_times(time, episode)
    named = list_few(ids[i] for i in repeated)
    if not (steps[back] < 0).any():
        raise DfstransError(
            f"expected each time once within an episode, got a repeated one {where}; episodes with repeated times: "
            f"{named}; remove the repeated rows, or use the rows in order ({option_name('irregular_time', 'ignore')})"
        )
    if len(repeated):
        raise DfstransError(
            f"expected each episode once, got the same times more than once in {named}; if it holds several "
            f"recordings, name the column that separates them, such as the machine ({option_name('id_column')}); if "
            "it was recorded or written twice, or the clock was set back, give each recording its own id, remove "
            "the copy, or write times in UTC"
        )
    raise DfstransError(
        f"expected time to increase within each episode, got unsorted times {where}; sort the rows "
        f"({option_name('sort_time', True)})"
    )


def _require_one_rate(time: Floats, episode: Index, ids: Sequence[str], interval: float, irregular: Index) -> None:
    """Reject irregular episodes that are regular by themselves, but at a different sampling rate from the others."""
    rates = {}
    for one in irregular.tolist():
        first, last = np.searchsorted(episode, [one, one + 1])
        own = time[first:last]
        own_steps = np.diff(own)
        rate = _median_step(own, own_steps, np.full(len(own_steps), True))
        if np.abs(own_steps / rate - 1).max() > _JITTER:
            return
        rates[ids[one]] = rate
    if all(abs(rate / interval - 1) > _JITTER for rate in rates.values()):
        raise DfstransError(
            f"expected one sampling rate in all episodes (median step {interval:g}), got others in "
            f"{list_few(f'{name} (step {rate:g})' for name, rate in rates.items())}; resample all recordings to one "
            f"rate ({option_name('resample', f'{max(interval, *rates.values()):g}')})"
        )


def _episodes_with_repeated_times(time: Floats, episode: Index) -> Index:
    order = np.lexsort((time, episode))
    repeated = (np.diff(time[order]) == 0) & (np.diff(episode[order]) == 0)
    return np.unique(episode[order][1:][repeated])

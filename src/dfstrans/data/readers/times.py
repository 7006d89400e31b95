"""From the times of the points of episodes to places on a regular grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError, option_name, shortlist

JITTER = 0.2  # of the interval: how far a step may be from a multiple of it
DAY = 86_400.0  # seconds
_STEPS_AT_MIDNIGHT = 5  # at most: an episode whose time falls by less than a day without them was rather written twice
_NOISE_DIGITS = 4  # of nine at least: 1/1024 has seven digits, and none of them is noise
_MOST_INSERTED = 20  # times the points that are there: beyond it a gap is more likely two recordings

Index = npt.NDArray[np.int64]


def places_on_grid(time: npt.NDArray[np.float64], episode: Index, ids: Sequence[str]) -> tuple[Index, float | None]:
    """How many intervals each point is behind the first of its episode, and the interval: the median step.

    `episode` numbers the episode of each point and never falls. Where points are missing, places are left free.

    >>> places_on_grid(np.array([0.0, 0.1, 0.4]), np.zeros(3, dtype=np.int64), ["a"])
    (array([0, 1, 4]), 0.1)
    """
    steps = np.diff(time)
    inside = np.diff(episode) == 0
    if not inside.any():
        return np.zeros(len(time), dtype=np.int64), None
    _require_rising(time, steps, inside, episode, ids)
    interval = _middle(time, steps, inside)
    if not (np.abs(steps - interval)[inside] > JITTER * interval).any():
        return places_in_order(episode), interval
    with np.errstate(over="ignore"):
        intervals = np.where(inside, steps / interval, 1.0)
    whole = np.maximum(np.rint(intervals), 1.0)
    off = np.flatnonzero(np.abs(intervals - whole) > JITTER)
    if len(off):
        worst = int(off[0])
        _require_one_rate(time, episode, ids, interval, np.unique(episode[off]))
        raise DfstransError(
            f"expected regular time (median step {interval:g}), got a step of {steps[worst]:g} in episode "
            f"{ids[episode[worst]]!r} after time {time[worst]:g}, and {len(off)} irregular steps in all; resample the "
            f"data, or take the rows as they come ({option_name('irregular_time', 'ignore')})"
        )
    if whole.sum() > _MOST_INSERTED * len(time) + 1000:
        worst = int(np.argmax(whole))
        raise DfstransError(
            f"expected recordings without long gaps, got one of {whole[worst]:.0f} points in episode "
            f"{ids[episode[worst]]!r} after time {time[worst]:g}; split the episode there, or take the rows as they "
            f"come ({option_name('irregular_time', 'ignore')})"
        )
    run = np.concatenate([[0], np.cumsum(whole.astype(np.int64))])
    starts = np.concatenate([[0], np.flatnonzero(~inside) + 1])
    return run - np.repeat(run[starts], np.diff([*starts, len(time)])), interval


def places_in_order(episode: Index) -> Index:
    """How many points of its episode come before each: its place where none is missing.

    >>> places_in_order(np.array([0, 0, 0, 1, 1]))
    array([0, 1, 2, 0, 1])
    """
    starts = first_points(episode)
    before: Index = np.repeat(starts, np.diff([*starts, len(episode)]))
    return np.arange(len(episode)) - before


def first_points(episode: Index) -> Index:
    """The number of the first point of each episode."""
    return np.concatenate([[0], np.flatnonzero(np.diff(episode)) + 1]).astype(np.int64)


def past_midnight(time: npt.NDArray[np.float64], episode: Index, ids: Sequence[str]) -> npt.NDArray[np.float64]:
    """Times of day in seconds that go on rising where an episode passes midnight, with the rows in any order.

    It does where time falls by a day but for a few steps, and falls nowhere else. Other episodes are left as they are,
    unless they are of an evening and a morning only: sorting would put the evening behind the morning, an error.

    >>> past_midnight(np.array([86398.0, 86399.0, 0.0, 1.0]), np.zeros(4, dtype=np.int64), ["a"])
    array([86398., 86399., 86400., 86401.])
    """
    order = np.argsort(episode, kind="stable")
    steps, inside, number = np.diff(time[order]), np.diff(episode[order]) == 0, episode[order][1:]
    back = inside & (steps < -DAY / 2)
    if not back.any():
        return time
    in_time = np.lexsort((time, episode))
    apart = np.where(inside, np.diff(time[in_time]), 0.0)
    midnight = back & (steps + DAY >= 0) & (steps + DAY <= _STEPS_AT_MIDNIGHT * _lower_median(apart[apart > 0]))
    unsorted = number[inside & (steps < 0) & ~midnight]
    torn = np.intersect1d(number[back], np.intersect1d(unsorted, number[apart > DAY / 2]))
    unclear = np.setdiff1d(torn, _episodes_with_a_time_twice(time, episode))
    if len(unclear):
        raise DfstransError(
            "expected times of day that rise but for midnight, got them unsorted, or with a gap there, in "
            f"{shortlist(ids[i] for i in unclear)}; write the times with their date"
        )
    nights = np.concatenate([[0], np.cumsum(midnight & ~np.isin(number, unsorted))])
    first = np.concatenate([[0], np.flatnonzero(~inside) + 1])
    days = nights - np.repeat(nights[first], np.diff([*first, len(time)]))
    unwrapped = time.copy()
    unwrapped[order] += DAY * days
    return unwrapped


def median_step(time: npt.NDArray[np.float64], episode: Index) -> float | None:
    """The median step within episodes, if time goes forward at all."""
    steps, inside = np.diff(time), np.diff(episode) == 0
    middle = _middle(time, steps, inside) if inside.any() else 0.0
    return middle if middle > 0 and np.isfinite(middle) else None


def _middle(time: npt.NDArray[np.float64], steps: npt.NDArray[np.float64], inside: npt.NDArray[np.bool_]) -> float:
    """The median of the steps that are `inside`, the lower one of two: a mean of a step and a gap would be neither.

    Free of rounding noise: 64 bits tell a large time less well than a step, but n equal steps n times better than one.
    Within that, digits that tell nothing are left out.

    >>> for time in (1710400000 + np.arange(4) / 1000, np.arange(4) / 1024):
    ...     print(_middle(time, np.diff(time), np.full(3, True)))
    0.001
    0.0009765625
    """
    told = float(np.spacing(np.abs(time).max()))
    middle = float(steps[np.argmax(inside)])  # any will do, if most are equal to it
    equal = _alike(steps, middle, told) & inside
    if 2 * np.count_nonzero(equal) <= np.count_nonzero(inside):
        middle = _lower_median(steps[inside])
        equal = _alike(steps, middle, told) & inside
    others = np.concatenate([[-1], np.flatnonzero(~equal), [len(equal)]])
    longest = int(np.argmax(np.diff(others)))
    first, last = int(others[longest]) + 1, int(others[longest + 1])
    if last > first:
        middle = float(time[last] - time[first]) / (last - first)
        told /= last - first
    shortest = len(f"{middle:.8e}".split("e")[0].rstrip("0").replace(".", "").lstrip("-")) - _NOISE_DIGITS
    rounded = (float(f"{middle:.{digits}g}") for digits in range(1, shortest + 1))
    return next((few for few in rounded if abs(few - middle) <= told), float(f"{middle:.9g}"))


def _alike(steps: npt.NDArray[np.float64], step: float, told: float) -> npt.NDArray[np.bool_]:
    """Whether no more than rounding is between each step and this one."""
    with np.errstate(invalid="ignore"):
        return np.abs(steps - step) <= 2 * told


def _lower_median(steps: npt.NDArray[np.float64]) -> float:
    """Sorted as a whole: of few different steps, as regular time has, a partition takes several times as long."""
    return float(np.sort(steps)[(len(steps) - 1) // 2])


def _require_rising(
    time: npt.NDArray[np.float64],
    steps: npt.NDArray[np.float64],
    inside: npt.NDArray[np.bool_],
    episode: Index,
    ids: Sequence[str],
) -> None:
    if not np.isfinite(time).all():
        row = int(np.flatnonzero(~np.isfinite(time))[0])
        raise DfstransError(f"expected finite times, got {time[row]} in episode {ids[episode[row]]!r}; correct it")
    back = np.flatnonzero(inside & (steps <= 0))
    if not len(back):
        return
    row = int(back[0])
    where = f"in episode {ids[episode[row]]!r}: {time[row + 1]:.12g} after {time[row]:.12g}"
    falls = bool((steps[back] < 0).any())
    again = _episodes_with_a_time_twice(time, episode)
    if falls and len(again):
        raise DfstransError(
            f"expected each episode once, got the same times more than once in {shortlist(ids[i] for i in again)}: "
            "are there several recordings in it? name the column that tells them apart, such as that of the machine "
            f"({option_name('id_column')}); was it recorded or written twice under one id, or the clock set back? give "
            "each recording an id of its own, leave out the copy, or write times in UTC"
        )
    if falls:
        raise DfstransError(
            f"expected time to rise within each episode, got it unsorted {where}; sort the rows "
            f"({option_name('sort_time', True)})"
        )
    raise DfstransError(
        f"expected each time once within an episode, got a repeated one {where}, and repeated times in "
        f"{shortlist(ids[i] for i in again)}; leave out the repeated rows, or take them as they come "
        f"({option_name('irregular_time', 'ignore')})"
    )


def _require_one_rate(
    time: npt.NDArray[np.float64],
    episode: Index,
    ids: Sequence[str],
    interval: float,
    irregular: Index,
) -> None:
    """Say so where the irregular episodes are regular in themselves, at another rate than the others."""
    rates = {}
    for one in irregular.tolist():
        first, last = np.searchsorted(episode, [one, one + 1])
        own = time[first:last]
        own_steps = np.diff(own)
        rate = _middle(own, own_steps, np.full(len(own_steps), True))
        if np.abs(own_steps / rate - 1).max() > JITTER:
            return
        rates[ids[one]] = rate
    if all(abs(rate / interval - 1) > JITTER for rate in rates.values()):
        raise DfstransError(
            f"expected one sampling rate in all episodes (median step {interval:g}), got others in "
            f"{shortlist(f'{name} (step {rate:g})' for name, rate in rates.items())}; resample all recordings to one "
            "rate, or read those of each rate by themselves"
        )


def _episodes_with_a_time_twice(time: npt.NDArray[np.float64], episode: Index) -> Index:
    order = np.lexsort((time, episode))
    twice = (np.diff(time[order]) == 0) & (np.diff(episode[order]) == 0)
    return np.unique(episode[order][1:][twice])

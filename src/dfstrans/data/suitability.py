"""Whether recordings suffice for the baseline of a machine: their number, the stability of medians, and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from dfstrans.data.baselines import MIN_RECORDINGS, SMALLEST_SPREAD
from dfstrans.data.statistics import Statistics
from dfstrans.errors import list_few

ENOUGH_RECORDINGS = 10  # with fewer, a baseline counts as short
STEADY = 0.5  # of the typical spread; a larger change of the median between halves means that more recordings help
BY_CHANCE = 2.5  # times 1/√n: twice the typical change of the median, in spreads, of n recordings that do not drift
DRIFT_VISIBLE = 12  # recordings from which on a drift can be told from chance
DRIFT = 2.0  # spreads within a third of the recordings; a smaller change from the first third to the last is immaterial
FALSE_DRIFT = 0.05  # how often any sensor may be said to drift if none does
ORDERS = 499  # random orders of the recordings, to compare a drift with
ROUNDING = 1e-9  # relative; equal correlations of different orders may differ by less


class Suitability(NamedTuple):
    """Whether a baseline rests on enough recordings.

    `change` is the typical difference between the medians of two halves of the recordings, as a share of the spread;
    `drifting` are the sensors whose statistics move steadily from the first recordings to the last, if the order is
    known.
    """

    n_recordings: int
    change: float | None
    sufficient: bool
    note: str
    drifting: tuple[str, ...] = ()


def assess_baseline(statistics: Statistics, sensors: Sequence[str], *, by_time: bool = True) -> Suitability:
    """Tell whether recordings suffice for a baseline: enough of them, and medians that do not move.

    Without `by_time`, their order means nothing, and no sensor is said to drift.

    Shape:
        statistics (recording, sensor, statistic)
    """
    n, complete = len(statistics), ~np.isnan(statistics).any(axis=(0, 2))
    statistics, names = statistics[:, complete], np.asarray(sensors)[complete]
    if n < 2 * MIN_RECORDINGS:
        note = f"{n} recordings are too few to tell how stable the baseline is; add {ENOUGH_RECORDINGS} or more"
        return Suitability(n, None, False, note)
    if not complete.any():
        note = f"{n} recordings cannot tell how stable the baseline is: each sensor is silent in some; add others"
        return Suitability(n, None, False, note)
    low, high = np.quantile(statistics, [0.25, 0.75], axis=0)
    moving, spread = high - low > SMALLEST_SPREAD, np.maximum(high - low, SMALLEST_SPREAD)
    one, other = (np.median(half, axis=0) for half in (statistics[::2], statistics[1::2]))
    change = float(np.median((np.abs(one - other) / spread)[moving])) if moving.any() else 0.0
    many, stable = n >= ENOUGH_RECORDINGS, change <= max(STEADY, BY_CHANCE / math.sqrt(n))
    drift = np.zeros(len(names))
    if by_time and n >= DRIFT_VISIBLE:
        drift = np.where(_moves_with_time(statistics), _drift(statistics), 0.0)
    drifting = tuple(names[drift > DRIFT].tolist())
    mostly = bool(drifting) and 2 * len(drifting) >= max(len(names), 2)
    halves = f"the typical values of two halves of them differ by {100 * change:.0f} % of the usual spread"
    drifted = (
        f"{list_few(drifting)} drifted from the first third to the last, by up to {drift.max(initial=0):.1f} spreads; "
        "use recordings from after the change, or repair these sensors"
    )
    if not (many and stable):
        note = f"{n} recordings may not be enough: {halves}; add more" + (f"; {drifted}" if drifting else "")
    elif mostly:
        note = f"{n} recordings are not from a steady period: {drifted}"
    elif drifting:
        note = f"{n} recordings are enough for the sensors that are steady, but {drifted}"
    else:
        note = f"{n} recordings are enough: {halves}"
    return Suitability(n, change, many and stable and not mostly, note, drifting)


def _moves_with_time(statistics: Statistics) -> npt.NDArray[np.bool_]:
    """Return which sensors change steadily from the first recording to the last, by more than chance explains.

    Each statistic's ranks are correlated with those of time. The strongest correlation of a sensor is compared with the
    strongest one of all sensors in random orders of the same recordings, so that however many sensors there are, and
    whatever their values are like, stationary recordings give a false answer at a rate of at most FALSE_DRIFT.

    Shape:
        (recording, sensor, statistic) → (sensor,)
    """
    n, rng = len(statistics), np.random.default_rng(0)
    orders = np.stack([np.arange(n), *(rng.permutation(n) for _ in range(ORDERS))]) - (n - 1) / 2
    strongest = np.zeros((statistics.shape[1], len(orders)))
    for sensor, values in enumerate(statistics.swapaxes(0, 1)):
        ranks = rankdata(values, axis=0) - (n + 1) / 2
        length = np.sqrt((ranks**2).sum(axis=0))
        moving = length > 0
        if moving.any():
            strongest[sensor] = np.abs(orders @ (ranks[:, moving] / length[moving])).max(axis=1)
    by_chance = np.sort(strongest[:, 1:].max(axis=0, initial=0.0))
    exceeded = len(by_chance) - np.searchsorted(by_chance, strongest[:, 0] * (1 - ROUNDING))
    return np.asarray((1 + exceeded) / (1 + ORDERS) <= FALSE_DRIFT)


def _drift(statistics: Statistics) -> npt.NDArray[np.float64]:
    """Return how far each sensor moved from the first third of the recordings to the last, in spreads within a third.

    A drift of the level is in a third of the statistics, so their upper quartile is taken.

    Shape:
        (recording, sensor, statistic) → (sensor,)
    """
    thirds = np.array_split(statistics, 3)
    medians = [np.median(third, axis=0) for third in thirds]
    rest = np.concatenate([third - median for third, median in zip(thirds, medians, strict=True)])
    low, high = np.quantile(rest, [0.25, 0.75], axis=0)
    return np.asarray(
        np.quantile(np.abs(medians[2] - medians[0]) / np.maximum(high - low, SMALLEST_SPREAD), 0.75, axis=1)
    )

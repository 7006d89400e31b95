"""What each kind of fault does to a stretch of one sensor: pure functions, missing values stay missing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def offset(stretch: Array, amount: float) -> Array:
    """Every value moved by the amount: a level shift, and over a single point a spike.

    >>> offset(np.array([1.0, 2.0]), 3.0)
    array([4., 5.])
    """
    return stretch + amount


def drift(stretch: Array, amount: float) -> Array:
    """Values that move away evenly, until the last of them is off by the amount.

    >>> drift(np.zeros(4), 2.0)
    array([0.5, 1. , 1.5, 2. ])
    """
    return stretch + amount * np.arange(1, len(stretch) + 1) / len(stretch)


def gain(stretch: Array, centre: float, strength: float) -> Array:
    """Distances from the centre that are 1 + strength times as large.

    A value that is a spread away from the centre is changed by strength · spread.

    >>> gain(np.array([10.0, 11.0]), 10.0, 1.0)
    array([10., 12.])
    """
    return centre + (stretch - centre) * (1 + strength)


def noise_burst(stretch: Array, deviation: float, rng: np.random.Generator) -> Array:
    """Values with Gaussian noise of this standard deviation added."""
    return stretch + deviation * rng.standard_normal(len(stretch))


def stuck(stretch: Array) -> Array:
    """The first value that is there, held.

    >>> stuck(np.array([np.nan, 2.0, 3.0]))
    array([nan,  2.,  2.])
    """
    missing = np.isnan(stretch)
    held = stretch[int(np.argmin(missing))]
    return np.where(missing, np.nan, held)


def dropout(stretch: Array) -> Array:
    """A dead line, which reads 0.

    >>> dropout(np.array([5.0, np.nan]))
    array([ 0., nan])
    """
    return np.where(np.isnan(stretch), np.nan, 0.0)


def lag(series: Array, start: int, stop: int, points: int) -> Array:
    """What the sensor read that many points earlier; the fault begins no earlier than that.

    >>> lag(np.arange(6.0), 3, 5, 2)
    array([1., 2.])
    """
    return series[start - points : stop - points].copy()


def decouple(stretch: Array, other: Array, share: float) -> Array:
    """A share of the sensor's movement replaced by that of another episode at the same moment, around its own mean.

    x + share · ((other − mean of other) − (x − mean of x)): the level stays, so that only the coupling is lost.

    >>> decouple(np.array([1.0, 3.0]), np.array([8.0, 4.0]), 1.0), decouple(np.array([1.0, 3.0]), np.zeros(2), 0.5)
    (array([4., 0.]), array([1.5, 2.5]))
    """
    both = ~np.isnan(stretch) & ~np.isnan(other)
    if not both.any():
        return stretch.copy()
    movement, replacement = stretch - stretch[both].mean(), other - other[both].mean()
    return np.where(both, stretch + share * (replacement - movement), stretch)


def swap_points(stretch: Array, other: Array, share: float, rng: np.random.Generator) -> Array:
    """As `decouple`, for a sensor that counts or switches: a share of the points taken from the other episode."""
    taken = (rng.random(len(stretch)) < share) & ~np.isnan(stretch) & ~np.isnan(other)
    return np.where(taken, other, stretch)

"""Whether 32 bits are enough: a small signal on a large offset is rounded away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.errors import shortlist

ROUNDED = "a small signal on a large offset, of which 32 bits tell a few values only"
REMEDY = "subtract the offset before the recordings are read"
ONE_LARGE_VALUE = "one value throughout as far as 32 bits tell, but a large one"
REMEDY_IF_SEVERAL = "if the recordings have several values, subtract an offset before they are read"
FEWEST_STEPS = 64  # that 32 bits have to tell between the lowest and the highest value of a sensor


def coarse(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which sensors have so small a range beside their size that 32 bits tell but a few values of it.

    >>> coarse(np.array([0.0, 1.7e9]), np.array([1.0, 1.7e9 + 1024])).tolist()
    [False, True]
    """
    with np.errstate(invalid="ignore"):
        span = maximum - minimum
        few = span < FEWEST_STEPS * _step(minimum, maximum)
    return np.asarray((span > 0) & few, dtype=np.bool_)


def may_hide_a_signal(value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where 32 bits cannot tell whole numbers any more, so that what looks like one value may have been several.

    >>> may_hide_a_signal(np.array([5.0, 1.7e9])).tolist()
    [False, True]
    """
    return np.asarray(_step(value, value) > 1, dtype=np.bool_)


def _step(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The distance of neighbouring 32-bit numbers at a sensor's largest value."""
    largest = np.maximum(np.abs(minimum), np.abs(maximum)).astype(np.float32)
    return np.spacing(np.where(np.isfinite(largest), largest, np.float32(0))).astype(np.float64)


_FEWEST = 10  # values: of fewer, chance may leave out every second one


def times_slower(present: npt.NDArray[np.bool_]) -> int:
    """Of how many points of an episode, which all have a value or none, only the first has one; 1 where all may.

    >>> times_slower(np.arange(60) % 3 == 0), times_slower(np.arange(60) != 7)
    (3, 1)
    """
    places = np.flatnonzero(present)
    return 1 if len(places) < _FEWEST else int(np.gcd.reduce(places - places[0]))


def describe_slow_rates(slower: Mapping[str, int]) -> str:
    """How much slower each of these episodes was recorded, and what to do."""
    shown = [f"{name} ({times} times)" for name, times in slower.items()]
    return (
        f"recorded more slowly than the others: {shortlist(shown)}; the points between their values are missing, and a "
        "detector may learn the rate instead of the fault: resample all recordings to one rate"
    )

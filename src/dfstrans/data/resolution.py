"""Whether 32 bits are enough: a small signal on a large offset is rounded away."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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

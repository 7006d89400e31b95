"""Episodes that were recorded more slowly than the others: on the others' grid, most of their points are missing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dfstrans.errors import shortlist

_FEWEST = 10  # values: of fewer, chance may leave out every second one


def times_slower(present: npt.NDArray[np.bool_]) -> int:
    """Of how many points of an episode, which all have a value or none, only the first has one; 1 where all may.

    >>> times_slower(np.arange(60) % 3 == 0), times_slower(np.arange(60) != 7)
    (3, 1)
    """
    places = np.flatnonzero(present)
    return 1 if len(places) < _FEWEST else int(np.gcd.reduce(places - places[0]))


def told(slower: Mapping[str, int]) -> str:
    """How much slower each of these episodes was recorded, and what to do."""
    shown = [f"{name} ({times} times)" for name, times in slower.items()]
    return (
        f"recorded more slowly than the others: {shortlist(shown)}; the points between their values are missing, and a "
        "detector may learn the rate instead of the fault: resample all recordings to one rate"
    )

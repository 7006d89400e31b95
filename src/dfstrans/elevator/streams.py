"""Separate random streams, so that one thing can be drawn anew while all others stay as they were."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What is drawn; the number is part of the key and never changes."""

    INSTALLATION = 0
    TRIP = 1
    CONDITIONS = 2
    NOISE = 3
    FAULT = 4


def generator(seed: int, stream: Stream, *key: int) -> np.random.Generator:
    """The random numbers of one thing of one installation or journey, whatever else was drawn."""
    return np.random.default_rng((seed, int(stream), *key))

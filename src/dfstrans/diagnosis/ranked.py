"""What a diagnosis ranks: sensors, moments and pairs of sensors."""

from __future__ import annotations

from typing import NamedTuple


class RankedSensor(NamedTuple):
    """A sensor, how far it is from normal at its strangest moment (1 is usual), and what it adds to the logit.

    `loss`, where the ranking is made by occlusion, is what it is ranked by: what the logit loses at its worst moment.
    """

    sensor: str
    deviation: float
    contribution: float
    direction: str
    loss: float | None = None


class RankedSegment(NamedTuple):
    """A moment from start to end, in the episode's own time, and how far from normal its strangest sensor is.

    `loss` as in `RankedSensor`.
    """

    segment: int
    start: float
    end: float
    deviation: float
    loss: float | None = None


class RankedPair(NamedTuple):
    """At some moment `looking` attends to `at` more than it normally does: `excess` 1 is the edge of the 99 % band."""

    looking: str
    at: str
    segment: int
    excess: float

"""Which relevances and pairs of sensors are above their normal band, when, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class BeyondBand(NamedTuple):
    """Attention above what 99 % of normal episodes have, over segments that follow one another.

    `sensors` is one sensor (its global relevance b^G), none (the global relevance a^G of the moments), or two: the
    first attends to the second. Excess is the distance from the normal median; 1 is the edge of the band.
    """

    sensors: tuple[str, ...]
    first: int
    last: int
    start: float
    end: float
    excess: float

    @property
    def sentence(self) -> str:
        """In plain words."""
        when = f"segment {self.first}" if self.first == self.last else f"segments {self.first}-{self.last}"
        what = (
            f"relevance of {when}",
            f"relevance of {'-'.join(self.sensors)}",
            f"{'-'.join(self.sensors)} coupling in {when}",
        )[len(self.sensors)]
        return f"{what} is above its 99 % normal band ({self.excess:.1f} times the edge)"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "sensors": list(self.sensors), "sentence": self.sentence}


def beyond_band(
    sensors: Sequence[str],
    segment_bounds: Array,
    sensor_excess: Array,
    segment_excess: Array,
    pair_excess: Array,
    changed_pairs: Iterable[tuple[str, str, int, float]],
) -> list[BeyondBand]:
    """Sensors, then moments, then changed pairs, each the furthest first; a pair around its strangest moment.

    Shape:
        segment_bounds (segment, 2), sensor_excess (sensor,), segment_excess (segment,), pair_excess (segment, looking,
        at)
    """

    def told(names: tuple[str, ...], run: tuple[int, int], excess: float) -> BeyondBand:
        return BeyondBand(names, *run, float(segment_bounds[run[0], 0]), float(segment_bounds[run[1], 1]), excess)

    throughout = (0, len(segment_bounds) - 1)
    by_sensor = zip(sensors, sensor_excess.tolist(), strict=True)
    of_sensors = [told((name,), throughout, excess) for name, excess in by_sensor if excess > 1]
    of_moments = [told((), run, float(segment_excess[run[0] : run[1] + 1].max())) for run in runs_above(segment_excess)]
    of_pairs = []
    for looking, at, segment, excess in changed_pairs:
        course = pair_excess[:, sensors.index(looking), sensors.index(at)]
        run = next(run for run in runs_above(course) if run[0] <= segment <= run[1])
        of_pairs.append(told((looking, at), run, excess))
    return [one for found in (of_sensors, of_moments, of_pairs) for one in sorted(found, key=lambda one: -one.excess)]


def runs_above(excess: Array) -> list[tuple[int, int]]:
    """First and last of each stretch of values above 1, the edge of the band.

    >>> runs_above(np.array([2.0, 0.5, 1.5, 3.0]))
    [(0, 0), (2, 3)]
    """
    changes = np.flatnonzero(np.diff(np.concatenate([[False], excess > 1, [False]])))
    return [(int(first), int(after) - 1) for first, after in changes.reshape(-1, 2)]

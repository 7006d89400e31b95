"""The known cause of each episode, on the segments of a ranking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.metrics.rankings import Array, Mask, Points
from dfstrans.errors import DfstransError, option_name


@dataclass(frozen=True, eq=False)
class KnownCause:
    """Which sensors, segments and cells of an episode are to blame; None if unknown.

    Shape:
        faulty_points, points (n_segments,): number per segment; cells and relevance, the graded truth,
        (n_segments, n_sensors)
    """

    episode_id: str
    kind: str
    n_sensors: int
    faulty_points: Points
    points: Points
    cells: Mask | None
    relevance: Array | None = None

    @property
    def sensors(self) -> Mask | None:
        """Sensors with at least one cell to blame: (n_sensors,)."""
        return None if self.cells is None else np.asarray(self.cells.any(axis=0))

    @property
    def segments(self) -> Mask:
        """Segments with at least one faulty point: (n_segments,)."""
        return np.asarray(self.faulty_points > 0)

    @property
    def sensor_relevance(self) -> Array | None:
        """Graded truth of each sensor, in its worst segment: (n_sensors,)."""
        return None if self.relevance is None else np.asarray(self.relevance.max(axis=0))

    @property
    def segment_relevance(self) -> Array | None:
        """Graded truth of each segment, in the sensor that shows it best: (n_segments,)."""
        return None if self.relevance is None else np.asarray(self.relevance.max(axis=1))


def known_causes(episodes: Episodes, segment_length: int) -> list[KnownCause]:
    """Return the cause of each episode, from its graded truth if there is one, else from its faults.

    With graded truth, a cell is to blame from relevance 1, a sensor or segment if one of its cells is, and a point if
    it lies in such a segment of the truth. With faults, their windows and sensors are to blame; an episode with a fault
    that names no sensor has no known sensors and cells.
    """
    if episodes.truth is None and episodes.faults is None:
        raise DfstransError(
            "expected episodes with known causes, got neither faults nor graded truth; read them with a table of "
            f"the faults of each episode ({option_name('faults', ...)}), or use recordings that include them"
        )
    of_row = _from_faults if episodes.truth is None else _from_truth
    return [of_row(episodes, row, kind, segment_length) for row, kind in enumerate(episodes.fault_kinds())]


def _from_truth(episodes: Episodes, row: int, kind: str, segment_length: int) -> KnownCause:
    truth = episodes.truth
    assert truth is not None  # checked by the caller
    length = int(episodes.lengths[row])
    faulty = np.zeros(length, dtype=np.bool_)
    within = np.repeat(truth.affected[row].any(axis=1), truth.segment_length)[:length]
    faulty[: len(within)] = within
    relevance = truth.cells(row, segment_length, count_segments(length, segment_length)).astype(np.float64)
    counts = points_per_segment(faulty, segment_length)
    return KnownCause(str(episodes.ids[row]), kind, episodes.n_sensors, *counts, relevance >= 1, relevance)


def _from_faults(episodes: Episodes, row: int, kind: str, segment_length: int) -> KnownCause:
    assert episodes.faults is not None  # checked by the caller
    name, length, faults = str(episodes.ids[row]), int(episodes.lengths[row]), episodes.faults[row]
    faulty = np.zeros(length, dtype=np.bool_)
    for fault in faults:
        _check_fault(fault, name, length, episodes.sensors)
        faulty[fault.start : fault.stop] = True
    cells = episodes.fault_cells(row, segment_length) if all(fault.sensors for fault in faults) else None
    return KnownCause(name, kind, episodes.n_sensors, *points_per_segment(faulty, segment_length), cells)


def points_per_segment(faulty: Mask, segment_length: int) -> tuple[Points, Points]:
    """Count the faulty points and all points of each segment of an episode; the last segment may be shorter.

    Shape:
        faulty (n_timepoints,) → (n_segments,), (n_segments,)

    >>> points_per_segment(np.array([0, 1, 1, 1, 0], dtype=bool), 2)
    (array([1, 2, 0]), array([2, 2, 1]))
    """
    starts = np.arange(0, len(faulty), segment_length)
    return np.add.reduceat(faulty.astype(np.int64), starts), np.diff(np.append(starts, len(faulty)))


def _check_fault(fault: Fault, name: str, length: int, sensors: tuple[str, ...]) -> None:
    unknown = [sensor for sensor in fault.sensors if sensor not in sensors]
    if unknown:
        raise DfstransError(
            f"expected faults in the sensors {', '.join(sensors)}, got unknown sensors in episode {name!r}: "
            f"{', '.join(unknown)}; correct their names, or keep these sensors"
        )
    if not 0 <= fault.start < min(fault.stop, length):
        raise DfstransError(
            f"expected a fault within the {length} points of episode {name!r}, got one from {fault.start} to "
            f"{fault.stop}; correct its start and stop, which are counted in points from the beginning of the episode"
        )

"""What is known of the cause of each episode, on the segments of a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.segments import count_segments
from dfstrans.diagnosis.metrics.rankings import Array, Mask, Points, points_per_segment
from dfstrans.errors import DfstransError, option_name


@dataclass(frozen=True, eq=False)
class KnownCause:
    """Which sensors, moments and cells of an episode are to blame; None where that is not known.

    Shape:
        faulty_points, points (n_segments,): how many each segment has; cells, relevance (n_segments, n_sensors), the
        latter being the graded truth
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
        faulty: Mask = self.faulty_points > 0
        return faulty

    @property
    def sensor_relevance(self) -> Array | None:
        """Graded truth of each sensor, at its worst moment: (n_sensors,)."""
        return None if self.relevance is None else np.asarray(self.relevance.max(axis=0))

    @property
    def segment_relevance(self) -> Array | None:
        """Graded truth of each segment, in the sensor that shows it best: (n_segments,)."""
        return None if self.relevance is None else np.asarray(self.relevance.max(axis=1))


def known_causes(
    episodes: Episodes, segment_length: int, faults: Mapping[str, Sequence[Fault]] | None = None
) -> list[KnownCause]:
    """What is known of each episode: by its graded truth where there is one, else by its faults.

    By graded truth a cell is to blame from relevance 1 on, a sensor or segment if one of its cells is, and a point if
    it lies in such a segment of the truth's own. By faults the windows and sensors are to blame that they name; an
    episode with a fault that names no sensor has no known sensors and cells. `faults`, by episode id, replace what
    the episodes know.
    """
    if faults is not None:
        _check_ids(faults, episodes)
        own = tuple(tuple(faults.get(str(name), ())) for name in episodes.ids)
        episodes = replace(episodes, faults=own, truth=None)
    if episodes.truth is None and episodes.faults is None:
        raise DfstransError(
            "expected episodes whose causes are known, got neither faults nor graded truth; read them with a table of "
            f"the faults of each episode ({option_name('faults', ...)}), or use recordings that come with them"
        )
    of_row = _by_faults if episodes.truth is None else _by_truth
    return [of_row(episodes, row, kind, segment_length) for row, kind in enumerate(episodes.fault_kinds())]


def _by_truth(episodes: Episodes, row: int, kind: str, segment_length: int) -> KnownCause:
    truth = episodes.truth
    assert truth is not None  # the caller looked
    length = int(episodes.lengths[row])
    faulty = np.zeros(length, dtype=np.bool_)
    within = np.repeat(truth.affected[row].any(axis=1), truth.segment_length)[:length]
    faulty[: len(within)] = within
    relevance = truth.cells(row, segment_length, count_segments(length, segment_length)).astype(np.float64)
    return KnownCause(
        str(episodes.ids[row]),
        kind,
        episodes.n_sensors,
        *points_per_segment(faulty, segment_length),
        relevance >= 1,
        relevance,
    )


def _by_faults(episodes: Episodes, row: int, kind: str, segment_length: int) -> KnownCause:
    assert episodes.faults is not None  # the caller looked
    name, length, faults = str(episodes.ids[row]), int(episodes.lengths[row]), episodes.faults[row]
    faulty = np.zeros(length, dtype=np.bool_)
    for fault in faults:
        _check_fault(fault, name, length, episodes.sensors)
        faulty[fault.start : fault.stop] = True
    cells = episodes.fault_cells(row, segment_length) if all(fault.sensors for fault in faults) else None
    return KnownCause(name, kind, episodes.n_sensors, *points_per_segment(faulty, segment_length), cells)


def _check_ids(faults: Mapping[str, Sequence[Fault]], episodes: Episodes) -> None:
    unknown = sorted(set(faults) - set(episodes.ids.tolist()))
    if unknown:
        raise DfstransError(
            f"expected faults of the {len(episodes)} episodes that are there, such as {str(episodes.ids[0])!r}, got "
            f"faults of unknown episodes: {', '.join(unknown)}; mend the ids, or leave these faults out"
        )


def _check_fault(fault: Fault, name: str, length: int, sensors: tuple[str, ...]) -> None:
    unknown = [sensor for sensor in fault.sensors if sensor not in sensors]
    if unknown:
        raise DfstransError(
            f"expected faults in the sensors {', '.join(sensors)}, got unknown sensors in episode {name!r}: "
            f"{', '.join(unknown)}; mend their names, or keep these sensors"
        )
    if not 0 <= fault.start < min(fault.stop, length):
        raise DfstransError(
            f"expected a fault within the {length} points of episode {name!r}, got one from {fault.start} to "
            f"{fault.stop}; mend its start and stop, which are counted in points from the beginning of the episode"
        )

"""When the cause of a fault acts, and which sensors show it then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Fault
from dfstrans.elevator.faults import Bump, ElevatorFault
from dfstrans.elevator.motion import SAMPLING_RATE, Schedule
from dfstrans.elevator.plant import SHOE_DISTANCE
from dfstrans.elevator.truth import SAMPLES_PER_SEGMENT

Window = tuple[int, int]  # from which sample of the 400 Hz to which, without the last


def sensor_fault_begin(fault: ElevatorFault, times: Schedule) -> int:
    """The sample from which a sensor errs; a wrong gain is there from the beginning."""
    if fault.kind == "sensor-gain":
        return 0
    return round((times.go + fault.from_share * (times.end - times.go)) * SAMPLING_RATE)


def cause_windows(fault: ElevatorFault, times: Schedule, height: npt.NDArray[np.float64]) -> list[Window]:
    """When the cause acts, in samples; `height` is that of the cabin, at each.

    Bumps act while a shoe meets them or rests on them, a faulty sensor from its beginning to the end of the recording,
    all else as long as the drive is on.
    """
    if fault.sensor:
        return [(sensor_fault_begin(fault, times), len(height))]
    if fault.bumps:
        return sorted(window for bump in fault.bumps for window in _contacts(bump, height))
    return [(round(times.on * SAMPLING_RATE), round(times.off * SAMPLING_RATE))]


def _contacts(bump: Bump, height: npt.NDArray[np.float64]) -> list[Window]:
    """When the lower and when the upper shoe meets a bump, as far as they do."""
    found = []
    for shoe in (0.0, SHOE_DISTANCE):
        near = np.flatnonzero(np.abs(height + shoe - bump.centre) < bump.length / 2)
        if len(near):
            found.append((int(near[0]), int(near[-1]) + 1))
    return found


def known_faults(
    fault: ElevatorFault,
    windows: Sequence[Window],
    relevance: npt.NDArray[np.float16],
    sensors: Sequence[str],
    samples_per_timepoint: int,
) -> tuple[Fault, ...]:
    """The windows in points of the recording; a faulty sensor alone is named, else those that show the fault then.

    These are the sensors with r ≥ 1 in a segment of the window, the clearest first.

    Shape:
        relevance (n_segments, n_sensors)
    """
    found = []
    for start, stop in windows:
        clearest = relevance[start // SAMPLES_PER_SEGMENT : -(-stop // SAMPLES_PER_SEGMENT)].max(axis=0)
        order = [int(column) for column in np.argsort(-clearest, kind="stable") if clearest[column] >= 1]
        found.append(
            Fault(
                start // samples_per_timepoint,
                -(-stop // samples_per_timepoint),
                (fault.sensor,) if fault.sensor else tuple(sensors[column] for column in order),
                fault.kind,
                round(fault.severity, 4),
            )
        )
    return tuple(found)

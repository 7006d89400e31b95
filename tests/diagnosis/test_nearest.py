"""The normal recording most like another one."""

from __future__ import annotations

import numpy as np

from dfstrans import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.recordings import NormalRecordings


def recordings() -> Episodes:
    """Three sensors; work of kind 0, 1, 2, …, where the last is anomalous work of kind 1 with a fault in sensor 2."""
    values = np.zeros((4, 3, 8), dtype=np.float32)
    for row, kind in enumerate((0, 1, 2, 1)):
        values[row] = kind
    values[3, 2] = 50
    return Episodes.from_arrays(values, [0, 0, 0, 1], ids=["a", "b", "c", "faulty"])


def test_the_same_work_is_found_in_spite_of_the_fault() -> None:
    episodes = recordings()
    normal = NormalRecordings.of(episodes, SensorScaler.fit(episodes), segment_length=4)
    (faulty,) = episodes[3]
    nearest = normal.nearest(faulty)
    assert nearest is not None
    assert nearest.id == "b"


def test_a_normal_recording_is_not_its_own_neighbour() -> None:
    episodes = recordings()
    normal = NormalRecordings.of(episodes, SensorScaler.fit(episodes), segment_length=4)
    (own,) = episodes[0]
    nearest = normal.nearest(own)
    assert nearest is not None
    assert nearest.id == "b"


def test_without_labels_or_of_another_length_there_is_none() -> None:
    episodes = recordings()
    scaler = SensorScaler.fit(episodes)
    (faulty,) = episodes[3]
    unlabelled = Episodes.from_arrays(episodes.values)
    assert NormalRecordings.of(unlabelled, scaler, 4).nearest(faulty) is None
    longer = faulty._replace(values=np.tile(faulty.values, 2))
    assert NormalRecordings.of(episodes, scaler, 4).nearest(longer) is None

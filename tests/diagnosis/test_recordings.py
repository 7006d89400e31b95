from __future__ import annotations

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.diagnosis.recordings import NormalRecordings


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    """Three sensors; work of kind 0, 1 and 2, and anomalous work of kind 1 with a fault in sensor 2."""
    values = np.zeros((4, 3, 8), dtype=np.float32)
    values += np.array([0, 1, 2, 1])[:, None, None]
    values[3, 2] = 50
    return Episodes.from_arrays(values, [0, 0, 0, 1], ids=["a", "b", "c", "faulty"])


def nearest(episodes: Episodes, row: int, repeats: int = 1, labelled: bool = True) -> str:
    given = episodes if labelled else Episodes.from_arrays(episodes.values)
    normal = NormalRecordings.of(given, SensorScaler.fit(episodes), segment_length=4)
    (own,) = episodes[row]
    found, why = normal.nearest(own._replace(values=np.tile(own.values, repeats)))
    return why if found is None else found.id


def test_nearest_recording_ignores_the_fault_and_excludes_itself(episodes: Episodes) -> None:
    assert nearest(episodes, 3) == "b"
    assert nearest(episodes, 0) == "b"


def test_no_nearest_recording_without_labels_or_same_length(episodes: Episodes) -> None:
    assert nearest(episodes, 3, labelled=False) == "none of these recordings is labelled normal"
    assert nearest(episodes, 3, repeats=2) == "no other normal recording is as long as this one"

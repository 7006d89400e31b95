from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import savemat

from dfstrans import load_episodes
from dfstrans.errors import DfstransError

VALUES = np.arange(24, dtype=np.float32).reshape(2, 4, 3)  # episode, time, sensor


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    path = tmp_path / "raw.h5"
    with h5py.File(path, "w") as file:
        file["run/signals"] = VALUES
        file["run/state"] = np.array([b"ok", b"worn"])
        file["long"] = VALUES.reshape(8, 3)
        file["flags"] = np.array([0, 0, 1, 1, 0, 0, 0, 0])
    return path


def test_unknown_layout_lists_the_datasets_with_shapes(unknown: Path) -> None:
    for options in ({}, {"dataset": "signal"}):
        with pytest.raises(DfstransError, match=r"run/signals \(2, 4, 3\), run/state \(2,\)") as raised:
            load_episodes(unknown, **options)
        assert "dataset='flags'" in str(raised.value)


def test_dataset_is_read_with_its_axes_and_labels(unknown: Path) -> None:
    options = {"dataset": "run/signals", "axis": "episode,time,sensor", "label_dataset": "run/state"}
    episodes = load_episodes(unknown, **options, normal_value="ok")
    assert_array_equal(episodes.values, VALUES.transpose(0, 2, 1))
    assert episodes.require_labels().tolist() == [0, 1]
    assert [[fault.kind for fault in faults] for faults in episodes.faults or ()] == [[], ["worn"]]


def test_labels_of_points_mark_the_pieces_of_one_recording(unknown: Path) -> None:
    episodes = load_episodes(unknown, dataset="long", axis="time", label_dataset="flags", length=2)
    assert episodes.values.shape == (4, 3, 2)
    assert episodes.require_labels().tolist() == [0, 1, 0, 0]


def test_bad_axes_and_labels_name_the_remedy(unknown: Path) -> None:
    for options, words in (
        ({"dataset": "long", "axis": "row"}, r"the 2 axes of shape \(8, 3\) in order, among episode, sensor, time"),
        ({"dataset": "run/state"}, "an array of numbers"),
        ({"dataset": "long", "label_dataset": "run/state", "normal_value": "ok"}, "each of the 8 points .*got 2"),
    ):
        with pytest.raises(DfstransError, match=words):
            load_episodes(unknown, **options)


def test_matlab_files_of_both_versions_are_read(tmp_path: Path) -> None:
    savemat(tmp_path / "old.mat", {"X": VALUES, "y": [0, 1]})
    with h5py.File(tmp_path / "new.mat", "w") as file:
        file["X"], file["y"] = VALUES.T, np.array([[0], [1]])
    for name in ("old.mat", "new.mat"):
        episodes = load_episodes(tmp_path / name, dataset="X", axis="episode,time,sensor", label_dataset="y")
        assert_array_equal(episodes.values, VALUES.transpose(0, 2, 1))
        assert episodes.require_labels().tolist() == [0, 1]
    (tmp_path / "broken.mat").write_bytes(b"something else")
    with pytest.raises(DfstransError, match=r"broken\.mat"):
        load_episodes(tmp_path / "broken.mat", dataset="X")

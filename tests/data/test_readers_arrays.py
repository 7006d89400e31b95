"""Arrays: numpy, HDF5 of the project and of the paper's authors, HDF5 and MATLAB of any layout."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError

VALUES = np.arange(24, dtype=np.float32).reshape(3, 2, 4)


def from_npz(folder: Path, options: dict[str, object] | None = None, **arrays: object) -> Episodes:
    np.savez(folder / "set.npz", **arrays)  # type: ignore[arg-type]
    return load_episodes(folder / "set.npz", **(options or {}))


# ---- numpy ------------------------------------------------------------------------------------------------------


def test_npz_needs_only_usual_names(tmp_path: Path) -> None:
    for values, labels in (("X", "y"), ("values", "labels"), ("data", "label")):
        episodes = from_npz(tmp_path, **{values: VALUES, labels: np.array([0, 1, 1])})
        assert_array_equal(episodes.values, VALUES)
        assert episodes.n_anomalous == 2
    assert from_npz(tmp_path, {"anomalous_value": "bad"}, X=VALUES, y=["ok", "bad", "ok"]).n_anomalous == 1
    with pytest.warns(UserWarning, match=r"set\.npz: x, target; known names are values, labels"):
        assert from_npz(tmp_path, X=np.zeros((4, 2, 9)), x=np.ones(3), target=[0, 1, 0, 1]).labels is None


def test_npy_is_unlabelled(tmp_path: Path) -> None:
    np.save(tmp_path / "set.npy", VALUES)
    episodes = load_episodes(tmp_path / "set.npy", drop_sensors=("sensor_1",))
    assert episodes.labels is None
    assert_array_equal(episodes.values, VALUES[:, 1:])


def test_arrays_that_are_not_episodes_are_refused(tmp_path: Path) -> None:
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros((3, 9)), np.zeros((3, 4))]
    for arrays, words in (
        ({"weights": VALUES}, r"an array called values or X in .*, got weights"),
        ({"X": VALUES[0]}, "expected values of shape"),
        ({"X": VALUES, "y": ["ok", "worn", "ok"]}, "got worn; specify which"),
        ({"X": VALUES, "y": [0.0, np.nan, 1.0]}, r"a label in each row of .*set\.npz, got none in 2"),
        ({"X": VALUES + 1j}, "expected real numbers, got complex ones"),
        ({"X": ragged}, "got Python objects in 'X'; for recordings of different lengths"),
    ):
        with pytest.raises(DfstransError, match=words):
            from_npz(tmp_path, **arrays)
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(DfstransError, match=r"objects\.npy"):
        load_episodes(tmp_path / "objects.npy")


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".h5", ".ts", ".parquet"])
@pytest.mark.parametrize(
    "content", [b"", b"hello, this is something else", b"\x89HDF\r\n\x1a\n123", b"PK\x03\x04", b"\x93NUMPY"]
)
def test_foreign_content_gives_one_clear_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"set{suffix}"
    path.write_bytes(content)
    with pytest.raises(DfstransError, match=rf"set\{suffix}"):
        load_episodes(path)


# ---- the paper authors' HDF5 ------------------------------------------------------------------------------------


@pytest.fixture
def paper_file(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "paper.h5", "w") as file:
        file["dataset"] = np.concatenate([VALUES.reshape(3, 8), [[0], [1], [0]]], axis=1)
    return tmp_path / "paper.h5"


@pytest.mark.parametrize("sizes", [{"n_sensors": 2}, {"n_timepoints": 4}, {"n_sensors": 2, "n_timepoints": 4}])
def test_row_of_the_paper_authors_is_sensors_then_label(paper_file: Path, sizes: dict[str, int]) -> None:
    episodes = load_episodes(paper_file, **sizes)
    assert episodes.is_stored
    assert_array_equal(np.asarray(episodes.values), VALUES)
    assert episodes.require_labels().tolist() == [0, 1, 0]
    assert_array_equal(np.asarray(episodes[[2, 0]].select_sensors(["sensor_2"]).values), VALUES[[2, 0], 1:])


def test_options_that_do_not_fit_the_paper_authors_file_are_refused(paper_file: Path) -> None:
    assert load_episodes(paper_file, n_sensors=2, anomalous_value=0).n_anomalous == 2
    for options, words in (
        ({}, r"= 8 values and a label.*got neither.*possible: 1 × 8, 2 × 4, 4 × 2, 8 × 1"),
        ({"n_sensors": 3}, "got 3 × None"),
        ({"n_sensors": 2, "anomalous_value": "fault"}, r"the anomalous label 'fault' in .*, got 0, 1"),
        ({"n_sensors": 2, "anomalous_value": 7}, r"the anomalous label '7' in .*, got 0, 1"),
    ):
        with pytest.raises(DfstransError, match=words):
            load_episodes(paper_file, **options)


@pytest.mark.parametrize(
    ("name", "words"),
    [("weights", r"dataset in .*other\.h5 .*weights \(3, 2, 4\)"), ("dataset", r"a 2-D data set.*\(3, 2, 4\)")],
)
def test_other_hdf5_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file[name] = VALUES
    with pytest.raises(DfstransError, match=words):
        load_episodes(tmp_path / "other.h5")


def test_folder_of_files_that_are_read_alone_names_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "rig.npz", X=VALUES)
    with pytest.raises(DfstransError, match=r"give the file itself, such as .*rig\.npz"):
        load_episodes(tmp_path)

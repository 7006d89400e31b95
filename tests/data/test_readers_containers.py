"""HDF5 and MATLAB of any layout: one file, and a folder of files."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import savemat

from dfstrans import load_episodes
from dfstrans.data.readers import read_episodes
from dfstrans.errors import DfstransError, Note

BY_TIME = np.arange(24, dtype=np.float32).reshape(2, 4, 3)  # episode, time, sensor


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    path = tmp_path / "raw.h5"
    with h5py.File(path, "w") as file:
        file["run/signals"] = BY_TIME
        file["run/state"] = np.array([b"ok", b"worn"])
        file["long"] = BY_TIME.reshape(8, 3)
        file["flags"] = np.array([0, 0, 1, 1, 0, 0, 0, 0])
    return path


def test_unknown_layout_lists_the_datasets_with_shapes(unknown: Path) -> None:
    for options, suggested in (({}, "dataset='long', axis='time,sensor'"), ({"dataset": "signal"}, "dataset='flags'")):
        with pytest.raises(DfstransError, match=r"run/signals \(2, 4, 3\), run/state \(2,\)") as raised:
            load_episodes(unknown, **options)
        assert suggested in str(raised.value)


def test_check_goes_on_with_the_likely_layout(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "rig.h5", "w") as file:
        file["signals"] = np.zeros((50, 6, 3), dtype=np.float32)
        file["fs"] = 200
        file["condition"] = np.array([b"new", b"new", b"worn", b"new", b"worn", b"new"])
    episodes, problems = read_episodes(tmp_path / "rig.h5")
    assert episodes is not None
    assert (len(episodes), episodes.n_sensors, episodes.interval, episodes.time_unit) == (6, 3, 0.005, "s")
    assert episodes.require_labels().tolist() == [0, 0, 1, 0, 1, 0]
    (problem,) = problems.merged()
    assert problem.message.endswith(
        "perhaps dataset='signals', axis='time,episode,sensor', label_dataset='condition', normal_value='new', "
        "sampling_rate='200'"
    )
    episodes, problems = read_episodes(tmp_path / "rig.h5", axis="time,sensor,episode")
    assert episodes is None  # three episodes, six labels
    assert len(problems.merged()) == 2


def test_dataset_is_read_with_its_axes_and_labels(unknown: Path) -> None:
    options = {"dataset": "run/signals", "axis": "episode,time,sensor", "label_dataset": "run/state"}
    episodes = load_episodes(unknown, **options, normal_value="ok")
    assert_array_equal(episodes.values, BY_TIME.transpose(0, 2, 1))
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
    savemat(tmp_path / "old.mat", {"X": BY_TIME, "y": [0, 1]})
    with h5py.File(tmp_path / "new.mat", "w") as file:
        file["X"], file["y"] = BY_TIME.T, np.array([[0], [1]])
    for name in ("old.mat", "new.mat"):
        episodes = load_episodes(tmp_path / name, dataset="X", axis="episode,time,sensor", label_dataset="y")
        assert_array_equal(episodes.values, BY_TIME.transpose(0, 2, 1))
        assert episodes.require_labels().tolist() == [0, 1]
    (tmp_path / "broken.mat").write_bytes(b"something else")
    with pytest.raises(DfstransError, match=r"broken\.mat"):
        load_episodes(tmp_path / "broken.mat", dataset="X")


# ---- folders of files ---------------------------------------------------------------------------------------------


def write_runs(folder: Path, states: dict[str, str]) -> None:
    """Write HDF5 files of one layout: three points of two sensors, all equal to the number of the file."""
    for n, (name, state) in enumerate(states.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(folder / name, "w") as file:
            file["daq/signals"] = np.full((2, 3), n, dtype=np.float32)
            file["state"], file["fs"] = state, 100


def test_attributes_name_the_sampling_rate_and_the_sensors(tmp_path: Path) -> None:
    for n, rate in enumerate((500, 500, 250)):
        with h5py.File(tmp_path / f"{n}.h5", "w") as file:
            file.attrs["Sampling Rate [Hz]"] = rate
            data = file.create_dataset("daq/acc", data=BY_TIME[0])
            data.attrs["channels"], data.attrs["units"] = ["x", "y", "z"], "g"
    episodes = load_episodes(tmp_path / "0.h5", dataset="daq/acc")
    assert (episodes.sensors, episodes.units) == (("x", "y", "z"), ("g", "g", "g"))
    assert (episodes.interval, episodes.time_unit) == (0.002, "s")
    assert load_episodes(tmp_path / "0.h5", dataset="daq/acc", sampling_rate=10).interval == 0.1
    with pytest.raises(DfstransError, match=r"500 Hz in 0.h5, 250 Hz in 2.h5; resample .*sampling_rate=…"):
        load_episodes(tmp_path, dataset="daq/acc")
    (tmp_path / "2.h5").unlink()
    folder = load_episodes(tmp_path, dataset="daq/acc")
    assert (folder.sensors, folder.units, folder.interval) == (episodes.sensors, episodes.units, 0.002)


def test_measurements_are_no_labels(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["status"] = np.zeros((30, 2, 50)), np.linspace(0, 1, 30)
    _, problems = read_episodes(tmp_path / "a.h5")
    assert "label_dataset" not in problems.merged()[0].message
    with pytest.raises(DfstransError, match=r"expected labels in 'status'.*got 30 different numbers"):
        load_episodes(tmp_path / "a.h5", dataset="x", label_dataset="status")


def test_fields_of_a_matlab_struct_are_datasets(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c"], dtype=object)
    savemat(tmp_path / "one.mat", {"rec": {"fs": 250.0, "signal": BY_TIME[0], "names": names}})
    savemat(tmp_path / "many.mat", {"rec": [{"signal": one, "state": n} for n, one in enumerate(BY_TIME)]})
    one = load_episodes(tmp_path / "one.mat", dataset="rec/signal")
    assert (one.sensors, one.interval) == (("a", "b", "c"), 0.004)
    many = load_episodes(
        tmp_path / "many.mat", dataset="rec/signal", axis="episode,time,sensor", label_dataset="rec/state"
    )
    assert_array_equal(many.values, BY_TIME.transpose(0, 2, 1))
    assert many.require_labels().tolist() == [0, 1]


def test_folder_of_hdf5_files_is_read_as_one_episode_each(tmp_path: Path) -> None:
    write_runs(tmp_path, {"run_1.h5": "new", "run_2.h5": "worn", "run_10.h5": "new"})
    options = {"dataset": "daq/signals", "axis": "sensor,time", "label_dataset": "state", "sampling_rate": 100}
    episodes = load_episodes(tmp_path, **options, label_map="new=0,worn=1")
    assert episodes.ids.tolist() == ["run_1", "run_10", "run_2"]
    assert episodes.values[:, 1, 2].tolist() == [0, 2, 1]
    assert (episodes.sensors, episodes.interval, episodes.time_unit) == (("sensor_1", "sensor_2"), 0.01, "s")
    assert episodes.require_labels().tolist() == [0, 0, 1]
    assert [[fault.kind for fault in faults] for faults in episodes.known_faults] == [[], [], ["worn"]]


def test_class_folders_and_label_tables_name_the_labels_of_files(tmp_path: Path) -> None:
    write_runs(tmp_path / "a", {"bad/1.h5": "", "good/1.h5": ""})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        assert load_episodes(tmp_path / "a", dataset="daq/signals").require_labels().tolist() == [1, 0]
    folder = tmp_path / "b"
    folder.mkdir()
    for name in ("1.mat", "2.mat"):
        savemat(folder / name, {"X": np.zeros((5, 2))})
    (folder / "labels.csv").write_text("file,label\n1.mat,0\n2.mat,1\n")
    assert load_episodes(folder, dataset="X", drop_sensors=["sensor_2"]).require_labels().tolist() == [0, 1]


def test_layout_of_a_folder_is_suggested_once(tmp_path: Path) -> None:
    write_runs(tmp_path, {"run_1.h5": "ok", "run_2.h5": "faulty"})
    episodes, problems = read_episodes(tmp_path)
    assert episodes is not None
    assert episodes.require_labels().tolist() == [0, 1]
    (problem,) = problems.merged()
    suggested = "dataset='daq/signals', axis='sensor,time', label_dataset='state', sampling_rate='100'"
    assert problem.message.endswith(suggested)


def test_files_of_a_folder_with_another_layout_are_reported_and_skipped(tmp_path: Path) -> None:
    write_runs(tmp_path, {"run_1.h5": "ok", "run_2.h5": "faulty"})
    with h5py.File(tmp_path / "several.h5", "w") as file:
        file["daq/signals"] = np.zeros((4, 2, 3))
    savemat(tmp_path / "summary.mat", {"total": [1, 2]})
    with pytest.raises(DfstransError, match=r"got 4 in 'daq/signals' [\s\S]*got 'daq/signals'; the file"):
        load_episodes(tmp_path, dataset="daq/signals")
    with pytest.warns(UserWarning, match="skipped 2 files"):
        assert len(load_episodes(tmp_path, dataset="daq/signals", skip_bad_files=True)) == 2

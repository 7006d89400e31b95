"""Array files: npz, npy, the paper authors' HDF5 and the archive's .ts."""

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


# ---- numpy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("X", "y"), ("values", "labels"), ("data", "label")])
def test_a_plain_npz_needs_only_usual_names(tmp_path: Path, names: tuple[str, str]) -> None:
    np.savez(tmp_path / "set.npz", **{names[0]: VALUES, names[1]: np.array([0, 1, 1])})
    episodes = load_episodes(tmp_path / "set.npz")
    assert_array_equal(episodes.values, VALUES)
    assert episodes.n_anomalous == 2


def test_arrays_of_other_names_are_told_of(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", X=np.zeros((4, 2, 9)), x=np.ones(3), target=[0, 1, 0, 1])
    with pytest.warns(UserWarning, match=r"not read from set\.npz: x, target; what is read is called values, labels"):
        assert load_episodes(tmp_path / "set.npz").labels is None


def test_a_plain_npy_is_unlabelled(tmp_path: Path) -> None:
    np.save(tmp_path / "set.npy", VALUES)
    episodes = load_episodes(tmp_path / "set.npy", drop_sensors=("sensor_1",))
    assert episodes.labels is None
    assert_array_equal(episodes.values, VALUES[:, 1:])


def test_words_as_labels_in_npz_need_the_anomalous_value(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", X=VALUES, y=np.array(["ok", "bad", "ok"]))
    assert load_episodes(tmp_path / "set.npz", anomalous_value="bad").n_anomalous == 1
    with pytest.raises(DfstransError, match="got ok, bad; say which"):
        load_episodes(tmp_path / "set.npz")


def test_arrays_that_are_not_episodes_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", weights=VALUES)
    with pytest.raises(DfstransError, match=r"an array called values or X in .*, got weights"):
        load_episodes(tmp_path / "set.npz")
    np.save(tmp_path / "flat.npy", VALUES[0])
    with pytest.raises(DfstransError, match="expected values of shape"):
        load_episodes(tmp_path / "flat.npy")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(DfstransError, match=r"objects\.npy"):
        load_episodes(tmp_path / "objects.npy")


def test_infinite_values_in_npz_are_refused_unless_read_as_missing(tmp_path: Path) -> None:
    values = VALUES.copy()
    values[2, 1, 0] = np.inf
    np.savez(tmp_path / "set.npz", X=values)
    with pytest.raises(DfstransError, match=r"1 infinite ones in sensors sensor_2, episodes: episode_2;"):
        load_episodes(tmp_path / "set.npz")
    assert np.isnan(np.asarray(load_episodes(tmp_path / "set.npz", infinite_as_missing=True).values)[2, 1, 0])


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".h5", ".ts", ".parquet"])
@pytest.mark.parametrize(
    "content", [b"", b"hello, this is something else", b"\x89HDF\r\n\x1a\n123", b"PK\x03\x04", b"\x93NUMPY"]
)
def test_a_foreign_file_gives_one_clear_error(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"set{suffix}"
    path.write_bytes(content)
    with pytest.raises(DfstransError, match=rf"set\{suffix}"):
        load_episodes(path)


# ---- the paper authors' HDF5 ------------------------------------------------------------------------------------


@pytest.fixture
def paper_file(tmp_path: Path) -> Path:
    rows = np.concatenate([VALUES.reshape(3, 8), [[0], [1], [0]]], axis=1)
    with h5py.File(tmp_path / "paper.h5", "w") as file:
        file["dataset"] = rows
    return tmp_path / "paper.h5"


@pytest.mark.parametrize("sizes", [{"n_sensors": 2}, {"n_timepoints": 4}, {"n_sensors": 2, "n_timepoints": 4}])
def test_a_row_of_the_paper_authors_is_sensors_then_label(paper_file: Path, sizes: dict[str, int]) -> None:
    episodes = load_episodes(paper_file, **sizes)
    assert episodes.is_stored
    assert_array_equal(np.asarray(episodes.values), VALUES)
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1, 0]
    assert_array_equal(np.asarray(episodes[[2, 0]].select_sensors(["sensor_2"]).values), VALUES[[2, 0], 1:])


def test_sizes_that_do_not_fit_name_the_possible_ones(paper_file: Path) -> None:
    with pytest.raises(
        DfstransError, match=r"= 8 values and a label.*got neither.*possible: 1 × 8, 2 × 4, 4 × 2, 8 × 1"
    ):
        load_episodes(paper_file)
    with pytest.raises(DfstransError, match="got 3 × None"):
        load_episodes(paper_file, n_sensors=3)


def test_other_hdf5_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["weights"] = VALUES
    with pytest.raises(DfstransError, match=r"paper authors'.*other\.h5, got weights"):
        load_episodes(tmp_path / "other.h5")
    with h5py.File(tmp_path / "cube.h5", "w") as file:
        file["dataset"] = VALUES
    with pytest.raises(DfstransError, match=r"expected a 2-D data set.*\(3, 2, 4\)"):
        load_episodes(tmp_path / "cube.h5", n_sensors=2)


def test_sensors_and_infinite_values_of_the_paper_authors_can_be_left_out(paper_file: Path) -> None:
    with h5py.File(paper_file, "a") as file:
        file["dataset"][1, 5] = np.inf
    episodes = load_episodes(paper_file, n_sensors=2, infinite_as_missing=True)
    assert episodes.is_stored
    assert np.isnan(episodes.values[1][1, 1])
    assert np.isfinite(np.asarray(episodes.values)).sum() == VALUES.size - 1
    assert load_episodes(paper_file, n_sensors=2, drop_sensors=("sensor_2",)).sensors == ("sensor_1",)


def test_the_anomalous_value_of_the_paper_authors_is_a_number_that_occurs(paper_file: Path) -> None:
    assert load_episodes(paper_file, n_sensors=2, anomalous_value=0).n_anomalous == 2
    with pytest.raises(DfstransError, match=r"expected a number as anomalous_value.*\(0, 1\), got 'fault'"):
        load_episodes(paper_file, n_sensors=2, anomalous_value="fault")
    with pytest.raises(DfstransError, match=r"expected the anomalous label '7' in .*, got 0, 1"):
        load_episodes(paper_file, n_sensors=2, anomalous_value=7)


# ---- the UEA & UCR archive --------------------------------------------------------------------------------------

HEADER = "#comment\n@problemName demo\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n"


def ts(folder: Path, cases: str, header: str = HEADER + "@classLabel true bad good\n") -> Path:
    path = folder / "demo.ts"
    path.write_text(header + "@data\n" + cases)
    return path


def test_ts_cases_have_dimensions_missing_values_and_lengths_of_their_own(tmp_path: Path) -> None:
    path = ts(tmp_path, "1,2,3:4,?,6:good\n7,8:9,10:bad\n")
    episodes = load_episodes(path, anomalous_value="bad")
    assert episodes.sensors == ("dimension_1", "dimension_2")
    assert episodes.lengths.tolist() == [3, 2]
    assert_array_equal(episodes.values, [[[1, 2, 3], [4, np.nan, 6]], [[7, 8, np.nan], [9, 10, np.nan]]])
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1]
    with pytest.raises(DfstransError, match="got good, bad; say which"):
        load_episodes(path)


def test_ts_without_classes_is_unlabelled_and_0_1_need_no_help(tmp_path: Path) -> None:
    assert load_episodes(ts(tmp_path, "1,2:3,4\n", HEADER + "@classLabel false\n")).labels is None
    assert load_episodes(ts(tmp_path, "1,2:3,4:1\n1,2:3,5:0\n", HEADER + "@classLabel true 0 1\n")).n_anomalous == 1


def test_sensors_and_infinite_values_of_ts_can_be_left_out(tmp_path: Path) -> None:
    path = ts(tmp_path, "1,2:inf,4\n", HEADER + "@classLabel false\n")
    with pytest.raises(DfstransError, match="1 infinite ones in sensors dimension_2"):
        load_episodes(path)
    assert np.isnan(np.asarray(load_episodes(path, infinite_as_missing=True).values)[0, 1, 0])
    assert load_episodes(path, drop_sensors=("dimension_2",)).sensors == ("dimension_1",)


@pytest.mark.parametrize(
    ("cases", "header", "words"),
    [
        ("1,2:3,4:good\n", "@timeStamps true\n@classLabel true bad good\n", "without timestamps"),
        ("1,2:3,4:0.5\n", "@targetLabel true\n", "regression"),
        ("", HEADER, "cases below @data"),
        ("1,2:good\n", HEADER + "@classLabel true bad good\n", "expected 2 dimensions in line 9"),
        ("1,2:3,4:go\n", HEADER + "@classLabel true bad good\n", "got go: a line ends early"),
        ("1,2:3,x:good\n", HEADER + "@classLabel true bad good\n", "numbers or [?] in line 9"),
        ("1,2:3:good\n", HEADER + "@classLabel true bad good\n", "equally many points"),
        (
            "1,2:3,4:good\n",
            HEADER + "@equalLength true\n@seriesLength 3\n@classLabel true bad good\n",
            "expected 3 points",
        ),
    ],
)
def test_ts_that_is_damaged_or_of_another_kind_is_refused(tmp_path: Path, cases: str, header: str, words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        load_episodes(ts(tmp_path, cases, header))


def test_ts_that_ends_before_its_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo.ts").write_text(HEADER)
    with pytest.raises(DfstransError, match=r"a line @data in .*ends early"):
        load_episodes(tmp_path / "demo.ts")


def test_arrays_of_python_objects_are_told_from_damage(tmp_path: Path) -> None:
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros((3, 9)), np.zeros((3, 4))]
    np.savez(tmp_path / "ragged.npz", X=ragged)
    with pytest.raises(DfstransError, match="got Python objects in 'X'; for recordings of different lengths fill"):
        load_episodes(tmp_path / "ragged.npz")


def test_complex_values_and_a_column_per_class_are_refused(tmp_path: Path) -> None:
    values = np.zeros((2, 1, 9))
    np.savez(tmp_path / "complex.npz", X=values + 1j)
    with pytest.raises(DfstransError, match="expected real numbers, got complex ones"):
        load_episodes(tmp_path / "complex.npz")
    with pytest.raises(DfstransError, match="expected 2 labels, got an array of 2 axes; give one for each"):
        Episodes.from_arrays(values, np.eye(2))

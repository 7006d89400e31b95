"""Folders with one file per episode, read options, and paths that no reader recognises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import READERS, Reader, ReadOptions, load_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import PLAIN, from_text, write


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = write(tmp_path / "runs", r1="time,a,b|0,1,10|1,2,20", labels="file,label,machine|r2.tsv,1,m2|r1.csv,0,m1")
    (folder / "r2.tsv").write_text("time\tb\ta\n5\t30\t3\n6\t40\t4\n7\t50\t5\n")
    return folder


def test_sensors_are_matched_by_name(runs: Path) -> None:
    episodes = load_episodes(runs)
    assert (episodes.ids.tolist(), episodes.sensors, episodes.interval) == (["r1", "r2"], ("a", "b"), 1.0)
    assert episodes.require_labels().tolist() == [0, 1]
    assert episodes.require_groups().tolist() == ["m1", "m2"]
    assert_array_equal(episodes.values, [[[1, 2, np.nan], [10, 20, np.nan]], [[3, 4, 5], [30, 40, 50]]])


def test_folder_without_label_table_is_unlabelled_and_may_mix_formats(runs: Path) -> None:
    (runs / "labels.csv").unlink()
    pd.DataFrame({"time": [0, 1], "a": [6, 7], "b": [60, 70]}).to_parquet(runs / "r3.parquet")
    (runs / "~$run.csv").write_bytes(b"\0lock file of a spreadsheet")
    (runs / "README.txt").write_text("About these data.\n")
    episodes = load_episodes(runs)
    assert (episodes.ids.tolist(), episodes.labels) == (["r1", "r2", "r3"], None)
    write(runs, r1="episode_id,time,a,b|x,0,1,10|x,1,2,20")  # a single id says no more than the file name
    assert load_episodes(runs).ids.tolist() == ["r1", "r2", "r3"]


def test_named_columns_of_the_label_table_take_precedence_over_file_columns(tmp_path: Path) -> None:
    recording = "time,run,machine,label|0,5,m1,warm|1,6,m1,cold"
    write(tmp_path, labels="Takt,befund,Linie|r1,OK,west|r2,NOK,east", r1=recording, r2=recording)
    named = {"id_column": "takt", "label_column": "befund", "group_column": "linie", "anomalous_value": "NOK"}
    episodes = load_episodes(tmp_path, **named)
    assert (episodes.sensors, episodes.require_labels().tolist()) == (("run",), [0, 1])
    assert episodes.require_groups().tolist() == ["west", "east"]


def test_labels_of_points_become_faults(tmp_path: Path) -> None:
    write(tmp_path, r1="time,a,label|0,1,0|1,2,1", r2="time,a,label|0,1,0|1,2,0")
    episodes = load_episodes(tmp_path)
    assert (episodes.faults, episodes.n_anomalous) == (((Fault(1, 2),), ()), 1)
    assert load_episodes(tmp_path, length=1).n_anomalous == 1


def test_anomalous_value_need_not_occur_in_each_file(tmp_path: Path) -> None:
    write(tmp_path, r1="time,a,label|0,1,idle|1,2,run", r2="time,a,label|0,1,run|1,2,fault")
    assert load_episodes(tmp_path, anomalous_value="fault").require_labels().tolist() == [0, 1]
    with pytest.raises(DfstransError, match=r"anomalous label 'bad' in .*, got fault, idle, run"):
        load_episodes(tmp_path, anomalous_value="bad")


@pytest.mark.parametrize(("header", "unit"), [("time [ms]", "ms"), ("time", "no unit")])
def test_time_in_different_units_is_refused(tmp_path: Path, header: str, unit: str) -> None:
    write(tmp_path, a="time [s],v|0,1|1,2", b=f"{header},v|0,1|1,2")
    with pytest.raises(DfstransError, match=rf"got s in a\.csv and {unit} in b\.csv; convert"):
        load_episodes(tmp_path)
    assert load_episodes(tmp_path, drop_sensors=("time",)).interval is None
    assert load_episodes(write(tmp_path, b="time_s,v|0,1|1,2")).time_unit == "s"


def test_sensor_in_different_units_is_refused(tmp_path: Path) -> None:
    write(tmp_path, r1="time,heat [K],load|0,1,2|1,2,3", r2="time,load [N],heat [K]|0,1,2|1,2,3")
    with pytest.warns(UserWarning, match=r"load has a unit in r2\.csv and none in r1\.csv"):
        assert load_episodes(tmp_path).units == ("K", "")
    write(tmp_path, r2="time,load,heat [K]|0,1,2|1,2,3", r3="time,heat [degC],load|0,1,2|1,2,3")
    with pytest.raises(DfstransError, match=r"got heat in K in r1.csv and in degC in r3.csv; convert"):
        load_episodes(tmp_path)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"r3": "time,a,c|0,1,2"}, r"sensors of r1\.csv in .*r3\.csv, got no b and also c"),
        ({"r3": "a,b|1,2"}, "a time column in all files or in none"),
        ({"labels": "id,label|r1,0|r9,1"}, "got no file for r9 and no label for r2"),
        ({"labels": "who,what,why|r1,0,1"}, "expected the columns id and label"),
        ({"r1": "episode_id,time,a,b|x,0,1,2|y,0,2,3"}, r"one episode in .*r1\.csv, got 2 ids in its column"),
    ],
)
def test_inconsistent_files_are_refused(runs: Path, files: dict[str, str], words: str) -> None:
    labels = {"labels": "id,label|r1,0|r2,0|r3,0"} if "r3" in files else {}
    with pytest.raises(DfstransError, match=words):
        load_episodes(write(runs, **labels, **files))


def test_column_of_some_files_can_be_dropped(runs: Path) -> None:
    (runs / "r2.tsv").write_text("time\tb\ta\tnote\n5\t30\t3\thello\n")
    assert load_episodes(runs, drop_sensors=("note",)).sensors == ("a", "b")
    with pytest.raises(DfstransError, match=r"a column 'nope' in .*runs \(drop_sensors\)"):
        load_episodes(runs, drop_sensors=("note", "nope"))


def test_arrays_have_a_row_per_point(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "y.npy", np.arange(6).reshape(2, 3))
    episodes = load_episodes(write(tmp_path, labels="id,label|x,0|y,1"), drop_sensors=("sensor_1", "sensor_3"))
    assert (episodes.lengths.tolist(), episodes.sensors) == ([3, 2], ("sensor_2",))
    assert_array_equal(episodes.values[:, 0], [[1, 3, 5], [1, 4, np.nan]])
    np.save(tmp_path / "y.npy", np.arange(4))
    with pytest.raises(DfstransError, match=r"y\.npy, got shape \(4,\)"):
        load_episodes(tmp_path)
    (tmp_path / "y.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    with pytest.raises(DfstransError, match=r"y\.npy, but the file ends early"):
        load_episodes(tmp_path)


# ---- fault tables in a folder -----------------------------------------------------------------------------------


def test_fault_table_of_a_folder_is_not_an_episode(tmp_path: Path) -> None:
    recording = "a,b|1,10|2,20|3,30"
    write(tmp_path, r1=recording, r2=recording, faults="file,fault,sensors,start,end|r2.csv,bump,a,1,2")
    episodes = load_episodes(tmp_path)
    assert (episodes.ids.tolist(), episodes.faults) == (["r1", "r2"], ((), (Fault(1, 2, ("a",), "bump"),)))


def test_recording_called_faults_is_an_episode(tmp_path: Path) -> None:
    write(tmp_path, normal="time,a|0,1|1,2", faults="time,a|0,3|1,4", labels="id,label|normal,0|faults,1")
    episodes = load_episodes(tmp_path)
    assert (episodes.ids.tolist(), episodes.faults) == (["faults", "normal"], None)
    write(tmp_path, known="id,fault|faults,rust")
    assert load_episodes(tmp_path, faults=tmp_path / "known.csv").faults == ((Fault(0, 2, (), "rust"),), ())


def test_empty_fault_table_of_a_folder_is_ignored_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path, r1="time,a|0,1|1,2", faults="episode_id,fault")
    with pytest.warns(UserWarning, match=r"ignored .*faults\.csv: expected rows below the header"):
        assert load_episodes(tmp_path).ids.tolist() == ["r1"]
    (tmp_path / "r1.csv").unlink()
    with pytest.raises(DfstransError, match="got only label or fault tables"):
        load_episodes(tmp_path)


# ---- options and paths ------------------------------------------------------------------------------------------


def test_options_object_can_be_overridden(runs: Path) -> None:
    options = ReadOptions(drop_sensors=("b",), length=2)
    with pytest.warns(UserWarning, match="1 point at the end of 1 of 2 recordings"):
        assert load_episodes(runs, options).sensors == ("a",)
    with pytest.warns(UserWarning, match="all pieces of 1 anomalous recording count as anomalous: r2"):
        assert len(load_episodes(runs, options, length=1)) == 5
    assert all(field.description for field in ReadOptions.model_fields.values())


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    for options, words in (
        ({"spacecraft": "SMAP"}, "also got spacecraft; drop them"),
        ({"lenght": 5}, "unknown setting 'lenght'"),
    ):
        with pytest.raises(DfstransError, match=words):
            from_text(tmp_path, PLAIN, **options)


def test_unknown_formats_are_refused_with_the_list_of_readers(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "classes" / "normal").mkdir(parents=True)
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    (tmp_path / "runs.zip").write_bytes(b"PK\3\4")
    for name, words in (
        ("no.csv", "got nothing there; check the path"),
        ("empty", r"an empty folder; convert them to one of:\n.*telemanom"),
        ("classes", "got a folder of folders; choose one of them"),
        ("book.xlsx", "got a spreadsheet .*; save its sheet as CSV, or convert"),
        ("runs.zip", "got an archive .*; unpack it first"),
    ):
        with pytest.raises(DfstransError, match=words):
            load_episodes(tmp_path / name)


def test_file_without_permission_is_refused(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DfstransError, match=r"permission to read .*r1\.csv"):
        load_episodes(runs / "r1.csv", labels=runs / "labels.csv")


def test_new_format_needs_one_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, options: ReadOptions) -> Episodes:
        return Episodes.from_arrays(np.full((1, 1, 4), float(path.read_text())))

    mine = Reader("a file of my logger (.mine)", frozenset(), lambda path: path.suffix == ".mine", read)
    monkeypatch.setattr("dfstrans.data.readers.READERS", (*READERS, mine))
    assert_array_equal(from_text(tmp_path, "7", "runs.mine").values, [[[7, 7, 7, 7]]])

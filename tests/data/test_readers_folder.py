"""A folder with one file per episode, and what no reader takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Fault
from dfstrans.data.readers import ReadOptions, load_episodes
from dfstrans.errors import DfstransError


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "r1.csv").write_text("time,a,b\n0,1,10\n1,2,20\n")
    (folder / "r2.tsv").write_text("time\tb\ta\n5\t30\t3\n6\t40\t4\n7\t50\t5\n")
    (folder / "labels.csv").write_text("file,label,machine\nr2.tsv,1,m2\nr1.csv,0,m1\n")
    return folder


def test_sensors_are_matched_by_name_whatever_their_order(runs: Path) -> None:
    episodes = load_episodes(runs)
    assert episodes.ids.tolist() == ["r1", "r2"]
    assert episodes.sensors == ("a", "b")
    assert episodes.interval == 1.0
    assert episodes.labels is not None
    assert episodes.groups is not None
    assert episodes.labels.tolist() == [0, 1]
    assert episodes.groups.tolist() == ["m1", "m2"]
    assert_array_equal(episodes.values, [[[1, 2, np.nan], [10, 20, np.nan]], [[3, 4, 5], [30, 40, 50]]])


def test_columns_that_are_named_may_be_those_of_the_label_table(runs: Path) -> None:
    (runs / "labels.csv").write_text("Takt,befund,Bediener\nr1,OK,x\nr2,NOK,y\n")
    episodes = load_episodes(runs, id_column="Takt", label_column="befund", anomalous_value="NOK")
    assert episodes.require_labels().tolist() == [0, 1]
    assert episodes.sensors == ("a", "b")


def test_no_column_of_the_files_takes_the_place_of_one_that_the_label_table_tells(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("Takt,befund,Linie\nr1,OK,west\nr2,NOK,east\n")
    for name in ("r1", "r2"):
        (tmp_path / f"{name}.csv").write_text("time,run,machine,label\n0,5,m1,warm\n1,6,m1,cold\n")
    named = {"id_column": "takt", "label_column": "befund", "group_column": "linie", "anomalous_value": "NOK"}
    episodes = load_episodes(tmp_path, **named)
    assert episodes.sensors == ("run",)
    assert episodes.require_labels().tolist() == [0, 1]
    assert episodes.require_groups().tolist() == ["west", "east"]


def test_a_folder_without_label_table_is_unlabelled(runs: Path) -> None:
    (runs / "labels.csv").unlink()
    assert load_episodes(runs).labels is None


def test_labels_of_points_within_the_files_become_faults(tmp_path: Path) -> None:
    (tmp_path / "r1.csv").write_text("time,a,label\n0,1,0\n1,2,1\n")
    (tmp_path / "r2.csv").write_text("time,a,label\n0,1,0\n1,2,0\n")
    episodes = load_episodes(tmp_path)
    assert episodes.faults == ((Fault(1, 2),), ())
    assert episodes.n_anomalous == 1
    assert load_episodes(tmp_path, length=1).n_anomalous == 1


@pytest.mark.parametrize(("header", "unit"), [("time [ms]", "ms"), ("time", "no unit")])
def test_files_whose_time_has_another_unit_are_refused(tmp_path: Path, header: str, unit: str) -> None:
    (tmp_path / "a.csv").write_text("time [s],v\n0,1\n1,2\n")
    (tmp_path / "b.csv").write_text(f"{header},v\n0,1\n1,2\n")
    with pytest.raises(DfstransError, match=rf"got s in a\.csv and {unit} in b\.csv; convert it to one unit"):
        load_episodes(tmp_path)
    assert load_episodes(tmp_path, drop_sensors=("time",)).interval is None
    (tmp_path / "b.csv").write_text("time_s,v\n0,1\n1,2\n")
    assert load_episodes(tmp_path).time_unit == "s"


def test_files_whose_sensors_have_another_unit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r1.csv").write_text("time,heat [K],load\n0,1,2\n1,2,3\n")
    (tmp_path / "r2.csv").write_text("time,load [N],heat [K]\n0,1,2\n1,2,3\n")
    with pytest.warns(UserWarning, match=r"load has a unit in r2\.csv and none in r1\.csv; .* write the unit in all"):
        assert load_episodes(tmp_path).units == ("K", "")
    (tmp_path / "r3.csv").write_text("time,heat [degC],load\n0,1,2\n1,2,3\n")
    with pytest.raises(DfstransError, match=r"got heat in K in r1.csv and in degC in r3.csv; convert it to one unit"):
        load_episodes(tmp_path)


def test_files_of_other_kinds_are_read_too(runs: Path) -> None:
    (runs / "labels.csv").unlink()
    pd.DataFrame({"time": [0, 1], "a": [6, 7], "b": [60, 70]}).to_parquet(runs / "r3.parquet")
    assert load_episodes(runs).ids.tolist() == ["r1", "r2", "r3"]


def test_arrays_have_a_row_per_point(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "y.npy", np.arange(4).reshape(2, 2))
    (tmp_path / "labels.csv").write_text("id,label\nx,0\ny,1\n")
    episodes = load_episodes(tmp_path)
    assert episodes.lengths.tolist() == [3, 2]
    assert_array_equal(np.asarray(episodes.values)[0], [[0, 2, 4], [1, 3, 5]])
    np.save(tmp_path / "y.npy", np.arange(4))
    with pytest.raises(DfstransError, match=r"y\.npy, got shape \(4,\)"):
        load_episodes(tmp_path)
    (tmp_path / "y.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    with pytest.raises(DfstransError, match=r"y\.npy, but the file ends early"):
        load_episodes(tmp_path)


def test_a_file_that_lacks_a_sensor_is_named(runs: Path) -> None:
    (runs / "r2.tsv").write_text("time\ta\tc\n0\t1\t2\n")
    with pytest.raises(DfstransError, match=r"sensors of r1\.csv in .*r2\.tsv, got none called b and also c"):
        load_episodes(runs)
    (runs / "r2.tsv").write_text("a\tb\n1\t2\n")
    with pytest.raises(DfstransError, match=r"a time column in all files or in none"):
        load_episodes(runs)


def test_files_and_label_rows_must_match(runs: Path) -> None:
    (runs / "labels.csv").write_text("id,label\nr1,0\nr9,1\n")
    with pytest.raises(DfstransError, match="got no file for r9 and no label for r2"):
        load_episodes(runs)
    (runs / "labels.csv").write_text("who,what,why\nr1,0,1\n")
    with pytest.raises(DfstransError, match="expected the columns id and label"):
        load_episodes(runs)


def test_a_long_table_in_a_folder_is_not_taken_for_one_episode(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("About these data.\n")
    (tmp_path / "all.csv").write_text("episode_id,time,a\nx,0,1\ny,0,2\n")
    with pytest.raises(DfstransError, match=r"one episode in .*all\.csv, got 2 ids in its column 'episode_id'"):
        load_episodes(tmp_path)
    (tmp_path / "all.csv").write_text("episode_id,time,a\nx,0,1\nx,1,2\n")
    assert load_episodes(tmp_path).ids.tolist() == ["all"]


def test_options_may_come_as_an_object_and_be_overridden(runs: Path) -> None:
    options = ReadOptions(drop_sensors=("b",), length=2)
    with pytest.warns(UserWarning, match="1 point at the end of 1 of 2 recordings"):
        assert load_episodes(runs, options).sensors == ("a",)
    with pytest.warns(UserWarning, match=r"all pieces of 1 anomalous recording count as anomalous: r2; .* faults"):
        assert len(load_episodes(runs, options, length=1)) == 5
    assert all(field.description for field in ReadOptions.model_fields.values())


def test_a_path_without_episodes_is_refused_with_the_list_of_formats(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="got nothing there; check the path"):
        load_episodes(tmp_path / "no.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DfstransError, match=r"an empty folder; convert them to one of:\n.*telemanom"):
        load_episodes(tmp_path / "empty")
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    with pytest.raises(DfstransError, match=r"got a spreadsheet .*; save its sheet as CSV, or convert them"):
        load_episodes(tmp_path / "book.xlsx")
    (tmp_path / "classes" / "normal").mkdir(parents=True)
    with pytest.raises(
        DfstransError, match="got a folder of folders; give one of these, or put the recordings into one"
    ):
        load_episodes(tmp_path / "classes")


def test_lock_files_of_spreadsheets_are_no_recordings(runs: Path) -> None:
    before = load_episodes(runs).ids.tolist()
    (runs / "~$run.csv").write_bytes(b"\0owner")
    assert load_episodes(runs).ids.tolist() == before


def test_a_file_that_may_not_be_read_is_refused(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DfstransError, match=r"allowed to read .*r1\.csv.*change its permissions"):
        load_episodes(runs / "r1.csv", labels=runs / "labels.csv")


def test_the_anomalous_value_need_not_occur_in_each_file(tmp_path: Path) -> None:
    (tmp_path / "r1.csv").write_text("time,a,label\n0,1,idle\n1,2,run\n")
    (tmp_path / "r2.csv").write_text("time,a,label\n0,1,run\n1,2,fault\n")
    episodes = load_episodes(tmp_path, anomalous_value="fault")
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1]
    with pytest.raises(DfstransError, match=r"anomalous label 'bad' in .*, got fault, idle, run"):
        load_episodes(tmp_path, anomalous_value="bad")


def test_a_column_of_some_files_can_be_dropped(runs: Path) -> None:
    (runs / "r2.tsv").write_text("time\tb\ta\tnote\n5\t30\t3\thello\n")
    assert load_episodes(runs, drop_sensors=("note",)).sensors == ("a", "b")
    with pytest.raises(DfstransError, match=r"a column 'nope' in .*runs \(drop_sensors\)"):
        load_episodes(runs, drop_sensors=("note", "nope"))


def test_sensors_of_arrays_can_be_dropped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "y.npy", np.arange(9).reshape(3, 3))
    episodes = load_episodes(tmp_path, drop_sensors=("sensor_1", "sensor_3"))
    assert episodes.sensors == ("sensor_2",)
    assert_array_equal(np.asarray(episodes.values)[:, 0], [[1, 3, 5], [1, 4, 7]])

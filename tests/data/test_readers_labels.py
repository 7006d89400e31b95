"""Labels and groups of long tables, within them and in a table beside."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans.data.episodes import Fault
from dfstrans.errors import DfstransError
from tests.data.text_tables import PLAIN, from_text


def test_labels_of_points_make_an_episode_anomalous_and_are_kept_as_faults(tmp_path: Path) -> None:
    points = [("x", t, t in (1, 2, 5)) for t in range(6)] + [("y", t, False) for t in range(3)]
    points += [("z", t, True) for t in (0, 1)]
    text = "id,time,a,label\n" + "".join(f"{name},{t},0.5,{int(flag)}\n" for name, t, flag in points)
    episodes = from_text(tmp_path, text)
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [1, 0, 1]
    assert episodes.faults == ((Fault(1, 3), Fault(5, 6)), (), ())  # 1 throughout tells no place


def test_a_label_column_without_entries_means_no_labels_but_some_missing_are_refused(tmp_path: Path) -> None:
    header = "id,time,a,label\n"
    assert from_text(tmp_path, header + "x,0,1,\ny,0,1,\n").labels is None
    with pytest.raises(DfstransError, match="got none for y;"):
        from_text(tmp_path, header + "x,0,1,1\ny,0,1,\n")


def test_words_as_labels_need_to_be_told_which_one_is_anomalous(tmp_path: Path) -> None:
    text = "id,time,a,label\nx,0,1,ok\ny,0,1,worn\nz,0,1,broken\n"
    with pytest.raises(DfstransError, match=r"got ok, worn, broken; say which"):
        from_text(tmp_path, text)
    episodes = from_text(tmp_path, text, anomalous_value="worn")
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1, 0]
    with pytest.raises(DfstransError, match="expected the anomalous label 'bad'"):
        from_text(tmp_path, text, anomalous_value="bad")
    numbers = from_text(tmp_path, "id,time,a,label\nx,0,1,1\ny,0,1,2.0\n", anomalous_value=2)
    assert numbers.labels is not None
    assert numbers.labels.tolist() == [0, 1]


def test_labels_and_groups_may_come_from_a_table_of_their_own(tmp_path: Path) -> None:
    text = "id,time,a\nx,0,1\ny,0,2\n"
    (tmp_path / "runs_labels.csv").write_text("id,label,machine\ny,1,m2\nx,0,m1\nunused,0,m3\n")
    episodes = from_text(tmp_path, text)
    assert episodes.labels is not None
    assert episodes.groups is not None
    assert episodes.labels.tolist() == [0, 1]
    assert episodes.groups.tolist() == ["m1", "m2"]
    other = tmp_path / "elsewhere" / "truth.csv"
    other.parent.mkdir()
    other.write_text("name;anomalous\nx;1\ny;0\n")
    assert from_text(tmp_path, text, labels=other).n_anomalous == 1
    other.write_text("id,label\nx,1\n")
    with pytest.raises(DfstransError, match=r"truth\.csv, got none for y"):
        from_text(tmp_path, text, labels=other)
    other.write_text("id,label\nx,1\nx,0\ny,0\n")
    with pytest.raises(DfstransError, match="repeated ids: x"):
        from_text(tmp_path, text, labels=other)
    with pytest.raises(DfstransError, match="got nothing there"):
        from_text(tmp_path, text, labels=tmp_path / "no.csv")


def test_groups_are_read_and_must_be_one_per_episode(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,machine,time,a\nx,m2,0,1\nx,m2,1,1\ny,m1,0,1\n")
    assert episodes.groups is not None
    assert episodes.groups.tolist() == ["m2", "m1"]
    with pytest.raises(DfstransError, match="one group per episode, got several in x"):
        from_text(tmp_path, "id,machine,time,a\nx,m2,0,1\nx,m1,1,1\n")


def test_an_axis_called_y_is_not_taken_for_a_label(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,x,y,z\ne,0,1,2,3\ne,1,4,5,6\n")
    assert episodes.sensors == ("x", "y", "z")
    assert episodes.labels is None


def test_a_general_label_table_of_other_recordings_is_left_aside_with_a_remark(tmp_path: Path) -> None:
    text = "id,time,a\nx,0,1\ny,0,2\n"
    (tmp_path / "labels.csv").write_text("id,label\nx,ok\nold,worn\n")
    with pytest.warns(UserWarning, match=r"left aside the label table .*labels\.csv.*runs\.csv.*labels=…"):
        assert from_text(tmp_path, text).labels is None
    with pytest.raises(DfstransError, match=r"labels\.csv, got none for y"):
        from_text(tmp_path, text, labels=tmp_path / "labels.csv", anomalous_value="worn")
    (tmp_path / "labels.csv").write_text("when,what,why\n1,2,3\n")
    with pytest.warns(UserWarning, match="left aside"):
        assert from_text(tmp_path, text).labels is None
    (tmp_path / "labels.csv").write_text("id,label\nx,0\ny,1\nold,1\n")
    assert from_text(tmp_path, text).n_anomalous == 1
    (tmp_path / "runs_labels.csv").write_text("id,label\nx,0\n")
    with pytest.raises(DfstransError, match=r"runs_labels\.csv, got none for y"):
        from_text(tmp_path, text)


def test_a_second_label_column_is_read_as_a_sensor_but_not_in_silence(tmp_path: Path) -> None:
    text = PLAIN.replace("b,label", "anomaly,label")
    with pytest.warns(UserWarning, match=r"anomaly of .* is read as a sensor.*drop_sensors='anomaly'"):
        assert from_text(tmp_path, text).sensors == ("a", "anomaly")
    assert from_text(tmp_path, text, drop_sensors=("anomaly",)).sensors == ("a",)


def test_a_label_table_with_ids_written_otherwise_shows_both(tmp_path: Path) -> None:
    (tmp_path / "runs_labels.csv").write_text("id,label\n1,0\n2,1\n")
    with pytest.raises(DfstransError, match=r"got none for 001 but for 1, 2; write the ids alike"):
        from_text(tmp_path, "episode_id,time,a\n001,0,5\n001,1,6\n")


def test_columns_that_are_named_may_be_those_of_the_label_table(tmp_path: Path) -> None:
    text = "cycle,time,a\nx,0,1\ny,0,2\n"
    truth = tmp_path / "truth.csv"
    truth.write_text("cycle,Befund,shift\nx,OK,1\ny,NOK,2\n")
    named = {"id_column": "cycle", "label_column": "befund", "anomalous_value": "NOK"}
    episodes = from_text(tmp_path, text, labels=truth, group_column="shift", **named)
    assert episodes.require_labels().tolist() == [0, 1]
    assert episodes.require_groups().tolist() == ["1", "2"]
    with pytest.raises(DfstransError, match=r"'Linie' \(group_column\) in the recordings or in their label table"):
        from_text(tmp_path, text, labels=truth, group_column="Linie", **named)
    truth.rename(tmp_path / "runs_labels.csv")
    assert from_text(tmp_path, text, **named).require_labels().tolist() == [0, 1]
    with_both = "cycle,time,a,label\nx,0,1,1\ny,0,2,0\n"
    assert from_text(tmp_path, with_both, **named).require_labels().tolist() == [0, 1]


def test_a_group_that_the_label_table_tells_is_read_whatever_else_is_called_a_group_or_a_label(tmp_path: Path) -> None:
    (tmp_path / "runs_labels.csv").write_text("id,label,Linie\nx,0,west\ny,1,east\n")
    text = "id,time,machine,a,label\nx,0,m1,1,1\ny,0,m1,2,0\n"
    episodes = from_text(tmp_path, text, group_column="linie")
    assert episodes.require_groups().tolist() == ["west", "east"]
    assert episodes.require_labels().tolist() == [1, 0]  # of the recordings, as without a group
    assert episodes.sensors == ("a",)
    told = from_text(tmp_path, text, group_column="linie", labels=tmp_path / "runs_labels.csv")
    assert told.require_labels().tolist() == [0, 1]


def test_a_general_label_table_that_tells_a_named_column_must_have_all_episodes(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,label,Linie\nx,0,west\n")
    with pytest.raises(DfstransError, match=r"labels\.csv, got none for y"):
        from_text(tmp_path, "id,time,a,label\nx,0,1,1\ny,0,2,0\n", group_column="Linie")


def test_where_the_label_table_tells_the_id_what_is_called_one_in_a_recording_is_a_sensor(tmp_path: Path) -> None:
    (tmp_path / "runs_labels.csv").write_text("Takt,label\nruns,1\n")
    episodes = from_text(tmp_path, "time,run\n0,5\n1,6\n", id_column="Takt", length=2)
    assert (episodes.sensors, episodes.require_labels().tolist()) == (("run",), [1])


def test_a_name_of_the_recordings_is_not_taken_for_one_much_like_it_beside_an_id(tmp_path: Path) -> None:
    text = "no,time,a\nx,0,1\nx,1,1\ny,0,2\n"
    (tmp_path / "runs_labels.csv").write_text("No,id,label\n1,x,0\n2,y,1\n")
    (tmp_path / "runs_faults.csv").write_text("No,id,fault\n1,y,worn\n")
    episodes = from_text(tmp_path, text, id_column="no")
    assert episodes.require_labels().tolist() == [0, 1]
    assert episodes.faults == ((), (Fault(0, 1, (), "worn"),))
    (tmp_path / "runs_labels.csv").write_text("No,label\nx,1\ny,0\n")
    assert from_text(tmp_path, text, id_column="no").require_labels().tolist() == [1, 0]


def test_an_id_that_has_another_name_in_the_label_table_is_checked_there(tmp_path: Path) -> None:
    text = "episode_id,time,a\nx,0,1\ny,0,2\n"
    (tmp_path / "runs_labels.csv").write_text("Takt,label\ny,1\nx,0\n")
    assert from_text(tmp_path, text, id_column="Takt").require_labels().tolist() == [0, 1]
    (tmp_path / "runs_labels.csv").write_text("Takt,label\n1,1\n2,0\n")
    with pytest.raises(DfstransError, match=r"got none for x, y but for 1, 2"):
        from_text(tmp_path, text, id_column="Takt")

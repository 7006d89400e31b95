"""Labels, groups and faults: within the recordings, and in tables of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dfstrans.data.check import check_episodes
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text, write

TWO = "id,time,a\nx,0,1\ny,0,2\n"


# ---- within the recordings --------------------------------------------------------------------------------------


def test_labels_of_points_become_episode_labels_and_faults(tmp_path: Path) -> None:
    points = [("x", t, t in (1, 2, 5)) for t in range(6)] + [("y", t, False) for t in range(3)]
    points += [("z", t, True) for t in (0, 1)]
    text = "id,time,a,label\n" + "".join(f"{name},{t},0.5,{int(flag)}\n" for name, t, flag in points)
    episodes = from_text(tmp_path, text)
    assert episodes.require_labels().tolist() == [1, 0, 1]
    assert episodes.faults == ((Fault(1, 3), Fault(5, 6)), (), ())  # labels of 1 throughout locate nothing
    with pytest.warns(UserWarning, match="1 point at the end"):
        pieces = from_text(tmp_path, text, length=2)
    assert pieces.require_labels().tolist() == [1, 1, 1, 0, 1]


def test_empty_label_column_means_no_labels_but_a_partly_empty_one_is_refused(tmp_path: Path) -> None:
    header = "id,time,a,label\n"
    assert from_text(tmp_path, header + "x,0,1,\ny,0,1,\n").labels is None
    with pytest.raises(DfstransError, match="got none for y;"):
        from_text(tmp_path, header + "x,0,1,1\ny,0,1,\n")


def test_labels_in_words_need_the_anomalous_value(tmp_path: Path) -> None:
    text = "id,time,a,label\nx,0,1,ok\ny,0,1,worn\nz,0,1,broken\n"
    with pytest.raises(DfstransError, match=r"got worn, broken; specify which"):
        from_text(tmp_path, text)
    assert from_text(tmp_path, text, anomalous_value="worn").require_labels().tolist() == [0, 1, 0]
    with pytest.raises(DfstransError, match="expected the anomalous label 'bad'"):
        from_text(tmp_path, text, anomalous_value="bad")
    numbers = from_text(tmp_path, "id,time,a,label\nx,0,1,1\ny,0,1,2.0\n", anomalous_value=2)
    assert numbers.require_labels().tolist() == [0, 1]


def test_each_episode_has_one_group(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,machine,time,a\nx,m2,0,1\nx,m2,1,1\ny,m1,0,1\n")
    assert episodes.require_groups().tolist() == ["m2", "m1"]
    with pytest.raises(DfstransError, match="one group per episode, got several in x"):
        from_text(tmp_path, "id,machine,time,a\nx,m2,0,1\nx,m1,1,1\n")


# ---- label tables -----------------------------------------------------------------------------------------------

CYCLES = "cycle,time,a\nx,0,1\ny,0,2\n"
FINDINGS = "cycle,Befund,shift|x,OK,1|y,NOK,2"
NAMED = {"id_column": "cycle", "label_column": "befund", "anomalous_value": "NOK"}
BOTH = "id,time,machine,a,label\nx,0,m1,1,1\ny,0,m1,2,0\n"
LINES = "id,label,Linie|x,0,west|y,1,east"
ONE = "time,run\n0,5\n1,6\n"


@pytest.mark.parametrize(
    ("text", "table", "options", "labels", "groups", "sensor"),
    [
        (TWO, "id,label,machine|y,1,m2|x,0,m1|unused,0,m3", {}, [0, 1], ["m1", "m2"], "a"),
        (TWO, "name;anomalous|x;1|y;0", {}, [1, 0], None, "a"),
        # named columns may be in the label table only
        (CYCLES, FINDINGS, NAMED | {"group_column": "shift"}, [0, 1], ["1", "2"], "a"),
        (BOTH.replace("id,", "cycle,"), FINDINGS, NAMED, [0, 1], ["m1", "m1"], "a"),
        (BOTH, LINES, {"group_column": "linie"}, [1, 0], ["west", "east"], "a"),  # labels of the recordings stay
        (TWO, "Takt,label|y,1|x,0", {"id_column": "Takt"}, [0, 1], None, "a"),
        (ONE, "Takt,label|runs,1", {"id_column": "Takt", "length": 2}, [1], ["runs"], "run"),
        # a usual name in the label table wins over one that is similar to that of the recordings
        (CYCLES, "Cycle,id,label|1,x,0|2,y,1", {"id_column": "cycle"}, [0, 1], None, "a"),
        (CYCLES, "Cycle,label|x,1|y,0", {"id_column": "cycle"}, [1, 0], None, "a"),
    ],
)
def test_label_table_next_to_the_file_gives_labels_and_groups(
    tmp_path: Path,
    text: str,
    table: str,
    options: dict[str, object],
    labels: list[int],
    groups: list[str] | None,
    sensor: str,
) -> None:
    write(tmp_path, runs_labels=table)
    episodes = from_text(tmp_path, text, **options)
    assert (episodes.require_labels().tolist(), episodes.sensors) == (labels, (sensor,))
    assert (None if episodes.groups is None else episodes.groups.tolist()) == groups


def test_named_label_table_replaces_the_labels_of_the_recordings(tmp_path: Path) -> None:
    truth = write(tmp_path / "elsewhere", truth=LINES) / "truth.csv"
    episodes = from_text(tmp_path, BOTH, labels=truth, group_column="linie")
    assert (episodes.require_labels().tolist(), episodes.require_groups().tolist()) == ([0, 1], ["west", "east"])
    with pytest.raises(DfstransError, match="got nothing there"):
        from_text(tmp_path, BOTH, labels=tmp_path / "no.csv")


@pytest.mark.parametrize(
    ("name", "table", "options", "words"),
    [
        ("runs_labels", "id,label|x,1", {}, r"runs_labels\.csv, got none for y"),
        ("runs_labels", "id,label|x,1|x,0|y,0", {}, "repeated ones: x"),
        ("runs_labels", "id,label|x,1|,0|y,0", {}, "id in each row of .*row 2"),
        ("runs_labels", "id,label|x,1|y,", {}, "label in each row of .*got none in 2"),
        ("runs_labels", "id,label|01,0|02,1", {}, r"got none for x, y but for 01, 02; spell the ids identically"),
        ("runs_labels", "Takt,label|1,1|2,0", {"id_column": "Takt"}, "got none for x, y but for 1, 2"),
        ("runs_labels", "Teil,Art|x,a|y,a|z,b", {}, r"\(id_column='Teil', label_column='Art'\)"),
        ("runs_labels", LINES, {"group_column": "Halle"}, r"'Halle' in .*runs\.csv or in the label table "),
        ("labels", "id,label,Linie|x,0,west", {"group_column": "Linie"}, r"labels\.csv, got none for y"),
    ],
)
def test_label_table_that_does_not_fit_is_refused(
    tmp_path: Path, name: str, table: str, options: dict[str, str], words: str
) -> None:
    write(tmp_path, **{name: table})
    with pytest.raises(DfstransError, match=words):
        from_text(tmp_path, TWO, **options)


@pytest.mark.parametrize("table", ["id,label|x,ok|old,worn", "when,what,why|1,2,3"])
def test_general_label_table_of_other_recordings_is_ignored_with_a_warning(tmp_path: Path, table: str) -> None:
    labels = write(tmp_path, labels=table) / "labels.csv"
    with pytest.warns(UserWarning, match=r"ignored the label table .*labels\.csv.*runs\.csv.*labels=…"):
        assert from_text(tmp_path, TWO).labels is None
    with pytest.raises(DfstransError, match=r"labels\.csv, got"):
        from_text(tmp_path, TWO, labels=labels, anomalous_value="worn")
    write(tmp_path, labels="id,label|x,0|y,1|old,1")
    assert from_text(tmp_path, TWO).n_anomalous == 1


# ---- fault tables -----------------------------------------------------------------------------------------------

HEADER = "episode_id,fault,sensors,start,end,severity"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two episodes of ten points, one every half second."""
    path = tmp_path / "runs.csv"
    frames = [
        pd.DataFrame({"episode_id": name, "time_s": np.arange(10) / 2, "Speed [m/s]": 1.0, "b": 2.0, "label": label})
        for name, label in (("x", 0), ("y", 1))
    ]
    pd.concat(frames).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("table", "faults"),
    [
        (
            f"{HEADER}|y,worn bearing,speed; b,1,2.5,0.7|y,loose belt,b,3,,",
            (Fault(2, 5, ("Speed", "b"), "worn bearing", 0.7), Fault(6, 10, ("b",), "loose belt")),
        ),
        (
            HEADER.replace(",", ";") + "|y;rust;Speed,b;1,5;2;0,7|y;spike;;;0,5;",
            (Fault(3, 4, ("Speed", "b"), "rust", 0.7), Fault(0, 1, (), "spike")),
        ),
        (f"{HEADER}|y,spike,b,2,2,", (Fault(4, 5, ("b",), "spike"),)),
        (f"{HEADER}|y,spike,b,1.1,1.2,", (Fault(2, 3, ("b",), "spike"),)),
        (f"{HEADER}|y,spike,b,4.8,4.9,", (Fault(9, 10, ("b",), "spike"),)),
        (f"{HEADER}|y,spike,b,0,0,", (Fault(0, 1, ("b",), "spike"),)),
    ],
)
def test_fault_windows_use_episode_time_and_cover_a_point(runs: Path, table: str, faults: tuple[Fault, ...]) -> None:
    write(runs.parent, runs_faults=table)
    assert load_episodes(runs).faults == ((), faults)


def test_point_in_the_file_name_does_not_hide_its_tables(runs: Path) -> None:
    pd.read_csv(runs).drop(columns="label").to_csv(runs.parent / "run 1.5.csv", index=False)
    tables = {"run 1.5_faults": f"{HEADER}|y,rust,b,1,2,", "run 1.5_labels": "id,label|x,0|y,1"}
    write(runs.parent, **tables, **{"run 1_faults": f"{HEADER}|y,other,b,1,2,"})
    episodes = load_episodes(runs.parent / "run 1.5.csv")
    assert (episodes.faults, episodes.n_anomalous) == (((), (Fault(2, 4, ("b",), "rust"),)), 1)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_named_fault_table_of_either_format_is_read(runs: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"elsewhere.{suffix}"
    table = pd.DataFrame({"id": ["y"], "kind": ["rust"]})
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    assert load_episodes(runs, faults=path).faults == ((), (Fault(0, 10, (), "rust"),))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("z,rust,b,,,", "got others in .*: z; correct the ids"),
        ("y,rust,b,1,9,", r"within episode 'y', from 0 to 5 s, got one from 1 to 9 in row 1 of"),
        ("y,rust,b,2.2,2.1,", r"got one from 2\.2 to 2\.1 in row 1"),
        ("y,rust,b,5,,", "got one from 5 to 5 in row 1"),
        ("y,rust,b,noon,,", "expected a number as start in row 1 of .*, got 'noon'"),
        (",rust,b,,,", "expected an id in each row"),
    ],
)
def test_wrong_rows_of_a_fault_table_are_refused(runs: Path, row: str, message: str) -> None:
    write(runs.parent, runs_faults=f"{HEADER}|{row}")
    with pytest.raises(DfstransError, match=message):
        load_episodes(runs)


def dated(folder: Path, times: list[str], fault: str, header: str = "time") -> Episodes:
    """Read two recordings, the second a day later, with a fault in the second one; `fault` is start,end."""
    rows = [f"{name},{time},1" for name in "xy" for time in times]
    rows[len(times) :] = [row.replace("05-01T", "05-02T") for row in rows[len(times) :]]
    write(folder, runs=f"id,{header},a|" + "|".join(rows), runs_faults=f"id,fault,start,end|y,rust,{fault}")
    return load_episodes(folder / "runs.csv")


@pytest.mark.parametrize(
    ("zone", "fault"),
    [
        ("", "2024-05-02T12:00:10,2024-05-02 12:00:30"),
        ("", "02.05.2024 12:00:10,20240502120030"),
        ("", "10,30"),
        ("+02:00", "2024-05-02T12:00:10+02:00,2024-05-02T10:00:30Z"),
    ],
)
def test_dates_in_a_fault_table_count_from_the_date_of_the_recording(tmp_path: Path, zone: str, fault: str) -> None:
    times = [f"2024-05-01T12:00:{second}0{zone}" for second in range(5)]
    assert dated(tmp_path, times, fault).faults == ((), (Fault(1, 3, (), "rust"),))


def test_dates_in_a_fault_table_suit_times_since_1970(tmp_path: Path) -> None:
    start, step = 1_714_564_800_000, 10_000  # 2024-05-01T12:00:00Z in milliseconds
    times = [str(start + step * point) for point in range(5)]
    for header in ("time", "time [ms]"):
        faults = dated(tmp_path, times, "2024-05-01T12:00:10Z,2024-05-01T12:00:30Z", header).faults
        assert faults == ((), (Fault(1, 3, (), "rust"),))


@pytest.mark.parametrize(
    ("times", "fault", "message"),
    [
        (["2024-05-01T12:00:00", "2024-05-01T12:00:10"], "2024-05-02T12:00:00Z,", "without a zone, as .* got .*00Z"),
        (["2024-05-01T12:00Z", "2024-05-01T12:01Z"], "2024-05-02 12:00:00,", "in a zone, as .*UTC.*31T12:00:00Z"),
        (["2024-05-01T12:00:00", "2024-05-01T12:00:10"], "03/04/2024 12:00,", "or they are dates such as 2024-05-31T"),
        (["2024-05-01T12:00:00", "2024-05-01T12:00:10"], "12:00:05,", "as start in row 1 .*got '12:00:05'"),
        (["2024-05-01T12:00:00", "2024-05-01T12:00:10"], "2024-05-01T12:00:05,", "from 0 to 20 s, got .* -86395"),
        (["0", "1"], "2024-05-01T12:00:05,", "the recordings have no dates, got '2024-05-01T12:00:05'"),
    ],
)
def test_wrong_dates_in_a_fault_table_are_refused(tmp_path: Path, times: list[str], fault: str, message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        dated(tmp_path, times, fault)


def test_general_fault_table_of_other_recordings_is_ignored_with_a_warning(runs: Path) -> None:
    write(runs.parent, faults=f"{HEADER}|z,rust,b,,,")
    with pytest.warns(UserWarning, match=r"ignored the fault table .* no episodes z.*faults=…"):
        assert load_episodes(runs).faults is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("episode_id,remark\ny,odd\n", "columns id and fault.*got episode_id, remark"),
        ("time,a\n0,1\n1,2\n", "columns id and fault.*got time, a"),
        (HEADER + "\n", "expected rows below the header"),
        ("", "got an empty file"),
        ("\n\n", "blank lines"),
    ],
)
@pytest.mark.parametrize("name", ["faults.csv", "runs_faults.csv"])
def test_table_without_faults_is_ignored_unless_it_was_named(runs: Path, name: str, content: str, message: str) -> None:
    table = runs.parent / name
    table.write_text(content)
    with pytest.warns(UserWarning, match=rf"ignored .*{name}: .*{message}.*faults=…"):
        episodes = load_episodes(runs)
    assert (episodes.ids.tolist(), episodes.faults) == (["x", "y"], None)
    with pytest.raises(DfstransError, match=message):
        load_episodes(runs, faults=table)


def test_parquet_fault_table_without_rows_is_ignored(runs: Path) -> None:
    pd.DataFrame({"id": ["y"], "fault": ["rust"]})[:0].to_parquet(runs.parent / "faults.parquet")
    with pytest.warns(UserWarning, match=r"ignored .*faults\.parquet: expected rows"):
        assert load_episodes(runs).faults is None


def test_data_check_names_faulty_sensors_that_were_not_recorded(runs: Path) -> None:
    for sensors, warned in (("b;Torque", True), ("b", False)):
        write(runs.parent, runs_faults=f"{HEADER}|y,rust,{sensors},1,2,")
        findings = [finding.message for finding in check_episodes(load_episodes(runs)).findings]
        assert any("Torque" in message for message in findings) == warned

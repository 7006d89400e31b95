"""Known faults in a table beside the recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dfstrans.data.check import check_episodes
from dfstrans.data.episodes import Fault
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError

HEADER = "episode_id,fault,sensors,start,end,severity\n"


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


def test_faults_are_read_in_the_time_of_the_episode(runs: Path) -> None:
    table = HEADER + "y,worn bearing,speed; b,1,2.5,0.7\ny,loose belt,b,3,,\n"
    (runs.parent / "runs_faults.csv").write_text(table)
    episodes = load_episodes(runs)
    assert episodes.faults == (
        (),
        (Fault(2, 5, ("Speed", "b"), "worn bearing", 0.7), Fault(6, 10, ("b",), "loose belt")),
    )


@pytest.mark.parametrize(
    ("start", "end", "points"),
    [("2", "2", (4, 5)), ("1.1", "1.2", (2, 3)), ("4.8", "4.9", (9, 10)), ("0", "0", (0, 1))],
)
def test_a_fault_of_a_moment_is_in_one_point(runs: Path, start: str, end: str, points: tuple[int, int]) -> None:
    (runs.parent / "runs_faults.csv").write_text(HEADER + f"y,spike,b,{start},{end},\n")
    assert load_episodes(runs).faults == ((), (Fault(*points, ("b",), "spike"),))


def test_numbers_may_have_a_decimal_comma(runs: Path) -> None:
    table = "episode_id;fault;sensors;start;end;severity\ny;rust;Speed,b;1,5;2;0,7\ny;spike;;;0,5;\n"
    (runs.parent / "runs_faults.csv").write_text(table)
    assert load_episodes(runs).faults == ((), (Fault(3, 4, ("Speed", "b"), "rust", 0.7), Fault(0, 1, (), "spike")))


def test_a_point_in_the_name_of_the_recordings_does_not_hide_their_tables(runs: Path) -> None:
    pd.read_csv(runs).drop(columns="label").to_csv(runs.parent / "run 1.5.csv", index=False)
    (runs.parent / "run 1.5_faults.csv").write_text(HEADER + "y,rust,b,1,2,\n")
    (runs.parent / "run 1.5_labels.csv").write_text("id,label\nx,0\ny,1\n")
    (runs.parent / "run 1_faults.csv").write_text(HEADER + "y,other,b,1,2,\n")
    episodes = load_episodes(runs.parent / "run 1.5.csv")
    assert episodes.faults == ((), (Fault(2, 4, ("b",), "rust"),))
    assert episodes.n_anomalous == 1


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_named_table_of_either_format_is_read(runs: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"elsewhere.{suffix}"
    table = pd.DataFrame({"id": ["y"], "kind": ["rust"]})
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    assert load_episodes(runs, faults=path).faults == ((), (Fault(0, 10, (), "rust"),))


def test_a_folder_takes_faults_csv_and_does_not_take_it_for_an_episode(tmp_path: Path) -> None:
    (tmp_path / "r1.csv").write_text("a,b\n1,10\n2,20\n3,30\n")
    (tmp_path / "r2.csv").write_text("a,b\n1,10\n2,20\n3,30\n")
    (tmp_path / "labels.csv").write_text("id,label\nr1,0\nr2,1\n")
    (tmp_path / "faults.csv").write_text("file,fault,sensors,start,end\nr2.csv,bump,a,1,2\n")
    episodes = load_episodes(tmp_path)
    assert episodes.ids.tolist() == ["r1", "r2"]
    assert episodes.faults == ((), (Fault(1, 2, ("a",), "bump"),))


def test_a_general_table_about_other_recordings_is_left_aside(runs: Path) -> None:
    (runs.parent / "faults.csv").write_text(HEADER + "z,rust,b,,,\n")
    with pytest.warns(UserWarning, match=r"left aside the faults in .*\(z\).*faults=…"):
        assert load_episodes(runs).faults is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("z,rust,b,,,", "got others in .*: z; mend the ids"),
        ("y,rust,b,1,9,", r"within episode 'y', from 0 to 5 s, got one from 1 to 9 in row 1 of"),
        ("y,rust,b,2.2,2.1,", r"got one from 2\.2 to 2\.1 in row 1"),
        ("y,rust,b,5,,", "got one from 5 to 5 in row 1"),
        ("y,rust,b,noon,,", "expected a number as start in row 1 of .*, got 'noon'"),
        (",rust,b,,,", "expected an id in each row"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(runs: Path, row: str, message: str) -> None:
    (runs.parent / "runs_faults.csv").write_text(HEADER + row + "\n")
    with pytest.raises(DfstransError, match=message):
        load_episodes(runs)


NO_FAULTS = [
    ("episode_id,remark\ny,odd\n", "expected the columns id and fault.*got episode_id, remark"),
    ("time,a\n0,1\n1,2\n", "expected the columns id and fault.*got time, a"),
    (HEADER, "expected rows below the header"),
    ("", "got an empty file"),
    ("\n\n", "nothing but blank lines"),
]


@pytest.mark.parametrize(("content", "message"), NO_FAULTS)
@pytest.mark.parametrize("name", ["faults.csv", "runs_faults.csv"])
def test_a_neighbour_without_faults_is_left_aside_unless_it_was_named(
    runs: Path, name: str, content: str, message: str
) -> None:
    table = runs.parent / name
    table.write_text(content)
    with pytest.warns(UserWarning, match=rf"left aside .*{name}: .*{message}.*faults=…"):
        episodes = load_episodes(runs)
    assert (episodes.ids.tolist(), episodes.faults) == (["x", "y"], None)
    with pytest.raises(DfstransError, match=message):
        load_episodes(runs, faults=table)


def test_a_parquet_table_without_rows_is_left_aside(runs: Path) -> None:
    pd.DataFrame({"id": ["y"], "fault": ["rust"]})[:0].to_parquet(runs.parent / "faults.parquet")
    with pytest.warns(UserWarning, match=r"left aside .*faults\.parquet: expected rows"):
        assert load_episodes(runs).faults is None


def test_a_recording_called_faults_is_one_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "normal.csv").write_text("time,a\n0,1\n1,2\n")
    (tmp_path / "faults.csv").write_text("time,a\n0,3\n1,4\n")
    (tmp_path / "labels.csv").write_text("id,label\nnormal,0\nfaults,1\n")
    episodes = load_episodes(tmp_path)
    assert (episodes.ids.tolist(), episodes.faults) == (["faults", "normal"], None)
    (tmp_path / "told.csv").write_text("id,fault\nfaults,rust\n")
    assert load_episodes(tmp_path, faults=tmp_path / "told.csv").faults == ((Fault(0, 2, (), "rust"),), ())


def test_a_folder_with_an_empty_faults_csv_is_read_without_it(tmp_path: Path) -> None:
    (tmp_path / "r1.csv").write_text("time,a\n0,1\n1,2\n")
    (tmp_path / "faults.csv").write_text(HEADER)
    with pytest.warns(UserWarning, match=r"left aside .*faults\.csv: expected rows below the header"):
        assert load_episodes(tmp_path).ids.tolist() == ["r1"]
    (tmp_path / "r1.csv").unlink()
    with pytest.raises(DfstransError, match="got only tables about them; add the recordings"):
        load_episodes(tmp_path)


def test_the_data_check_names_blamed_sensors_that_were_not_recorded(runs: Path) -> None:
    (runs.parent / "runs_faults.csv").write_text(HEADER + "y,rust,b;Torque,1,2,\n")
    findings = [finding.message for finding in check_episodes(load_episodes(runs)).findings]
    assert any("known faults are in sensors that are not there: Torque" in message for message in findings)
    (runs.parent / "runs_faults.csv").write_text(HEADER + "y,rust,b,1,2,\n")
    findings = [finding.message for finding in check_episodes(load_episodes(runs)).findings]
    assert not any("not there" in message for message in findings)


def test_a_recording_is_cut_with_its_faults(runs: Path) -> None:
    (runs.parent / "runs_faults.csv").write_text(HEADER + "y,rust,b,3,4,\n")
    pieces = load_episodes(runs, length=5)
    assert pieces.labels is not None
    assert pieces.labels.tolist() == [0, 0, 0, 1]
    assert pieces.faults == ((), (), (), (Fault(1, 3, ("b",), "rust"),))

"""Several files per recording: one after the other, side by side, and what does not fit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans import load_episodes
from dfstrans.errors import DfstransError


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write tables; rows are separated by blanks."""
    for name, rows in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(rows.split()) + "\n")
    return folder


def test_files_of_a_recording_are_joined_in_order_of_time(tmp_path: Path) -> None:
    write(tmp_path, {"r1/late.csv": "time,a 2,3 3,4", "r1/old.csv": "time,a 0,1 1,2", "r2/x.csv": "time,a 0,7 1,8"})
    episodes = load_episodes(tmp_path, folders="recording")
    assert episodes.ids.tolist() == ["r1", "r2"]
    assert episodes.lengths.tolist() == [4, 2]
    assert episodes.values[0, 0].tolist() == [1, 2, 3, 4]


def test_dates_of_several_files_count_from_the_start_of_the_recording(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "r/1.csv": "date,a 2024-05-01T00:00:10,3 2024-05-01T00:00:15,4",
            "r/2.csv": "date,a 2024-05-01T00:00:00,1 2024-05-01T00:00:05,2",
        },
    )
    episodes = load_episodes(tmp_path, folders="recording")
    assert episodes.values[0, 0].tolist() == [1, 2, 3, 4]
    assert (episodes.interval, episodes.time_unit) == (5, "s")
    assert episodes.starts is not None
    assert str(episodes.starts[0]) == "2024-05-01T00:00:00.000000000"


def test_files_without_times_are_joined_by_file_name_with_numbers_in_order(tmp_path: Path) -> None:
    write(tmp_path, {f"r/part_{n}.csv": f"a {n} {n}" for n in (1, 2, 10)})
    assert load_episodes(tmp_path, folders="recording").values[0, 0].tolist() == [1, 1, 2, 2, 10, 10]


def test_files_of_different_sensors_are_joined_side_by_side(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "bad/r1/heat.csv": "time,T[°C] 0,1 1,2",
            "bad/r1/load.csv": "time,F[N],machine 0,5,m 1,6,m",
            "ok/r1/heat.csv": "time,T[°C] 0,3 1,4",
            "ok/r1/load_1.csv": "time,F[N],machine 0,7,m",
            "ok/r1/load_2.csv": "time,F[N],machine 1,8,m",
        },
    )
    episodes = load_episodes(tmp_path, folders="label,recording")
    assert (episodes.ids.tolist(), episodes.require_labels().tolist()) == (["bad/r1", "ok/r1"], [1, 0])
    assert (episodes.sensors, episodes.units) == (("T", "F"), ("°C", "N"))
    assert_array_equal(episodes.values, [[[1, 2], [5, 6]], [[3, 4], [7, 8]]])
    assert episodes.groups is not None
    assert episodes.groups.tolist() == ["m", "m"]


def test_labels_of_points_and_of_a_table_apply_to_whole_recordings(tmp_path: Path) -> None:
    write(tmp_path, {"r1/1.csv": "a,label 0,0 0,1", "r1/2.csv": "a,label 0,1 0,0", "r2/1.csv": "a,label 0,0 0,0"})
    (fault,), normal = load_episodes(tmp_path, folders="recording").known_faults
    assert (fault.start, fault.stop, normal) == (1, 3, ())
    write(tmp_path / "b", {"r1/1.csv": "a 0 0", "r1/2.csv": "a 0 0", "r2/1.csv": "a 0", "labels.csv": "id,y r1,0 r2,1"})
    assert load_episodes(tmp_path / "b", folders="recording").require_labels().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"r/1.csv": "time,a 0,1 1,2", "r/2.csv": "time,a 1,3 2,4"}, "overlapping times in .*1.csv and 2.csv"),
        ({"r/1.csv": "time,a 0,1", "r/2.csv": "time,a,b 1,3,4"}, "only some in both: a in 1.csv and 2.csv; rename"),
        (
            {"r/1.csv": "time,a 0,1 1,2", "r/2.csv": "time,b 0,1 2,2"},
            "got 1.0 and 2.0 in data row 2 in 1.csv and 2.csv",
        ),
        ({"r/1.csv": "time,a 0,1 1,2", "r/2.csv": "time,b 0,1"}, "the same times .*got 2 and 1 point in"),
        ({"r/1.csv": "time,a 0,1", "r/2.csv": "b 1"}, "the same times .*got a time in only one"),
        ({"r/1.csv": "time[s],a 0,1", "r/2.csv": "time,a 2024-05-01,1"}, "times with their date in all files"),
        ({"r/1.csv": "a,label 0,0", "r/2.csv": "b,label 0,1"}, "one label for each point .*keep the column in one"),
        ({"r/1.csv": "a 0", "2.csv": "a 1"}, "2.csv within 1 folder level .*got 0; move the file"),
        ({"g/r/1.csv": "a 0"}, "g/r/1.csv within 1 folder level .*got 2.*say what each level means"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path: Path, files: dict[str, str], words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        load_episodes(write(tmp_path, files), folders="recording")


def test_rows_of_several_files_are_sorted_by_time_on_request(tmp_path: Path) -> None:
    write(tmp_path, {"r/1.csv": "time,a 0,0 2,2", "r/2.csv": "time,a 1,1 3,3"})
    assert_array_equal(load_episodes(tmp_path, folders="recording", sort_time=True).values, [[np.arange(4)]])


def test_recording_with_a_bad_file_is_skipped_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path, {"r1/1.csv": "a 0 1", "r1/2.csv": "a 0 ERR", "r2/1.csv": "a 0 1"})
    with pytest.warns(UserWarning, match=r"r1: a part of the recording is skipped: 2.csv\n.*2.csv: expected numbers"):
        assert load_episodes(tmp_path, folders="recording", skip_bad_files=True).ids.tolist() == ["r2"]
    with pytest.raises(DfstransError, match="'ERR' in line 3"):
        load_episodes(tmp_path, folders="recording")

"""Continuous recordings cut into episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.cutting import cut
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text, write


def test_continuous_recording_is_cut_by_length_and_stride(tmp_path: Path) -> None:
    text = "time,a,label\n" + "".join(f"{t},{t},{int(t == 4)}\n" for t in range(11))
    with pytest.raises(DfstransError, match=r"episode of each row.*length"):
        from_text(tmp_path, text)
    with pytest.warns(UserWarning, match=r"^skipped 3 points at the end of 1 of 1 recording: runs \(3\)"):
        episodes = from_text(tmp_path, text, length=4)
    assert (episodes.ids.tolist(), episodes.require_labels().tolist()) == (["runs@0", "runs@4"], [0, 1])
    assert episodes.faults == ((), (Fault(0, 1),))
    with pytest.warns(UserWarning, match="skipped 1 point at the end"):
        overlapping = from_text(tmp_path, text, length=4, stride=2)
    assert_array_equal(overlapping.values[:, 0, 0], [0, 2, 4, 6])
    assert overlapping.require_labels().tolist() == [0, 1, 1, 0]
    with pytest.raises(DfstransError, match="recordings of at least 12 points, got at most 11"):
        from_text(tmp_path, text, length=12)


def test_recordings_cut_evenly_give_no_warning(tmp_path: Path) -> None:
    for n, stride, pieces in ((12, None, 3), (10, 3, 3), (10, 6, 2)):
        assert len(from_text(tmp_path, "a\n" + "1\n" * n, length=4, stride=stride)) == pieces


def test_recordings_with_ids_are_cut_separately(tmp_path: Path) -> None:
    rows = "".join(f"{name},{t},{t},{label}\n" for name, label in (("m1", 0), ("m2", 1)) for t in range(5))
    whole, ends = "all pieces of 1 anomalous recording count as anomalous: m2", r"2 of 2 recordings: m1 \(1\), m2 \(1\)"
    with pytest.warns(UserWarning, match=whole), pytest.warns(UserWarning, match=ends):
        episodes = from_text(tmp_path, "id,time,a,label\n" + rows, length=2)
    assert episodes.ids.tolist() == ["m1@0", "m1@2", "m2@0", "m2@2"]
    assert episodes.require_groups().tolist() == ["m1", "m1", "m2", "m2"]
    assert episodes.require_labels().tolist() == [0, 0, 1, 1]


def test_days_of_a_recording_can_be_groups(tmp_path: Path) -> None:
    rows = [(t, t * t % 97, int(t % 10 < 2), f"day {t // 20}") for t in range(120)]
    text = "time,a,label,day\n" + "".join(f"{t},{a},{label},{day}\n" for t, a, label, day in rows)
    one = from_text(tmp_path, text, length=5, drop_sensors=["day"])
    with pytest.raises(DfstransError, match=r"at least 3 groups .*got 1 \(runs\); .*id_column=…"):
        one.split(by_group=True)
    by_day = from_text(tmp_path, text, length=5, id_column="day")
    assert by_day.ids.tolist()[:5] == ["day 0@0", "day 0@5", "day 0@10", "day 0@15", "day 1@0"]
    parts = [set(part.require_groups().tolist()) for part in by_day.split(by_group=True)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 6


def _rows(labels: str, name: str = "y", points: int = 5) -> str:
    """Rows of a recording, with `points` rows for each label."""
    every = [label for label in labels for _ in range(points)]
    return "".join(f"{name},{t},{t % 7},{label}\n" for t, label in enumerate(every))


def test_fault_table_never_takes_a_label_away(tmp_path: Path) -> None:
    write(tmp_path, runs_faults="id,fault,sensors,start,end|y,rust,a,6,8")
    with pytest.warns(UserWarning, match=r"anomalous by label, without a fault in .*: 1 \(y@15\)"):
        pieces = from_text(tmp_path, "id,time,a,label\n" + _rows("0101"), length=5)
    assert pieces.require_labels().tolist() == [0, 1, 0, 1]
    rust, others = Fault(1, 3, ("a",), "rust"), (Fault(0, 1), Fault(3, 5))
    assert pieces.faults == ((), (others[0], rust, others[1]), (), (Fault(0, 5),))


def test_rows_that_are_all_labelled_anomalous_stay_so(tmp_path: Path) -> None:
    write(tmp_path, runs_faults="id,fault,start,end|y,rust,6,8")
    with pytest.warns(UserWarning, match=r"1 \(y@0\)"):
        pieces = from_text(tmp_path, "id,time,a,label\n" + _rows("11"), length=5)
    assert pieces.require_labels().tolist() == [1, 1]


@pytest.mark.parametrize("labels", [{"runs_labels": "id,label|x,0|y,1"}, {}], ids=["labelled", "unlabelled"])
def test_fault_table_shows_which_part_of_a_recording_is_anomalous(tmp_path: Path, labels: dict[str, str]) -> None:
    write(tmp_path, runs_faults="id,fault,start,end|y,rust,6,8", **labels)
    text = "id,time,a\n" + "".join(f"{name},{t},{t}\n" for name in "xy" for t in range(10))
    assert from_text(tmp_path, text, length=5).require_labels().tolist() == [0, 0, 0, 1]


def test_normal_label_within_a_fault_is_refused_with_the_pieces(tmp_path: Path) -> None:
    write(tmp_path, runs_faults="id,fault,start,end|y,rust,6,8|y,jam,12,13")
    with pytest.raises(DfstransError, match=r"got 2 labelled normal .*: y@5, y@10; correct .* end \(exclusive\)"):
        from_text(tmp_path, "id,time,a,label\n" + _rows("0001"), length=5)


@pytest.mark.parametrize(("columns", "stop"), [("start,end|y,rust,5,10", 5), ("start,last|y,rust,5,9", 5)])
def test_end_is_exclusive_and_last_is_inclusive(tmp_path: Path, columns: str, stop: int) -> None:
    write(tmp_path, runs_faults=f"id,fault,{columns}")
    pieces = from_text(tmp_path, "id,time,a,label\n" + _rows("010"), length=5)
    assert pieces.require_labels().tolist() == [0, 1, 0]
    assert pieces.faults is not None
    assert pieces.faults[1] == (Fault(0, stop, kind="rust"),)
    write(tmp_path, runs_faults="id,fault,start,end,last|y,rust,5,10,9")
    with pytest.raises(DfstransError, match=r"expected end or last in row 1 .*got both"):
        from_text(tmp_path, "id,time,a,label\n" + _rows("010"), length=5)


def test_rows_without_a_label_are_refused_when_a_recording_is_cut(tmp_path: Path) -> None:
    rows = [f"m1,{t},{t},{1 if 4 <= t < 6 else '{}'}" for t in range(20)] + [f"m2,{t},{t},0" for t in range(20)]
    text = "\n".join(["machine,time,a,label", *rows])
    with pytest.raises(DfstransError, match=r"a label in each row .* got rows without one in m1 \(18\); label"):
        from_text(tmp_path, text.replace("{}", ""), id_column="machine", length=5)
    episodes = from_text(tmp_path, text.replace("{}", "0"), id_column="machine", length=5)
    assert episodes.require_labels().tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_pieces_in_a_gap_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = "".join(f"m1,{t},{t % 7},{int(t == 45)}\n" for t in (*range(10), *range(40, 50)))
    with pytest.warns(UserWarning, match="6 pieces of 10 .* gaps"):
        episodes = from_text(tmp_path, "machine,time,a,label\n" + rows, id_column="machine", length=5)
    assert episodes.ids.tolist() == ["m1@0", "m1@5", "m1@40", "m1@45"]
    assert episodes.require_labels().tolist() == [0, 0, 0, 1]


def test_piece_with_one_value_is_kept_and_empty_recordings_are_refused() -> None:
    values = np.full((1, 2, 10), np.nan)
    with pytest.raises(DfstransError, match="expected recordings with values, got none in any of 2 pieces"):
        cut(Episodes.from_arrays(values, ids=["m"]), 5)
    values[0, 1, 7] = 3.0
    assert cut(Episodes.from_arrays(values, ids=["m"]), 5).ids.tolist() == ["m@5"]


@pytest.mark.parametrize("time", [True, False])
def test_several_machines_in_one_recording_need_an_id_column(tmp_path: Path, time: bool) -> None:
    rows = [f"m{m},{f'{t},' if time else ''}{t},{int(t == 3)}\n" for m in range(2) for t in range(10)]
    with pytest.raises(DfstransError, match=r"name (the column that separates them|its column).*id_column"):
        from_text(tmp_path, f"machine,{'time,' if time else ''}a,label\n" + "".join(rows), length=5)


def test_recordings_shorter_than_the_length_have_a_sentence_of_their_own(tmp_path: Path) -> None:
    rows = [f"{name},{point}" for name, n in (("a", 9), ("b", 3), ("c", 2)) for point in range(n)]
    short = r"skipped 2 recordings of 3 that are shorter than length=4: b \(3\), c \(2\) points"
    tail = r"skipped 1 point at the end of 1 of 3 recordings: a \(1\);"
    with pytest.warns(UserWarning, match=short), pytest.warns(UserWarning, match=tail):
        episodes = from_text(tmp_path, "id,x\n" + "\n".join(rows), length=4)
    assert episodes.ids.tolist() == ["a@0", "a@4"]

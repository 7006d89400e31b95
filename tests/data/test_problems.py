from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from dfstrans import load_episodes
from dfstrans.data.readers import read_episodes
from dfstrans.errors import DfstransError, Note

GOOD = "time,a,b\n0,1,2\n1,2,3\n2,3,5\n3,4,9\n"
FILES = {
    "run_1": GOOD,
    "run_2": GOOD,
    "run_3": GOOD,
    "run_4": GOOD.replace("1,2,3", "1,ERR,3").replace("2,3,5", "2,ERR,5"),
    "run_5": GOOD.replace("2,3,5", "0.5,3,5"),
    "run_6": "time,a,b\n0,1,2\n1.5,2,3\n3,2,3\n",
    "summary": "runs,total\n3,1\n",
    "empty": "",
    "zone": GOOD.replace("\n2,", "\nyesterday,"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_all_problems_of_all_files_are_raised_at_once(folder: Path) -> None:
    with pytest.raises(DfstransError) as raised:
        load_episodes(folder)
    text = str(raised.value)
    for words in (
        "got 6 problems",
        "got 'ERR' in line 3 and text in 1 more rows",
        "expected time to increase",
        "one sampling rate in all episodes (median step 1), got others in run_6 (step 1.5)",
        "summary.csv, got no a, b and also runs, total",
        "empty.csv, got an empty file",
        "times in column 'time' of",
        "skip_bad_files=True",
    ):
        assert words in text


def test_problem_has_count_file_line_and_option(folder: Path) -> None:
    episodes, problems = read_episodes(folder)
    text = next(problem for problem in problems.merged() if problem.kind == "text in a")
    assert (text.count, text.line, text.file, text.option) == (2, 3, folder / "run_4.csv", "skip_bad_files=True")
    assert episodes is not None
    assert episodes.ids.tolist() == ["run_1", "run_2", "run_3", "run_4"]


def test_same_problem_of_several_files_is_one(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.csv").write_text(GOOD.replace("1,2,3", "1,ERR,3") if n < 2 else "" if n < 4 else GOOD)
    _, problems = read_episodes(tmp_path)
    assert [(one.count, one.files) for one in problems.merged()] == [(2, 2), (2, 2)]


def test_bad_files_are_skipped_and_listed(folder: Path) -> None:
    for name in ("run_7", "run_8"):
        (folder / f"{name}.csv").write_text(FILES["run_4"])
    with pytest.warns(UserWarning, match="skipped 8 files") as warned:
        episodes = load_episodes(folder, skip_bad_files=True)
    _, *rows = str(warned[0].message).splitlines()
    assert rows[0].startswith("  3 files (run_4.csv, run_7.csv, run_8.csv): expected numbers in column 'a'")
    assert len(rows) == 7  # the other reasons, and where all files are listed
    assert "data check" in rows[-1]
    assert episodes.ids.tolist() == ["run_1", "run_2", "run_3"]


def test_folder_without_any_good_file_names_the_problem(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(DfstransError, match=r"a\.csv, got an empty file"):
        load_episodes(tmp_path)


CYCLES = "shot,batch,a,quality\n" + "".join(f"{n // 9},B{n // 18},{n % 7},bad\n" for n in range(90))


def test_check_goes_on_with_the_likely_id_if_none_is_named(tmp_path: Path) -> None:
    header, *rows = CYCLES.splitlines()
    gaps = [f"{header},half", *(f"{row},{'' if n < 45 else 1}" for n, row in enumerate(rows))]
    (tmp_path / "cycles.csv").write_text("\n".join(gaps))
    episodes, problems = read_episodes(tmp_path / "cycles.csv")
    assert episodes is not None
    assert len(episodes) == 10
    (problem, text) = problems.merged()
    assert "name it (id_column='shot')" in problem.message
    assert text.message.startswith("skipped columns without numbers: batch (B0, B1, B2, … (5 in all)), quality (bad)")
    with (
        pytest.warns(UserWarning, match="skipped columns"),
        pytest.raises(DfstransError, match="expected a column with the episode of each row"),
    ):
        load_episodes(tmp_path / "cycles.csv")


def test_label_is_suggested_only_where_none_is_known(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("id,a,state,y\nx,0,worn,1\nx,1,fine,1\nz,3,fine,0\n")
    with pytest.warns(
        UserWarning, match=r"skipped columns.*state \(worn, fine\).*; name their roles, if they have one"
    ):
        load_episodes(tmp_path / "runs.csv")
    with pytest.warns(UserWarning, match="label_column='state' and normal_value='fine'"):
        load_episodes(tmp_path / "runs.csv", drop_sensors=["y"])


def test_meaning_of_labels_without_labels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("id,a,state\nx,0,worn\nx,1,fine\nz,3,fine\n")
    for options in ({"normal_value": "fine"}, {"anomalous_value": "worn"}, {"label_map": "fine=0,worn=1"}):
        _, problems = read_episodes(tmp_path / "runs.csv", **options)
        assert "got none; name the labels (label_column=…)" in problems.merged()[0].message


def test_narrow_export_with_other_names_is_recognised(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-01 00:{n:02}:00,{tag},{n}\n" for n in range(9) for tag in ("FT101", "TT201"))
    (tmp_path / "export.csv").write_text(f"when,point,reading\n{rows}")
    _, problems = read_episodes(tmp_path / "export.csv", length=3)
    (found,) = problems.merged()
    assert "names the sensor of each row, name it and the value (tag_column='point' and value_column='reading')" in str(
        found
    )
    assert "time_column='when'" in str(found)


def test_text_between_numbers_is_missing_on_request(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("id,time,a\nx,0,1\nx,1,ERR\nx,2,3\n")
    with pytest.warns(UserWarning, match="'ERR' in line 3"):
        episodes = load_episodes(tmp_path / "runs.csv", text_as_missing=True)
    assert str(episodes.values[0, 0].tolist()) == "[1.0, nan, 3.0]"


def problems_of(place: Path, **options: Any) -> list[str]:
    """What a check finds; it must be able to go on."""
    episodes, problems = read_episodes(place, **options)
    assert episodes is not None
    return [str(problem) for problem in problems.merged()]


def test_check_goes_on_after_files_of_several_time_zones(tmp_path: Path) -> None:
    for name, zone, value in (("1", "Z", 1), ("2", "Z", 2), ("3", "", 3), ("4", "Z", "ERR")):
        rows = f"2024-05-01T00:00:00{zone},1\n2024-05-01T00:00:01{zone},{value}\n"
        (tmp_path / f"{name}.csv").write_text(f"time,a\n{rows}")
    text, zone = problems_of(tmp_path)
    assert "'ERR' in line 3" in text
    assert "with their zone in all files or in none, got UTC in" in zone
    assert "3.csv; write all times in UTC" in zone
    with pytest.warns(UserWarning, match="skipped 2 files"):
        assert load_episodes(tmp_path, skip_bad_files=True).ids.tolist() == ["1", "2"]


def test_check_goes_on_after_unreadable_labels_and_wrong_columns(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("id,time,a,label\nx,0,1,new\nx,1,ERR,new\nz,3,2,worn\n")
    found = problems_of(tmp_path / "runs.csv", time_column="when", drop_sensors=["nope", "b"])
    assert sum("got id, time, a, label; correct" in problem for problem in found) == 3
    text, labels = problems_of(tmp_path / "runs.csv", normal_value="ok")
    assert "expected the normal label 'ok'" in labels
    assert "'ERR' in line 3" in text
    (column,) = problems_of(write(tmp_path / "folder", "1.csv", "2.csv"), group_column="machine")
    assert "got time, a, b; correct group_column" in column


def test_check_goes_on_after_wrong_tables_and_a_length_that_is_too_long(tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text("id,time,a\n" + "".join(f"{name},{n},{n % 3}\n" for name in "xyz" for n in range(9)))
    (tmp_path / "labels.csv").write_text("id,label\nx,0\ny,1\nz,1\n")
    (tmp_path / "faults.csv").write_text("id,fault,start\ny,jam,20\ny,jam,4\nz,jam,30\n")
    found = problems_of(runs, group_column="lable", time_column="tame", length=50)
    assert len(found) == 4
    for words in (
        "expected a column 'tame' in",
        "runs.csv or in the label table",
        "id, label; correct group_column: did you mean label?",
        "in row 1 of",
        "(1 more row cannot be used either)",
        "at least 50 points, got at most 9; choose a smaller length",
    ):
        assert any(words in problem for problem in found), words
    folder = write(tmp_path / "folder", "1.csv", "2.csv")
    (folder / "labels.csv").write_text("run,state\n1,ok\n")
    wrong, unlabelled = problems_of(folder, label_column="nope", time_column="when")[:2]
    assert "expected a column 'nope'" in wrong + unlabelled


# ---- folders that name labels and groups --------------------------------------------------------------------------


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(GOOD)
    return folder


def test_table_alone_in_its_folder_may_hold_several_episodes(tmp_path: Path) -> None:
    (tmp_path / "cycles.csv").write_text(CYCLES)
    _, problems = read_episodes(tmp_path)
    assert "if its column 'shot' holds the episode of each row, give the file itself" in problems.merged()[0].message


def test_class_folders_are_labels(tmp_path: Path) -> None:
    with pytest.warns(Note, match="labels are taken from the folders bad, good"):
        episodes = load_episodes(write(tmp_path, "good/1.csv", "good/2.csv", "bad/1.csv"))
    assert episodes.ids.tolist() == ["bad/1", "good/1", "good/2"]
    assert episodes.require_labels().tolist() == [1, 0, 0]
    assert episodes.faults is None


def test_unknown_class_folders_are_settled_by_the_normal_value(tmp_path: Path) -> None:
    write(tmp_path, "0/1.csv", "7/1.csv", "9/1.csv")
    with pytest.warns(UserWarning, match=r"folders 0, 7, 9 are their labels.*normal_value='0'.*label_map"):
        assert load_episodes(tmp_path).labels is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        episodes = load_episodes(tmp_path, normal_value=0)
    assert episodes.require_labels().tolist() == [0, 1, 1]
    assert [[fault.kind for fault in faults] for faults in episodes.faults or ()] == [[], ["7"], ["9"]]


def test_folder_levels_are_group_and_label(tmp_path: Path) -> None:
    write(tmp_path, "m1/ok/1.csv", "m1/worn/1.csv", "m2/ok/1.csv")
    episodes = load_episodes(tmp_path, folders="group,label", label_map="ok=0,worn=1")
    assert episodes.groups is not None
    assert episodes.groups.tolist() == ["m1", "m1", "m2"]
    assert episodes.require_labels().tolist() == [0, 1, 0]
    with pytest.raises(DfstransError, match="got none for worn \\(1×\\); add them"):
        load_episodes(tmp_path, folders="group,label", label_map="ok=0")
    with pytest.raises(DfstransError, match="expected label, group or - for each of the 2 folder levels"):
        load_episodes(tmp_path, folders="machine")


def test_subfolders_next_to_recordings_are_skipped_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="skipped 1 file in subfolders"):
        assert load_episodes(write(tmp_path, "1.csv", "old/2.csv")).ids.tolist() == ["1"]


def test_the_same_problem_of_many_files_is_one_finding(tmp_path: Path) -> None:
    header = "time,a,label\n"
    for n in range(1, 5):
        folder = tmp_path / "ab"[n % 2]
        folder.mkdir(exist_ok=True)
        rows = [f"{n + t},{n},{int(t > 6)}\n" for t in range(9)]
        back = [*rows[:n], rows[n + 1], rows[n], *rows[n + 2 :]]
        for name, lines in (("good", rows), ("back", back), ("torn", [*rows, f"{n}\n"])):
            (folder / f"{name} {n}.csv").write_text(header + "".join(lines))
        (folder / f"half {n}.csv").write_text(header + "".join(rows).replace(",0", ",", n))
    _, problems = read_episodes(tmp_path, length=3)
    found = [one for one in problems.merged() if one.level == "error"]
    assert [(one.files, one.count) for one in found] == [(4, 4)] * 3
    for words in ("unsorted times", "rows without one", "CSV parse error"):
        assert sum(words in one.message for one in found) == 1


def test_files_of_another_format_are_skipped_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", "2.csv")
    for name in ("4.mat", "5.h5"):
        (tmp_path / name).write_bytes(b"a recording")
    _, problems = read_episodes(tmp_path)
    assert "skipped 2 files of another format than most: 4.mat, 5.h5; " in problems.merged()[-1].message
    for name in ("6.h5", "7.h5", "8.h5", "9.h5"):
        (tmp_path / name).write_bytes(b"a recording")
    _, problems = read_episodes(tmp_path, dataset="x")
    assert "; if 1.csv holds the labels, name it (labels=" in problems.merged()[-1].message


# ---- words of labels ----------------------------------------------------------------------------------------------


def labelled(tmp_path: Path, *words: str) -> Path:
    (tmp_path / "runs.csv").write_text("id,time,a,label\n" + "".join(f"{w},{t},1,{w}\n" for w in words for t in (0, 1)))
    return tmp_path / "runs.csv"


def test_label_map_lists_all_missing_values_with_counts(tmp_path: Path) -> None:
    path = labelled(tmp_path, "ok", "worn", "loose")
    with pytest.raises(DfstransError, match=r"got none for worn \(2×\), loose \(2×\)"):
        load_episodes(path, label_map="ok=0")
    with pytest.raises(DfstransError, match="got 'worn=maybe'"):
        load_episodes(path, label_map="ok=0,worn=maybe")
    with pytest.raises(DfstransError, match="keep one of them"):
        load_episodes(path, label_map="ok=0", normal_value="ok")
    with pytest.raises(DfstransError, match="expected the normal label 'fine'"):
        load_episodes(path, normal_value="fine")


def test_types_of_fault_change_within_a_recording(tmp_path: Path) -> None:
    words = ("ok", "worn", "worn", "loose", "ok")
    (tmp_path / "runs.csv").write_text("id,time,a,label\n" + "".join(f"x,{t},1,{w}\n" for t, w in enumerate(words)))
    faults = load_episodes(tmp_path / "runs.csv", normal_value="ok").faults
    assert faults is not None
    assert [(f.start, f.stop, f.kind) for f in faults[0]] == [(1, 3, "worn"), (3, 4, "loose")]


def test_label_table_keeps_types_of_fault(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,label\n1,ok\n2,worn\n")
    episodes = load_episodes(write(tmp_path, "1.csv", "2.csv"), label_map={"ok": 0, "worn": 1})
    assert [[(f.stop, f.kind) for f in faults] for faults in episodes.faults or ()] == [[], [(4, "worn")]]


# ---- exports of other kinds ---------------------------------------------------------------------------------------


def test_folder_with_several_machines_in_each_file_is_read_by_machine(tmp_path: Path) -> None:
    rows = [f"{n},{machine},{n % 3},v2,{int(n > 7)}" for n in range(10) for machine in ("m1", "m2")]
    for day in ("mon", "tue"):
        (tmp_path / f"{day}.csv").write_text("\n".join(["time,machine,a,firmware,alarm", *rows]))
    episodes, problems = read_episodes(tmp_path)
    assert episodes is not None
    assert len(episodes) == 4
    several, text = problems.merged()
    assert "got m1, m2 in its column 'machine'; if each has" in str(several)
    assert "(id_column='machine') (also in 1 more file)" in str(several)
    assert "firmware (v2)" in str(text)
    episodes = load_episodes(tmp_path, id_column="machine", label_column="alarm", drop_sensors=["firmware"])
    assert episodes.ids.tolist() == ["mon_m1", "mon_m2", "tue_m1", "tue_m2"]
    assert episodes.groups is not None
    assert episodes.groups.tolist() == ["m1", "m2", "m1", "m2"]
    assert episodes.values[1, 0].tolist() == [n % 3 for n in range(10)]
    assert [[(f.start, f.stop) for f in faults] for faults in episodes.faults or ()] == [[(8, 10)]] * 4


def test_table_that_lists_the_files_is_their_label_table(tmp_path: Path) -> None:
    head = "Messung;Presse 3\n\nZeit;a;b;\n"
    for n in range(3):
        (tmp_path / f"Hub {n}.CSV").write_text(head + "".join(f"{t};{t},5;2,5;\n" for t in range(6)))
    (tmp_path / "Befunde.csv").write_text(
        "Datei;Befund;Kunde\n" + "".join(f"Hub {n}.CSV;{'i.O.' if n else 'Riss'};X\n" for n in range(3))
    )
    with pytest.warns(Note) as warned:
        episodes = load_episodes(tmp_path, label_column="Befund", normal_value="i.O.")
    said = [str(one.message) for one in warned]
    assert "labels are taken from Befunde.csv, which lists the files" in said
    assert "skipped 2 lines before the header" in said
    assert (episodes.sensors, episodes.require_labels().tolist()) == (("a", "b"), [1, 0, 0])
    assert episodes.values[0, 0, 1] == 1.5


def test_spreadsheet_next_to_recordings_has_a_remedy(tmp_path: Path) -> None:
    (write(tmp_path, "1.csv", "2.csv") / "labels.xlsx").write_bytes(b"PK")
    (sheet,) = problems_of(tmp_path)
    assert "skipped labels.xlsx: spreadsheets are not read" in sheet
    assert "labels.csv" in sheet


def test_export_of_a_historian_is_read(tmp_path: Path) -> None:
    rows = [f"{n // 9 + 1:02}-Feb-25 00:{n:02}:00,{tag},{n}" for n in range(9) for tag in ("FT1", "TT2")]
    rows[4] = "01-Feb-25 00:02:00,FT1,No Data"
    (tmp_path / "export.csv").write_text("\n".join(["Timestamp,Tag,Value", *rows]))
    (tmp_path / "faults.csv").write_text(
        "recording,fault,start,end\nexport,jam,1-Feb-2025 00:04:00,01-Feb-25 00:06:00\n"
    )
    _, problems = read_episodes(tmp_path / "export.csv", length=3)
    assert "'No Data'; correct them, read them as missing (text_as_missing=True)" in str(problems.merged()[0])
    with pytest.warns(UserWarning, match="'No Data'"):
        episodes = load_episodes(tmp_path / "export.csv", length=3, text_as_missing=True)
    assert (episodes.interval, episodes.require_labels().tolist()) == (60, [0, 1, 0])
    assert episodes.starts is not None
    assert str(episodes.starts[0]) == "2025-02-01T00:00:00.000000000"

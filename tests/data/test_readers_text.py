"""Long tables in text: the habits of files, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import PLAIN, from_text


def assert_plain(episodes: Episodes) -> None:
    assert episodes.sensors == ("a", "b")
    assert episodes.ids.tolist() == ["1", "2"]
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1]
    assert episodes.interval == 1.0
    assert_array_equal(episodes.values, [[[1.5, 2.5], [2, 3]], [[3.5, 4.5], [4, 5]]])


def test_a_plain_table_is_read_as_it_stands(tmp_path: Path) -> None:
    assert_plain(from_text(tmp_path, PLAIN))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PLAIN.replace(",", ";"), id="semicolons"),
        pytest.param(PLAIN.replace(",", "\t"), id="tabs"),
        pytest.param(PLAIN.replace(",", "|"), id="bars"),
        pytest.param(PLAIN.replace(",", ";").replace(".", ","), id="decimal comma"),
        pytest.param("\ufeff" + PLAIN, id="byte order mark"),
        pytest.param("sep=;\n" + PLAIN.replace(",", ";"), id="delimiter line of a spreadsheet"),
        pytest.param(
            "".join(f"{row - 1 if row else 'Unnamed: 0'},{line}\n" for row, line in enumerate(PLAIN.splitlines())),
            id="row numbers of pandas",
        ),
        pytest.param(PLAIN.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(PLAIN.encode("utf-16"), id="UTF-16"),
        pytest.param(PLAIN.replace(",", " , "), id="spaces"),
        pytest.param(PLAIN.replace("\n", ",\n"), id="trailing delimiter"),
        pytest.param(PLAIN.replace("1\n", "1,\n").replace("0\n", "0,\n"), id="trailing delimiter below the header"),
        pytest.param(PLAIN.replace("label\n", "label,\n"), id="trailing delimiter in the header only"),
        pytest.param(PLAIN.replace("1.5", '"1.5"').replace("episode_id", '"episode_id"'), id="quotes"),
        pytest.param("# made by hand\n\n" + PLAIN, id="comment"),
        pytest.param("# made by hand\n# " + PLAIN, id="header as a comment"),
        pytest.param(PLAIN.replace("episode_id,time", "EPISODE,Timestamp").replace("label", "Anomaly"), id="synonyms"),
        pytest.param(PLAIN.replace(",0\n", ",0.0\n").replace(",1\n", ",1.0\n"), id="labels as 1.0"),
        pytest.param(PLAIN.replace(",0\n", ",False\n").replace(",1\n", ",true\n"), id="labels as true"),
        pytest.param(PLAIN.rstrip("\n"), id="no line end at the end"),
        pytest.param(PLAIN.replace("\n", "\n\n"), id="blank lines"),
        pytest.param(
            "".join(f"{i - 1 if i else ''},{line}\n" for i, line in enumerate(PLAIN.splitlines())),
            id="pandas' row numbers",
        ),
    ],
)
def test_habits_of_text_files_do_not_change_the_episodes(tmp_path: Path, text: str | bytes) -> None:
    assert_plain(from_text(tmp_path, text))


@pytest.mark.parametrize("name", ["runs.tsv", "runs.txt", "runs.CSV"])
def test_other_suffixes_of_text_are_read_too(tmp_path: Path, name: str) -> None:
    assert_plain(from_text(tmp_path, PLAIN, name))


def test_a_compressed_table_is_read_and_one_that_ends_early_refused(tmp_path: Path) -> None:
    whole = gzip.compress((PLAIN + "".join(f"9,{i},{i * 0.37},{i * i * 0.11},0\n" for i in range(3000))).encode())
    assert from_text(tmp_path, whole, "runs.csv.gz").lengths.tolist() == [2, 2, 3000]
    with pytest.raises(DfstransError, match=r"runs\.csv\.gz.*ends early"):
        from_text(tmp_path, whole[: len(whole) // 2], "runs.csv.gz")
    with pytest.raises(DfstransError, match=r"runs\.csv\.gz"):
        from_text(tmp_path, PLAIN, "runs.csv.gz")


@pytest.mark.parametrize("word", ["", "NA", "NaN", "nan", "null", "?", "N/A", " ", "  NA "])
def test_every_word_for_missing_becomes_nan(tmp_path: Path, word: str) -> None:
    values = np.asarray(from_text(tmp_path, PLAIN.replace("2.5", word)).values)
    assert np.isnan(values[0, 0, 1])
    assert np.isfinite(values).sum() == values.size - 1


def test_latin_1_names_and_units_in_headers_are_understood(tmp_path: Path) -> None:
    text = PLAIN.replace("a,b", "Temperatur [°C],Prüfkraft (N)")
    for encoding in ("latin-1", "utf-8"):
        episodes = from_text(tmp_path, text.encode(encoding))
        assert episodes.sensors == ("Temperatur", "Prüfkraft")
        assert episodes.units == ("°C", "N")


def test_latin_1_beyond_the_first_lines_is_read_too(tmp_path: Path) -> None:
    text = "id,time,a\n" + "".join(f"x,{i},1.0\n" for i in range(20000)) + "süd,0,2.0\n"
    assert from_text(tmp_path, text.encode("latin-1")).ids.tolist() == ["x", "süd"]


def test_episodes_may_be_interleaved_and_keep_the_order_of_first_appearance(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,a\nz,0,1\nb,0,10\nz,1,2\nb,1,20\nz,2,3\n")
    assert episodes.ids.tolist() == ["z", "b"]
    assert episodes.lengths.tolist() == [3, 2]
    assert_array_equal(episodes.values, [[[1, 2, 3]], [[10, 20, np.nan]]])


@pytest.mark.parametrize("copy", [["x,0,1", "x,1,2"], ["x,1,7", "x,2,8"]], ids=["the same", "overlapping"])
def test_an_episode_that_is_there_twice_is_named_before_sorting_is_advised(tmp_path: Path, copy: list[str]) -> None:
    lines = ["id,time,a", "x,0,1", "x,1,2", "x,2,3", "y,0,1", "y,1,2", *copy]
    with pytest.raises(DfstransError, match=r"same times more than once in x: .*id of its own") as caught:
        from_text(tmp_path, "\n".join(lines))
    assert "sort_time" not in str(caught.value)


GERMAN = "episode_id;time;a;b;label\n" + "".join(
    f"{e};{t}{{c}}5;{{a}};0{{c}}{t};{e}\n" for e in (0, 1) for t in range(2)
)


def test_points_in_one_column_and_commas_in_another_are_decimals_with_a_warning(tmp_path: Path) -> None:
    text = "id;time;temp;flow;label\n" + "".join(f"{e};{t};23.13{t};0,3{t};{e}\n" for e in (0, 1) for t in range(3))
    with pytest.warns(UserWarning, match="points in temp and commas in flow are both read as decimal signs; if one of"):
        episodes = from_text(tmp_path, text)
    assert_array_equal(episodes.values[0], np.float32([[23.130, 23.131, 23.132], [0.30, 0.31, 0.32]]))


def test_thousands_separators_beside_decimal_commas_are_named_and_not_the_time(tmp_path: Path) -> None:
    text = GERMAN.replace("{c}", ",").replace("{a}", "1.034")
    with (
        pytest.warns(UserWarning, match="points in a and commas in time, b are both read"),
        pytest.raises(DfstransError, match=r"expected one decimal sign .* got commas in column 'time' .* thousands"),
    ):
        from_text(tmp_path, text)


@pytest.mark.parametrize("delimiter", [";", ","])
def test_whole_numbers_with_what_looks_like_thousands_separators_are_warned_of(tmp_path: Path, delimiter: str) -> None:
    text = GERMAN.replace(";", delimiter).replace("{c}", "").replace("{a}", "950", 1).replace("{a}", "1.001")
    with pytest.warns(UserWarning, match="points in a look like thousands separators"):
        assert from_text(tmp_path, text).values[0, 0, 1] == np.float32(1.001)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "numbers", [("0.950", "1.001"), ("95", "1.001"), ("950", "1.0015"), ("100", "99.125"), ("950", "99.125")]
)
def test_decimals_are_no_thousands(tmp_path: Path, numbers: tuple[str, str]) -> None:
    text = GERMAN.replace("{c}", "").replace("{a}", numbers[0], 1).replace("{a}", numbers[1])
    assert from_text(tmp_path, text).values[0, 0, 1] == np.float32(numbers[1])


@pytest.mark.filterwarnings("error")
def test_signs_in_columns_that_are_not_read_as_numbers_are_not_warned_of(tmp_path: Path) -> None:
    rows = [f"1.{e}01;0;3,5{t};{t};1.001;{e}\n" for e in (0, 1) for t in range(3)]
    text = "".join(["id;note;a;time;extra;label\n", *rows])
    assert from_text(tmp_path, text, drop_sensors=("note", "extra")).sensors == ("a",)
    times = "id,time,a\nx,999.998,1\nx,999.999,2\nx,1.000,3\n"
    assert from_text(tmp_path, times, sort_time=True, irregular_time="ignore").n_sensors == 1


def test_columns_can_be_named_and_dropped(tmp_path: Path) -> None:
    text = "drive,clock,a,note,bad\nx,0,1,hello,1\nx,1,2,you,1\ny,0,3,all,0\n"
    options = {"id_column": "Drive", "time_column": "clock", "label_column": "bad", "drop_sensors": ("note",)}
    episodes = from_text(tmp_path, text, **options)
    assert episodes.sensors == ("a",)
    assert episodes.n_anomalous == 1
    with pytest.raises(DfstransError, match=r"expected a column 'nope' in .* \(drop_sensors\), got drive, clock"):
        from_text(tmp_path, text, id_column="drive", drop_sensors=("nope",))


def test_text_among_numbers_is_named_with_its_column_and_row(tmp_path: Path) -> None:
    with pytest.raises(
        DfstransError, match=r"column 'a' of .*, got 'broken' in row 3 .*label_column.*drop_sensors='a'"
    ):
        from_text(tmp_path, PLAIN.replace("3.5", "broken"))


def test_infinite_values_are_refused_unless_read_as_missing(tmp_path: Path) -> None:
    text = PLAIN.replace("3.5", "-inf")
    with pytest.raises(
        DfstransError, match=r"infinite ones in sensors a, episodes: 2;.*infinite_as_missing.*beyond 3\.4e38"
    ):
        from_text(tmp_path, text)
    assert np.isnan(np.asarray(from_text(tmp_path, text, infinite_as_missing=True).values)[1, 0, 0])


def test_a_continuous_recording_is_cut_by_length_and_stride(tmp_path: Path) -> None:
    text = "time,a,label\n" + "".join(f"{t},{t},{int(t == 4)}\n" for t in range(11))
    with pytest.raises(DfstransError, match=r"episode of each row.*give a length"):
        from_text(tmp_path, text)
    with pytest.warns(UserWarning, match=r"^in no episode: 3 points at the end of 1 of 1 recording: runs \(3\)"):
        episodes = from_text(tmp_path, text, length=4)
    assert episodes.ids.tolist() == ["runs@0", "runs@4"]
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1]
    assert episodes.faults == ((), (Fault(0, 1),))
    with pytest.warns(UserWarning, match="in no episode: 1 point at the end"):
        overlapping = from_text(tmp_path, text, length=4, stride=2)
    assert_array_equal(np.asarray(overlapping.values)[:, 0, 0], [0, 2, 4, 6])
    assert overlapping.labels is not None
    assert overlapping.labels.tolist() == [0, 1, 1, 0]
    with pytest.raises(DfstransError, match="recordings of at least 12 points, got at most 11"):
        from_text(tmp_path, text, length=12)
    with pytest.raises(DfstransError, match="expected length with stride=2"):
        from_text(tmp_path, text, stride=2)


def test_recordings_that_are_cut_evenly_are_not_warned_of(tmp_path: Path) -> None:
    assert len(from_text(tmp_path, "a\n" + "1\n" * 12, length=4)) == 3
    assert len(from_text(tmp_path, "a\n" + "1\n" * 10, length=4, stride=3)) == 3
    assert len(from_text(tmp_path, "a\n" + "1\n" * 10, length=4, stride=6)) == 2


def test_days_of_one_long_recording_are_groups_to_split_by(tmp_path: Path) -> None:
    rows = [(t, t % 3, int(t % 10 < 2), f"day {t // 20}") for t in range(120)]
    text = "time,a,label,day\n" + "".join(f"{t},{a},{label},{day}\n" for t, a, label, day in rows)
    one = from_text(tmp_path, text, length=5, drop_sensors=["day"])
    with pytest.raises(
        DfstransError, match=r"at least 3 groups .*got 1 \(runs\); .*\(load_episodes\(…, id_column=…\)\)"
    ):
        one.split(by_group=True)
    by_day = from_text(tmp_path, text, length=5, id_column="day")
    assert by_day.ids.tolist()[:5] == ["day 0@0", "day 0@5", "day 0@10", "day 0@15", "day 1@0"]
    parts = [set(part.require_groups().tolist()) for part in by_day.split(by_group=True)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 6


def test_recordings_with_ids_are_cut_each_by_itself(tmp_path: Path) -> None:
    rows = "".join(f"{name},{t},{t},{label}\n" for name, label in (("m1", 0), ("m2", 1)) for t in range(5))
    whole, ends = "all pieces of 1 anomalous recording count as anomalous: m2", r"2 of 2 recordings: m1 \(1\), m2 \(1\)"
    with pytest.warns(UserWarning, match=whole), pytest.warns(UserWarning, match=ends):
        episodes = from_text(tmp_path, "id,time,a,label\n" + rows, length=2)
    assert episodes.ids.tolist() == ["m1@0", "m1@2", "m2@0", "m2@2"]
    assert episodes.groups is not None
    assert episodes.labels is not None
    assert episodes.groups.tolist() == ["m1", "m1", "m2", "m2"]
    assert episodes.labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty file"),
        ("\n\n", "blank lines"),
        ("id,time,a\n", "rows below the header"),
        ("1,0,1.5\n1,1,2.5\n", "header line"),
        ("id,time,a,a\nx,0,1,2\n", "repeated names: a"),
        (PLAIN + "2,2,3", "ends early.*Expected 5 columns, got 3"),
        ("id,time,a\nx,0,1\n,1,2\n", "none in row 2"),
        ("id,time,a\nx,0,1\nx,,2\n", "expected a time in each row.*row 2"),
        ("id,time\nx,0\n", "at least one sensor"),
        ("id,,a\nx,7,1\nx,9,1\n", "a name for each column.*column 2"),
        (b"\x00\x01\x02\x03" * 50, "binary content"),
    ],
)
def test_a_damaged_table_gives_one_clear_error(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        from_text(tmp_path, text)


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="got also spacecraft; leave"):
        from_text(tmp_path, PLAIN, spacecraft="SMAP")
    with pytest.raises(DfstransError, match="unknown setting 'lenght'"):
        from_text(tmp_path, PLAIN, lenght=5)


def test_numbers_survive_reading_to_the_last_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((300, 3)).astype(np.float32)
    text = "id,a,b,c\n" + "".join("x," + ",".join(repr(float(v)) for v in row) + "\n" for row in values)
    assert_array_equal(np.asarray(from_text(tmp_path, text).values)[0], values.T)


def test_ids_stand_by_first_appearance_whatever_the_dictionary_of_a_parquet_file(tmp_path: Path) -> None:
    def rows(numbers: list[int], dictionary: list[str], labels: list[int | None]) -> pa.Table:
        ids = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(dictionary))
        words = pa.DictionaryArray.from_arrays(pa.array(labels), pa.array(["1", "unused", "0"]))
        return pa.table({"episode_id": ids, "a": pa.array(range(len(numbers)), pa.float32()), "label": words})

    parts = [rows([2, 2, 0, 0], ["z", "unused", "late"], [2, 2, 0, 0]), rows([1, 1], ["z", "new"], [2, 2])]
    with pq.ParquetWriter(tmp_path / "runs.parquet", parts[0].schema) as file:
        for part in parts:
            file.write_table(part)
    episodes = load_episodes(tmp_path / "runs.parquet")
    assert episodes.ids.tolist() == ["late", "z", "new"]
    assert episodes.require_labels().tolist() == [0, 1, 0]
    assert_array_equal(episodes.values[:, 0], [[0, 1], [2, 3], [0, 1]])


def test_a_table_of_every_kind_of_column_in_parquet_is_read(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "episode": [7, 7, 3, 3],
            "timestamp": pd.to_datetime(["2024-01-01 00:00:00", "2024-01-01 00:00:05"] * 2),
            "whole": [1, 2, 3, 4],
            "flag": [True, False, True, True],
            "state": pd.Categorical(["1", "2", "1", "2"]),
            "label": [0.0, 0.0, 1.0, 1.0],
        },
        index=[4, 5, 6, 7],
    )
    frame.to_parquet(tmp_path / "runs.parquet")
    episodes = load_episodes(tmp_path / "runs.parquet")
    assert episodes.ids.tolist() == ["7", "3"]
    assert episodes.interval == 5.0
    assert episodes.n_anomalous == 1
    assert_allclose(np.asarray(episodes.values)[0], [[1, 2], [1, 0], [1, 2]])
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes((tmp_path / "runs.parquet").read_bytes()[:-100])
    with pytest.raises(DfstransError, match=r"damaged\.parquet, but the file ends early"):
        load_episodes(damaged)
    with pytest.raises(DfstransError, match=r"expected numbers in column 'timestamp'.*drop_sensors"):
        load_episodes(tmp_path / "runs.parquet", time_column="whole")


@pytest.mark.parametrize("width", [10, 300])
def test_a_table_of_thousands_of_sensors_is_read(tmp_path: Path, width: int) -> None:
    sensors = [f"sensor {i} {'x' * width}" for i in range(4000)]  # the header alone exceeds what is first looked at
    rows = [f"r1,{t}," + ",".join(f"{i + t}.123456789" for i in range(4000)) for t in range(2)]
    episodes = from_text(tmp_path, "\n".join([f"id,time,{','.join(sensors)}", *rows]) + "\n")
    assert episodes.sensors == tuple(sensors)
    assert_allclose(np.asarray(episodes.values)[0, :, 1], np.arange(4000) + 1.123456789, rtol=1e-6)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            "time",
            r"times in column 'time' of .*lists\.parquet as numbers or dates, got list.*another column .time_column=…",
        ),
        ("a", "numbers in column 'a'.*got list"),
        ("id", r"lists\.parquet"),
        ("label", r"lists\.parquet"),
    ],
)
def test_a_column_of_lists_gives_one_clear_error(tmp_path: Path, column: str, words: str) -> None:
    columns = {"id": ["x", "x"], "time": [0.0, 1.0], "a": [1.0, 2.0], "label": [0, 1]}
    table = pa.table(columns | {column: pa.array([[{"b": 0.5}], [{"b": 1.5}]])})
    pq.write_table(table, tmp_path / "lists.parquet")
    with pytest.raises(DfstransError, match=words):
        load_episodes(tmp_path / "lists.parquet")


def test_a_dropped_column_does_not_take_its_namesake_along(tmp_path: Path) -> None:
    text = "id,time,a [m],a,A\nx,0,1,2,3\nx,1,4,5,6\n"
    episodes = from_text(tmp_path, text, drop_sensors=("a",))
    assert_array_equal(np.asarray(episodes.values)[0], [[1, 4], [3, 6]])


@pytest.mark.parametrize("word", ["n.a.", "<NA>", "--", "#NV", "#DIV/0!"])
def test_what_spreadsheets_and_people_write_for_a_missing_value_is_missing(tmp_path: Path, word: str) -> None:
    episodes = from_text(tmp_path, PLAIN.replace("2.5", word))
    assert_array_equal(episodes.values[0, 0], [1.5, np.nan])


def test_columns_between_blanks_are_told_to_need_another_delimiter(tmp_path: Path) -> None:
    with pytest.raises(
        DfstransError, match=r"separated by a comma, semicolon, tab .* got one column 'episode_id time a b"
    ):
        from_text(tmp_path, PLAIN.replace(",", " "), "runs.txt")


@pytest.mark.parametrize(
    ("name", "words"),
    [("runs.zip", "an archive .*; unpack it first"), ("runs.xlsx", "a spreadsheet .*; save its sheet")],
)
def test_archives_and_spreadsheets_are_called_what_they_are(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        from_text(tmp_path, b"PK\3\4", name)


@pytest.mark.parametrize("end", ["-", "5.", "1.5e-"])
def test_a_file_that_ends_within_a_number_is_told_of(tmp_path: Path, end: str) -> None:
    text = f"id,time,a,b\nx,0,1,2.5\nx,1,1,{end}"
    if end == "1.5e-":
        with pytest.warns(UserWarning, match="looks like"), pytest.raises(DfstransError, match="expected numbers"):
            from_text(tmp_path, text)
        return
    with pytest.warns(UserWarning, match=rf"runs\.csv ends without an end of line and with '{end}'.*write it again"):
        from_text(tmp_path, text)
    from_text(tmp_path, text + "\n")  # a dash on a line of its own is a missing value
    from_text(tmp_path, text.removesuffix(end) + "7")


def test_one_column_that_ends_within_a_number_is_told_of(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"with '5\.'"):
        from_text(tmp_path, "a\n1.5\n5.", length=2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "text",
    [
        "id,time,a\nx,0,-\nx,1,2\nx,2,-",
        "id,time,a\nx,0,3.\r\nx,1,4.",
        "a\n3.\n4.",
        "id,time,a,label\nx,0,1,ok\ny,0,2,+",
    ],
)
def test_a_whole_file_that_ends_in_a_sign_or_a_point_is_not_told_of(tmp_path: Path, text: str) -> None:
    options = {"anomalous_value": "+"} if "label" in text else {} if "id" in text else {"length": 2}
    from_text(tmp_path, text, **options)

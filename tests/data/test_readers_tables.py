"""Long tables: text of any dialect, Parquet, and the roles and content of their columns, narrow exports."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dfstrans.data.readers import load_episodes, read_episodes
from dfstrans.data.readers.columns import to_coded_texts, to_texts
from dfstrans.errors import DfstransError, Note
from tests.data.text_tables import PLAIN, from_text

ROW_NUMBERS = "".join(f"{row - 1 if row else '{}'},{line}\n" for row, line in enumerate(PLAIN.splitlines()))
DIALECTS: dict[str, str | bytes] = {
    "plain": PLAIN,
    "semicolons": PLAIN.replace(",", ";"),
    "tabs": PLAIN.replace(",", "\t"),
    "bars": PLAIN.replace(",", "|"),
    "decimal comma": PLAIN.replace(",", ";").replace(".", ","),
    "byte order mark": "\ufeff" + PLAIN,
    "delimiter line of a spreadsheet": "sep=;\n" + PLAIN.replace(",", ";"),
    "row numbers of pandas": ROW_NUMBERS.format("Unnamed: 0"),
    "nameless row numbers": ROW_NUMBERS.format(""),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "UTF-16": PLAIN.encode("utf-16"),
    "spaces": PLAIN.replace(",", " , "),
    "trailing delimiter": PLAIN.replace("\n", ",\n"),
    "trailing delimiter below the header": PLAIN.replace("1\n", "1,\n").replace("0\n", "0,\n"),
    "trailing delimiter in the header": PLAIN.replace("label\n", "label,\n"),
    "quotes": PLAIN.replace("1.5", '"1.5"').replace("episode_id", '"episode_id"'),
    "comment": "# made by hand\n\n" + PLAIN,
    "header as a comment": "# made by hand\n# " + PLAIN,
    "synonyms": PLAIN.replace("episode_id,time", "EPISODE,Timestamp").replace("label", "Anomaly"),
    "labels as 1.0": PLAIN.replace(",0\n", ",0.0\n").replace(",1\n", ",1.0\n"),
    "labels as true": PLAIN.replace(",0\n", ",False\n").replace(",1\n", ",true\n"),
    "no line end at the end": PLAIN.rstrip("\n"),
    "blank lines": PLAIN.replace("\n", "\n\n"),
}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(pytest.param(text, "runs.csv", id=dialect) for dialect, text in DIALECTS.items()),
        *(pytest.param(PLAIN, name, id=name) for name in ("runs.tsv", "runs.txt", "runs.CSV")),
        pytest.param(gzip.compress(PLAIN.encode()), "runs.csv.gz", id="runs.csv.gz"),
    ],
)
def test_dialect_does_not_change_the_episodes(tmp_path: Path, text: str | bytes, name: str) -> None:
    episodes = from_text(tmp_path, text, name)
    assert (episodes.sensors, episodes.ids.tolist(), episodes.interval) == (("a", "b"), ["1", "2"], 1.0)
    assert episodes.require_labels().tolist() == [0, 1]
    assert_array_equal(episodes.values, [[[1.5, 2.5], [2, 3]], [[3.5, 4.5], [4, 5]]])


@pytest.mark.parametrize(
    "word", ["", "NA", "NaN", "nan", "null", "?", "N/A", " ", "  NA ", "n.a.", "<NA>", "--", "#NV", "#DIV/0!"]
)
def test_words_for_missing_values_become_nan(tmp_path: Path, word: str) -> None:
    values = from_text(tmp_path, PLAIN.replace("2.5", word)).values
    assert_array_equal(values[0], [[1.5, np.nan], [2, 3]])


def test_numbers_keep_every_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((300, 3)).astype(np.float32)
    text = "id,a,b,c\n" + "".join("x," + ",".join(repr(float(v)) for v in row) + "\n" for row in values)
    assert_array_equal(from_text(tmp_path, text).values[0], values.T)


def test_latin_1_is_read_anywhere_in_the_file(tmp_path: Path) -> None:
    header = PLAIN.replace("a,b", "Temperatur [°C],Prüfkraft (N)")
    for encoding in ("latin-1", "utf-8"):
        episodes = from_text(tmp_path, header.encode(encoding))
        assert (episodes.sensors, episodes.units) == (("Temperatur", "Prüfkraft"), ("°C", "N"))
    text = "id,time,a\n" + "".join(f"x,{i},1.0\n" for i in range(20000)) + "süd,0,2.0\n"
    assert from_text(tmp_path, text.encode("latin-1")).ids.tolist() == ["x", "süd"]


@pytest.mark.parametrize("width", [10, 300])
def test_header_longer_than_the_first_sample_is_read(tmp_path: Path, width: int) -> None:
    sensors = [f"sensor {i} {'x' * width}" for i in range(4000)]
    rows = [f"r1,{t}," + ",".join(f"{i + t}.123456789" for i in range(4000)) for t in range(2)]
    episodes = from_text(tmp_path, "\n".join([f"id,time,{','.join(sensors)}", *rows]) + "\n")
    assert episodes.sensors == tuple(sensors)
    assert_allclose(episodes.values[0, :, 1], np.arange(4000) + 1.123456789, rtol=1e-6)


# ---- ambiguous and damaged text ---------------------------------------------------------------------------------


def german(first: str, second: str, comma: str = "", delimiter: str = ";") -> str:
    rows = [
        f"{e};{t}{comma}5;{first if (e, t) == (0, 0) else second};0{comma}{t};{e}\n" for e in (0, 1) for t in (0, 1)
    ]
    return ("episode_id;time;a;b;label\n" + "".join(rows)).replace(";", delimiter)


def test_points_and_commas_in_different_columns_are_decimals_with_a_warning(tmp_path: Path) -> None:
    text = "id;time;temp;flow;label\n" + "".join(f"{e};{t};23.13{t};0,3{t};{e}\n" for e in (0, 1) for t in range(3))
    with pytest.warns(UserWarning, match="points in temp and commas in flow are both read as decimal signs"):
        episodes = from_text(tmp_path, text)
    assert_array_equal(episodes.values[0], np.float32([[23.130, 23.131, 23.132], [0.30, 0.31, 0.32]]))
    with pytest.warns(UserWarning, match="points in a and commas in b are both"):
        from_text(tmp_path, german("1.034", "1.034", comma=","))


def test_decimal_sign_of_the_time_does_not_decide_that_of_the_values(tmp_path: Path) -> None:
    rows = "".join(f"{t},5;20.{t};3\n" for t in range(3))
    for header, options in (("Takt", {"time_column": "Takt"}), ("Zeit", {})):  # named, or recognised
        episodes = from_text(tmp_path, f"{header};T;p\n{rows}", length=3, **options)
        assert (episodes.sensors, episodes.interval) == (("T", "p"), 1.0)
        assert_array_equal(episodes.values[0, 0], np.float32([20.0, 20.1, 20.2]))
    assert from_text(tmp_path, "Zeit;T\n0.5;20,1\n1.0;20,2\n", length=2).values[0, 0, 1] == np.float32(20.2)


@pytest.mark.parametrize("name", ["Zeit", "Zeitstempel", "Datum", "Horodatage", "Fecha y hora", "时间", "_time"])
def test_usual_names_of_the_time_are_recognised(tmp_path: Path, name: str) -> None:
    episodes = from_text(tmp_path, f"{name};a\n2024-05-01 12:00:00,0;1\n2024-05-01 12:00:00,5;2\n", length=2)
    assert (episodes.sensors, episodes.interval) == (("a",), 0.5)


@pytest.mark.parametrize("time", ["0,{}", "2024-05-01 12:00:0{}"])
def test_row_of_units_below_the_header_gives_the_units(tmp_path: Path, time: str) -> None:
    rows = "".join(f"{time.format(t)};2{t},5;1,{t};{t};\n" for t in range(5))
    with pytest.warns(Note, match=r"row below the header: .*Öl temp \[°C\], p \[bar\]"):
        episodes = from_text(tmp_path, f"Zeit;Öl temp;p;n;leer\n\ns;[°C];bar;-;A\n{rows}", length=5)
    assert (episodes.sensors, episodes.units) == (("Öl temp", "p", "n", "leer"), ("°C", "bar", "", "A"))
    assert_array_equal(episodes.values[0, 0], np.float32([20.5, 21.5, 22.5, 23.5, 24.5]))
    assert episodes.time_unit == "s"


def test_line_of_a_bad_cell_counts_the_row_of_units(tmp_path: Path) -> None:
    text = "time,a\ns,V\n" + "".join(f"{t},{t}\n" for t in range(699)) + "699,bad\n"
    with pytest.warns(Note), pytest.raises(DfstransError, match="'bad' in line 702"):
        from_text(tmp_path, text, length=5)


@pytest.mark.parametrize("first", ["0,bad", "2024-05-01,bad", "x,bad"])
def test_text_in_the_first_row_of_values_is_no_unit(tmp_path: Path, first: str) -> None:
    rest = {"0": "1,2\n", "2": "2024-05-02,2\n", "x": "x,2\n"}[first[0]]
    with pytest.raises(DfstransError, match="'bad' in line 2"):
        from_text(tmp_path, f"{'id' if first[0] == 'x' else 'time'},a\n{first}\n{rest}{rest}", length=3)


def test_points_that_look_like_thousands_separators_give_a_warning(tmp_path: Path) -> None:
    for delimiter in ";,":
        with pytest.warns(UserWarning, match="points in a look like thousands separators"):
            episodes = from_text(tmp_path, german("950", "1.001", delimiter=delimiter))
        assert episodes.values[0, 0, 1] == np.float32(1.001)
    for first, second in (("0.950", "1.001"), ("95", "1.001"), ("950", "1.0015"), ("100", "99.125"), ("950", "99.125")):
        assert from_text(tmp_path, german(first, second)).values[0, 0, 1] == np.float32(second)


def test_points_in_columns_that_are_not_sensors_give_no_warning(tmp_path: Path) -> None:
    rows = [f"1.{e}01;0;3,5{t};{t};1.001;{e}\n" for e in (0, 1) for t in range(3)]
    text = "".join(["id;note;a;time;extra;label\n", *rows])
    assert from_text(tmp_path, text, drop_sensors=("note", "extra")).sensors == ("a",)
    times = "id,time,a\nx,999.998,1\nx,999.999,2\nx,1.000,3\n"
    assert from_text(tmp_path, times, sort_time=True, irregular_time="ignore").n_sensors == 1


@pytest.mark.parametrize(
    ("start", "end", "options"),
    [("id,time,b\nx,0,2.5\nx,1,", "-", {}), ("id,b\nx,2.5\nx,", "5.", {}), ("a\n1.5\n", "5.", {"length": 2})],
)
def test_file_that_ends_within_a_number_gives_a_warning(
    tmp_path: Path, start: str, end: str, options: dict[str, int]
) -> None:
    with pytest.warns(UserWarning, match=rf"runs\.csv ends without a line end after '{end}'"):
        from_text(tmp_path, start + end, **options)
    from_text(tmp_path, start + end + "\n", **options)
    from_text(tmp_path, start + "7", **options)


def test_exponent_without_digits_gives_a_warning_and_an_error(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="truncated"), pytest.raises(DfstransError, match="expected numbers"):
        from_text(tmp_path, "id,time,a\nx,0,1\nx,1,1.5e-")


def test_trailing_sign_or_point_is_fine_if_other_rows_have_it(tmp_path: Path) -> None:
    for text in ("id,time,a\nx,0,-\nx,1,2\nx,2,-", "id,time,a\nx,0,3.\r\nx,1,4."):
        from_text(tmp_path, text)
    from_text(tmp_path, "a\n3.\n4.", length=2)
    from_text(tmp_path, "id,time,a,label\nx,0,1,ok\ny,0,2,+", anomalous_value="+")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty file"),
        ("\n\n", "blank lines"),
        ("id,time,a\n", "rows below the header"),
        ("1,0,1.5\n1,1,2.5\n", "header line"),
        ("id,time,a,a\nx,0,1,2\n", "repeated ones: a"),
        (PLAIN + "2,2,3", "ends early.*Expected 5 columns, got 3"),
        ("id,time,a\nx,0,1\n,1,2\n", "none in data row 2"),
        ("id,time,a\nx,0,1\nx,,2\n", "a time in each row.*row 2"),
        ("id,time\nx,0\n", "at least one sensor"),
        ("id,,a\nx,7,1\nx,9,1\n", "a name for each column.*column 2"),
        (PLAIN.replace("3.5", "bad"), "column 'a' of .*'bad' in line 4.*text_as_missing.*drop_sensors='a'"),
        (b"\x00\x01\x02\x03" * 50, "binary content"),
        (PLAIN.replace(",", " "), "comma, semicolon, tab .* got one column 'episode_id time a b"),
    ],
)
def test_damaged_table_gives_one_clear_error(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        from_text(tmp_path, text)


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress((PLAIN + "".join(f"9,{i},{i * 0.37},{i * i * 0.11},0\n" for i in range(3000))).encode())
    for content in (whole[: len(whole) // 2], PLAIN.encode()):
        with pytest.raises(DfstransError, match=r"runs\.csv\.gz.*ends early"):
            from_text(tmp_path, content, "runs.csv.gz")


# ---- columns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", " a", None, "a ", "b"]),
        pa.chunked_array([["b", "a"], ["a", " b "]]),
        pa.array([3, 1, None, 3]),
        pa.array([2.0, float("nan"), -0.0, 0.0, None]),
        pa.array([0.5, 2.0]),
        pa.array([True, False, True]),
        pa.nulls(3),
        pa.array([], pa.string()),
    ],
    ids=str,
)
def test_coded_texts_equal_the_texts_of_each_row(column: Any) -> None:
    expected = to_texts(column).dictionary_encode()
    coded = to_coded_texts(column)
    assert coded.to_pylist() == expected.to_pylist()
    assert coded.dictionary.to_pylist() == expected.dictionary.to_pylist()


def test_columns_can_be_named_and_dropped(tmp_path: Path) -> None:
    text = "drive,clock,a,note,bad\nx,0,1,hello,1\nx,1,2,you,1\ny,0,3,all,0\n"
    options = {"id_column": "Drive", "time_column": "clock", "label_column": "bad", "drop_sensors": ("note",)}
    episodes = from_text(tmp_path, text, **options)
    assert (episodes.sensors, episodes.n_anomalous) == (("a",), 1)
    with pytest.raises(DfstransError, match=r"'nope' in .* \(drop_sensors\), got drive, clock"):
        from_text(tmp_path, text, id_column="drive", drop_sensors=("nope", "note"))

    similar = from_text(tmp_path, "id,time,a [m],a,A\nx,0,1,2,3\nx,1,4,5,6\n", drop_sensors=("a",))
    assert_array_equal(similar.values[0], [[1, 4], [3, 6]])


def test_axis_called_y_is_not_a_label(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,x,y,z\ne,0,1,2,3\ne,1,4,5,6\n")
    assert (episodes.sensors, episodes.labels) == (("x", "y", "z"), None)


def test_second_label_column_is_a_sensor_with_a_warning(tmp_path: Path) -> None:
    text = PLAIN.replace("b,label", "anomaly,label")
    with pytest.warns(UserWarning, match=r"anomaly of .* is read as a sensor.*drop_sensors='anomaly'"):
        assert from_text(tmp_path, text).sensors == ("a", "anomaly")
    assert from_text(tmp_path, text, drop_sensors=("anomaly",)).sensors == ("a",)


def test_infinite_values_are_refused_unless_treated_as_missing(tmp_path: Path) -> None:
    text = PLAIN.replace("3.5", "-inf")
    with pytest.raises(DfstransError, match=r"1 infinite ones in sensors a, episodes: 2;.*infinite_as_missing"):
        from_text(tmp_path, text)
    assert np.isnan(from_text(tmp_path, text, infinite_as_missing=True).values[1, 0, 0])


# ---- Parquet ----------------------------------------------------------------------------------------------------


def test_parquet_ids_keep_the_order_of_first_appearance(tmp_path: Path) -> None:
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


def test_parquet_columns_of_every_type_are_read(tmp_path: Path) -> None:
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
    path = tmp_path / "runs.parquet"
    frame.to_parquet(path)
    episodes = load_episodes(path)
    assert (episodes.ids.tolist(), episodes.interval, episodes.n_anomalous) == (["7", "3"], 5.0, 1)
    assert_allclose(episodes.values[0], [[1, 2], [1, 0], [1, 2]])
    with pytest.warns(UserWarning, match=r"without numbers: timestamp .*time_column.*drop_sensors"):
        assert load_episodes(path, time_column="whole").sensors == ("flag", "state")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DfstransError, match=r"runs\.parquet, but the file ends early"):
        load_episodes(path)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("time", r"times in column 'time' of .*lists\.parquet as numbers or dates, got list.*time_column=…"),
        ("id", r"lists\.parquet"),
        ("label", r"lists\.parquet"),
    ],
)
def test_parquet_column_of_lists_gives_one_clear_error(tmp_path: Path, column: str, words: str) -> None:
    columns = {"id": ["x", "x"], "time": [0.0, 1.0], "a": [1.0, 2.0], "label": [0, 1]}
    table = pa.table(columns | {column: pa.array([[{"b": 0.5}], [{"b": 1.5}]])})
    pq.write_table(table, tmp_path / "lists.parquet")
    with pytest.raises(DfstransError, match=words):
        load_episodes(tmp_path / "lists.parquet")


# ---- narrow exports ---------------------------------------------------------------------------------------------


NAN = float("nan")


def test_narrow_export_has_a_sensor_per_tag(tmp_path: Path) -> None:
    text = "time,tag,value\n0,a,1\n1,a,2\n2,a,3\n0,b,4\n2,b,6\n"
    episodes = from_text(tmp_path, text, length=3)
    assert episodes.sensors == ("a", "b")
    assert_array_equal(episodes.values, [[[1, 2, 3], [4, NAN, 6]]])


def test_files_of_a_folder_may_be_narrow(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.csv").write_text("Zeit,Sensor,Wert\n0,a,1\n0,b,2\n1,a,3\n1,b,4\n")
    named = {"time_column": "Zeit", "tag_column": "Sensor", "value_column": "Wert"}
    assert_array_equal(load_episodes(tmp_path, **named).values, [[[1, 3], [2, 4]]] * 2)


def test_other_columns_of_a_narrow_export_are_found(tmp_path: Path) -> None:
    rows = [f"{n},{tag},{n},{'ab'[n // 8]},{'xy'[n // 8]},{7 * (tag == 'p')}" for n in range(16) for tag in "pq"]
    (tmp_path / "a.csv").write_text("\n".join(["time,tag,value,batch,state,quality", *rows]))
    _, problems = read_episodes(tmp_path / "a.csv")
    first, *others = (str(problem) for problem in problems.merged())
    assert "id_column='batch'" in first
    assert any("skipped columns without numbers: state (x, y)" in one for one in others)
    assert any("besides time, tag and value: quality; " in one for one in others)
    with pytest.warns(UserWarning, match="quality"):
        episodes = load_episodes(tmp_path / "a.csv", id_column="batch", label_column="state", normal_value="x")
    assert (episodes.ids.tolist(), episodes.require_labels().tolist()) == (["a", "b"], [0, 1])


def test_labels_of_a_narrow_export_belong_to_times(tmp_path: Path) -> None:
    rows = "id,time,tag,value,label\ne,0,a,1,0\ne,0,b,1,{}\ne,1,a,2,0\ne,1,b,3,0\n"
    with pytest.raises(DfstransError, match=r"one label at each time .* 'label', first in data row 2"):
        from_text(tmp_path, rows.format(1))
    assert from_text(tmp_path, rows.format(0)).n_anomalous == 0


def test_bad_narrow_exports_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"each tag once at each time .* got 1 repeated rows"):
        from_text(tmp_path, "time,tag,value\n0,a,1\n0,a,2\n1,a,2\n", length=2)
    with pytest.raises(DfstransError, match=r"1 repeated rows .*id_column='shift'"):
        from_text(tmp_path, "time,tag,value,shift\n0,a,1,x\n0,a,2,y\n1,a,2,x\n", length=2)
    with pytest.raises(DfstransError, match="expected a column 'sensor'"):
        from_text(tmp_path, "time,tag,value\n0,a,1\n", length=1, tag_column="sensor")

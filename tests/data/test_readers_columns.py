"""Columns: names and labels are converted once per distinct value; sensors can be dropped, infinite values replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.readers.columns import coded_texts, texts
from dfstrans.errors import DfstransError
from tests.data.text_tables import PLAIN, from_text


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
    expected = texts(column).dictionary_encode()
    coded = coded_texts(column)
    assert coded.to_pylist() == expected.to_pylist()
    assert coded.dictionary.to_pylist() == expected.dictionary.to_pylist()


def test_columns_can_be_named_and_dropped(tmp_path: Path) -> None:
    text = "drive,clock,a,note,bad\nx,0,1,hello,1\nx,1,2,you,1\ny,0,3,all,0\n"
    options = {"id_column": "Drive", "time_column": "clock", "label_column": "bad", "drop_sensors": ("note",)}
    episodes = from_text(tmp_path, text, **options)
    assert (episodes.sensors, episodes.n_anomalous) == (("a",), 1)
    with pytest.raises(DfstransError, match=r"'nope' in .* \(drop_sensors\), got drive, clock"):
        from_text(tmp_path, text, id_column="drive", drop_sensors=("nope",))


def test_dropping_a_column_keeps_similar_names(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,a [m],a,A\nx,0,1,2,3\nx,1,4,5,6\n", drop_sensors=("a",))
    assert_array_equal(episodes.values[0], [[1, 4], [3, 6]])


def test_axis_called_y_is_not_a_label(tmp_path: Path) -> None:
    episodes = from_text(tmp_path, "id,time,x,y,z\ne,0,1,2,3\ne,1,4,5,6\n")
    assert (episodes.sensors, episodes.labels) == (("x", "y", "z"), None)


def test_second_label_column_is_a_sensor_with_a_warning(tmp_path: Path) -> None:
    text = PLAIN.replace("b,label", "anomaly,label")
    with pytest.warns(UserWarning, match=r"anomaly of .* is read as a sensor.*drop_sensors='anomaly'"):
        assert from_text(tmp_path, text).sensors == ("a", "anomaly")
    assert from_text(tmp_path, text, drop_sensors=("anomaly",)).sensors == ("a",)


def test_text_in_a_sensor_column_is_located(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"column 'a' of .*'broken' in data row 3.*label_column.*drop_sensors='a'"):
        from_text(tmp_path, PLAIN.replace("3.5", "broken"))


def test_infinite_values_are_refused_unless_treated_as_missing(tmp_path: Path) -> None:
    text = PLAIN.replace("3.5", "-inf")
    with pytest.raises(DfstransError, match=r"1 infinite ones in sensors a, episodes: 2;.*infinite_as_missing"):
        from_text(tmp_path, text)
    assert np.isnan(from_text(tmp_path, text, infinite_as_missing=True).values[1, 0, 0])

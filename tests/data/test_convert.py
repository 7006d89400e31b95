"""Columns of names and labels: each distinct text once, as if every row had been converted by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dfstrans.data.readers.columns import coded_texts, texts


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
def test_coded_texts_are_the_texts_of_the_rows(column: Any) -> None:
    expected = texts(column).dictionary_encode()
    coded = coded_texts(column)
    assert coded.to_pylist() == expected.to_pylist()
    assert coded.dictionary.to_pylist() == expected.dictionary.to_pylist()

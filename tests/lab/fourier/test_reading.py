"""One's own encoding from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.errors import DfstransError
from dfstrans.lab.paper.encoding_study import read_encoding

CODES = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])


def test_an_array_of_numpy_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", CODES.astype(np.float32))
    assert_array_equal(read_encoding(tmp_path / "own.npy"), CODES)


@pytest.mark.parametrize(
    "text",
    [
        "0.5,-1,2\n1.5,0.25,-3\n",
        "\ufeffa,b,c\r\n0.5,-1,2\r\n1.5,0.25,-3\r\n",
        "0.5;-1;2\n1.5;0.25;-3",
        "# saved by numpy\n0.5 -1 2\n\n1.5 0.25 -3\n",
        "0.5\t-1\t2\n1.5\t0.25\t-3\n",
    ],
)
def test_a_table_of_numbers_is_read_with_or_without_a_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    assert_array_equal(read_encoding(path), CODES)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("own.csv", b"", "got an empty file"),
        ("own.csv", b"a,b\n", "got no row of numbers"),
        ("own.csv", b"# nothing\n", "got no row of numbers"),
        ("own.csv", b"1,2\n3\n", r"a matrix with one row per position in .*own\.csv"),
        ("own.csv", b"1,2\n3,x\n", "could not convert string 'x'"),
        ("own.csv", b"\xff\xfe\x00", "is damaged or is something else"),
        ("own.csv", b"1,2\nnan,3\n", "finite numbers, got 1 .* position 1, column 0"),
        ("own.csv", b"1,2\n", r"at least 2 positions and 1 column, got shape \(1, 2\)"),
        ("own.npy", b"no numpy", "is damaged or is something else"),
        ("own.pt", b"PK", r"in \.npy or \.csv, got own\.pt; save it with numpy\.save"),
    ],
)
def test_a_file_that_holds_no_encoding_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DfstransError, match=said):
        read_encoding(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"own\.npy, got nothing there; check the path"):
        read_encoding(tmp_path / "own.npy")


def test_an_array_with_a_batch_axis_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", CODES[None])
    with pytest.raises(DfstransError, match="without a batch axis"):
        read_encoding(tmp_path / "own.npy")


def test_an_archive_and_objects_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "archive.npy").open("wb") as file:
        np.savez(file, a=CODES)
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(DfstransError, match="an archive of several"):
        read_encoding(tmp_path / "archive.npy")
    with pytest.raises(DfstransError, match="something else"):
        read_encoding(tmp_path / "objects.npy")

"""A user's own encoding from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from dfstrans.data.readers.opening import opening, require_content
from dfstrans.errors import DfstransError
from dfstrans.fourier.faithfulness import as_codes

_TEXT = (".csv", ".tsv", ".txt")
_WHAT = "a matrix with one row per position"


def read_encoding(path: Path) -> npt.NDArray[np.float64]:
    """The encoding in a .npy file, or in a text table of numbers with or without a header.

    Shape:
        (n_positions, d_model)
    """
    suffix = path.suffix.lower()
    if suffix != ".npy" and suffix not in _TEXT:
        raise DfstransError(f"expected an encoding in .npy or .csv, got {path.name}; save it with numpy.save")
    require_content(path, _WHAT)
    with opening(path, _WHAT):
        values = _read_npy(path) if suffix == ".npy" else _read_text(path)
        return as_codes(values)


def _read_npy(path: Path) -> npt.NDArray[np.generic]:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            raise DfstransError(f"expected one array in {path}, got an archive of several; save one with numpy.save")
        return loaded


def _read_text(path: Path) -> npt.NDArray[np.float64]:
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip() and line[0] != "#"]
    delimiter = next((mark for mark in ";\t," if lines and mark in lines[0]), None)
    if lines and not any(map(_is_number, lines[0].split(delimiter))):
        del lines[0]  # a header
    if not lines:
        raise DfstransError(f"expected {_WHAT} in {path}, got no row of numbers; write the file again")
    return np.loadtxt(lines, delimiter=delimiter, ndmin=2)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

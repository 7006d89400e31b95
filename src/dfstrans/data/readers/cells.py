"""Convert the cells of a sensor column to numbers, and find the cells that are none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfstrans.data.problems import Problem, report
from dfstrans.data.readers.columns import is_text
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.tables import MISSING
from dfstrans.errors import list_few, option_name

_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|infinity|nan)$"
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
_MOSTLY = 0.5  # share of numbers among the cells; a column with fewer is no sensor


@dataclass(frozen=True)
class BadCells:
    """The cells of a column in one file that are not numbers: how many of how many, and the first of them."""

    count: int
    present: int
    row: int
    text: str


def to_numbers(column: Any) -> tuple[npt.NDArray[np.float32], BadCells | None]:
    """Convert a column to numbers, with NaN for missing cells and for those that are not numbers."""
    bad = None
    if is_text(column):
        column, bad = _text_as_numbers(column)
    elif not any(check(column.type) for check in _NUMERIC):
        bad = BadCells(len(column), len(column), 0, str(column[0].as_py()) if len(column) else "")
        return np.full(len(column), np.nan, dtype=np.float32), bad
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not pa.types.is_float32(column.type):
        column = column.cast(pa.float32(), safe=False)
    return np.asarray(column.to_numpy(), dtype=np.float32), bad


def _text_as_numbers(column: Any) -> tuple[Any, BadCells | None]:
    text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    text = pc.if_else(pc.is_in(text, pa.array([word.lower() for word in MISSING])), None, text)
    text = pc.replace_substring_regex(text, "^true$", "1")
    text = pc.replace_substring_regex(text, "^false$", "0")
    if not pc.any(pc.match_substring_regex(text, r"\d\.")).as_py():
        text = pc.replace_substring_regex(text, r"^([-+]?\d*),(\d+(e[-+]?\d+)?)$", r"\1.\2")
    numeric = pc.match_substring_regex(text, _NUMBER)
    rows = np.flatnonzero(np.asarray(pc.invert(numeric).fill_null(False)))
    bad = None
    if len(rows):
        bad = BadCells(len(rows), len(text) - text.null_count, int(rows[0]), column[int(rows[0])].as_py())
        text = pc.if_else(numeric, text, None)
    return text.cast(pa.float64()), bad


def text_columns(
    found: Sequence[Mapping[str, BadCells]], columns: Sequence[Collection[str]], files: Sequence[Path]
) -> set[str]:
    """Return the columns that are no sensors, because most cells are text in most files that have them; report them."""
    left_out: dict[str, tuple[Path, BadCells]] = {}
    for name in dict.fromkeys(name for of_file in found for name in of_file):
        hits = [(file, of_file[name]) for file, of_file in zip(files, found, strict=True) if name in of_file]
        mostly_text = [bad for _, bad in hits if bad.present - bad.count < _MOSTLY * bad.present]
        if 2 * len(mostly_text) > sum(name in of_file for of_file in columns):
            left_out[name] = hits[0]
    if left_out:
        roles = ", ".join(option_name(f"{role}_column") for role in ("label", "time", "id", "group"))
        shown = list_few((f"{name} (such as {bad.text!r})" for name, (_, bad) in left_out.items()), 20)
        file = next(iter(left_out.values()))[0]
        report(
            Problem(
                f"left out columns without numbers: {shown}, first in {file}; if one of them has a role, name it "
                f"({roles}), else drop it ({option_name('drop_sensors', next(iter(left_out)))})",
                level="warning",
                count=len(left_out),
                file=file,
            )
        )
    return set(left_out)


def report_bad_cells(
    bad: Mapping[str, BadCells], file: Path, lines_before: int, options: ReadOptions, hint: str
) -> None:
    """Report the sensors of a file with text between the numbers; the cells are missing values."""
    for name, cells in bad.items():
        line = lines_before + cells.row + 1
        more = f" and text in {cells.count - 1} more rows" if cells.count > 1 else ""
        missing = f"read them as missing ({option_name('text_as_missing', True)})"
        drop = f"drop the sensor ({option_name('drop_sensors', name)})"
        message = f"expected numbers in column {name!r} of {file}, got {cells.text!r} in line {line}{more}"
        report(
            Problem(
                message if options.text_as_missing else f"{message}; correct them, {missing} or {drop}",
                level="warning" if options.text_as_missing else "error",
                count=cells.count,
                file=file,
                line=line,
                option="" if options.text_as_missing else hint,
                kind=f"text in {name}",
            )
        )

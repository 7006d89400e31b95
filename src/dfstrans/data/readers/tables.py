"""Tables in files: the names first, then the columns that are wanted, through pyarrow."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from dfstrans.data.readers.dialect import MISSING, Dialect, sniff, warn_of_thousands
from dfstrans.data.readers.opening import EmptyTableError, opening, require_content
from dfstrans.errors import DfstransError

Kind = Literal["number", "time", "text"]
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_LONG_NUMBER = re.compile(r"\d{14,}")  # a date without signs, or nanoseconds: too many digits for a float
_TAIL_BYTES = 64
_CUT_NUMBERS = tuple(map(re.compile, (r"[-+]", r"[-+]?\d+\.", r"[-+]?\d*\.?\d+[eE][-+]?")))
_BLOCK_BYTES = 1 << 20
_PARQUET_SUFFIXES = (".parquet", ".pq")


class Table(Protocol):
    """A table in a file, of which only the names have been read."""

    path: Path
    names: tuple[str, ...]
    metadata: Mapping[bytes, bytes]
    decimal: str  # the sign in numbers that are read as text

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        """The wanted columns as pyarrow arrays, texts perhaps by a dictionary.

        Text where numbers were wanted when they are not all numbers.
        """


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return path.name.lower().endswith(_TEXT_SUFFIXES + _PARQUET_SUFFIXES)


def table_stem(path: Path) -> str:
    """The name of a file without the suffixes that say what it is.

    >>> table_stem(Path("runs/line 1.5.csv.gz"))
    'line 1.5'
    """
    return Path(path.name.removesuffix(".gz")).stem


def without_suffix(name: str) -> str:
    """The id of an episode that is named by its file.

    >>> without_suffix("run 1.csv"), without_suffix("run 1.5")
    ('run 1', 'run 1.5')
    """
    return table_stem(Path(name)) if is_table(Path(name)) or name.endswith(".npy") else name


def open_table(path: Path) -> Table:
    """A Parquet or text table, by its suffix."""
    require_content(path, "a table")
    return _ParquetTable(path) if path.suffix.lower() in _PARQUET_SUFFIXES else _TextTable(path)


class _ParquetTable:
    decimal = "."

    def __init__(self, path: Path) -> None:
        self.path = path
        with opening(path, "a Parquet table"):
            schema = pq.read_schema(path)
        self.metadata: Mapping[bytes, bytes] = schema.metadata or {}
        self.names = tuple(name for name in schema.names if not name.startswith("__index_level_"))

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        with opening(self.path, "a Parquet table"):
            texts = [name for name, kind in kinds.items() if kind == "text"]
            table = pq.read_table(self.path, columns=list(kinds), read_dictionary=texts)  # each text once, not per row
            columns = {name: table.column(name) if name in texts else _plain(table.column(name)) for name in kinds}
        if table.num_rows == 0:
            raise EmptyTableError(f"expected rows in {self.path}, got none; write the file again or leave it out")
        return columns


class _TextTable:
    metadata: Mapping[bytes, bytes] = {}

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dialect = sniff(path)
        self.decimal = self._dialect.decimal
        self._place = {name: str(place) for place, name in enumerate(self._dialect.names) if name}
        self.names = tuple(self._place)

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        nameless = [str(place) for place, name in enumerate(self._dialect.names) if not name]
        types = {self._place[name]: self._type(name, kind) for name, kind in kinds.items()}
        types |= dict.fromkeys(nameless, pa.string())
        with opening(self.path, "a text table"):
            try:
                table = self._parse(types, self._dialect.encoding)
            except pa.ArrowInvalid as error:
                if "conversion error" not in str(error):
                    raise
                # a cell is not what it should be: take text, and let the conversion of the column find it
                encoding = "latin-1" if "UTF8" in str(error) else self._dialect.encoding
                table = self._parse(dict.fromkeys(types, pa.string()), encoding)
        numbers, times = ([name for name in kinds if kinds[name] == kind] for kind in ("number", "time"))
        warn_of_thousands(self._dialect, numbers, times)
        if self._dialect.names[-1] in numbers:
            self._warn_of_a_cut_end()
        for place in nameless:
            self._require_no_content(int(place), table.column(place))
        return {name: table.column(self._place[name]) for name in kinds}

    def _warn_of_a_cut_end(self) -> None:
        """Say that the file seems to end within a number: without an end of line, behind a sign, a point or an e.

        Where another row ends in the same way, that is how the file is written.
        """
        if self.path.suffix == ".gz":
            return
        with opening(self.path, "a text table"), self.path.open("rb") as file:
            file.seek(-min(_TAIL_BYTES, self.path.stat().st_size), os.SEEK_END)
            last = self._last_cell(re.split(r"[\r\n]", file.read().decode("latin-1"))[-1])
        form = next((form for form in _CUT_NUMBERS if form.fullmatch(last)), None)
        if form is None:
            return
        with opening(self.path, "a text table"), self.path.open(encoding="latin-1") as lines:
            alike = sum(form.fullmatch(self._last_cell(line)) is not None for line in lines)
        if alike == 1:
            warnings.warn(
                f"{self.path} ends without an end of line and with {last!r}, which looks like the beginning of a "
                "number: was it written to its end? write it again",
                stacklevel=2,
            )

    def _last_cell(self, line: str) -> str:
        return line.split(self._dialect.delimiter)[-1].strip()

    def _type(self, name: str, kind: Kind) -> Any:
        if kind == "number":
            return pa.float32()
        if kind == "text":
            return pa.string()
        row, place = self._dialect.first_row, int(self._place[name])
        try:
            float(row[place].replace(self._dialect.decimal, "."))
        except (ValueError, IndexError):
            return pa.string()
        return pa.int64() if _LONG_NUMBER.fullmatch(row[place].strip()) else pa.float64()

    def _parse(self, types: Mapping[str, Any], encoding: str) -> Any:
        dialect: Dialect = self._dialect
        return arrow_csv.read_csv(
            self.path,
            read_options=arrow_csv.ReadOptions(
                skip_rows=dialect.skip,
                column_names=[str(place) for place in range(len(dialect.names))],
                encoding=encoding,
                block_size=max(_BLOCK_BYTES, 4 * dialect.widest),  # a line must fit into a block
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=dialect.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=list(MISSING),
                strings_can_be_null=True,
                decimal_point=dialect.decimal,
            ),
        )

    def _require_no_content(self, place: int, column: Any) -> None:
        """A nameless column may be empty, or number the rows as pandas does; otherwise it needs a name."""
        if column.null_count == len(column):
            return
        try:
            numbers = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            numbers = np.array([])
        rows = np.arange(len(column))
        if not (np.array_equal(numbers, rows) or np.array_equal(numbers, rows + 1)):
            raise DfstransError(
                f"expected a name for each column of {self.path}, got none for column {place + 1}; "
                "put one in the header"
            )


def _plain(column: Any) -> Any:
    """A column without dictionary encoding, which is an affair of the file."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column

"""Read tables column by column with pyarrow: text of any dialect, Parquet, and 2-D arrays."""

from __future__ import annotations

import csv
import gzip
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from dfstrans.data.conversion import check_unique, default_sensor_names
from dfstrans.data.readers.opening import EmptyTableError, opening
from dfstrans.errors import DfstransError, Note, counted, list_few

Kind = Literal["number", "time", "text"]
MISSING = (
    *("", "NA", "N/A", "n/a", "#N/A", "na", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "none", "?", "-"),
    *("n.a.", "N.A.", "<NA>", "--", "#NV", "#DIV/0!", "#VALUE!"),  # written by people, pandas and spreadsheets
)
TIME_NAMES = (
    *("time", "timestamp", "datetime", "date_time", "time_s", "date", "_time", "time stamp", "date time"),
    *("zeit", "zeitstempel", "zeitpunkt", "messzeit", "datum/uhrzeit", "datum uhrzeit", "uhrzeit", "datum"),
    *("horodatage", "date/heure", "temps", "heure", "tiempo", "fecha/hora", "fecha y hora", "fecha", "hora"),
    *("data/ora", "data/hora", "tempo", "tijdstip", "tijd", "czas", "время", "дата", "時刻", "日時", "时间", "日期"),
    *("ts", "t"),
)  # t may also be a temperature; a time of day comes before a date that it belongs to
DATE_NAMES = ("date", "datum", "fecha", "data", "дата", "日期")  # of a column next to one with the time of day
TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")
SPREADSHEETS = (".xlsx", ".xls", ".ods")
CONTAINER_SUFFIXES = (*HDF5_SUFFIXES, ".mat")
TDMS_SUFFIX = ".tdms"
_OTHER_SUFFIXES = (".npy", *CONTAINER_SUFFIXES, TDMS_SUFFIX)
RECORDING_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *_OTHER_SUFFIXES, ".npz", ".ts")

_DELIMITERS = ("\t", ";", "|", ",")
_SAMPLE_BYTES = 1 << 16
_MOST_SAMPLE_BYTES = 1 << 26  # for very wide tables
_SAMPLE_ROWS = 500
MIN_LINES_BELOW_PREAMBLE = 5
_SAMPLE_LINES = 3  # minimum: a header and two rows
_BLOCK_BYTES = 1 << 20
_TAIL_BYTES = 64
_NAMED_BY_PANDAS = re.compile(r"Unnamed: \d+")  # a column without a name
_DELIMITER_LINE = re.compile(r"\"?sep=.\"?", re.IGNORECASE)  # written by spreadsheets before the header
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*")  # ambiguous: 1.034 may be 1034, or just above 1
_HUNDREDS = re.compile(r"\s*[-+]?[1-9]\d\d\s*")
_NEAR_A_THOUSAND = 500  # 100 is more likely the end of a percentage
_DATE_OR_TIME = re.compile(r"\d{1,4}[-./]\d\d?[-./]\d{1,4}|\d:\d\d")
_LONG_NUMBER = re.compile(r"\d{14,}")  # a date such as 20240531120000, or nanoseconds: too many digits for a float
_TRUNCATED_NUMBERS = tuple(map(re.compile, (r"[-+]", r"[-+]?\d+\.", r"[-+]?\d*\.?\d+[eE][-+]?")))


def is_table(path: Path) -> bool:
    """Return whether the file name has the suffix of a text or Parquet table."""
    return path.name.lower().endswith(TEXT_SUFFIXES + PARQUET_SUFFIXES)


def table_stem(path: Path) -> str:
    """Return the file name without its format suffixes.

    >>> table_stem(Path("runs/line 1.5.csv.gz"))
    'line 1.5'
    """
    return Path(path.name.removesuffix(".gz")).stem


def without_suffix(name: str) -> str:
    """Return the episode id for a file name.

    >>> without_suffix("run 1.csv"), without_suffix("run 1.5")
    ('run 1', 'run 1.5')
    """
    file = Path(name)
    return table_stem(file) if is_table(file) or file.suffix.lower() in _OTHER_SUFFIXES else name


class Table(ABC):
    """A table in a file; opening it reads only the column names."""

    path: Path
    names: tuple[str, ...]
    metadata: Mapping[bytes, bytes] = {}
    decimal = "."  # the decimal sign in numbers that are read as text
    lines_before: int | None = 0  # lines of the file before the first row; None if rows are not lines of it
    one_label = False  # whether its label is that of the whole recording

    @abstractmethod
    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        """Return the requested columns as pyarrow arrays; a "number" column with other content is returned as text."""


def open_table(path: Path) -> Table:
    """Open a table in the format of its suffix."""
    if path.suffix == ".npy":
        return _ArrayTable(path)
    return _ParquetTable(path) if path.suffix.lower() in PARQUET_SUFFIXES else _TextTable(path)


class _ArrayTable(Table):
    """A 2-D array (timepoint, sensor); its sensors have default names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with opening(path, "a 2-D array (timepoint, sensor)"):
            array = np.load(path, allow_pickle=False)
            if array.ndim != 2 or 0 in array.shape:
                raise DfstransError(
                    f"expected a 2-D array (timepoint, sensor) in {path}, got shape {array.shape}; "
                    "store one episode per file, one row per point"
                )
            self.names = default_sensor_names(array.shape[1])
            self._columns = dict(zip(self.names, np.ascontiguousarray(array.T, dtype=np.float32), strict=True))

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        return {name: pa.array(self._columns[name]) for name in kinds}


class _ParquetTable(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        with opening(path, "a Parquet table"):
            schema = pq.read_schema(path)
        self.metadata = schema.metadata or {}
        self.names = tuple(name for name in schema.names if not name.startswith("__index_level_"))

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        with opening(self.path, "a Parquet table"):
            texts = [name for name, kind in kinds.items() if kind == "text"]
            table = pq.read_table(self.path, columns=list(kinds), read_dictionary=texts)  # each text once, not per row
            columns = {name: table.column(name) for name in kinds}
            for name, column in columns.items():
                if name not in texts and pa.types.is_dictionary(column.type):
                    columns[name] = column.cast(column.type.value_type)
        if table.num_rows == 0:
            raise EmptyTableError(f"expected rows in {self.path}, got none; write it again or remove it")
        return columns


class _TextTable(Table):
    def __init__(self, path: Path) -> None:
        self.path = path
        self._dialect = sniff(path)
        self.decimal = self._dialect.decimal
        self.lines_before = self._dialect.skip
        self._position = {name: str(position) for position, name in enumerate(self._dialect.names) if name}
        self.names = tuple(self._position)

    def read(self, kinds: Mapping[str, Kind]) -> dict[str, Any]:
        nameless = [str(position) for position, name in enumerate(self._dialect.names) if not name]
        types = {self._position[name]: self._type(name, kind) for name, kind in kinds.items()}
        types |= dict.fromkeys(nameless, pa.string())
        with opening(self.path, "a text table"):
            try:
                table = self._parse(types, self._dialect.encoding)
            except pa.ArrowInvalid as error:
                if "conversion error" not in str(error):
                    raise
                # read text instead, so that the conversion of the column can report the bad cell
                encoding = "latin-1" if "UTF8" in str(error) else self._dialect.encoding
                table = self._parse(dict.fromkeys(types, pa.string()), encoding)
        if self._dialect.units:
            units = list_few(f"{name} [{unit}]" for name, unit in self._dialect.units.items())
            warnings.warn(f"units are read from the row below the header: {units}", Note, stacklevel=2)
        if self._dialect.preamble:
            warnings.warn(f"skipped {counted(self._dialect.preamble, 'line')} before the header", Note, stacklevel=2)
        _warn_of_ambiguous_points(self._dialect, kinds)
        if kinds.get(self._dialect.names[-1]) == "number":
            self._warn_of_truncated_number()
        for position in nameless:
            self._require_no_content(int(position), table.column(position))
        return {name: table.column(self._position[name]) for name in kinds}

    def _type(self, name: str, kind: Kind) -> Any:
        if kind != "time":
            return pa.float32() if kind == "number" else pa.string()
        try:
            cell = self._dialect.first_row[int(self._position[name])]
        except IndexError:
            return pa.string()
        if not is_number(cell.replace(self.decimal, ".")) or (self.decimal == "," and "." in cell):
            return pa.string()
        return pa.int64() if _LONG_NUMBER.fullmatch(cell.strip()) else pa.float64()

    def _parse(self, types: Mapping[str, Any], encoding: str) -> Any:
        dialect = self._dialect
        return arrow_csv.read_csv(
            self.path,
            read_options=arrow_csv.ReadOptions(
                skip_rows=dialect.skip,
                column_names=[str(position) for position in range(len(dialect.names))],
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

    def _warn_of_truncated_number(self) -> None:
        """Warn if the file ends within a number: without a line end, after a sign, a point or an e.

        If another row ends the same way, this is the format of the file, not a truncation.
        """
        if self.path.suffix == ".gz":
            return
        with opening(self.path, "a text table"), self.path.open("rb") as file:
            file.seek(-min(_TAIL_BYTES, self.path.stat().st_size), os.SEEK_END)
            last = self._last_cell(re.split(r"[\r\n]", file.read().decode("latin-1"))[-1])
        form = next((form for form in _TRUNCATED_NUMBERS if form.fullmatch(last)), None)
        if form is None:
            return
        with opening(self.path, "a text table"), self.path.open(encoding="latin-1") as lines:
            alike = sum(form.fullmatch(self._last_cell(line)) is not None for line in lines)
        if alike == 1:
            warnings.warn(
                f"{self.path} ends without a line end after {last!r}, which looks like a truncated number; check "
                "whether the file is complete",
                stacklevel=2,
            )

    def _last_cell(self, line: str) -> str:
        return line.split(self._dialect.delimiter)[-1].strip()

    def _require_no_content(self, position: int, column: Any) -> None:
        """Reject a nameless column unless it is empty or contains the row numbers that pandas writes."""
        if column.null_count == len(column):
            return
        try:
            numbers = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            numbers = np.array([])
        rows = np.arange(len(column))
        if not (np.array_equal(numbers, rows) or np.array_equal(numbers, rows + 1)):
            raise DfstransError(
                f"expected a name for each column of {self.path}, got none for column {position + 1}; add it to the "
                "header"
            )


# ---- dialects of text tables ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialect:
    """How one text table is written; `names` has one entry per cell of a row, `skip` lines precede the data.

    `units` are those of a row below the header, by column; the names contain them. `preamble` is the number of lines
    before the header that are about the recording. `points`, `commas` and
    `thousands` are the columns with a decimal point, with a decimal comma, and with points that may be thousands
    separators.
    """

    delimiter: str
    decimal: str
    encoding: str
    names: tuple[str, ...]
    skip: int
    first_row: tuple[str, ...]
    widest: int  # characters in the longest line
    points: frozenset[str]
    commas: frozenset[str]
    thousands: frozenset[str]
    units: Mapping[str, str]
    preamble: int


def sniff(path: Path) -> Dialect:
    """Determine the dialect of a text table from its first lines."""
    return _dialect_of(path, *_sample(path))


@lru_cache(maxsize=1)  # a file is opened several times: to see what it is, and to read it
def _dialect_of(path: Path, sample: bytes, whole: bool) -> Dialect:
    if b"\0" in sample and not sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DfstransError(f"expected a text table in {path}, got binary content; correct the suffix of the file")
    encoding = _encoding(sample, whole)
    lines = re.split(r"\r\n|\n|\r", sample.decode(encoding, errors="replace").lstrip("\ufeff"))
    if not whole and len(lines) > 1:
        lines.pop()  # cut off by the end of the sample
    skip = _lines_before_header(lines)
    preamble = _lines_of_preamble(lines[skip:])
    skip += preamble
    header, rows = lines[skip].lstrip("# "), [line for line in lines[skip + 1 :] if line.strip()][:_SAMPLE_ROWS]
    delimiter = max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)
    with opening(path, "a text table"):
        names = [_NAMED_BY_PANDAS.sub("", name.strip()) for name in next(csv.reader([header], delimiter=delimiter))]
        cells = list(csv.reader(rows, delimiter=delimiter))
    _require_names_and_rows(path, names, cells)
    units = _units_below_header(names, cells)
    if units is not None:
        names = [f"{name} [{units[name]}]" if units.get(name) else name for name in names]
        cells = cells[1:]
        skip = next(number for number, line in enumerate(lines) if number > skip and line.strip())
    columns = list(zip(names, zip_longest(*cells, fillvalue=""), strict=False))
    points = frozenset(name for name, column in columns if any(map(_DECIMAL_POINT.fullmatch, column)))
    commas = frozenset(name for name, column in columns if any(map(_DECIMAL_COMMA.fullmatch, column)))
    times = frozenset(name for name in names if name.partition("[")[0].strip().lower() in TIME_NAMES)
    signs = commas - times, points - times  # a time may be written in another way than the values
    has_commas, has_points = signs if any(signs) else (commas, points)
    return Dialect(
        delimiter=delimiter,
        decimal="," if delimiter != "," and has_commas and not has_points else ".",
        encoding=encoding,
        names=tuple(_without_trailing_delimiter(names, cells)),
        skip=skip + 1,
        first_row=tuple(cells[0]),
        widest=max(map(len, lines)),
        points=points,
        commas=commas,
        thousands=frozenset(name for name, column in columns if _looks_like_thousands(column)),
        units=units or {},
        preamble=preamble,
    )


def _units_below_header(names: Sequence[str], cells: Sequence[Sequence[str]]) -> dict[str, str] | None:
    """Return the units in the first row by column; None if that row holds values.

    It holds units if columns of numbers begin with text there, and no other column has a value.

    >>> _units_below_header(["Zeit", "T", "p"], [["s", "[°C]", "-"], ["0,5", "20", "1"], ["1", "21", ""]])
    {'Zeit': 's', 'T': '°C'}
    >>> _units_below_header(["time", "a"], [["0", "bad"], ["1", "2"]])  # None
    """
    columns = dict(zip(names, zip_longest(*cells, fillvalue=""), strict=False))
    units, numbers = {}, 0
    for name, column in columns.items():
        first, *others = (cell.strip() for cell in column)
        known = [cell for cell in others if cell not in MISSING]
        if first not in MISSING and is_number(first.replace(",", ".")):
            return None
        if all(is_number(cell.replace(",", ".")) for cell in known):
            numbers += len(known)
            if name and first not in MISSING:
                units[name] = re.sub(r"[\[\]()]", "", first).strip()
        elif first not in MISSING and (_DATE_OR_TIME.search(first) or not all(map(_DATE_OR_TIME.search, known))):
            return None
    return units if units and numbers else None


def _sample(path: Path) -> tuple[bytes, bool]:
    """Read the beginning of a file, enough for its header and some rows, and whether that is the whole file."""
    with opening(path, "a text table"), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        sample: bytes = file.read(_SAMPLE_BYTES)
        while _complete_lines(sample) < _SAMPLE_LINES and len(sample) < _MOST_SAMPLE_BYTES:
            more = file.read(len(sample))
            if not more:
                break
            sample += more
        return sample, not file.read(1)


def _complete_lines(sample: bytes) -> int:
    *complete, _ = re.split(rb"[\r\n]", sample)
    return sum(bool(line.strip(b" \t\0")) and not line.startswith(b"#") for line in complete)


def _encoding(sample: bytes, whole: bool) -> str:
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        sample[: None if whole else len(sample) - 4].decode("utf-8")
    except UnicodeDecodeError as error:
        return "utf-8" if error.start >= len(sample) - 8 and not whole else "latin-1"
    return "utf-8"


def _lines_before_header(lines: list[str]) -> int:
    """Count the blank lines, delimiter notes and comments before the header.

    The last comment is the header if numbers follow it.
    """
    content = [number for number, line in enumerate(lines) if line.strip(" \t,;|")]
    if content and _DELIMITER_LINE.fullmatch(lines[content[0]].strip()):
        content.pop(0)
    if not content:
        raise EmptyTableError("expected a text table with a header, got only blank lines; write the file again")
    first = next((number for number in content if not lines[number].startswith("#")), content[-1])
    comments = [number for number in content if number < first]
    if comments and is_number(re.split(r"[\t;|, ]", lines[first].strip())[0]):
        return comments[-1]
    return first


def _lines_of_preamble(lines: Sequence[str]) -> int:
    """Count the lines about the recording before its header: those with fewer columns than most lines below have.

    >>> _lines_of_preamble(["Site;Hall 3", "", "t;a;b", "0;1;2", "1;2;3", "2;3;4", "3;4;5"])
    2
    """
    content = [number for number, line in enumerate(lines) if line.strip()]
    if len(content) < MIN_LINES_BELOW_PREAMBLE:
        return 0
    for delimiter in _DELIMITERS:
        columns = {number: re.sub(r'"[^"]*"', "", lines[number]).count(delimiter) for number in content}
        usual, n = Counter(columns.values()).most_common(1)[0]
        if usual and 2 * n > len(content):
            trailing = all(lines[number].rstrip().endswith(delimiter) for number in content if columns[number] == usual)
            return next(number for number in content if columns[number] >= usual - trailing)
    return 0


def _require_names_and_rows(path: Path, names: list[str], cells: list[list[str]]) -> None:
    numbered = [str(i) for i in range(len(names))], [str(i + 1) for i in range(len(names))]
    if any(names) and all(is_number(name) for name in names if name) and names not in numbered:
        raise DfstransError(
            f"expected a header line with column names in {path}, got numbers: {list_few(names)}; add a header line"
        )
    check_unique(f"column names in {path}", [name for name in names if name], "rename the columns")
    if not cells:
        raise EmptyTableError(f"expected rows below the header of {path}, got none; write it again or remove it")


def _without_trailing_delimiter(names: list[str], cells: list[list[str]]) -> list[str]:
    """Return one name per cell if a delimiter ends every row, or only the header."""
    if len(cells[0]) == len(names) + 1 and all(not row[-1].strip() for row in cells):
        return [*names, ""]
    if names[-1] == "" and len(cells[0]) == len(names) - 1:
        return names[:-1]
    return names


def is_number(text: str) -> bool:
    """Return whether a text is a number, also nan or inf."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _looks_like_thousands(column: Sequence[str]) -> bool:
    """Return whether numbers with a point before three digits, read without it, continue three-digit numbers.

    >>> _looks_like_thousands(["950", "1.001"]), _looks_like_thousands(["99.125", "100"])
    (True, False)
    """
    dotted = [cell for cell in column if "." in cell]
    highest = max((abs(int(cell)) for cell in column if _HUNDREDS.fullmatch(cell)), default=0)
    if not dotted or highest < _NEAR_A_THOUSAND or not all(map(_THOUSANDS.fullmatch, dotted)):
        return False
    return all(abs(int(cell.replace(".", ""))) <= 10 * highest for cell in dotted)


def _warn_of_ambiguous_points(dialect: Dialect, kinds: Mapping[str, Kind]) -> None:
    """Warn if 1.001 may mean a thousand and one: next to decimal commas, or next to numbers such as 950."""
    numbers = [name for name in kinds if kinds[name] == "number"]
    points, commas = ([name for name in numbers if name in of] for of in (dialect.points, dialect.commas))
    thousands = [name for name in numbers if name in dialect.thousands]
    if points and commas:
        warnings.warn(
            f"points in {list_few(points)} and commas in {list_few(commas)} are both read as decimal signs; if one "
            "of them separates thousands, remove it",
            stacklevel=3,
        )
    elif thousands:
        warnings.warn(
            f"points in {list_few(thousands)} look like thousands separators but are read as decimal points; if "
            "1.001 means a thousand and one, remove the separators",
            stacklevel=3,
        )

"""Read the rows of tables, one per point, and report the problems of their cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfstrans.data.grid import Index
from dfstrans.data.problems import Problem, report
from dfstrans.data.readers.columns import (
    BadCells,
    Roles,
    bare_name,
    names_and_units,
    to_coded_texts,
    to_codes,
    to_numbers,
)
from dfstrans.data.readers.labels import Meaning, count_words, label_meaning, labels_of
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.data.readers.tables import DATE_NAMES, Kind, Table, table_stem
from dfstrans.data.readers.times import Times, to_times, with_dates
from dfstrans.errors import DfstransError, list_few, option_name

_DATE = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{4}|\d\d?:\d\d")
_LABEL_WORDS = 10  # a column with more distinct words is hardly a label
UNREADABLE_LABELS = "unreadable labels"  # the kind of this problem
_MOSTLY = 0.5  # share of numbers among the cells; a column with fewer is no sensor


@dataclass(frozen=True)
class Rows:
    """Points of episodes in any order: one array per sensor, and the time, label and group of each point.

    `episode` holds indices into `ids`; `group` and `words` (of labels) are dictionary-encoded. `interpret` finds the
    labels: 0, 1, or −1 if it is missing, and the type of fault as an index into `kinds`, or −1. `bad` cells of sensors
    and `errors` of times and groups await `check_rows`; `lines_before` precede the rows in the file `source`.
    """

    sensors: tuple[str, ...]
    units: tuple[str, ...]
    columns: Sequence[npt.NDArray[np.float32]]
    ids: Sequence[str]
    episode: Index
    time: Times | None = None
    labels: npt.NDArray[np.int8] | None = None
    group: Any = None
    words: Any = None
    kind: Index | None = None
    kinds: tuple[str, ...] = ()
    bad: Mapping[str, BadCells] = field(default_factory=dict)
    errors: Sequence[DfstransError] = ()
    source: Path = Path()
    lines_before: int | None = 0
    label_column: str | None = None

    def without(self, sensors: Collection[str]) -> Rows:
        """Return the rows without some sensors."""
        kept = [i for i, name in enumerate(self.sensors) if name not in sensors]
        return replace(
            self,
            sensors=tuple(self.sensors[i] for i in kept),
            units=tuple(self.units[i] for i in kept),
            columns=[self.columns[i] for i in kept],
            bad={name: cells for name, cells in self.bad.items() if name not in sensors},
        )

    def by_id(self) -> list[Rows]:
        """Return the rows of each id on their own."""
        if len(self.ids) == 1:
            return [self]
        parts = []
        for number, name in enumerate(self.ids):
            chosen = np.flatnonzero(self.episode == number)
            time = self.time
            if time is not None:
                clock = None if time.clock is None else time.clock[chosen]
                time = time._replace(values=time.values[chosen], clock=clock)
            parts.append(
                replace(
                    self,
                    ids=[name],
                    episode=np.zeros(len(chosen), dtype=np.int64),
                    columns=[column[chosen] for column in self.columns],
                    time=time,
                    group=None if self.group is None else self.group.take(pa.array(chosen)),
                    words=None if self.words is None else self.words.take(pa.array(chosen)),
                )
            )
        return parts

    def interpret(self, meaning: Meaning) -> Rows:
        """Return the rows with labels according to the meaning of their words."""
        if self.words is None:
            return self
        kinds = tuple(dict.fromkeys(meaning.kind.values()))
        table = [kinds.index(meaning.kind[w]) if w in meaning.kind else -1 for w in self.words.dictionary.to_pylist()]
        kind = np.array([*table, -1], dtype=np.int64)[self.words.indices.fill_null(len(table)).to_numpy()]
        return replace(self, labels=labels_of(self.words, meaning), kind=kind if kinds else None, kinds=kinds)


# ---- reading and joining ----------------------------------------------------------------------------------------


def read_rows(table: Table, roles: Roles, *, exact: bool = False) -> Rows:
    """Read all rows of a table; without an id column they form one recording, named after the file.

    With `exact`, ids and groups keep surrounding blanks. Problems of cells are part of the result.
    """
    date = None if roles.time is None else _date_column(roles)
    kinds: dict[str, Kind] = dict.fromkeys(roles.sensors, "number")
    kinds |= {} if date is None else {date: "time"}
    kinds |= {name: "text" for name in (roles.id, roles.label, roles.group) if name is not None}
    if roles.time is not None:
        kinds[roles.time] = "time"
    path = table.path
    failed: list[DfstransError] = []
    group = time = words = None
    bad: dict[str, BadCells] = {}
    with opening(path, "a table with a row per point"):
        columns = table.read(kinds)
        if roles.id is not None:
            names = _names(columns[roles.id], roles.id, path, exact)
            ids, episode = names.dictionary.to_pylist(), names.indices.to_numpy().astype(np.int64)
        else:
            n_rows = len(next(iter(columns.values()))) if columns else 0
            ids, episode = [table_stem(path)], np.zeros(n_rows, dtype=np.int64)
        if roles.label is not None:
            words = to_coded_texts(columns[roles.label])
        try:
            group = None if roles.group is None else _names(columns[roles.group], roles.group, path, exact)
        except DfstransError as error:
            failed.append(error)
        try:
            time = None if roles.time is None else to_times(columns[roles.time], roles.time, path)
            if time is not None and time.of_day and date is not None:
                with suppress(DfstransError):  # if these are no dates, the column is reported as one of text
                    time = with_dates(time, to_times(columns[date], date, path))
                    roles = replace(roles, sensors=tuple(name for name in roles.sensors if name != date))
        except DfstransError as error:
            failed.append(error)
        values = []
        sensors, units = names_and_units(roles.sensors)
        for name, sensor in zip(roles.sensors, sensors, strict=True):
            numbers, wrong = to_numbers(columns.pop(name))
            values.append(numbers)
            if wrong is not None:
                bad[sensor] = wrong
    return Rows(
        sensors,
        units,
        values,
        ids,
        episode,
        time,
        group=group,
        words=words,
        bad=bad,
        errors=failed,
        source=path,
        lines_before=table.lines_before,
        label_column=roles.label,
    )


def _date_column(roles: Roles) -> str | None:
    """Return the column with the date that may belong to a time of day."""
    return next((name for name in roles.sensors if bare_name(name).lower() in DATE_NAMES), None)


def _names(column: Any, name: str, source: Path, exact: bool) -> Any:
    """Dictionary-encode a column of names in order of first appearance; reject a row without one."""
    codes = to_codes(column) if exact else to_coded_texts(column)
    if codes.null_count:
        row = int(np.flatnonzero(np.asarray(codes.is_null()))[0])
        raise DfstransError(
            f"expected a name in each row of column {name!r} of {source}, got none in data row {row + 1}; "
            "fill it in or remove the row"
        )
    return codes


def check_rows(parts: Sequence[Rows], options: ReadOptions, skip: str = "", *, labelled: bool = False) -> list[Rows]:
    """Report all problems of the cells, skip columns of text, and return the files with readable times.

    `skip` is the option that skips a file with problems. Unless the recordings are `labelled`, a column of text is
    suggested as the label.
    """
    text = _text_columns(parts, labelled=labelled or any(part.label_column is not None for part in parts))
    parts = [part.without(text) for part in parts]
    for part in parts:
        _report_bad_cells(part, options, skip)
        for error in part.errors:
            report(Problem(str(error), file=part.source, option=skip, error=error))
    return [part for part in parts if not part.errors]


def _text_columns(parts: Sequence[Rows], *, labelled: bool) -> set[str]:
    """Return the columns that are no sensors, because most cells are text in most files that have them; report them."""
    skipped: dict[str, Counter[str]] = {}
    first = None
    for name in dict.fromkeys(name for part in parts for name in part.bad):
        hits = [(part.source, part.bad[name]) for part in parts if name in part.bad]
        mostly_text = [bad for _, bad in hits if bad.present - bad.count < _MOSTLY * bad.present]
        if 2 * len(mostly_text) > sum(name in part.sensors for part in parts):
            skipped[name] = sum((Counter(bad.words) for _, bad in hits), Counter())
            first = first or hits[0][0]
    if skipped:
        shown = list_few((f"{name} ({list_few(words, 3)})" for name, words in skipped.items()), 20)
        roles = _roles_of_text(skipped, len(parts), labelled=labelled)
        numeric = {name for part in parts for name in part.sensors} - skipped.keys()
        tags = [name for name, words in skipped.items() if len(words) > 1 and not _DATE.match(min(words))]
        if len(numeric) == 1 and tags:
            tag = min(tags, key=lambda name: len(skipped[name]))
            narrow = f"{option_name('tag_column', tag)} and {option_name('value_column', numeric.pop())}"
            roles = f"if {tag} names the sensor of each row, name it and the value ({narrow}); {roles}"
        report(
            Problem(
                f"skipped columns without numbers: {shown}, first in {first}; {roles}",
                level="warning",
                count=len(skipped),
                file=first,
            )
        )
    return set(skipped)


def _roles_of_text(columns: Mapping[str, Counter[str]], n_files: int, *, labelled: bool) -> str:
    """Suggest options for columns of text: the one with the fewest words may be a label, the others groups.

    The normal word of a label is probably the most frequent one.
    """
    several = [name for name, words in columns.items() if len(words) > 1]
    time = next((name for name in several if _DATE.match(min(columns[name]))), None)
    labels = [] if labelled else [name for name in several if len(columns[name]) <= _LABEL_WORDS]
    labels = [name for name in labels if name != time and (n_files == 1 or len(columns[name]) < n_files)]
    label = min(labels, key=lambda name: len(columns[name]), default=None)
    others = [name for name in columns if name != label]
    group = next((name for name in several if name not in (label, time)), None)
    roles = [
        option_name("time_column", time or ...),
        option_name("id_column", ...),
        option_name("group_column", group or ...),
    ]
    named = f"name other roles ({', '.join(roles)}), or drop the column"
    if others:
        named += f" ({option_name('drop_sensors', ','.join(others))})"
    if label is None:
        return named.replace("other roles", "their roles, if they have one", 1)
    normal = columns[label].most_common(1)[0][0]
    named_label = f"{option_name('label_column', label)} and {option_name('normal_value', normal)}"
    return f"if {label} is the label, name it and its word for normal ({named_label}); {named}"


def _report_bad_cells(part: Rows, options: ReadOptions, skip: str) -> None:
    """Report the sensors of a file with text between the numbers; the cells are missing values."""
    for name, cells in part.bad.items():
        line = None if part.lines_before is None else part.lines_before + cells.row + 1
        where = "" if line is None else f" in line {line}"
        more = f" and text in {cells.count - 1} more rows" if cells.count > 1 else ""
        missing = f"read them as missing ({option_name('text_as_missing', True)})"
        drop = f"drop the sensor ({option_name('drop_sensors', name)})"
        message = f"expected numbers in column {name!r} of {part.source}, got {cells.text!r}{where}{more}"
        report(
            Problem(
                message if options.text_as_missing else f"{message}; correct them, {missing} or {drop}",
                level="warning" if options.text_as_missing else "error",
                count=cells.count,
                file=part.source,
                line=line,
                option="" if options.text_as_missing else skip,
                kind=f"text in {name}",
            )
        )


def interpret_labels(parts: Sequence[Rows], options: ReadOptions, source: Path) -> list[Rows]:
    """Interpret the labels of all files together; labels of unknown meaning are reported and skipped."""
    column = next((part.label_column for part in parts if part.label_column is not None), None)
    if column is None:
        return list(parts)
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update({} if part.words is None else count_words(part.words))
    try:
        meaning = label_meaning(counts, options, source, column)
    except DfstransError as error:
        report(Problem(str(error), kind=UNREADABLE_LABELS, error=error))
        return list(parts)
    return [part.interpret(meaning) for part in parts]

"""Labels of recordings: the meaning of their words, and the label table that gives labels and groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.conversion import check_unique
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers.columns import Roles, find_column, find_roles, to_coded_texts, to_texts
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.tables import MISSING, Table, is_number, is_table, table_stem, without_suffix
from dfstrans.errors import DfstransError, list_few, option_name

UNLABELLED = -1
_NORMAL = ("false", "normal", "ok", "good", "healthy", "pass", "passed", "gut", "io", "i.o.")
_ANOMALOUS = (
    *("true", "anomalous", "anomaly", "abnormal", "bad", "fault", "faulty", "nok", "fail", "failed"),
    *("schlecht", "defekt", "nio", "n.i.o."),
)
_OPTIONS = ("anomalous_value", "normal_value", "label_map")
LABEL_OPTIONS = frozenset(_OPTIONS)
_LABEL_TABLE_ROLES = ("id", "label", "group")
_FILE_COLUMNS = (
    "file",
    "filename",
    "file_name",
    "recording",
    "name",
    "datei",
    "dateiname",
    "fichier",
    "archivo",
)  # possible id columns of a label or fault table


# ---- the meaning of words -----------------------------------------------------------------------------------------


class UnreadableLabelsError(DfstransError):
    """Labels have an unknown meaning; `column` is the column of the recordings that could be dropped instead."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Meaning:
    """The label of each word (0 normal, 1 anomalous), and the type of fault of the words that name one."""

    label: Mapping[str, int]
    kind: Mapping[str, str]


def count_words(codes: Any) -> dict[str, int]:
    """Return how often each word of a dictionary-encoded label column occurs; missing ones do not count."""
    counts = np.bincount(codes.indices.drop_null().to_numpy(), minlength=len(codes.dictionary))
    words = codes.dictionary.to_pylist()
    return {word: int(n) for word, n in zip(words, counts, strict=True) if word and word not in MISSING}


def label_meaning(
    counts: Mapping[str, int], options: ReadOptions, source: Path | str, column: str | None = None
) -> Meaning:
    """Find the meaning of all words of a data set, from the options or else from the usual words.

    >>> label_meaning({"ok": 3, "worn": 1}, ReadOptions(normal_value="ok"), "a.csv")
    Meaning(label={'ok': 0, 'worn': 1}, kind={'worn': 'worn'})
    """
    given = [name for name in _OPTIONS if getattr(options, name) is not None]
    if len(given) > 1:
        raise DfstransError(
            f"expected one of {list_few(map(option_name, _OPTIONS))}, got {list_few(map(option_name, given))}; "
            "keep one of them"
        )
    role = next((role for role in ("anomalous", "normal") if f"{role}_value" in given), None)
    if role is None:
        label = _mapped(counts, options, source, column)
    else:
        value = getattr(options, f"{role}_value")
        if len(counts) > 1 and not any(_same(word, value) for word in counts):  # one label may be of the other class
            raise DfstransError(
                f"expected the {role} label {value!r} in {source}, got {list_few(sorted(counts))}; "
                f"correct {option_name(f'{role}_value')}"
            )
        label = {word: int(_same(word, value) == (role == "anomalous")) for word in counts}
    return Meaning(label, _kinds([word for word, value in label.items() if value == 1]))


def labels_of(codes: Any, meaning: Meaning) -> npt.NDArray[np.int8]:
    """Return the label of each cell of a dictionary-encoded column: 0, 1, or −1 if it is missing."""
    table = [meaning.label.get(word, UNLABELLED) for word in codes.dictionary.to_pylist()]
    found: npt.NDArray[np.int8] = np.array([*table, UNLABELLED], dtype=np.int8)[
        codes.indices.fill_null(len(table)).to_numpy()
    ]
    return found


def to_labels(column: Any, options: ReadOptions, source: Path) -> npt.NDArray[np.int8]:
    """Return the label of each episode: 0 normal, 1 anomalous; missing ones raise an error."""
    return labels_and_kinds(column, options, source)[0]


def labels_and_kinds(column: Any, options: ReadOptions, source: Path) -> tuple[npt.NDArray[np.int8], list[str]]:
    """Return the label and the type of fault ("" if unknown) of each episode; missing labels raise an error."""
    codes = to_coded_texts(column)
    meaning = label_meaning(count_words(codes), options, source)
    found = labels_of(codes, meaning)
    missing = np.flatnonzero(found == UNLABELLED)
    if len(missing):
        raise DfstransError(f"expected a label in each row of {source}, got none in {list_few(missing + 1)}; add them")
    return found, [meaning.kind.get(word, "") for word in codes.to_pylist()]


def _parse_label_map(text: str) -> dict[str, int]:
    """Parse the value of `label_map`.

    >>> _parse_label_map("ok=0, worn=1")
    {'ok': 0, 'worn': 1}
    """
    meaning: dict[str, int] = {}
    for entry in filter(str.strip, text.split(",")):
        word, equals, value = (part.strip() for part in entry.rpartition("="))
        label = _usual_label(value)
        if not word or not equals or label is None:
            raise DfstransError(
                f"expected {option_name('label_map', 'ok=0,worn=1')}, got {entry.strip()!r}; write each label, =, and "
                "0 (normal) or 1 (anomalous)"
            )
        meaning[word] = label
    return meaning


def understands(words: Collection[str], options: ReadOptions) -> bool:
    """Return whether each of these words has a meaning, and both classes occur among several."""
    try:
        meaning = label_meaning(dict.fromkeys(words, 1), options, "")
    except DfstransError:
        return False
    return len(words) == 1 or len(set(meaning.label.values())) == 2


def likely_normal(counts: Mapping[str, int]) -> str:
    """Guess the word for normal: the only usual one, else the most frequent one.

    >>> likely_normal({"cage": 9, "healthy": 3}), likely_normal({"scrap": 2, "fine": 5})
    ('healthy', 'fine')
    """
    usual = [word for word in counts if _usual_label(word) == 0]
    return usual[0] if len(usual) == 1 else max(counts, key=lambda word: counts[word])


def _mapped(counts: Mapping[str, int], options: ReadOptions, source: Path | str, column: str | None) -> dict[str, int]:
    """Return the label of each word according to the label map, or else to the usual words."""
    if options.label_map is not None:
        entries = _parse_label_map(options.label_map)
        found = {word: next((entries[one] for one in entries if _same(word, one)), None) for word in counts}
    else:
        found = {word: _usual_label(word) for word in counts}
    unknown = [word for word in counts if found[word] is None]
    if unknown and options.label_map is not None:
        raise UnreadableLabelsError(
            f"expected each label of {source} in {option_name('label_map')}, got none for "
            f"{list_few((f'{word} ({counts[word]}×)' for word in unknown), 50)}; add them",
            column,
        )
    if unknown:
        normal = likely_normal(counts)
        example = ",".join(
            f"{word}={int(word != normal)}" for word in [normal, *(w for w in counts if w != normal)][:4]
        )
        raise UnreadableLabelsError(
            f"expected labels 0 (normal) or 1 (anomalous) in {source}, got {list_few(unknown)}; specify which "
            f"value means normal (perhaps {option_name('normal_value', normal)}) or anomalous "
            f"({option_name('anomalous_value', ...)}), or the meaning of each "
            f"({option_name('label_map', example)})",
            column,
        )
    return {word: label for word, label in found.items() if label is not None}


def _kinds(anomalous: Collection[str]) -> dict[str, str]:
    """Return the words that name a type of fault: neither a usual word for anomalous nor the only number."""
    telling = [word for word in anomalous if word.lower() not in _ANOMALOUS]
    numbers = [word for word in telling if is_number(word)]
    return {word: word for word in telling if word not in numbers or len(anomalous) > 1}


def _usual_label(word: str) -> int | None:
    if is_number(word):
        return int(float(word)) if float(word) in (0, 1) else None
    return 0 if word.lower() in _NORMAL else 1 if word.lower() in _ANOMALOUS else None


def _same(word: str, wanted: str) -> bool:
    try:
        return float(word) == float(wanted)
    except ValueError:
        return word == wanted.strip()


# ---- label tables -----------------------------------------------------------------------------------------------


def find_table(recordings: Path, name: str) -> Path | None:
    """Find the table called `name` in a folder of recordings, or `<file>_<name>` or `name` next to their file."""
    folder, stems = recordings, [name]
    if recordings.is_file():
        folder, stems = recordings.parent, [f"{table_stem(recordings)}_{name}", name]
    tables = {table_stem(file).lower(): file for file in sorted(folder.iterdir()) if is_table(file)}
    return next((tables[stem.lower()] for stem in stems if stem.lower() in tables), None)


@dataclass(frozen=True)
class LabelTable:
    """The label, the type of fault (of those whose label names one) and optionally the group of each episode id."""

    path: Path
    label: dict[str, int]
    group: dict[str, str] | None
    kind: dict[str, str]

    def apply(self, episodes: Episodes, *, keep_labels: bool = False) -> Episodes:
        """Add these labels to the episodes, and these groups if they have none.

        With `keep_labels`, existing labels are kept.
        """
        ids: list[str] = episodes.ids.tolist()
        unlabelled = [name for name in ids if name not in self.label]
        if unlabelled:
            raise DfstransError(
                f"expected a label for each episode in {self.path}, got none for {list_few(unlabelled)} but for "
                f"{list_few(self.label, 3)}; spell the ids identically (001 is not 1), add the missing rows, or "
                f"choose another label table ({option_name('labels', ...)})"
            )
        if episodes.labels is None or not keep_labels:
            episodes = with_kinds(
                episodes.with_labels([self.label[name] for name in ids]), [self.kind.get(name, "") for name in ids]
            )
        if self.group is None or episodes.groups is not None:
            return episodes
        return replace(episodes, groups=np.array([self.group[name] for name in ids], dtype=np.str_))


def with_kinds(episodes: Episodes, kinds: Sequence[str]) -> Episodes:
    """Add a fault of its type ("" for unknown) to each episode that has none; its place within it is unknown."""
    if not any(kinds):
        return episodes
    added = zip(episodes.known_faults, kinds, episodes.lengths.tolist(), strict=True)
    return replace(
        episodes,
        faults=tuple(faults or ((Fault(0, length, kind=kind),) if kind else ()) for faults, kind, length in added),
    )


def read_label_table(
    table: Table, options: ReadOptions, columns: Mapping[str, str], *, ids_are_files: bool = False
) -> LabelTable:
    """Read a table with the columns id, label and optionally group: those in `columns`, or under their usual names."""
    path = table.path
    options = options.model_copy(update={f"{role}_column": name for role, name in columns.items()})
    id_column, label_column, group_column = label_table_columns(table, options)
    if id_column is None or label_column is None:
        likely = _likely_columns(table)
        named = ", ".join(
            option_name(f"{role}_column", found or likely[role])
            for role, found in (("id", id_column), ("label", label_column))
        )
        raise DfstransError(
            f"expected the columns id and label in the label table {path}, got {list_few(table.names)}; rename them, "
            f"or name them ({named})"
        )
    wanted = [name for name in (id_column, label_column, group_column) if name]
    content = table.read(dict.fromkeys(wanted, "text"))
    ids = ids_of_rows(content[id_column], path)
    check_unique(f"ids in {path}", ids, "keep one row of each")
    found, kinds = labels_and_kinds(content[label_column], options, path)
    if ids_are_files:
        ids = [without_suffix(name) for name in ids]
    groups = [name or "" for name in to_texts(content[group_column]).to_pylist()] if group_column else None
    return LabelTable(
        path,
        dict(zip(ids, found.tolist(), strict=True)),
        None if groups is None else dict(zip(ids, groups, strict=True)),
        {name: kind for name, kind in zip(ids, kinds, strict=True) if kind},
    )


def _likely_columns(table: Table) -> dict[str, Any]:
    """Guess the columns of a label table: the first with a value of its own in each row, and that with fewest values.

    `...` stands for a column that cannot be guessed.
    """
    content = table.read(dict.fromkeys(table.names, "text"))
    distinct = {name: len(to_texts(column).drop_null().unique()) for name, column in content.items()}
    id_column = next((name for name, n in distinct.items() if n == len(content[name])), ...)
    several = {name: n for name, n in distinct.items() if n > 1 and name != id_column}
    return {"id": id_column, "label": min(several, key=lambda name: several[name], default=...)}


def ids_of_rows(column: Any, path: Path) -> list[str]:
    """Return the id of each row of a label or fault table; raise an error if one is missing."""
    ids: list[str | None] = to_texts(column).to_pylist()
    if None in ids or "" in ids:
        row = next(number for number, name in enumerate(ids, start=1) if not name)
        raise DfstransError(f"expected an id in each row of {path}, got none in row {row}; add it")
    return [name for name in ids if name]


def covers(table: Table, ids: Iterable[str], options: ReadOptions) -> bool:
    """Return whether a label table has a row for each of these episodes."""
    id_column = label_table_columns(table, options)[0]
    return id_column is not None and set(ids) <= set(to_texts(table.read({id_column: "text"})[id_column]).to_pylist())


def roles_in_label_table(names: Sequence[str], label_table: Table | None, options: ReadOptions) -> dict[str, str]:
    """Return the columns named in the options that only the label table has, by role, not the recordings (`names`)."""
    there = () if label_table is None else label_table.names
    named = {role: getattr(options, f"{role}_column") for role in _LABEL_TABLE_ROLES}
    return {
        role: column
        for role, name in named.items()
        if name is not None and find_column(names, name) is None and (column := find_column(there, name))
    }


def roles_of_recordings(names: Sequence[str], options: ReadOptions, elsewhere: Collection[str], source: Path) -> Roles:
    """Find the roles of the recordings' columns if their label table provides some roles (`elsewhere`).

    No other column takes these roles: one named like a label or a group is ignored, one named like an id is a sensor.

    >>> options = ReadOptions(id_column="Takt", group_column="Linie")
    >>> roles_of_recordings(["run", "machine", "a"], options, ("id", "group"), Path("a.csv"))
    Roles(id=None, time=None, label=None, group=None, sensors=('run', 'a'))
    """
    roles = find_roles(names, options.model_copy(update={f"{role}_column": None for role in elsewhere}), source)
    sensors = {*roles.sensors, roles.id} if "id" in elsewhere else {*roles.sensors}
    return replace(roles, **dict.fromkeys(elsewhere), sensors=tuple(name for name in names if name in sensors))


def label_table_columns(table: Table, options: ReadOptions) -> tuple[str | None, str | None, str | None]:
    """Find the columns of a label or fault table with the id, the label and the group.

    A name in the options may refer to the recordings, so it must match exactly here; it may differ in case and unit
    only if no column has a usual name (`no` of the recordings is not `No` next to `id`).
    """
    named = {role: getattr(options, f"{role}_column") for role in _LABEL_TABLE_ROLES}
    exact = {f"{role}_column": name if name in table.names else None for role, name in named.items()}
    options = options.model_copy(update={**exact, "drop_sensors": (), "time_column": None})
    usual = find_roles(table.names, options, table.path)
    similar = {
        f"{role}_column": name
        for role, name in named.items()
        if name is not None and getattr(usual, role) is None and find_column(table.names, name)
    }
    roles = find_roles(table.names, options.model_copy(update=similar), table.path)
    by_name = {name.lower(): name for name in table.names}
    id_column = roles.id or next((by_name[name] for name in _FILE_COLUMNS if name in by_name), None)
    rest = [name for name in table.names if name not in (id_column, roles.group)]
    label_column = roles.label or (rest[0] if len(rest) == 1 else None)
    return id_column, label_column, roles.group

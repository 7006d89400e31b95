"""The meaning of the words in a label column: normal or anomalous, and which of them name a type of fault."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.readers.columns import to_coded_texts
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.tables import MISSING
from dfstrans.errors import DfstransError, list_few, option_name

UNLABELLED = -1
_NORMAL = ("false", "normal", "ok", "good", "healthy")
_ANOMALOUS = ("true", "anomalous", "anomaly", "abnormal", "bad", "fault", "faulty", "nok")
_OPTIONS = ("anomalous_value", "normal_value", "label_map")
LABEL_OPTIONS = frozenset(_OPTIONS)


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


def count_words(column: Any) -> tuple[Any, dict[str, int]]:
    """Return a label column as dictionary-encoded words, and how often each word occurs; missing ones do not count."""
    codes = to_coded_texts(column)
    counts = np.bincount(codes.indices.drop_null().to_numpy(), minlength=len(codes.dictionary))
    words = codes.dictionary.to_pylist()
    return codes, {word: int(n) for word, n in zip(words, counts, strict=True) if word and word not in MISSING}


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
    if options.anomalous_value is not None:
        require_occurs(options.anomalous_value, counts, source)
        label = {word: int(_same(word, options.anomalous_value)) for word in counts}
    elif options.normal_value is not None:
        require_occurs(options.normal_value, counts, source, "normal")
        label = {word: int(not _same(word, options.normal_value)) for word in counts}
    else:
        label = _mapped(counts, options, source, column)
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
    codes, counts = count_words(column)
    meaning = label_meaning(counts, options, source)
    found = labels_of(codes, meaning)
    missing = np.flatnonzero(found == UNLABELLED)
    if len(missing):
        raise DfstransError(f"expected a label in each row of {source}, got none in {list_few(missing + 1)}; add them")
    return found, [meaning.kind.get(word, "") for word in codes.to_pylist()]


def require_occurs(value: str, words: Collection[str], source: Path | str, role: str = "anomalous") -> None:
    """Reject a value that is not among the labels; a single label may be of the other class."""
    if len(words) > 1 and not any(_same(word, value) for word in words):
        raise DfstransError(
            f"expected the {role} label {value!r} in {source}, got {list_few(sorted(words))}; "
            f"correct {option_name(f'{role}_value')}"
        )


def parse_label_map(text: str) -> dict[str, int]:
    """Parse the value of `label_map`.

    >>> parse_label_map("ok=0, worn=1")
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


def _mapped(counts: Mapping[str, int], options: ReadOptions, source: Path | str, column: str | None) -> dict[str, int]:
    entries = parse_label_map(options.label_map or "")
    found: dict[str, int] = {}
    unknown: list[str] = []
    for word, n in counts.items():
        named = next((value for entry, value in entries.items() if _same(word, entry)), None)
        label = named if options.label_map is not None else _usual_label(word)
        if label is None:
            unknown.append(f"{word} ({n}×)" if options.label_map is not None else word)
        else:
            found[word] = label
    if unknown and options.label_map is not None:
        raise UnreadableLabelsError(
            f"expected each label of {source} in {option_name('label_map')}, got none for {list_few(unknown, 50)}; "
            "add them",
            column,
        )
    if unknown:
        raise UnreadableLabelsError(
            f"expected labels 0 (normal) or 1 (anomalous) in {source}, got {list_few(unknown)}; specify which "
            f"value means anomalous ({option_name('anomalous_value', ...)}) or normal "
            f"({option_name('normal_value', ...)}), or the meaning of each ({option_name('label_map', 'ok=0,worn=1')})",
            column,
        )
    return found


def _kinds(anomalous: Collection[str]) -> dict[str, str]:
    """Return the words that name a type of fault: neither a usual word for anomalous nor the only number."""
    telling = [word for word in anomalous if word.lower() not in _ANOMALOUS]
    numbers = [word for word in telling if _is_number(word)]
    return {word: word for word in telling if word not in numbers or len(anomalous) > 1}


def _usual_label(word: str) -> int | None:
    if _is_number(word):
        return int(float(word)) if float(word) in (0, 1) else None
    return 0 if word.lower() in _NORMAL else 1 if word.lower() in _ANOMALOUS else None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _same(word: str, wanted: str) -> bool:
    try:
        return float(word) == float(wanted)
    except ValueError:
        return word == wanted.strip()

"""Readers: load `Episodes` from a path in any supported format.

`recordings` reads long tables, `folders` one file (or folder) per episode, `arrays` numpy and known HDF5, `containers`
HDF5 and MATLAB of any layout, `tdms` files of LabVIEW, `public` public data sets. Tables pass through `tables` (files),
`columns` and `times` (cells), `rows`, `joining` (several files) and `gathering` (episodes), `labels` and `faults`
(tables next to them). Recordings of all formats then pass through `preparing` and `cutting`.

To add a format, write a function from a path to `Episodes`, describe it by a `Reader`, and add that to `READERS` below;
the documentation has an example (how-to/add-a-reader.md).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dfstrans.data.episodes import Episodes
from dfstrans.data.problems import NoRecordingsError, Problem, Problems, collecting, current_problems, report, reporting
from dfstrans.data.readers.arrays import HDF5, NUMPY, PAPER_HDF5
from dfstrans.data.readers.containers import CONTAINER
from dfstrans.data.readers.cutting import cut_if_requested
from dfstrans.data.readers.folders import CONTAINER_FOLDER, FOLDER, TDMS_FOLDER
from dfstrans.data.readers.labels import LABEL_OPTIONS
from dfstrans.data.readers.opening import Reader, ReadOptions, opening
from dfstrans.data.readers.preparing import drop_sensors, prepare
from dfstrans.data.readers.public import SERVER_MACHINES, TELEMANOM, UEA
from dfstrans.data.readers.recordings import LONG_TABLE, TDMS
from dfstrans.data.readers.rows import UNREADABLE_LABELS
from dfstrans.data.readers.tables import SPREADSHEETS
from dfstrans.errors import DfstransError, counted, list_few, option_name

__all__ = ["READERS", "ReadOptions", "Reader", "load_episodes", "read_episodes"]

# the first reader that recognises a path is used
READERS = (
    *(TELEMANOM, SERVER_MACHINES, CONTAINER_FOLDER, TDMS_FOLDER, FOLDER),
    *(HDF5, PAPER_HDF5, CONTAINER, TDMS, NUMPY, UEA, LONG_TABLE),
)
_FOR_ALL = frozenset(  # options that `load_episodes` applies itself
    {
        *("drop_sensors", "clip_beyond", "infinite_as_missing", "fill", "resample", "resample_by", "length", "stride"),
        "drop_duplicates",
    }
)


def load_episodes(path: str | os.PathLike[str], options: ReadOptions | None = None, **overrides: Any) -> Episodes:
    """Load the episodes of a file or folder in any known format; `overrides` are fields of `ReadOptions`."""
    place = Path(path)
    episodes, problems = read_episodes(place, options, **overrides)
    problems.settle(place)
    if episodes is None:
        raise NoRecordingsError(f"expected recordings in {place}, got none that can be read; check the path")
    return episodes


def read_episodes(
    place: Path, options: ReadOptions | None = None, **overrides: Any
) -> tuple[Episodes | None, Problems]:
    """Read what can be read of a file or folder, and return all problems of its content instead of raising them."""
    given = {} if options is None else options.model_dump(exclude_unset=True)
    chosen = ReadOptions(**(given | overrides))
    with opening(place, "episodes"):
        place.stat()
        reader = next((reader for reader in READERS if reader.recognises(place)), None)
    if reader is None:
        raise _unknown_format(place)
    _require_applicable(reader, chosen, place)
    _require_together(reader, chosen)
    episodes = None
    with collecting() as problems:
        try:
            episodes = _prepared(reader, place, chosen)
        except DfstransError as error:
            if not (isinstance(error, NoRecordingsError) and any(one.level == "error" for one in problems.merged())):
                problems.add(Problem(str(error), error=error))
    return episodes, problems


def _prepared(reader: Reader, path: Path, options: ReadOptions) -> Episodes:
    """Read recordings, and pass them through the steps that do not depend on the format."""
    episodes = reader.read(path, options)
    meaning = [
        option_name(name, getattr(options, name)) for name in LABEL_OPTIONS if getattr(options, name) is not None
    ]
    unreadable = any(problem.kind == UNREADABLE_LABELS for problem in current_problems().merged())
    if meaning and episodes.labels is None and not unreadable:
        column = option_name("label_dataset" if "label_dataset" in reader.options else "label_column", ...)
        message = f"expected labels in {path} for {list_few(meaning)}, got none; name the labels ({column}), or drop"
        report(Problem(f"{message} the option", file=path))
    if not reader.cuts:
        if "drop_sensors" not in reader.options:
            episodes = drop_sensors(episodes, options, path)
        with reporting():  # so that a check can go on and suggest what suits these recordings
            episodes = cut_if_requested(prepare(episodes, options), options)
    return episodes.without_copies() if options.drop_duplicates else episodes


def applicable_options(path: Path) -> frozenset[str]:
    """Return the fields of `ReadOptions` that apply to the format of a path; none if the format is unknown."""
    with opening(path, "episodes"):
        path.stat()
        reader = next((reader for reader in READERS if reader.recognises(path)), None)
    return frozenset() if reader is None else reader.options | _FOR_ALL


def _require_together(reader: Reader, options: ReadOptions) -> None:
    """Reject an option that has an effect only with another, which is missing."""
    for name, needed in (("stride", "length"), ("resample_by", "resample")):
        value = getattr(options, name)
        given = value != getattr(ReadOptions(), name) and not (reader.cuts and name == "stride")
        if given and getattr(options, needed) is None:
            shown = ",".join(value) if isinstance(value, tuple) else value
            raise DfstransError(
                f"expected {option_name(needed)} with {option_name(name, shown)}, got none; set both or neither"
            )


def _require_applicable(reader: Reader, options: ReadOptions, path: Path) -> None:
    """Reject options that the reader would ignore, since the user expects them to have an effect."""
    applicable = reader.options | _FOR_ALL
    default = ReadOptions()
    ignored = [name for name, value in options if value != getattr(default, name) and name not in applicable]
    if ignored:
        raise DfstransError(
            f"expected only options that apply to {path}, which is {reader.name}, but also got "
            f"{list_few(map(option_name, ignored))}; drop them (applicable: "
            f"{list_few(map(option_name, sorted(applicable)), 20)})"
        )


def _unknown_format(path: Path) -> DfstransError:
    suffix, got, first = path.suffix.lower(), "an unknown format", ""
    if path.is_dir():
        inside = sorted(path.iterdir())
        readable = [file for file in inside if file.is_file() and any(reader.recognises(file) for reader in READERS)]
        got = "an unknown format" if inside else "an empty folder"
        if inside and all(one.is_dir() for one in inside):
            got, first = (
                "a folder of folders",
                "choose one of them, or put the recordings into one with labels.csv, or ",
            )
        if readable:
            got = f"a folder with {counted(len(readable), 'file')} of a format that is read one file at a time"
            first = f"give the file itself, such as {readable[0]}, or "
    elif suffix in (".zip", ".7z", ".tar", ".tgz", ".bz2", ".xz", ".zst"):
        got, first = f"an archive ({suffix})", "unpack it first, or "
    elif suffix in SPREADSHEETS:
        got, first = f"a spreadsheet ({suffix})", "save its sheet as CSV, or "
    known = "".join(f"\n  - {reader.name}" for reader in READERS)
    return DfstransError(f"expected episodes at {path}, got {got}; {first}convert them to one of:{known}")

"""Readers: from a path to `Episodes`, whatever the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import columns as cleaning
from dfstrans.data.readers import folders as folder
from dfstrans.data.readers import hdf5, numpy_files, paper_hdf5, server_machines, telemanom, uea
from dfstrans.data.readers import rows as long_table
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.errors import DfstransError, option_name, shortlist

__all__ = ["ReadOptions", "load_episodes"]


class Format(Protocol):
    """What a module of this package offers: its name, the options that it heeds, and how to recognise and read it.

    The options of `cleaning` are heeded for every format, after reading. A format that lists `drop_sensors` leaves
    columns out while it reads, because they may hold something else than numbers.
    """

    NAME: str
    OPTIONS: frozenset[str]

    def recognises(self, path: Path) -> bool:
        """Whether the path is of this format."""

    def read(self, path: Path, options: ReadOptions) -> Episodes:
        """The episodes at the path."""


# the first that recognises a path reads it
FORMATS: tuple[Format, ...] = (
    telemanom,
    server_machines,
    folder,
    paper_hdf5,
    hdf5,
    numpy_files,
    uea,
    long_table,
)


def load_episodes(path: str | os.PathLike[str], options: ReadOptions | None = None, **overrides: Any) -> Episodes:
    """The episodes in a file or folder of any known format; `overrides` are fields of `ReadOptions`."""
    place = Path(path)
    given = {} if options is None else options.model_dump(exclude_unset=True)
    chosen = ReadOptions(**(given | overrides))
    with opening(place, "episodes"):
        place.stat()
        found = next((form for form in FORMATS if form.recognises(place)), None)
    if found is None:
        what, first = _stranger(place)
        known = "".join(f"\n  - {form.NAME}" for form in FORMATS)
        raise DfstransError(f"expected episodes at {place}, got {what}; {first}convert them to one of:{known}")
    _require_heeded(found, chosen, place)
    episodes = found.read(place, chosen)
    if "drop_sensors" not in found.OPTIONS:
        episodes = cleaning.without_dropped(episodes, chosen, place)
    return cleaning.without_infinite(episodes, chosen)


def _stranger(path: Path) -> tuple[str, str]:
    """What an unknown thing is in words, and what to do first."""
    suffix = path.suffix.lower()
    if path.is_dir():
        inside = list(path.iterdir())
        if inside and all(one.is_dir() for one in inside):
            return (
                "a folder of folders",
                "give one of these, or put the recordings into one folder with labels.csv, or ",
            )
        return ("something else" if inside else "an empty folder"), ""
    if suffix in (".zip", ".7z", ".tar", ".tgz", ".bz2", ".xz", ".zst"):
        return f"an archive ({suffix})", "unpack it first, or "
    if suffix in (".xlsx", ".xls", ".ods"):
        return f"a spreadsheet ({suffix})", "save its sheet as CSV, or "
    return "something else", ""


def _require_heeded(found: Format, options: ReadOptions, path: Path) -> None:
    """Refuse options that the format would ignore: they show that the user expects something else."""
    defaults = ReadOptions()
    changed = [name for name in ReadOptions.model_fields if getattr(options, name) != getattr(defaults, name)]
    heeded = found.OPTIONS | cleaning.OPTIONS
    idle = [name for name in changed if name not in heeded]
    if idle:
        raise DfstransError(
            f"expected only options that apply to {path}, which is {found.NAME}, got also "
            f"{shortlist(map(option_name, idle))}; leave them out (it heeds "
            f"{shortlist(map(option_name, sorted(heeded)), 20)})"
        )
    if options.stride is not None and options.length is None and found in (long_table, folder):
        raise DfstransError(
            f"expected {option_name('length')} with {option_name('stride', options.stride)}, got none; give both "
            "or neither"
        )

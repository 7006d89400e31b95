"""Files that arrive in a folder: which are complete, and which are growing, found by polling."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dfstrans.data.readers.tables import TEXT_SUFFIXES
from dfstrans.scale.sources import Source, recording_files

UNFINISHED = 10  # times the settle time, for a text file whose last line has no end
REST = 9  # times the time that it took to read a growing file

GROWING = tuple(suffix for suffix in TEXT_SUFFIXES if not suffix.endswith(".gz"))

Signature = tuple[int, float]  # size and time of a file


class Arrival(NamedTuple):
    """A file that has settled, or that has grown since it was seen last."""

    source: Source
    signature: Signature
    growing: bool

    @property
    def name(self) -> str:
        """Its path within the folder."""
        return self.source.address.removeprefix(self.source.folder).lstrip("/")

    @property
    def unchanged(self) -> bool:
        """Whether the file is still the same."""
        return signature(Path(self.source.address)) == self.signature


class _Seen(NamedTuple):
    signature: Signature
    since: float
    grown: bool


class Arrivals:
    """The files in a folder that are not finished; `finished` holds the signatures of the others by name."""

    def __init__(self, folder: Path, out: Path, settle: float, finished: dict[str, Signature]) -> None:
        self._folder, self._out = folder.resolve().as_posix(), out.resolve().as_posix()
        self._settle, self.finished = settle, finished
        self._seen: dict[str, _Seen] = {}
        self._rest: dict[str, float] = {}  # until when a growing file is left alone

    @property
    def waiting(self) -> int:
        """How many files were neither finished nor settled when they were last looked at."""
        return len(self._seen)

    def finish(self, arrival: Arrival) -> None:
        """Leave a file alone until it changes."""
        self.finished[arrival.name] = arrival.signature
        self._seen.pop(arrival.name, None)

    def __iter__(self) -> Iterator[Arrival]:
        """Look at all files once, and yield those that have settled or grown."""
        if not Path(self._folder).is_dir():
            raise FileNotFoundError(f"{self._folder} is not there")
        found = {}
        for address in recording_files(self._folder, self._out):
            present = signature(Path(address))
            if present is not None and present[0]:  # an empty file will be written to
                arrival = Arrival(Source(address, self._folder), present, growing=False)
                if self.finished.get(arrival.name) != present:
                    found[arrival.name] = arrival
        self._seen = {name: seen for name, seen in self._seen.items() if name in found}
        now = time.monotonic()
        for name, arrival in found.items():
            seen = self._seen.get(name)
            if seen is None or seen.signature != arrival.signature:
                before = self.finished.get(name) if seen is None else seen.signature
                grown = before is not None and before[0] < arrival.signature[0]
                self._seen[name] = _Seen(arrival.signature, now, grown)
                if grown and name.lower().endswith(GROWING) and now >= self._rest.get(name, now):
                    began = time.monotonic()
                    yield arrival._replace(growing=True)
                    ended = time.monotonic()
                    self._rest[name] = ended + REST * (ended - began)
            elif now - seen.since >= self._settle * (UNFINISHED if _ends_within_a_line(arrival) else 1):
                yield arrival


def signature(path: Path) -> Signature | None:
    """Return the size and time of a file; None if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime


def _ends_within_a_line(arrival: Arrival) -> bool:
    if not arrival.name.lower().endswith(GROWING):
        return False
    try:
        with Path(arrival.source.address).open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"
    except OSError:
        return True


def copy_whole_lines(path: Path, copy: Path) -> None:
    """Copy a growing file up to its last line break."""
    content = path.read_bytes()
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content[: content.rfind(b"\n") + 1])

"""Journals that survive crashes: JSON lines, on disk once they are appended."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write, explain_disk_errors

_LOCK, _OWNER = "_lock", "_watcher.txt"


class JournalError(DfstransError):
    """A journal cannot be written, so its writer has to end: the last line may be incomplete."""


class Journal:
    """A file with a JSON object in each line; the part of a line that a crash has left at its end is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            with explain_disk_errors(path), path.open("r+b") as file:
                file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise DfstransError(
                        f"expected a JSON object in line {number} of {self.path}, got {error}; remove that line"
                    ) from error

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write rows; when this returns, they are on disk."""
        lines = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
        if lines:
            try:
                with explain_disk_errors(self.path, "earlier lines are kept"), self.path.open("ab") as file:
                    file.write(lines.encode())
                    file.flush()
                    os.fsync(file.fileno())
            except DfstransError as error:
                raise JournalError(str(error)) from error


@contextmanager
def only_watcher(folder: Path) -> Iterator[None]:
    """Refuse a folder of results to which another process is writing; name that process."""
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            owner = (folder / _OWNER).read_text(encoding="utf-8") if (folder / _OWNER).exists() else "unknown"
            raise DfstransError(
                f"expected one watcher for {folder}, got another that is running ({owner}); stop it, or choose "
                f"another {option_name('out')}"
            ) from None
    try:
        with atomic_write(folder / _OWNER) as temporary:
            temporary.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        lock.release()

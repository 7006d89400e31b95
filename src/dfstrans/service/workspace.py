"""A workspace: the folder with everything that a service keeps, apart from a database elsewhere."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock, Timeout

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError
from dfstrans.files import explain_disk_errors
from dfstrans.service.database import Database

if TYPE_CHECKING:  # which load torch
    from dfstrans.detectors.base import EpisodeClassifier


class Workspace:
    """A folder with signals, models, events and, unless it is elsewhere, the database."""

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self.folder = folder = folder.absolute()
        self.signals, self.models = folder / "signals", folder / "models"
        self.incoming, self.events = folder / "incoming", folder / "events"
        with explain_disk_errors(self.folder):
            for part in (self.signals, self.models, self.incoming, self.events):
                part.mkdir(parents=True, exist_ok=True)
        self._detectors: dict[str, EpisodeClassifier] = {}
        with FileLock(self.folder / "migration.lock"):  # SQLite is created only once
            self.database = Database(database or f"sqlite:///{self.folder / 'dfstrans.db'}")
        self.reading, self.writing = self.database.reading, self.database.writing

    @contextmanager
    def only_service(self) -> Iterator[None]:
        """Refuse a workspace that another process serves, and remove what an earlier one left half-done."""
        lock = FileLock(self.folder / "service.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise DfstransError(
                f"expected a workspace that no other process serves, got {self.folder}, which one does; stop it, or "
                "choose another workspace"
            ) from None
        with lock:
            shutil.rmtree(self.incoming, ignore_errors=True)
            self.incoming.mkdir(exist_ok=True)
            yield

    @contextmanager
    def temporary_folder(self) -> Iterator[Path]:
        """Give a folder on the same disk, which is removed at the end."""
        with tempfile.TemporaryDirectory(dir=self.incoming, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    # ---- signals ----------------------------------------------------------------------------------------------------

    def keep(self, recording: Episodes) -> str:
        """Write the values of one recording, unless they are there; return their SHA-256."""
        content = content_of(recording)
        place = self._signal(content)
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            save_episodes(replace(recording, labels=None, groups=None, faults=None, truth=None), place)
        return content

    def signal(self, content: str, episode: str) -> Episodes:
        """Return one recording by its content, with the name of its episode."""
        place = self._signal(content)
        found = load_episodes(place)
        if content_of(found) != content:
            raise DfstransError(f"expected the recording that was stored in {place}, got another; restore a backup")
        return replace(found, ids=np.array([episode]))

    def _signal(self, content: str) -> Path:
        return self.signals / content[:2] / f"{content}.parquet"

    # ---- models -----------------------------------------------------------------------------------------------------

    def detector(self, checksum: str) -> EpisodeClassifier:
        """Return the detector of a version; the last two stay in memory."""
        if checksum not in self._detectors:
            from dfstrans.detectors.registry import load_detector

            found = load_detector(self.models / checksum)
            while len(self._detectors) > 1:
                self._detectors.pop(next(iter(self._detectors)), None)
            self._detectors[checksum] = found
        return self._detectors[checksum]

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def content_of(recording: Episodes) -> str:
    """Return the SHA-256 of what one recording says: its sensors, units, times and values, but not its name."""
    start = None if recording.starts is None else str(recording.starts[0])
    interval = None if recording.interval is None else float(recording.interval)
    about = (recording.sensors, recording.units, interval, recording.time_unit, start, recording.time_zone)
    values = np.ascontiguousarray(np.asarray(recording.values)[0, :, : recording.lengths[0]], dtype="<f4")
    values = np.where(np.isnan(values), np.float32(np.nan), values)  # of the many NaN, one
    return hashlib.sha256(json.dumps([*about, values.shape]).encode() + values.tobytes()).hexdigest()

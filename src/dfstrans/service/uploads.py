"""Uploads: recordings of unknown origin, read by another process with limits on memory, time and size."""

from __future__ import annotations

import math
import multiprocessing
import os
import queue
import re
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.readers.recordings import holds_one_recording
from dfstrans.detectors.recipe import load_with_recipe, without_unreadable_labels
from dfstrans.errors import DfstransError, counted, list_few
from dfstrans.settings import Settings

FORMATS = {  # suffix by media type
    "text/csv": ".csv",
    "application/vnd.apache.parquet": ".parquet",
    "application/x-npz": ".npz",
    "application/json": ".json",
}
JSON_EXAMPLE: dict[str, Any] = {
    "interval": 0.01,
    "time_unit": "s",
    "recordings": [{"id": "run 7", "asset": "lift-1", "values": {"Ax": [0.1, 0.2, None], "Ay": [1.0, 1.1, 1.2]}}],
}
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # in names: PostgreSQL, file names and logs differ about them


class Limits(Settings):
    """What an upload may be at most."""

    megabytes: int = Field(default=64, ge=1, description="Size of an upload.")
    recordings: int = Field(default=1000, ge=1, description="Recordings in an upload.")
    points: int = Field(default=200_000, ge=1, description="Points of a recording.")
    sensors: int = Field(default=500, ge=1, description="Sensors of a recording.")
    values: int = Field(default=50_000_000, ge=1, description="Values of an upload, with padding.")
    seconds: float = Field(default=60, gt=0, description="Time for reading an upload.")
    memory: int = Field(default=4096, ge=512, description="Megabytes for reading an upload.")

    @property
    def bytes(self) -> int:
        """The size of an upload in bytes."""
        return self.megabytes << 20

    def check(self, episodes: Episodes) -> None:
        """Reject recordings that exceed a limit, or whose names have control characters."""
        sizes = (
            ("recordings", len(episodes), self.recordings),
            ("points per recording", episodes.n_timepoints, self.points),
            ("sensors", episodes.n_sensors, self.sensors),
            ("values, with padding", math.prod(episodes.shape), self.values),
        )
        for what, size, most in sizes:
            if size > most:
                raise DfstransError(f"expected at most {most} {what} in an upload, got {size}; send smaller parts")
        groups = [] if episodes.groups is None else episodes.groups.tolist()
        bad = [name for name in (*episodes.ids.tolist(), *groups, *episodes.sensors) if not is_name(name)]
        if bad:
            raise DfstransError(
                "expected names of recordings, machines and sensors of 1 to 200 characters without control characters, "
                f"got {list_few(repr(name[:40]) for name in bad)}; rename them"
            )


def is_name(text: str) -> bool:
    """Return whether a text can be the name of something.

    >>> is_name("lift 7"), is_name(""), is_name("a\\0b")
    (True, False, False)
    """
    return 0 < len(text) <= 200 and _FORBIDDEN.search(text) is None


def file_name(name: str, suffix: str) -> str:
    """Return a harmless name for a file, similar to the one given, with this suffix.

    >>> file_name("../../etc/run 7.CSV", ".csv"), file_name("", ".npz")
    ('run 7.csv', 'recording.npz')
    """
    stem = name.replace("\\", "/").rpartition("/")[2]
    stem = stem[: -len(suffix)] if stem.lower().endswith(suffix) else stem
    return (re.sub(r"[^\w .+-]", "_", stem).strip(" .")[:100] or "recording") + suffix


# ---- read, in the other process -------------------------------------------------------------------------------------


class _JsonRecording(Settings):
    id: str
    asset: str | None = None
    start: datetime | None = None
    values: dict[str, list[float | None]]


class _JsonUpload(Settings):
    recordings: list[_JsonRecording] = Field(min_length=1)
    interval: float | None = Field(default=None, gt=0)
    time_unit: str = ""
    units: dict[str, str] = Field(default_factory=dict)


def read_upload(file: Path, recipe: Mapping[str, Any], limits: Limits) -> Episodes:
    """Read the recordings of a file as those of training were read, and check them against the limits."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            episodes = (_read_json(file) if file.suffix == ".json" else _read_file(file, dict(recipe))).load()
    except DfstransError as error:
        raise DfstransError(str(error).replace(f"{file.parent}/", "").replace(str(file.parent), file.name)) from None
    limits.check(episodes)
    return episodes


def _read_file(file: Path, recipe: dict[str, Any]) -> Episodes:
    place = file.parent if holds_one_recording(file, ReadOptions(**recipe)) else file
    return without_unreadable_labels(
        lambda **read: load_with_recipe(recipe, place, read, need_labels=False), recipe, {}, lambda _: None
    )


def _read_json(file: Path) -> Episodes:
    try:
        upload = _JsonUpload.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise DfstransError(
            f"expected JSON with recordings, each with an id and the values of its sensors, got a problem in {where}: "
            f"{first['msg']}; the documentation has an example"
        ) from None
    first_one, *others = upload.recordings
    sensors = tuple(first_one.values)
    for one in (first_one, *others):
        if set(one.values) != set(sensors) or len({len(values) for values in one.values.values()}) != 1:
            raise DfstransError(
                f"expected the same sensors in each recording, with a value for each point, got others in {one.id!r}; "
                "write null for a value that is missing"
            )
    assets = [one.asset for one in upload.recordings]
    starts = [None if one.start is None else one.start.astimezone(UTC) for one in upload.recordings]
    return Episodes.from_arrays(
        [np.array([one.values[name] for name in sensors], dtype=np.float32) for one in upload.recordings],
        ids=[one.id for one in upload.recordings],
        sensors=sensors,
        units=[upload.units.get(name, "") for name in sensors],
        interval=upload.interval,
        time_unit=upload.time_unit,
        groups=[one or "" for one in assets] if any(assets) else None,
        starts=[np.datetime64(one.replace(tzinfo=None) if one else "NaT", "ns") for one in starts]
        if any(starts)
        else None,
        time_zone="UTC" if any(starts) else "",
    )


# ---- the other process ----------------------------------------------------------------------------------------------


class ReaderPool:
    """Some processes that read uploads; one that takes too long or dies is replaced."""

    def __init__(self, limits: Limits, size: int = 2) -> None:
        self.limits = limits
        self._idle: queue.LifoQueue[_Reader | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)  # started when it is needed

    def read(self, file: Path, recipe: Mapping[str, Any]) -> Episodes:
        """Read the recordings of an upload in another process; raise an error with the reason if that is impossible."""
        with self._reader() as reader:
            reader.connection.send((file, dict(recipe), self.limits))
            try:
                if not reader.connection.poll(self.limits.seconds):
                    reader.stop()
                    raise DfstransError(
                        f"expected an upload that is read within {self.limits.seconds:g} s, got one that takes longer; "
                        "send smaller parts"
                    )
                found = reader.connection.recv()
            except (EOFError, ConnectionError):
                reader.stop()
                found = DfstransError(
                    f"expected an upload that is read with {self.limits.memory} MB of memory, got one that takes more, "
                    "or is damaged; send smaller parts"
                )
        if isinstance(found, Episodes):
            return found
        raise DfstransError(str(found))

    @contextmanager
    def _reader(self) -> Iterator[_Reader]:
        reader = self._idle.get()
        try:
            if reader is None or not reader.process.is_alive():
                reader = _Reader(self.limits.memory)
            yield reader
        finally:
            self._idle.put(reader)

    def close(self) -> None:
        """Stop the processes."""
        while not self._idle.empty():
            reader = self._idle.get()
            if reader is not None:
                reader.stop()


class _Reader:
    def __init__(self, megabytes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, megabytes), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, megabytes: int) -> None:
    """Read what is asked for until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which ends this process
    with suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    with suppress(EOFError, BrokenPipeError):
        while True:
            file, recipe, limits = connection.recv()
            try:
                connection.send(read_upload(file, recipe, limits))
            except DfstransError as error:
                connection.send(str(error))
            except MemoryError:
                connection.send(
                    f"expected an upload that is read with {megabytes} MB of memory, got one that takes more"
                )
                os._exit(1)  # what it holds may be large
            except Exception as error:  # readers raise errors of many libraries on damaged files
                connection.send(f"expected recordings, but: {type(error).__name__}: {error}"[:500])


def parts_by_recording(episodes: Episodes) -> list[Episodes]:
    """Return each recording alone, without padding."""
    alone = (episodes[[row]] for row in range(len(episodes)))
    return [replace(one, values=np.asarray(one.values)[:, :, : int(one.lengths[0])]) for one in alone]


def describe_problem(reasons: Mapping[str, str]) -> str:
    """Return why recordings of an upload were rejected, in one sentence."""
    return f"{counted(len(reasons), 'recording')} rejected: " + "; ".join(dict.fromkeys(reasons.values()))

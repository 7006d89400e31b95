"""Episode values that stay in files and are read when they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]


class Source(Protocol):
    """Episodes that are read one by one."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints), as read."""

    def read(self, row: int) -> Array:
        """One episode: (n_sensors, n_timepoints)."""

    def read_into(self, first: int, out: Array) -> None:
        """As many consecutive episodes, from the first, as `out` has room for: (n, n_sensors, n_timepoints)."""

    def select_sensors(self, sensors: Rows) -> Source:
        """The same episodes, fewer or reordered sensors; reads nothing."""

    def with_infinite_as_missing(self) -> Source:
        """The same episodes, their infinite values read as NaN; reads nothing."""


@dataclass(frozen=True)
class StoredArray:
    """One data set in an HDF5 file with an episode per row, opened on first use in each process.

    The data set has the axes `(n_episodes, n_sensors, n_timepoints)`, or two axes with the sensors of an episode one
    after the other; what follows them in a row (the label, in the paper authors' files) is not read. `sensors`, when
    given, are the columns that are read, in that order. With `infinite_as_missing` infinite values are read as NaN.
    """

    path: Path
    dataset: str
    full_shape: tuple[int, int, int]
    sensors: Rows | None = field(default=None, compare=False)
    infinite_as_missing: bool = False
    _open: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints), as read."""
        n, n_sensors, n_timepoints = self.full_shape
        return n, n_sensors if self.sensors is None else len(self.sensors), n_timepoints

    def select_sensors(self, sensors: Rows) -> StoredArray:
        """The same data set, fewer or reordered sensors; reads nothing."""
        return replace(self, sensors=sensors if self.sensors is None else self.sensors[sensors])

    def with_infinite_as_missing(self) -> StoredArray:
        """The same data set, its infinite values read as NaN; reads nothing."""
        return replace(self, infinite_as_missing=True)

    def read(self, row: int) -> Array:
        """One episode: (n_sensors, n_timepoints)."""
        rows = np.empty((1, *self.shape[1:]), dtype=np.float32)
        self.read_into(row, rows)
        one: Array = rows[0]
        return one

    def read_into(self, first: int, out: Array) -> None:
        """As many consecutive episodes, from the first, as `out` has room for: (n, n_sensors, n_timepoints)."""
        which = f"episodes {first} to {first + len(out) - 1}" if len(out) > 1 else f"episode {first}"
        try:
            stored = self._opened()
            if self._is_as_read(stored):
                stored.read_direct(out, np.s_[first : first + len(out)])
            else:
                for place, one in enumerate(out):
                    one[:] = self._convert(stored[first + place])
        except (OSError, KeyError, ValueError) as error:
            raise DfstransError(
                f"expected to read {which} of {self.path}, but the file ends early or is damaged ({error}); "
                "write it again or restore it from a copy"
            ) from error

    def _opened(self) -> Any:
        process = os.getpid()  # a handle must not cross a fork
        if process not in self._open:
            import h5py  # here, so that arrays in memory do without it

            self._open[process] = h5py.File(self.path, "r")[self.dataset]
        return self._open[process]

    def _is_as_read(self, stored: Any) -> bool:
        """Whether the library can put the values where they belong without a detour."""
        return (
            stored.dtype == np.float32
            and stored.shape[1:] == self.full_shape[1:]
            and self.sensors is None
            and not self.infinite_as_missing
        )

    def _convert(self, row: Any) -> Array:
        _, n_sensors, n_timepoints = self.full_shape
        with np.errstate(over="ignore"):  # beyond float32 is infinite, which the data check reports
            flat = np.asarray(row, dtype=np.float32).ravel()
        one: Array = flat[: n_sensors * n_timepoints].reshape(n_sensors, n_timepoints)
        chosen = one if self.sensors is None else one[self.sensors]
        return infinite_to_nan(chosen) if self.infinite_as_missing else chosen

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}


def infinite_to_nan(values: Array) -> Array:
    """The values with NaN in place of infinite ones.

    >>> infinite_to_nan(np.array([1.0, -np.inf], dtype=np.float32))
    array([ 1., nan], dtype=float32)
    """
    return np.where(np.isinf(values), np.float32(np.nan), values)


@dataclass(frozen=True)
class ChangedRows:
    """Episodes that are changed as they are read: `change(row, values)` gives those that are read of a row.

    What is given to it, (n_sensors, n_timepoints), has all sensors and the padding of `values`.
    """

    values: Array | StoredValues
    change: Callable[[int, Array], Array]
    sensors: Rows | None = field(default=None, compare=False)
    infinite_as_missing: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints), as read."""
        n, n_sensors, n_timepoints = self.values.shape
        return n, n_sensors if self.sensors is None else len(self.sensors), n_timepoints

    def select_sensors(self, sensors: Rows) -> ChangedRows:
        """The same episodes, fewer or reordered sensors; reads nothing."""
        return replace(self, sensors=sensors if self.sensors is None else self.sensors[sensors])

    def with_infinite_as_missing(self) -> ChangedRows:
        """The same episodes, their infinite values read as NaN; reads nothing."""
        return replace(self, infinite_as_missing=True)

    def read(self, row: int) -> Array:
        """One episode: (n_sensors, n_timepoints)."""
        changed = self.change(row, self.values[row])
        chosen = changed if self.sensors is None else changed[self.sensors]
        return infinite_to_nan(chosen) if self.infinite_as_missing else chosen

    def read_into(self, first: int, out: Array) -> None:
        """As many consecutive episodes, from the first, as `out` has room for: (n, n_sensors, n_timepoints)."""
        for place, one in enumerate(out):
            one[:] = self.read(first + place)


class StoredValues:
    """The part of an array's behaviour that streaming needs, over rows that live in one or more sources.

    Indexing with a row number or an index array reads those episodes; nothing else is held in memory.

    Shape:
        (n_episodes, n_sensors, n_timepoints), NaN where a source is shorter than the longest
    """

    def __init__(self, sources: Sequence[Array | Source], source_of: Rows, row_of: Rows) -> None:
        self.sources = tuple(sources)
        self.source_of = source_of
        self.row_of = row_of

    @classmethod
    def whole(cls, source: Array | Source) -> StoredValues:
        """All rows of one source."""
        n = source.shape[0]
        return cls([source], np.zeros(n, dtype=np.intp), np.arange(n))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints)."""
        return len(self.row_of), self.sources[0].shape[1], max(source.shape[2] for source in self.sources)

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Always float32."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.row_of)

    def __getitem__(self, rows: int | slice | Rows) -> Array:
        """Read one episode (n_sensors, n_timepoints) or several (n, n_sensors, n_timepoints)."""
        if isinstance(rows, int | np.integer):
            return self._read_one(int(rows))
        wanted = np.arange(len(self))[rows]
        n_timepoints = self.shape[2]
        out = np.empty((len(wanted), *self.shape[1:]), dtype=np.float32)
        for start, stop in self._runs(wanted):
            source = self.sources[self.source_of[wanted[start]]]
            first, part = int(self.row_of[wanted[start]]), out[start:stop]
            if not isinstance(source, np.ndarray) and source.shape[2] == n_timepoints:
                source.read_into(first, part)
                continue
            part[..., source.shape[2] :] = np.nan
            for place, row in enumerate(wanted[start:stop]):
                part[place, :, : source.shape[2]] = self._read_one(int(row))
        return out

    def _runs(self, wanted: Rows) -> list[tuple[int, int]]:
        """Ranges of the wanted episodes that are neighbours in one source: they are read at once."""
        breaks = (np.diff(self.row_of[wanted]) != 1) | (np.diff(self.source_of[wanted]) != 0)
        edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(wanted)]
        return [(start, stop) for start, stop in pairwise(edges) if start < stop]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[np.arange(len(self))].astype(dtype or np.float32, copy=False)

    def select(self, rows: Rows) -> StoredValues:
        """The same sources, fewer or reordered episodes; reads nothing."""
        return StoredValues(self.sources, self.source_of[rows], self.row_of[rows])

    def select_sensors(self, sensors: Rows) -> StoredValues:
        """The same episodes, fewer or reordered sensors; reads nothing."""
        chosen = [
            source[:, sensors] if isinstance(source, np.ndarray) else source.select_sensors(sensors)
            for source in self.sources
        ]
        return StoredValues(chosen, self.source_of, self.row_of)

    def with_infinite_as_missing(self) -> StoredValues:
        """The same episodes, their infinite values read as NaN; reads nothing."""
        finite = [
            infinite_to_nan(source) if isinstance(source, np.ndarray) else source.with_infinite_as_missing()
            for source in self.sources
        ]
        return StoredValues(finite, self.source_of, self.row_of)

    @classmethod
    def join(cls, parts: Sequence[Array | StoredValues]) -> StoredValues:
        """Episodes of several parts one after the other; reads nothing."""
        sources: list[Array | Source] = []
        source_of: list[Rows] = []
        row_of: list[Rows] = []
        for part in parts:
            stored = part if isinstance(part, StoredValues) else cls.whole(part)
            source_of.append(stored.source_of + len(sources))
            row_of.append(stored.row_of)
            sources.extend(stored.sources)
        return cls(sources, np.concatenate(source_of), np.concatenate(row_of))

    def _read_one(self, row: int) -> Array:
        source = self.sources[self.source_of[row]]
        place = int(self.row_of[row])
        one: Array = source[place] if isinstance(source, np.ndarray) else source.read(place)
        return one

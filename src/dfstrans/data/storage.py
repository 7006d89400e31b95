"""Episode values that do not fit into memory: they stay in files and are read on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dfstrans.errors import DfstransError

Array = npt.NDArray[np.float32]
Index = npt.NDArray[np.intp]


class StoredValues:
    """Rows of one or more sources, with the subset of the array interface that streaming needs.

    Indexing with a row number, a slice or an index array reads those episodes; nothing else is kept in memory.

    Shape:
        (n_episodes, n_sensors, n_timepoints), NaN where a source is shorter than the longest
    """

    def __init__(self, sources: Sequence[Source], source_of: Index, row_of: Index) -> None:
        self.sources = tuple(sources)
        self.source_of = source_of
        self.row_of = row_of

    @classmethod
    def whole(cls, source: Source) -> StoredValues:
        """Create values from all rows of one source."""
        n = source.shape[0]
        return cls([source], np.zeros(n, dtype=np.intp), np.arange(n))

    @classmethod
    def join(cls, parts: Sequence[Array | StoredValues]) -> StoredValues:
        """Join the episodes of several parts in order, without reading them."""
        stored = [part if isinstance(part, StoredValues) else cls.whole(ChangedRows(part)) for part in parts]
        offsets = np.cumsum([0, *(len(part.sources) for part in stored)])
        return cls(
            [source for part in stored for source in part.sources],
            np.concatenate([part.source_of + offset for part, offset in zip(stored, offsets, strict=False)]),
            np.concatenate([part.row_of for part in stored]),
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints)."""
        return len(self), self.sources[0].shape[1], max(source.shape[2] for source in self.sources)

    def __len__(self) -> int:
        return len(self.row_of)

    def __getitem__(self, rows: int | slice | Index) -> Array:
        """Read one episode (n_sensors, n_timepoints of its source) or several (n, n_sensors, n_timepoints)."""
        if isinstance(rows, int | np.integer):
            return self.sources[int(self.source_of[rows])].read(int(self.row_of[rows]))
        wanted = np.arange(len(self))[rows]
        out = np.empty((len(wanted), *self.shape[1:]), dtype=np.float32)
        for start, stop in self._runs(wanted):
            source, first = self.sources[self.source_of[wanted[start]]], int(self.row_of[wanted[start]])
            n_timepoints = source.shape[2]
            run = out[start:stop, :, :n_timepoints]
            if isinstance(source, StoredArray):
                source.read_into(first, run)
            else:
                for offset, values in enumerate(run):
                    values[:] = source.read(first + offset)
            out[start:stop, :, n_timepoints:] = np.nan
        return out

    def _runs(self, wanted: Index) -> list[tuple[int, int]]:
        """Return ranges of the wanted episodes that are consecutive in one source and can be read together."""
        breaks = (np.diff(self.row_of[wanted]) != 1) | (np.diff(self.source_of[wanted]) != 0)
        edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(wanted)]
        return [(start, stop) for start, stop in pairwise(edges) if start < stop]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[np.arange(len(self))].astype(dtype or np.float32, copy=False)

    def select(self, rows: Index) -> StoredValues:
        """Select or reorder episodes, without reading them."""
        return StoredValues(self.sources, self.source_of[rows], self.row_of[rows])

    def select_sensors(self, sensors: Index) -> StoredValues:
        """Select or reorder sensors, without reading them."""
        chosen = [_View(source, sensors=sensors) for source in self.sources]
        return StoredValues(chosen, self.source_of, self.row_of)

    def with_infinite_as_missing(self) -> StoredValues:
        """Return the same episodes with infinite values read as NaN, without reading them yet."""
        finite = [_View(source, infinite_as_missing=True) for source in self.sources]
        return StoredValues(finite, self.source_of, self.row_of)


class Source(Protocol):
    """Episodes of one file or array, read one at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints)."""

    def read(self, row: int) -> Array:
        """Read one episode: (n_sensors, n_timepoints)."""


@dataclass(frozen=True)
class StoredArray:
    """A data set in an HDF5 file with one episode per row, opened on first use in each process.

    The data set has the axes `(n_episodes, n_sensors, n_timepoints)`, or two axes with the sensors of an episode
    concatenated. Further columns of a row (the label, in the paper authors' files) are not read.
    """

    path: Path
    dataset: str
    shape: tuple[int, int, int]
    _open: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def read(self, row: int) -> Array:
        """Read one episode: (n_sensors, n_timepoints)."""
        rows = np.empty((1, *self.shape[1:]), dtype=np.float32)
        self.read_into(row, rows)
        values: Array = rows[0]
        return values

    def read_into(self, first: int, out: Array) -> None:
        """Fill `out` with consecutive episodes, starting with row `first`: (n, n_sensors, n_timepoints)."""
        which = f"episodes {first} to {first + len(out) - 1}" if len(out) > 1 else f"episode {first}"
        try:
            stored = self._opened()
            if stored.dtype == np.float32 and stored.shape[1:] == out.shape[1:] and out.flags.c_contiguous:
                stored.read_direct(out, np.s_[first : first + len(out)])
            else:
                for offset, values in enumerate(out):
                    values[:] = self._convert(stored[first + offset])
        except (OSError, KeyError, ValueError) as error:
            raise DfstransError(
                f"expected to read {which} of {self.path}, but the file ends early or is damaged ({error}); "
                "write it again or restore a backup"
            ) from error

    def _opened(self) -> Any:
        process = os.getpid()  # a handle must not cross a fork
        if process not in self._open:
            import h5py  # not needed for arrays in memory

            self._open[process] = h5py.File(self.path, "r")[self.dataset]
        return self._open[process]

    def _convert(self, row: Any) -> Array:
        _, n_sensors, n_timepoints = self.shape
        with np.errstate(over="ignore"):  # a number above the float32 range becomes inf, which the data check reports
            flat: Array = np.asarray(row, dtype=np.float32).ravel()
        return flat[: n_sensors * n_timepoints].reshape(n_sensors, n_timepoints)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}


def _unchanged(row: int, values: Array) -> Array:
    return values


@dataclass(frozen=True, eq=False)
class ChangedRows:
    """Episodes that are modified when read: `change(row, values)` returns the new values of a row.

    It receives the values, (n_sensors, n_timepoints), including padding.
    """

    values: Array | StoredValues
    change: Callable[[int, Array], Array] = _unchanged

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_episodes, n_sensors, n_timepoints)."""
        n, n_sensors, n_timepoints = self.values.shape
        return n, n_sensors, n_timepoints

    def read(self, row: int) -> Array:
        """Read one episode: (n_sensors, n_timepoints)."""
        return self.change(row, self.values[row])


@dataclass(frozen=True, eq=False)
class _View:
    """Another source with some of its sensors, or with NaN in place of infinite values."""

    source: Source
    sensors: Index | None = None
    infinite_as_missing: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        n, n_sensors, n_timepoints = self.source.shape
        return n, n_sensors if self.sensors is None else len(self.sensors), n_timepoints

    def read(self, row: int) -> Array:
        values = self.source.read(row)
        chosen = values if self.sensors is None else values[self.sensors]
        return infinite_to_nan(chosen) if self.infinite_as_missing else chosen


def infinite_to_nan(values: Array) -> Array:
    """Replace infinite values by NaN."""
    return np.where(np.isinf(values), np.float32(np.nan), values)

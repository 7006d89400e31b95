"""`save_episodes`: write episodes as HDF5, Parquet or npz, batch by batch, in the layout of dfstrans."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.truth import truth_to_arrays, truth_to_text
from dfstrans.errors import DfstransError
from dfstrans.files import atomic_write

FORMAT = "dfstrans-episodes"
VERSION = 1
PARQUET_KEY = b"dfstrans-episodes"  # in the key-value metadata of a Parquet schema
_BATCH_BYTES = 32_000_000  # of values in memory at a time
_HDF5_OVERHEAD = 2_000_000  # bytes; an upper bound for names, labels and the chunk index


def save_episodes(episodes: Episodes, path: str | os.PathLike[str]) -> Path:
    """Write episodes to a .h5, .hdf5, .parquet or .npz file, from which `load_episodes` restores them exactly."""
    target = Path(path)
    writer = _WRITERS.get(target.suffix.lower())
    if writer is None:
        raise DfstransError(f"expected a path that ends in {', '.join(_WRITERS)}, got {target}; choose one of them")
    if len(episodes) == 0:
        raise DfstransError(f"expected at least one episode to write to {target}, got none")
    with atomic_write(target) as temporary:
        writer(episodes, temporary)
    return target


def faults_to_json(faults: Sequence[Fault]) -> str:
    """Encode the faults of one episode as text.

    >>> faults_to_json([Fault(3, 7, ("Ax",), "bump"), Fault(8, 9, ("Ax",), "bump", 1.5)])
    '[[3, 7, ["Ax"], "bump"], [8, 9, ["Ax"], "bump", 1.5]]'
    """
    return json.dumps([fault if fault.severity is not None else fault[:-1] for fault in faults])


def faults_from_json(text: str) -> tuple[Fault, ...]:
    """Decode the text that `faults_to_json` wrote."""
    return tuple(
        Fault(int(start), int(stop), tuple(map(str, sensors)), str(kind), float(severity[0]) if severity else None)
        for start, stop, sensors, kind, *severity in json.loads(text)
    )


def require_version(version: Any, path: Path) -> None:
    """Reject a file with a later layout version."""
    if int(version) > VERSION:
        raise DfstransError(
            f"expected episodes of layout version {VERSION} or earlier in {path}, got version {int(version)}; "
            "upgrade dfstrans"
        )


def write_hdf5(episodes: Episodes, path: Path) -> None:
    """Write episodes to an HDF5 file, one chunk per episode."""
    n, n_sensors, n_timepoints = episodes.shape
    _require_room(path, 4 * n * n_sensors * n_timepoints)
    with h5py.File(path, "w", libver="v110") as file:  # supports checksums and any number of sensors
        for name, value in _attributes(episodes).items():
            file.attrs[name] = fixed_text(value) if isinstance(value, tuple) else value
        for name, values in _arrays(episodes).items():
            data = fixed_text(values.tolist()) if values.dtype.kind == "U" else values
            varies_in_length = name == "faults"
            compression = "gzip" if varies_in_length or values.ndim > 1 else None
            file.create_dataset(name, data=data, chunks=varies_in_length or None, compression=compression)
        stored = file.create_dataset(
            "values", (n, n_sensors, n_timepoints), dtype=np.float32, chunks=(1, n_sensors, n_timepoints)
        )
        for start, batch in _batches(episodes):
            stored[start : start + len(batch)] = batch


def fixed_text(texts: Sequence[str]) -> Any:
    """Encode texts with a fixed width; HDF5 stores other text without a checksum and crashes if it is damaged."""
    encoded = [text.encode() for text in texts]
    return np.array(encoded, dtype=h5py.string_dtype("utf-8", max(1, *map(len, encoded))))


def _require_room(path: Path, size: int) -> None:
    """Raise an OSError if the disk cannot hold the file; HDF5 itself crashes on a full disk."""
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):  # not on macOS
            os.posix_fallocate(file.fileno(), 0, size + _HDF5_OVERHEAD)
    path.unlink()


def _write_npz(episodes: Episodes, path: Path) -> None:
    values = np.concatenate([batch for _, batch in _batches(episodes)])
    attributes: dict[str, Any] = {name: np.array(value) for name, value in _attributes(episodes).items()}
    with path.open("wb") as file:
        np.savez(file, values=values, **attributes, **_arrays(episodes))


def _attributes(episodes: Episodes) -> dict[str, Any]:
    """Return what applies to the whole set."""
    known = {
        "format": FORMAT,
        "version": VERSION,
        "sensors": episodes.sensors,
        "units": episodes.units,
        "interval": episodes.interval,
        "time_unit": episodes.time_unit or None,
        "time_zone": episodes.time_zone or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _arrays(episodes: Episodes) -> dict[str, Any]:
    """Return everything else except the values."""
    faults = None if episodes.faults is None else np.array([faults_to_json(faults) for faults in episodes.faults])
    known = {
        "lengths": episodes.lengths,
        "ids": episodes.ids,
        "labels": episodes.labels,
        "groups": episodes.groups,
        "faults": faults,
        "starts": None if episodes.starts is None else episodes.starts.astype(np.int64),  # ns since 1970
        **({} if episodes.truth is None else truth_to_arrays(episodes.truth)),
    }
    return {name: array for name, array in known.items() if array is not None}


def _write_parquet(episodes: Episodes, path: Path) -> None:
    """Write a long table; the schema's metadata holds what has no column: units, interval, faults, truth."""
    role = {
        "id": _free_name("episode_id", episodes.sensors),
        "time": _free_name("time", episodes.sensors),
        "label": None if episodes.labels is None else _free_name("label", episodes.sensors),
        "group": None if episodes.groups is None else _free_name("group", episodes.sensors),
    }
    arrays = {name: array.tolist() for name, array in _arrays(episodes).items() if name in ("starts", "faults")}
    known = {"interval": None, "faults": None, **_attributes(episodes), **arrays, "columns": role}
    known["truth"] = None if episodes.truth is None else truth_to_text(episodes.truth)
    if episodes.faults is not None:
        known["faults"] = dict(zip(episodes.ids.tolist(), arrays["faults"], strict=True))
    fields = [(role["id"], pa.string()), (role["time"], pa.float64())]
    fields += [(name, pa.float32()) for name in episodes.sensors]
    fields += [(role["label"], pa.int8())] if role["label"] else []
    fields += [(role["group"], pa.string())] if role["group"] else []
    schema = pa.schema(fields, metadata={PARQUET_KEY: json.dumps(known).encode()})
    dictionary = [name for name in (role["id"], role["label"], role["group"]) if name]
    with pq.ParquetWriter(path, schema, use_dictionary=dictionary) as file:
        for start, batch in _batches(episodes):
            file.write_table(_long_table(episodes[start : start + len(batch)], batch, schema))


def _long_table(episodes: Episodes, values: npt.NDArray[np.float32], schema: Any) -> Any:
    """One row per point; the columns are those of the schema: id, time, sensors, label, group."""
    inside = np.arange(episodes.n_timepoints) < episodes.lengths[:, np.newaxis]
    point = np.broadcast_to(np.arange(episodes.n_timepoints), inside.shape)[inside]
    row = np.repeat(np.arange(len(episodes)), episodes.lengths)
    arrays = [pa.array(episodes.ids.tolist()).take(row), pa.array(point * (episodes.interval or 1.0))]
    arrays += [pa.array(values[:, sensor][inside], from_pandas=False) for sensor in range(episodes.n_sensors)]
    arrays += [] if episodes.labels is None else [pa.array(episodes.labels[row])]
    arrays += [] if episodes.groups is None else [pa.array(episodes.groups.tolist()).take(row)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _batches(episodes: Episodes) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Yield pairs of first row and values (n, n_sensors, n_timepoints), padded with NaN, in bounded memory."""
    size = max(1, _BATCH_BYTES // (4 * (episodes.n_sensors + 8) * episodes.n_timepoints))  # 8: id, time, label, group
    start = 0
    for batch in episodes.batches(size):
        padding = np.arange(batch.n_timepoints) >= batch.lengths[:, np.newaxis]
        values = np.asarray(batch.values)
        yield start, np.where(padding[:, np.newaxis], np.float32(np.nan), values) if padding.any() else values
        start += len(batch)


def _free_name(name: str, taken: tuple[str, ...]) -> str:
    """Append underscores to a name until no sensor has it."""
    while name in taken:
        name += "_"
    return name


_WRITERS: dict[str, Callable[[Episodes, Path], None]] = {
    ".h5": write_hdf5,
    ".hdf5": write_hdf5,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
}

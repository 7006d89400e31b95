"""Sources of recordings: files, folders, globs and addresses, divided into pieces that are scored one by one."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from dfstrans.data.readers.columns import find_roles
from dfstrans.data.readers.opening import ReadOptions, opening
from dfstrans.data.readers.recordings import holds_one_recording
from dfstrans.data.readers.tables import PARQUET_SUFFIXES, RECORDING_SUFFIXES
from dfstrans.data.writers import PARQUET_KEY
from dfstrans.errors import DfstransError, list_few, option_name

PIECE_BYTES = 128 << 20  # larger Parquet files are divided at row groups
_NEEDS = {".gz": 8, ".parquet": 8, ".pq": 8, ".h5": 0, ".hdf5": 0, ".hdf": 0, ".npy": 0}  # measured; else 3, as text
_NEEDS_OF_ROW_GROUPS = 5  # uncompressed
_BESIDE = ("labels", "label", "faults", "readme", "license", "licence", "notes")  # as in the reader of folders
_CONTENT = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "updated", "created")


class Source(NamedTuple):
    """A file of recordings, or some row groups of it."""

    address: str
    folder: str  # ids of recordings without an id column are paths within this folder
    identity: str = ""  # changes with the content
    row_groups: tuple[int, int] | None = None  # first, and one past the last
    needs: int = 0  # bytes of memory to read it, roughly

    @classmethod
    def of(cls, address: str) -> Source:
        """Return a whole file as one piece."""
        return cls(address, address.rpartition("/")[0])


def filesystem(address: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address and the path in it; explain a missing driver."""
    if "://" not in address:  # else fsspec would take a::b.csv for a file within another one
        return LocalFileSystem(), LocalFileSystem._strip_protocol(address)
    try:
        fs, path = url_to_fs(address)
    except ImportError as error:
        raise DfstransError(
            f"expected the driver of {address}, but it is not installed ({error}); install it, here and on all workers"
        ) from error
    except ValueError as error:
        known = list_few(("s3://", "gs://", "abfs://", "memory://"))
        raise DfstransError(f"expected a path, or an address such as {known}, got {address} ({error})") from error
    except OSError as error:
        raise DfstransError(f"expected to reach {address}, but: {error}; check the address and the access") from error
    return fs, path


def shown(fs: Any, path: str) -> str:
    """Return the address of a path, which is the path itself for local files."""
    return path if isinstance(fs, LocalFileSystem) else str(fs.unstrip_protocol(path))


def in_this_process(address: str) -> bool:
    """Return whether only this process can read an address."""
    return address.startswith("memory://")


# ---- find -----------------------------------------------------------------------------------------------------------


def find_sources(given: Sequence[str], options: ReadOptions, results: str) -> list[Source]:
    """Return the files of recordings in files, folders, globs and addresses, each once, in order of their addresses.

    Files in folders and globs count if their suffix is that of recordings and they are not hidden, named like a table
    of labels, or results.
    """
    results_fs, results_path = filesystem(results)
    found: dict[str, list[Source]] = {}
    for one in given:
        fs, path = filesystem(one)
        try:
            files, folder = _files(fs, path, one)
        except OSError as error:
            raise DfstransError(f"expected to list {one}, but: {error}; check the address and the access") from error
        inside = f"{results_path.rstrip('/')}/" if type(fs) is type(results_fs) else None
        for name, info in files.items():
            if inside is None or not name.startswith(inside):
                address = shown(fs, name)
                source = Source(address, shown(fs, folder), _identity(info))
                size = info.get("size") or 0
                needs = size * _NEEDS.get(PurePosixPath(address.lower()).suffix, 3)
                found[address] = _pieces(source._replace(needs=needs), size, options)
    if not found:
        raise DfstransError(
            f"expected recordings in {list_few(given)}, got none ({', '.join(RECORDING_SUFFIXES)}); check the paths"
        )
    return [piece for address in sorted(found) for piece in found[address]]


def recording_files(folder: str, results: str) -> list[str]:
    """Return the paths of the files in a local folder that count as recordings, without those in the results."""
    fs, path = filesystem(folder)
    return [name for name in _files(fs, path, folder)[0] if not name.startswith(f"{results}/")]


def _files(fs: Any, path: str, given: str) -> tuple[dict[str, Any], str]:
    """Return what is known of the files at an address, and the folder that they are in."""
    if any(sign in path for sign in "*?[") and not fs.exists(path):
        start = path[: min(path.index(sign) for sign in "*?[" if sign in path)].rpartition("/")[0]
        found = {name: info for name, info in fs.glob(path, detail=True).items() if info["type"] == "file"}
        return {name: info for name, info in found.items() if _is_recording(name, start)}, start
    if not fs.exists(path):
        raise DfstransError(f"expected recordings at {given}, got nothing there; check the path")
    if fs.isfile(path):
        return {path: fs.info(path)}, path.rpartition("/")[0]
    found = fs.find(path, detail=True)
    return {name: info for name, info in found.items() if _is_recording(name, path)}, path.rstrip("/")


def _is_recording(name: str, folder: str) -> bool:
    inside = PurePosixPath(name.removeprefix(folder).lstrip("/"))
    hidden = any(part.startswith((".", "_", "~$")) for part in inside.parts)
    stem = inside.name.lower().split(".")[0]
    return not hidden and inside.name.lower().endswith(RECORDING_SUFFIXES) and stem not in _BESIDE


def _identity(info: Mapping[str, Any]) -> str:
    """Return what changes with the content of a file: its size, and its checksum or time."""
    known = next((info[name] for name in _CONTENT if info.get(name)), "")
    return digest(info.get("size"), str(known))


def digest(*content: Any) -> str:
    """Return a short checksum of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


# ---- divide ---------------------------------------------------------------------------------------------------------


def _pieces(source: Source, size: int, options: ReadOptions) -> list[Source]:
    """Divide a large Parquet file between row groups, so that no recording lies in two pieces; else return it whole."""
    if size <= PIECE_BYTES or not source.address.lower().endswith(PARQUET_SUFFIXES):
        return [source]
    if options.length is not None or options.folders is not None:
        return [source]
    fs, path = filesystem(source.address)
    try:
        with fs.open(path) as file:
            metadata = pq.ParquetFile(file).metadata
        names = metadata.schema.to_arrow_schema().names
        column = find_roles(names, options, Path(path)).id
    except (DfstransError, OSError, ValueError):
        return [source]  # reading it will tell what is wrong
    if column is None or PARQUET_KEY in (metadata.metadata or {}):
        return [source]
    ends = [0, *_boundaries(metadata, names.index(column)), metadata.num_row_groups]
    pieces, start = [], 0
    for end, following in zip(ends[1:], [*ends[2:], None], strict=True):
        size = sum(metadata.row_group(group).total_byte_size for group in range(start, end))
        if following is None or size >= PIECE_BYTES:
            pieces.append(source._replace(row_groups=(start, end), needs=size * _NEEDS_OF_ROW_GROUPS))
            start = end
    return pieces


def _boundaries(metadata: Any, column: int) -> list[int]:
    """Return the row groups before which every id is below, or above, all later ones."""
    ranges = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return []
        ranges.append((statistics.min, statistics.max))
    return [
        group
        for group in range(1, len(ranges))
        if max(high for _, high in ranges[:group]) < min(low for low, _ in ranges[group:])
        or min(low for low, _ in ranges[:group]) > max(high for _, high in ranges[group:])
    ]


# ---- open -----------------------------------------------------------------------------------------------------------


@contextmanager
def local_copy(source: Source, options: ReadOptions) -> Iterator[Path]:
    """Give a path from which the recordings of a source can be read.

    It is the file itself, a copy of a remote file or of its row groups, or, if the file is one recording or its folders
    have a meaning, a folder with this file only.
    """
    fs, path = filesystem(source.address)
    with tempfile.TemporaryDirectory(prefix="dfstrans-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        inside = PurePosixPath(source.address.removeprefix(source.folder).lstrip("/"))
        place = folder / "alone" / inside
        place.parent.mkdir(parents=True)
        if source.row_groups is not None:
            with opening(Path(path), "a Parquet table"), fs.open(path) as file, pq.ParquetFile(file) as table:
                rows = table.read_row_groups(range(*source.row_groups))
            pq.write_table(rows, place)
            del rows
        elif isinstance(fs, LocalFileSystem):
            place = Path(path)
        else:
            fs.get_file(path, str(place))
        try:
            if options.folders is not None or holds_one_recording(place, options):
                if place == Path(path):
                    _link(Path(path), folder / "alone" / inside)
                place = folder / "alone"
            yield place
        except DfstransError as error:
            if str(folder) not in str(error):
                raise
            raise DfstransError(str(error).replace(str(folder / "alone"), source.folder)) from error


def _link(file: Path, place: Path) -> None:
    try:
        place.symlink_to(file)
    except OSError:  # not every system allows links
        shutil.copyfile(file, place)


def require_scorable_options(options: ReadOptions) -> None:
    """Reject options of reading that need more than one file."""
    unusable = [name for name in ("labels", "faults") if getattr(options, name) is not None]
    if (options.folders or "").split(",")[-1].strip() == "recording":
        unusable.append("folders")
    if unusable:
        raise DfstransError(
            f"expected options that apply to each file alone, got {list_few(map(option_name, unusable))}; scoring "
            "needs no labels; join recordings of several files first (dfstrans data convert)"
        )

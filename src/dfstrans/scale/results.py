"""The folder of results: a Parquet data set with one row per recording, even after work was interrupted or repeated.

A piece of the recordings becomes one part for each machine and date, and one for its rejects. The name of a part
follows from the content of the piece, the model and the options, so repeated work replaces the part with an identical
one. It also says how many parts the piece has: a piece is finished if all of them are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from dfstrans.errors import DfstransError, list_few, option_name
from dfstrans.files import atomic_write
from dfstrans.scale.scoring import DIAGNOSED, SCHEMA, Scorer
from dfstrans.scale.sources import Source, digest, filesystem, shown

RUN, REJECTS = "_run.json", "_rejects"  # readers of Parquet skip names that begin with _
UNKNOWN = "unknown"  # machine or date
REJECT_COLUMNS = ("file", "episode_id", "machine", "reason")
PARTITIONS = ("machine", "date")
_PART = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-(\d+)of(\d+)-(\d+)\.parquet")


class Counts(NamedTuple):
    """How many recordings were read, how many of them and of the files were rejected, and the rows of results."""

    recordings: int = 0
    rejected: int = 0
    rows: int = 0

    def plus(self, parts: Iterable[Part]) -> Counts:
        """Return the sum of these counts and those of some parts."""
        return Counts(*map(sum, zip(self, *(part.counts for part in parts), strict=True)))


class Part(NamedTuple):
    """A file of results or rejects: `n`-th of `of` parts of a piece."""

    file: str  # digest of the address that the recordings came from
    piece: str  # digest of the content, the model and the options
    n: int
    of: int
    rows: int
    path: str

    @property
    def of_whole_file(self) -> bool:
        """Whether it says that a file could not be scored."""
        return f"/{REJECTS}/files/" in self.path

    @property
    def counts(self) -> Counts:
        """How many recordings, rejects and rows of results it stands for."""
        if self.of_whole_file:
            return Counts(0, self.rows, 0)
        return Counts(self.rows, self.rows, 0) if f"/{REJECTS}/" in self.path else Counts(self.rows, 0, self.rows)


class ResultsFolder(NamedTuple):
    """A folder, or an address, where workers write results of one run."""

    address: str
    run: dict[str, Any]  # all that the results depend on, besides the recordings

    @classmethod
    def of(cls, address: str, scorer: Scorer, *, resume: bool) -> Self:
        """Return an unused folder, or that of the same run; refuse results of another model, and anything else."""
        run = scorer.run()
        if require_same_run(address, run) and not resume:
            raise DfstransError(
                f"expected an unused folder, got results of the same model in {address}; continue there "
                f"({option_name('resume', True)}), or choose another {option_name('out')}"
            )
        return cls(shown(*filesystem(address)), run)

    @property
    def name(self) -> str:
        """The name of all that the results depend on, besides the recordings."""
        return f"dfstrans-{digest(self.run)}"

    def begin(self) -> None:
        """Write what the results depend on, and a part without rows."""
        write_run(self.address, self.run)
        # names of machines such as 007 stay text, because that of this part is no number
        self._write_part(f"{_partition(None, None)}/schema.parquet", SCHEMA.empty_table().select(self._columns()))

    def parts(self) -> list[Part]:
        """Return all parts in the folder."""
        fs, root = filesystem(self.address)
        found = ((path, _PART.fullmatch(path.rpartition("/")[2])) for path in fs.find(root))
        return [Part(m[1], m[2], int(m[3]), int(m[4]), int(m[5]), path) for path, m in found if m is not None]

    def piece(self, source: Source) -> tuple[str, str]:
        """Return what the names of the parts of a source begin with."""
        return digest(source.address), digest(source.address, source.identity, source.row_groups, self.run)

    def remove_outdated(self, sources: Sequence[Source]) -> list[Part]:
        """Remove results of these files that do not hold any more; return all other parts.

        They are those of files that have changed, and rejects of whole files, which are tried again.
        """
        current: dict[str, set[str]] = {}
        for file, piece in map(self.piece, sources):
            current.setdefault(file, set()).add(piece)
        parts = self.parts()
        outdated = {
            part
            for part in parts
            if part.piece not in current.get(part.file, {part.piece}) or (part.file in current and part.of_whole_file)
        }
        if outdated:
            filesystem(self.address)[0].rm([part.path for part in outdated])
        return [part for part in parts if part not in outdated]

    def publish(self, source: Source, table: pa.Table) -> list[Part]:
        """Write the results of a source, each part at once; an earlier equal part is replaced."""
        file, piece = self.piece(source)
        rejected = pc.is_valid(table["reason"])
        scored, rejects = table.filter(pc.invert(rejected)), table.filter(rejected)
        found: dict[str, list[int]] = {}
        for row, key in enumerate(zip(*(scored[name].to_pylist() for name in PARTITIONS), strict=True)):
            found.setdefault(_partition(*key), []).append(row)
        tables = [(folder, scored.take(rows).select(self._columns())) for folder, rows in sorted(found.items())]
        if len(rejects) or not tables:
            whole = bool(len(rejects)) and not rejects["episode_id"][0].is_valid
            tables.append((f"{REJECTS}/{'files' if whole else 'recordings'}", rejects.select(REJECT_COLUMNS)))
        parts = []
        for n, (folder, rows) in enumerate(tables, start=1):
            path = f"{folder}/{file}-{piece}-{n}of{len(tables)}-{len(rows)}.parquet"
            parts.append(Part(file, piece, n, len(tables), len(rows), self._write_part(path, rows)))
        return parts

    def _columns(self) -> list[str]:
        left_out = {"reason", *PARTITIONS, *(() if self.run["diagnose"] else DIAGNOSED)}
        return [name for name in SCHEMA.names if name not in left_out]

    def _write_part(self, path: str, rows: pa.Table) -> str:
        fs, root = filesystem(self.address)
        sink = pa.BufferOutputStream()
        pq.write_table(rows.replace_schema_metadata(None), sink)
        _write(fs, f"{root}/{path}", sink.getvalue().to_pybytes())
        return f"{root}/{path}"


def finished(parts: Iterable[Part]) -> dict[str, list[Part]]:
    """Return the parts of each piece that has all of them."""
    found: dict[str, dict[int, Part]] = {}
    for part in parts:
        found.setdefault(part.piece, {})[part.n] = part
    return {piece: [*own.values()] for piece, own in found.items() if len(own) == next(iter(own.values())).of}


def _partition(machine: str | None, date: str | None) -> str:
    return f"machine={quote(machine or UNKNOWN, safe=' ')}/date={date or UNKNOWN}"


def _write(fs: Any, path: str, content: bytes) -> None:
    """Write a file at once: by a rename, or by an object store, which shows only whole objects."""
    if isinstance(fs, LocalFileSystem):
        with atomic_write(Path(path)) as temporary:
            temporary.write_bytes(content)
        return
    try:
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(path, content)
    except OSError as error:
        raise DfstransError(
            f"expected to write {path}, but: {error}; check the address, the access and the space"
        ) from error


def write_run(address: str, run: Mapping[str, Any]) -> None:
    """Write what the results in a folder depend on."""
    fs, root = filesystem(address)
    _write(fs, f"{root}/{RUN}", json.dumps(run, indent=2).encode())


def require_same_run(address: str, run: Mapping[str, Any], otherwise: str = "") -> bool:
    """Return whether a folder has results of the same run, or is unused; refuse any other, and say what to do."""
    fs, root = filesystem(address)
    if not fs.exists(f"{root}/{RUN}"):
        names = [path.rstrip("/").rpartition("/")[2] for path in fs.ls(root, detail=False)] if fs.isdir(root) else []
        if fs.isfile(root) or any(name[0] not in "_." for name in names):
            raise DfstransError(
                f"expected an unused folder for results, got something else in {address}; choose another "
                f"{option_name('out')}"
            )
        return False
    found = json.loads(fs.cat_file(f"{root}/{RUN}"))
    different = [name for name in run if found.get(name) != run[name]]
    if "model" in different:
        raise DfstransError(
            f"expected an unused folder, or results of the model {run['model']}, got those of the model "
            f"{found.get('model')} in {address}; choose another {option_name('out')}{otherwise}"
        )
    if different:
        changes = (f"{name} {run[name]!r} instead of {found.get(name)!r}" for name in different)
        raise DfstransError(
            f"expected the options that the results in {address} were computed with, got {list_few(changes)}; use the "
            f"same ones, or choose another {option_name('out')}{otherwise}"
        )
    return True

"""What a reader may have to be told about a file."""

from __future__ import annotations

import csv
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, field_validator

from dfstrans.errors import DfstransError
from dfstrans.settings import Settings


class ReadOptions(Settings):
    """What the file itself does not say; every option may stay away."""

    length: int | None = Field(
        default=None, ge=1, description="Cut continuous recordings into episodes of this many points."
    )
    stride: int | None = Field(
        default=None, ge=1, description="Points from one cut episode to the next; the length if not given."
    )
    spacecraft: Literal["SMAP", "MSL"] | None = Field(
        default=None, description="Which spacecraft of a telemanom folder to read."
    )
    labels: Path | None = Field(default=None, description="A table with columns id, label and perhaps group.")
    faults: Path | None = Field(
        default=None, description="A table of known faults: id, fault and perhaps sensors, start, end, severity."
    )
    id_column: str | None = Field(default=None, description="The column that names the episode of a row.")
    time_column: str | None = Field(default=None, description="The column with the time of a row.")
    label_column: str | None = Field(default=None, description="The column with the label.")
    group_column: str | None = Field(
        default=None, description="The column with the group (machine, channel) of an episode."
    )
    anomalous_value: str | None = Field(
        default=None, description="The label that means anomalous; every other label then means normal."
    )
    drop_sensors: tuple[str, ...] = Field(default=(), description="Columns to leave out.")
    n_sensors: int | None = Field(default=None, ge=1, description="Sensors per row of the paper authors' HDF5.")
    n_timepoints: int | None = Field(
        default=None, ge=1, description="Points per sensor and row of the paper authors' HDF5."
    )
    sort_time: bool = Field(default=False, description="Sort the rows of each episode by time.")
    irregular_time: Literal["error", "ignore"] = Field(
        default="error", description="What to do with irregular time; 'ignore' takes the rows as they come."
    )
    infinite_as_missing: bool = Field(default=False, description="Read infinite values as missing ones.")

    @field_validator("anomalous_value", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, bool | int | float) else value


_DAMAGE = (
    OSError,
    EOFError,
    MemoryError,  # a damaged size
    ArithmeticError,
    SyntaxError,  # in the header of a .npy
    tokenize.TokenError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    RuntimeError,
    struct.error,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
    pa.ArrowException,
)


class EmptyTableError(DfstransError):
    """A file that should be a table, without a row."""


@contextmanager
def opening(path: Path, what: str) -> Iterator[None]:
    """Turn every failure to read `path` as `what` into a `DfstransError` that names the file and the remedy."""
    try:
        yield
    except DfstransError:
        raise
    except FileNotFoundError as error:
        raise DfstransError(f"expected {what} at {path}, got nothing there; check the path") from error
    except PermissionError as error:
        raise DfstransError(
            f"expected to be allowed to read {path}, but the system refused; change its permissions"
        ) from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DfstransError(
            f"expected {what} in {path}, but the file ends early, is damaged or is something else ({reason}); "
            "write it again or restore it from a copy"
        ) from error


def require_content(path: Path, what: str) -> None:
    """Refuse a file without a single byte."""
    with opening(path, what):
        if path.stat().st_size == 0:
            raise EmptyTableError(f"expected {what} in {path}, got an empty file; write it again or leave it out")

"""Shared by all readers: the read options, the `Reader` class, and clear errors for unreadable files."""

from __future__ import annotations

import csv
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, field_validator

from dfstrans.data.episodes import Episodes
from dfstrans.data.grid import parse_duration
from dfstrans.errors import DfstransError, option_name
from dfstrans.settings import Settings

SUMMARIES = ("mean", "rms", "peak")


class ReadOptions(Settings):
    """Information that the files themselves lack; every option may be omitted."""

    length: int | None = Field(default=None, ge=1, description="Cut recordings into episodes of this many points.")
    stride: int | None = Field(
        default=None, ge=1, description="Points from the start of one cut episode to the next (default: the length)."
    )
    spacecraft: Literal["SMAP", "MSL"] | None = Field(default=None, description="Spacecraft in a telemanom folder.")
    labels: Path | None = Field(default=None, description="Label table: id, label and optionally group.")
    faults: Path | None = Field(
        default=None, description="Fault table: id, fault and optionally sensors, start, end, severity."
    )
    id_column: str | None = Field(default=None, description="Column with the episode id.")
    time_column: str | None = Field(default=None, description="Column with the time.")
    label_column: str | None = Field(default=None, description="Column with the label.")
    group_column: str | None = Field(default=None, description="Column with the group, such as machine or channel.")
    tag_column: str | None = Field(default=None, description="Column with the sensor of each row, in a narrow table.")
    value_column: str | None = Field(default=None, description="Column with the value of each row, in a narrow table.")
    anomalous_value: str | None = Field(default=None, description="Label that means anomalous; all others mean normal.")
    normal_value: str | None = Field(default=None, description="Label that means normal; all others mean anomalous.")
    label_map: str | None = Field(
        default=None,
        description="Class of each label, 0 or 1, such as ok=0,worn=1; anomalous labels become fault types.",
    )
    folders: str | None = Field(
        default=None,
        description="Meaning of each folder level, outermost first: label, group or -, such as group,label; "
        "with recording as the last level, the files of each folder are joined.",
    )
    skip_bad_files: bool = Field(default=False, description="Skip files with problems, and list them.")
    text_as_missing: bool = Field(default=False, description="Treat text among the numbers of a sensor as missing.")
    drop_sensors: tuple[str, ...] = Field(default=(), description="Columns to drop, separated by commas.")
    n_sensors: int | None = Field(default=None, ge=1, description="Sensors per row in the paper authors' HDF5.")
    n_timepoints: int | None = Field(default=None, ge=1, description="Points per sensor in the paper authors' HDF5.")
    dataset: str | None = Field(
        default=None, description="Dataset with the values in HDF5 or MATLAB, or group of channels in TDMS."
    )
    axis: str | None = Field(
        default=None, description="Axes of the dataset in order, among episode, sensor and time, such as time,sensor."
    )
    label_dataset: str | None = Field(default=None, description="Dataset with a label per episode or per point.")
    sampling_rate: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Points per second, for recordings without times."
    )
    sort_time: bool = Field(default=False, description="Sort the rows of each episode by time.")
    irregular_time: Literal["error", "ignore"] = Field(
        default="error", description="Reject irregular time steps, or ignore the time and use the rows in order."
    )
    drop_duplicates: bool = Field(default=False, description="Keep only the first of episodes with identical values.")
    infinite_as_missing: bool = Field(default=False, description="Treat infinite values as missing.")
    clip_beyond: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Treat values further than this many interquartile ranges from the sensor's median as missing.",
    )
    fill: Literal["forward"] | None = Field(
        default=None, description="Fill missing values of a recording with the last value before them."
    )
    resample: str | None = Field(
        default=None,
        description="Resample recordings to this interval, such as 10s, 1min or 50ms; without time, in points.",
    )
    resample_by: tuple[str, ...] = Field(
        default=("mean",),
        description="Channels of a resampled sensor, separated by commas: mean, rms, peak (default mean).",
    )

    @property
    def interval(self) -> float | None:
        """The seconds between two points, if the sampling rate is given."""
        return None if self.sampling_rate is None else 1 / self.sampling_rate

    @field_validator("anomalous_value", "normal_value", "resample", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, bool | int | float) else value

    @field_validator("label_map", mode="before")
    @classmethod
    def _map_as_text(cls, value: Any) -> Any:
        return ",".join(f"{word}={label}" for word, label in value.items()) if isinstance(value, dict) else value

    @field_validator("drop_sensors", "resample_by", mode="before")
    @classmethod
    def _split_at_commas(cls, value: Any) -> Any:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            return value
        return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())

    @field_validator("resample")
    @classmethod
    def _is_duration(cls, value: str | None) -> str | None:
        if value is not None:
            parse_duration(value)
        return value

    @field_validator("resample_by")
    @classmethod
    def _are_summaries(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value) or not set(value) <= set(SUMMARIES):
            raise DfstransError(
                f"expected {option_name('resample_by')} among {', '.join(SUMMARIES)}, each at most once, got "
                f"{', '.join(value) or 'none'}; correct it"
            )
        return value


@dataclass(frozen=True)
class Reader:
    """How to recognise and read one format.

    `options` are the fields of `ReadOptions` that the reader uses; setting any other raises an error, except for those
    that `load_episodes` applies to the result: `drop_sensors`, `clip_beyond`, `fill`, `resample`, `length` and others.
    A reader that lists `drop_sensors` must drop the columns itself, because they may contain something other than
    numbers. A reader that `cuts` applies all of these options itself.
    """

    name: str
    options: frozenset[str]
    recognises: Callable[[Path], bool]
    read: Callable[[Path, ReadOptions], Episodes]
    cuts: bool = False


class EmptyTableError(DfstransError):
    """A file is empty, or its table has no rows."""


# raised by libraries on damaged files, such as MemoryError for a damaged size, SyntaxError for a damaged .npy header
_DAMAGE = (
    *(OSError, EOFError, MemoryError, ArithmeticError, SyntaxError, LookupError, TypeError, ValueError, RuntimeError),
    *(tokenize.TokenError, struct.error, csv.Error, zipfile.BadZipFile, zlib.error, pa.ArrowException),
)


@contextmanager
def opening(path: Path, what: str) -> Iterator[None]:
    """Turn every failure to read `path` as `what` into a `DfstransError` that names the file and the remedy."""
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise EmptyTableError(f"expected {what} in {path}, got an empty file; write it again or remove it")
        yield
    except DfstransError:
        raise
    except FileNotFoundError as error:
        raise DfstransError(f"expected {what} at {path}, got nothing there; check the path") from error
    except PermissionError as error:
        raise DfstransError(f"expected permission to read {path}, got none; change its permissions") from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DfstransError(
            f"expected {what} in {path}, but the file ends early, is damaged or is something else ({reason}); "
            "write it again or restore a backup"
        ) from error

"""A saved model: a folder of JSON and safetensors files without code, validated when read."""

from __future__ import annotations

import hashlib
import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy.typing as npt
import safetensors.numpy
import safetensors.torch
import torch
from pydantic import Field

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.detectors.card import model_card
from dfstrans.errors import DfstransError, settings_as_options
from dfstrans.files import atomic_write
from dfstrans.settings import DFSTRANS, Members, Settings
from dfstrans.training.calibration import Calibration, Threshold
from dfstrans.training.committee import Committee
from dfstrans.training.run_folder import LOG, TENSORBOARD, LogRows, read_log, write_log

FORMAT: Literal["dfstrans-model"] = "dfstrans-model"
SCHEMA_VERSION = 2
RECORD, WEIGHTS, SCALER, REFERENCE, PARTS, CARD = (
    "model.json",
    "weights.safetensors",
    "scaler.json",
    "reference.safetensors",
    "parts.json",
    "MODEL_CARD.md",
)
OWN_FILES = {RECORD, WEIGHTS, SCALER, REFERENCE, PARTS, CARD, LOG, TENSORBOARD}
LIBRARIES = ("dfstrans", "torch", "lightning", "numpy", "scikit-learn", "safetensors")


AnySettings = TypeVar("AnySettings", bound=Settings)


class DataRecord(Settings):
    """Describes the data that a model was trained on."""

    train_episodes: int
    train_anomalous: int
    validation_episodes: int
    validation_anomalous: int
    train_fingerprint: str
    validation_fingerprint: str
    shortest: int
    longest: int
    interval: float | None = None
    time_unit: str = ""  # of the interval, if known
    split: dict[str, Any] | None = None  # how the parts were split from a larger set, if we split them
    source_fingerprint: str | None = None  # of that larger set

    @classmethod
    def of(cls, train: Episodes, validation: Episodes) -> Self:
        """Describe the two parts."""
        return cls(
            train_episodes=len(train),
            train_anomalous=train.n_anomalous,
            validation_episodes=len(validation),
            validation_anomalous=validation.n_anomalous,
            train_fingerprint=train.fingerprint(),
            validation_fingerprint=validation.fingerprint(),
            shortest=int(train.lengths.min()),
            longest=int(train.lengths.max()),
            interval=train.interval,
            time_unit=train.time_unit,
        )


class ExportRecord(Settings):
    """Records how much an exported model differs from the original."""

    format: Literal["onnx"] = "onnx"
    created: str = Field(default_factory=lambda: _now())
    dfstrans_version: str = Field(default_factory=lambda: version("dfstrans"))
    logit_difference: float  # maximum
    attention_difference: float
    tolerance: float  # for the logit difference
    attention_tolerance: float
    episodes: int  # number compared
    generated: bool  # whether they were generated because no real ones were given
    fingerprint: str  # of these episodes


class ModelRecord(Settings):
    """The content of model.json: everything about a model except its weights."""

    format: Literal["dfstrans-model"] = FORMAT
    schema_version: int = SCHEMA_VERSION
    estimator: str = DFSTRANS
    created: str = Field(default_factory=lambda: _now())
    network: dict[str, Any]  # validated by the estimator, see `settings_of`
    training: dict[str, Any]
    parameters: int
    sensors: tuple[str, ...]
    units: tuple[str, ...]
    threshold: Threshold
    calibration: Calibration
    data: DataRecord
    best_epoch: int
    metrics: dict[str, dict[str, int | float | None]]
    reading: dict[str, Any] = Field(default_factory=dict)  # options the recordings were read with, if remembered
    known_cases: dict[str, str] = Field(default_factory=dict)  # fault kinds of training anomalies by id
    loss_beside_guessing: float | None = None  # of the network in training; None if there is none, or unknown
    committee: Committee | None = None  # None if a single member decides
    members: Members | None = None  # who decides; None in models of earlier versions, and of other kinds
    machines: tuple[tuple[str, int], ...] = ()  # with a baseline, in the order of its arrays; number of recordings
    remembered: int | None = None  # training recordings that show what is unlike them; None: it cannot be told
    export: ExportRecord | None = None
    versions: dict[str, str] = Field(default_factory=lambda: library_versions())
    checksums: dict[str, str] = Field(default_factory=dict)
    own_checksum: str = ""  # over all fields above except export; set when the record is written

    @property
    def decided_by(self) -> Members:
        """Who decides; models of earlier versions have no trees alone."""
        return self.members or ("network" if self.committee is None else "committee")


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that affect a model."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


class OtherVersionError(DfstransError):
    """A saved model in the format of another version."""


class DamagedModelError(DfstransError):
    """A file of a saved model is missing or was changed."""


PartIds = dict[str, list[str]]  # ids of the episodes of each part: train, validation and, after a split, test


class StoredModel(NamedTuple):
    """The content of a model folder."""

    record: ModelRecord
    weights: dict[str, torch.Tensor]
    scaler: SensorScaler
    log: LogRows
    reference: dict[str, npt.NDArray[Any]]  # statistics of normal episodes; empty for detectors without diagnoses
    parts: PartIds = {}  # noqa: RUF012 never mutated


def save_model(folder: Path, model: StoredModel) -> None:
    """Write the folder atomically: at any time it holds the earlier model or this one."""
    check_place(folder)
    with atomic_write(folder) as temporary:
        temporary.mkdir()
        weights = {name: tensor.contiguous() for name, tensor in model.weights.items()}
        (temporary / WEIGHTS).write_bytes(safetensors.torch.save(weights))
        _write_json(temporary / SCALER, model.scaler.to_dict())
        write_log(model.log, temporary / LOG)
        if model.reference:
            (temporary / REFERENCE).write_bytes(safetensors.numpy.save(model.reference))
        if model.parts:
            _write_parts(temporary / PARTS, model.parts)
        checksums = {
            name: _sha256(temporary / name)
            for name in (WEIGHTS, SCALER, REFERENCE, PARTS)
            if (temporary / name).exists()
        }
        content = _with_checksum(model.record.model_copy(update={"checksums": checksums}))
        _write_json(temporary / RECORD, content)
        (temporary / CARD).write_text(model_card(content), encoding="utf-8")


def save_export(folder: Path, export: ExportRecord) -> None:
    """Record in a saved model how much its export differs from it."""
    content = _with_checksum(read_whole_record(folder).model_copy(update={"export": export}))
    with atomic_write(folder / RECORD) as temporary:
        _write_json(temporary, content)
    with atomic_write(folder / CARD) as temporary:
        temporary.write_text(model_card(content), encoding="utf-8")


def check_place(folder: Path) -> None:
    """Reject a folder where saving would replace anything other than a (possibly damaged) model."""
    if folder.exists() and not folder.is_dir():
        raise DfstransError(f"expected {folder} to be unused or a model folder, got a file; choose another path")
    if not folder.is_dir():
        return
    foreign = sorted({path.name for path in folder.iterdir()} - OWN_FILES)
    if foreign:
        raise DfstransError(
            f"expected {folder} to be empty or a saved model, got other files ({', '.join(foreign[:5])}); "
            "choose another folder, or move them"
        )
    if not (folder / RECORD).exists():
        return
    try:
        read_record(folder)
    except OtherVersionError:
        return  # a model of another version may be replaced
    except DamagedModelError as error:
        if not (folder / WEIGHTS).exists():
            raise DfstransError(
                f"expected {folder} to be empty or a saved model, got a {RECORD} that may belong to something "
                "else; choose another folder, or move it"
            ) from error


def holds_model(folder: Path) -> bool:
    """Return whether the folder contains a saved model."""
    return (folder / RECORD).is_file()


def load_model(folder: Path) -> StoredModel:
    """Read a model folder; raise a clear error if anything is missing, damaged or foreign."""
    record = read_whole_record(folder)
    try:
        weights = safetensors.torch.load_file(folder / WEIGHTS)
        scaler = SensorScaler.from_dict(json.loads((folder / SCALER).read_text()))
        reference = safetensors.numpy.load_file(folder / REFERENCE) if REFERENCE in record.checksums else {}
        parts = json.loads((folder / PARTS).read_text(encoding="utf-8")) if PARTS in record.checksums else {}
    except Exception as error:  # their checksums are right
        raise other_version(folder, record.model_dump(), str(error)) from error
    try:
        log = read_log(folder / LOG)
    except Exception as error:
        raise _damaged(folder, str(error)) from error
    if scaler.sensors != record.sensors:
        raise _damaged(folder, f"{RECORD} and {SCALER} name different sensors")
    return StoredModel(record, weights, scaler, log, reference, parts)


def settings_of(folder: Path, kind: type[AnySettings], content: dict[str, Any]) -> AnySettings:
    """Validate a group of settings in model.json with the estimator's settings class."""
    try:
        with settings_as_options(False):  # they are not options of the current command
            return kind(**{**kind.of_earlier_models, **content})
    except DfstransError as error:
        saved = _read_content(folder)
        if saved.get("own_checksum") == _own_checksum(saved):
            raise other_version(folder, saved, str(error)) from error
        raise _damaged(folder, f"{RECORD}: {error}") from error


def read_whole_record(folder: Path) -> ModelRecord:
    """Read model.json, and verify its checksum and those of the other files."""
    content = _read_content(folder)
    record = settings_of(folder, ModelRecord, content)
    if _own_checksum(content) != record.own_checksum:
        raise _damaged(folder, f"{RECORD} is not the file that was saved (its checksum differs: was it edited?)")
    for name, expected in record.checksums.items():
        path = folder / name
        if not path.is_file():
            raise _damaged(folder, f"{name} is missing")
        if _sha256(path) != expected:
            raise _damaged(folder, f"{name} is not the file that was saved (its checksum differs)")
    return record


def read_record(folder: Path) -> ModelRecord:
    """Read model.json without verifying the other files."""
    return settings_of(folder, ModelRecord, _read_content(folder))


def _read_content(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    if not path.is_file() and (folder / WEIGHTS).is_file():
        raise _damaged(folder, f"{RECORD} is missing")
    if not path.is_file():
        raise DfstransError(f"expected a saved model (a folder with {RECORD}) at {folder}, found none; check the path")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise _damaged(folder, f"{RECORD} cannot be read ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DfstransError(f"expected a dfstrans model at {folder}, got a {RECORD} of another kind; check the path")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise other_version(folder, content)
    return content


def other_version(folder: Path, content: dict[str, Any], reason: str = "") -> OtherVersionError:
    """Return the error that an intact model was saved by a version of dfstrans with another format."""
    writer, schema = (content.get("versions") or {}).get("dfstrans", "unknown"), content.get("schema_version")
    return OtherVersionError(
        f"expected a model that dfstrans {version('dfstrans')} can read (schema version {SCHEMA_VERSION}), got one in "
        f"{folder} that another version saved (dfstrans {writer}, schema version {schema}{reason and f': {reason}'}); "
        f"train it again (dfstrans train RECORDINGS --out {folder}), or use the version that saved it"
    )


def _with_checksum(record: ModelRecord) -> dict[str, Any]:
    """Return the content of model.json, with the checksum that reveals later changes."""
    content = record.model_dump(mode="json")
    return {**content, "own_checksum": _own_checksum(content)}


def _own_checksum(content: dict[str, Any]) -> str:
    """Compute the checksum from the raw content; the parsed record may have gained defaults."""
    signed = {name: value for name, value in content.items() if name not in ("export", "own_checksum")}
    return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()


def _damaged(folder: Path, what: str) -> DamagedModelError:
    return DamagedModelError(
        f"expected an intact saved model at {folder}, got a damaged one: {what}; restore a backup or train again"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _write_parts(path: Path, parts: PartIds) -> None:
    """Write the ids with one line per part, since there may be many."""
    lines = (f"{json.dumps(part)}: {json.dumps(ids)}" for part, ids in parts.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

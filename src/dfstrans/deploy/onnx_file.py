"""What an exported file is: an ONNX graph, followed by all else that a prediction needs, and a digest of both.

The second part is a protobuf message of its own; readers of ONNX see two messages in a row as one, so that any of them
opens the file and finds the JSON text under `dfstrans` in the model's metadata.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dfstrans import __version__
from dfstrans.data.scaling import SensorScaler
from dfstrans.errors import DfstransError

if TYPE_CHECKING:
    from dfstrans.settings import Encoding


FORMAT = "dfstrans-onnx"
SCHEMA_VERSION = 1
CONTENT, DIGEST = "dfstrans", "dfstrans.sha256"
INPUTS = ("scaled_segments", "valid")


@dataclass(frozen=True)
class OnnxRecord:
    """What a prediction needs besides the graph, and what was known of it when it was exported.

    `threshold`, `calibration` and `export` are the content of those parts of model.json; an `export` of None is one
    that was not compared with torch yet.
    """

    scaler: SensorScaler
    units: tuple[str, ...]
    segment_length: int
    d_model: int
    encoding: Encoding
    interval: float | None
    threshold: dict[str, Any]
    calibration: dict[str, Any]
    export: dict[str, Any] | None = None
    time_unit: str = ""  # of the interval; not in files of early versions
    dfstrans_version: str = __version__

    @property
    def sensors(self) -> tuple[str, ...]:
        """The sensors of training, in their order."""
        return self.scaler.sensors

    def to_dict(self) -> dict[str, Any]:
        """The content of the metadata, for JSON."""
        return {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            **self.__dict__,
            "scaler": self.scaler.to_dict(),
            "units": list(self.units),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        own = {name: content[name] for name in cls.__dataclass_fields__ if name in content or name != "time_unit"}
        return cls(**{**own, "scaler": SensorScaler.from_dict(content["scaler"]), "units": tuple(content["units"])})


def with_record(graph: bytes, record: OnnxRecord) -> bytes:
    """A whole file: a serialised graph, the record and the digest."""
    from onnx import ModelProto

    text = json.dumps({**record.to_dict(), "graph_bytes": len(graph)}, allow_nan=False)
    described = ModelProto()
    for key, value in ((CONTENT, text), (DIGEST, _digest(graph, text))):
        described.metadata_props.add(key=key, value=value)
    whole: bytes = graph + described.SerializeToString()
    return whole


def read_record(content: bytes, metadata: dict[str, str], name: str) -> OnnxRecord:
    """The record in a file's metadata, once it is sure that the file is ours, of this version and as it was written."""
    try:
        found = json.loads(metadata.get(CONTENT, "null"))
    except ValueError as error:
        raise _damaged(name, f"its metadata are no JSON ({error})") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DfstransError(
            f"expected an ONNX file that dfstrans exported, got one without its metadata: {name}; make one with "
            "dfstrans export MODEL --format onnx"
        )
    if found.get("schema_version") != SCHEMA_VERSION:
        raise DfstransError(
            f"expected an export of schema version {SCHEMA_VERSION}, got {found.get('schema_version')} in {name}, "
            f"written by dfstrans {found.get('dfstrans_version', '(unknown)')}; this is dfstrans {__version__}: export "
            "the model again with it, or install the version that wrote the file"
        )
    if not found.get("scaler"):
        raise _damaged(name, "it lacks the scaler of its model")
    length = found.get("graph_bytes", 0)
    if metadata.get(DIGEST) != _digest(content[:length], metadata[CONTENT]):
        raise _damaged(name, "it is not what was written (its checksum differs)")
    return OnnxRecord.from_dict(found)


def _digest(graph: bytes, text: str) -> str:
    return hashlib.sha256(graph + text.encode()).hexdigest()


def _damaged(name: str, what: str) -> DfstransError:
    return DfstransError(
        f"expected a whole exported file, got a damaged or changed one: {name}: {what}; restore it from a copy, or "
        "export the model again"
    )

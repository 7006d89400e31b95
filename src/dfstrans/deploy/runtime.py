"""Predictions from an exported file with numpy and onnxruntime only, without torch.

An exported file is an ONNX graph followed by everything else that a prediction needs and a digest of both. The second
part is a separate protobuf message: ONNX readers merge two consecutive messages, so any of them opens the file and
finds the JSON text under `dfstrans` in the model's metadata.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfstrans import __version__
from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import align_to_training, as_episodes, require_finite_logits, warn_of_silent_sensors
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import count_segments, cut_segments
from dfstrans.data.statistics import episode_statistics
from dfstrans.errors import DfstransError
from dfstrans.model.encoding import check_fits
from dfstrans.model.machine_trees import MachineTrees

if TYPE_CHECKING:
    from dfstrans.settings import Encoding  # needs pydantic

FORMAT = "dfstrans-onnx"
SCHEMA_VERSION = 2
CONTENT, DIGEST = "dfstrans", "dfstrans.sha256"  # keys of the metadata
INPUTS = ("scaled_segments", "valid", "baseline")  # the last one only if machines have baselines
MOST_AT_ONCE = 32  # episodes
CELLS_AT_ONCE = 2048  # (segment, sensor) cells
INSTALL = "install it: pip install 'dfstrans[onnx]'"


class OnnxPass(NamedTuple):
    """The network's outputs for some episodes, without the trees; padded segments have attention and relevance 0."""

    raw_logit: npt.NDArray[np.float32]  # (episode,), before calibration
    probability: npt.NDArray[np.float64]  # (episode,), calibrated, by the network alone
    temporal_attention: npt.NDArray[np.float32]  # (episode, layer, sensor, head, query, key)
    spatial_attention: npt.NDArray[np.float32]  # (episode, layer, segment, head, query, key)
    global_temporal_relevance: npt.NDArray[np.float32]  # (episode, segment)
    global_spatial_relevance: npt.NDArray[np.float32]  # (episode, sensor)


OUTPUTS = ("logit", *OnnxPass._fields[1:])  # names in the file


class OnnxDetector:
    """A detector loaded from an ONNX file, with the same predictions as the exported `Diagnoser`.

    `X` is `Episodes`, a 3-D array (episode, sensor, timepoint) or a list of 2-D arrays (sensor, timepoint), in the
    sensors' own units. NaN is a missing value.
    """

    def __init__(self, session: Any, record: OnnxRecord) -> None:
        self._session = session
        self._needed = [one.name for one in session.get_inputs()]
        self.record = record
        self._trees = None if record.trees is None else _decode(record.trees, tuple(record.machines))

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None) -> Self:
        """Read a file that `dfstrans export` wrote; a prediction uses at most `threads` (default: all cores)."""
        path = Path(path)
        if path.is_dir():
            raise DfstransError(
                f"expected an ONNX file, got a folder: {path}; if it is a saved model, export it first: "
                f"dfstrans export {path} --format onnx"
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DfstransError(
                f"expected an ONNX file at {path}, but it cannot be read: {error.strerror}; check the path"
            ) from error
        return cls.from_bytes(content, str(path), threads=threads)

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "the file", *, threads: int | None = None) -> Self:
        """Read the content of such a file; `name` is for error messages."""
        session = _open(content, name, threads)
        record = read_record(content, session.get_modelmeta().custom_metadata_map, name)
        return cls(session, record)

    @property
    def sensors(self) -> tuple[str, ...]:
        """The sensors of training, in their order."""
        return self.record.sensors

    @property
    def threshold(self) -> float:
        """The lowest probability at which an episode counts as anomalous; a machine may have its own."""
        return float(self.record.threshold["value"])

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the logit of each episode, before calibration: (n_episodes,)."""
        return self._scores(X)[0]

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the calibrated probabilities of normal and anomalous: (n_episodes, 2)."""
        anomalous = self._scores(X)[1]
        return np.stack([1 - anomalous, anomalous], axis=1)

    def predict(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803
        """Return 1 for each episode whose anomaly probability reaches the stored threshold, else 0: (n_episodes,)."""
        episodes = self.check_input(X)
        return (self.predict_proba(episodes)[:, 1] >= self.thresholds(episodes)).astype(np.int64)

    def thresholds(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        """Return the lowest probability at which each of these episodes counts as anomalous: (n_episodes,)."""
        baselines = self._trees and self._trees.baselines
        if baselines:
            return baselines.thresholds(episodes.groups, len(episodes), self.threshold)
        return np.full(len(episodes), self.threshold)

    def novelty(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return how unlike training each recording is: above 1 it counts as not seen before; NaN if that is unknown.

        Shape:
            (n_episodes,)
        """
        episodes, known, trees = self.check_input(X), self.record, self._trees
        if trees is None:
            return np.full(len(episodes), np.nan)
        statistics = episode_statistics(episodes, known.scaler, known.segment_length, trees.coupling)
        return trees.novelty(statistics, episodes.groups)

    def count_out_of_range(self, X: Any) -> npt.NDArray[np.int64]:  # noqa: N803
        """Return how many values of each sensor are outside the range of training and machine: (n_sensors,)."""
        baselines = self._trees and self._trees.baselines
        ranges = {name: one.range for name, one in baselines.machines.items()} if baselines else {}
        return self.record.scaler.count_out_of_range(self.check_input(X), ranges)

    def forward(self, X: Any) -> Iterator[OnnxPass]:  # noqa: N803
        """Yield all outputs of the network, a few episodes at a time, in order."""
        if self.record.trees is not None and self.record.committee is None:
            raise DfstransError(
                "expected a model with a network, got trees alone, which have no attention; use predict_proba"
            )
        for outputs in self._run(self.check_input(X), OUTPUTS):
            yield OnnxPass(*outputs)

    def check_input(self, X: Any) -> Episodes:  # noqa: N803
        """Return the episodes with the sensors of training, in their order; raise an error if they do not fit."""
        known, given = self.record, as_episodes(X, check_axes=False)
        episodes = align_to_training(given, known.sensors, known.units, known.interval, known.time_unit)
        check_fits(episodes, known, trained=True)
        return episodes

    def _scores(self, X: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:  # noqa: N803
        """Return the logit before calibration and the calibrated probability of each episode."""
        episodes = self.check_input(X)
        warn_of_silent_sensors(episodes)
        committee, trees = self.record.committee, self._trees
        votes = np.empty(0)
        if trees is not None:
            known = self.record
            statistics = episode_statistics(episodes, known.scaler, known.segment_length, trees.coupling)
            votes = trees.logits(statistics, episodes.groups)
            if committee is None:
                return votes, _probabilities(votes, self.record.calibration)
        parts = list(self._run(episodes, OUTPUTS[:2]))
        if not parts:
            return np.empty(0), np.empty(0)
        logits, probabilities = (np.concatenate(column).astype(np.float64) for column in zip(*parts, strict=True))
        require_finite_logits(episodes, logits)
        if committee is None:
            return logits, probabilities
        assert trees is not None  # as always in a committee
        compared = trees.compared(episodes.groups, len(episodes))
        w = np.where(compared, committee["network_weight"], committee["network_weight_on_fleet"])
        logits = w * _scaled(logits, committee["network"]) + (1 - w) * _scaled(votes, committee["trees"])
        return logits, _probabilities(logits, self.record.calibration)

    def _run(self, episodes: Episodes, outputs: Sequence[str]) -> Iterator[list[npt.NDArray[Any]]]:
        """Yield the named outputs, a few episodes at a time."""
        length = self.record.segment_length
        cells = count_segments(int(episodes.lengths.max(initial=1)), length) * episodes.n_sensors
        for part in episodes.batches(min(MOST_AT_ONCE, max(1, CELLS_AT_ONCE // cells))):
            inputs: list[npt.NDArray[Any]] = [*cut_segments(part, self.record.scaler, length)]
            if self._trees is not None and self._trees.baselines is not None:
                inputs.append(self._trees.baselines.of_segments(part.groups, len(part)))
            named = dict(zip(INPUTS, inputs, strict=False))
            yield self._session.run(list(outputs), {name: named[name] for name in self._needed})


@dataclass(frozen=True)
class OnnxRecord:
    """Everything except the graph that a prediction needs, and the comparison with torch.

    `threshold`, `calibration`, `committee` and `export` are copied from model.json; `export` is None before the
    comparison.
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
    committee: dict[str, Any] | None = None  # as in model.json; None if the network or the trees decide alone
    trees: str | None = None  # arrays of the trees, as text; None if the network decides alone
    machines: Sequence[str] = ()  # with a baseline
    time_unit: str = ""  # of the interval
    reading: dict[str, Any] = field(default_factory=dict)  # options the recordings of training were read with
    dfstrans_version: str = __version__

    @property
    def sensors(self) -> tuple[str, ...]:
        """The sensors of training, in their order."""
        return self.scaler.sensors

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as plain values for JSON."""
        own = {**vars(self), "scaler": self.scaler.to_dict(), "units": list(self.units)}
        return {"format": FORMAT, "schema_version": SCHEMA_VERSION, **own}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Create a record from the result of `to_dict`."""
        own = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        return cls(**{**own, "scaler": SensorScaler.from_dict(content["scaler"]), "units": tuple(content["units"])})


def read_record(content: bytes, metadata: dict[str, str], name: str) -> OnnxRecord:
    """Read the record in a file's metadata; raise an error if the file is foreign, of another version or damaged."""
    try:
        found = json.loads(metadata.get(CONTENT, "null"))
    except ValueError as error:
        raise _damaged(name, f"its metadata are not JSON ({error})") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DfstransError(
            f"expected an ONNX file that dfstrans exported, got one without its metadata: {name}; create one with "
            "dfstrans export MODEL --format onnx"
        )
    if found.get("schema_version") != SCHEMA_VERSION:
        raise DfstransError(
            f"expected an export of schema version {SCHEMA_VERSION}, got {found.get('schema_version')} in {name}, "
            f"written by dfstrans {found.get('dfstrans_version', '(unknown)')}; this is dfstrans {__version__}: export "
            "the model again with it, or install the version that wrote the file"
        )
    if metadata.get(DIGEST) != digest(content[: found.get("graph_bytes", 0)], metadata[CONTENT]):
        raise _damaged(name, "its checksum differs from the one that was written")
    return OnnxRecord.from_dict(found)


def encode_trees(trees: MachineTrees) -> str:
    """Return the arrays of the trees as text."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **trees.to_arrays())
    return base64.b64encode(content.getvalue()).decode("ascii")


def _decode(text: str, machines: tuple[str, ...]) -> MachineTrees:
    with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as arrays:
        return MachineTrees.from_arrays(dict(arrays), machines)


def _scaled(logits: npt.NDArray[np.float64], calibration: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Return the logits of calibrated probabilities."""
    return np.asarray((logits - calibration["shift"]) / calibration["temperature"])


def _probabilities(logits: npt.NDArray[np.float64], calibration: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Return calibrated probabilities."""
    with np.errstate(over="ignore"):  # far below 0, the probability is 0
        return np.asarray(1 / (1 + np.exp(-_scaled(logits, calibration))))


def digest(graph: bytes, text: str) -> str:
    """Return the checksum of a graph and the text of its record."""
    return hashlib.sha256(graph + text.encode()).hexdigest()


def _damaged(name: str, what: str) -> DfstransError:
    return DfstransError(
        f"expected an intact exported file, got a damaged or changed one: {name}: {what}; restore a backup, or "
        "export the model again"
    )


def _open(content: bytes, name: str, threads: int | None) -> Any:
    """Open an onnxruntime session on the CPU."""
    try:
        import onnxruntime
    except ImportError as error:
        raise DfstransError(
            f"expected the package onnxruntime, but it cannot be imported ({error}); {INSTALL}"
        ) from error
    if threads is not None and threads < 1:
        raise DfstransError(f"expected threads to be a whole number of at least 1, got {threads}; correct it")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, so do not print them too
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many types without a common base
        raise DfstransError(
            f"expected a complete ONNX file, got one that onnxruntime {onnxruntime.__version__} cannot read: {name} "
            f"({str(error).splitlines()[0]}); copy it again, export the model again, or update onnxruntime"
        ) from error

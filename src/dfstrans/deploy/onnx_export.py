"""Export of a saved model to one ONNX file, which is compared with torch before it is written."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dfstrans.data.episodes import Episodes
from dfstrans.deploy.runtime import CONTENT, DIGEST, INPUTS, INSTALL, OnnxDetector, OnnxRecord, digest, encode_trees
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.saved_model import ExportRecord, read_whole_record, save_export
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans, segment_share
from dfstrans.settings import DFSTRANS, NetworkShape

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-4  # maximum difference of a logit
ATTENTION_TOLERANCE = 1e-3  # of an attention weight; larger, because a softmax of large numbers magnifies rounding
MOST_COMPARED = 256  # episodes
GENERATED = 64  # episodes, if none are given


def export_onnx(
    model: Path,
    out: Path,
    episodes: Episodes | None = None,
    *,
    tolerance: float = TOLERANCE,
    most_compared: int = MOST_COMPARED,
) -> ExportRecord:
    """Write a saved model as one ONNX file, and record in the model by how much the two differ.

    They are compared on at most `most_compared` evenly chosen episodes of those given, or on generated ones. If logits
    differ by more than the tolerance, no file is written.
    """
    _check_request(model, out)
    detector = Diagnoser.load(model)
    compared = (
        generated_episodes(detector)
        if episodes is None
        else _evenly_chosen(detector.check_input(episodes), most_compared)
    )
    graph = _graph(detector)
    exported = OnnxDetector.from_bytes(_file_content(graph, _record(detector)))
    logit, attention = largest_differences(detector, exported, compared)
    if logit > tolerance or attention > ATTENTION_TOLERANCE:
        raise DfstransError(
            f"expected the exported network to differ from torch by at most {tolerance:g} in a logit and "
            f"{ATTENTION_TOLERANCE:g} in an attention weight, got {logit:.2g} and {attention:.2g} on {len(compared)} "
            "episodes; nothing was written: predict with the saved model, and check for values far outside the "
            "training range"
        )
    found = ExportRecord(
        logit_difference=logit,
        attention_difference=attention,
        tolerance=tolerance,
        attention_tolerance=ATTENTION_TOLERANCE,
        episodes=len(compared),
        generated=episodes is None,
        fingerprint=compared.fingerprint(),
    )
    save_export(model, found)
    with atomic_write(out) as temporary:
        temporary.write_bytes(_file_content(graph, _record(detector, found)))
    return found


def exported_bytes(detector: Diagnoser) -> bytes:
    """Return the content of an exported file without comparing it with torch, for benchmarks."""
    return _file_content(_graph(detector), _record(detector))


def largest_differences(detector: Diagnoser, exported: OnnxDetector, episodes: Episodes) -> tuple[float, float]:
    """Return the largest difference of a logit and of an attention weight between torch and onnxruntime."""
    logit = attention = 0.0
    if detector.members_ == "trees":
        differences = exported.decision_function(episodes) - detector.decision_function(episodes)
        return float(np.abs(differences).max(initial=0)), attention
    start = 0
    for ours in exported.forward(episodes):
        rows = episodes[start : start + len(ours.raw_logit)]
        (theirs,) = detector.forward(rows, return_attention=True)
        assert theirs.attention is not None  # requested above
        logit = max(logit, _largest(ours.raw_logit, theirs.logit))
        attention = max(attention, _largest(ours.temporal_attention, theirs.attention.temporal))
        attention = max(attention, _largest(ours.spatial_attention, theirs.attention.spatial))
        start += len(rows)
    return logit, attention


def generated_episodes(detector: Diagnoser) -> Episodes:
    """Generate random walks of the lengths seen in training, with gaps.

    They deviate from the training mean as far as the nearer end of the training range, so that a sensor that is mostly
    at one end is so here too. Every second one takes only three levels and stays on each for a while.
    """
    rng = np.random.default_rng(0)
    scaler, data = detector.scaler_, detector.data_
    reach = np.minimum(scaler.mean - scaler.minimum, scaler.maximum - scaler.mean)[:, None]
    series = []
    for number, length in enumerate(rng.integers(data.shortest, data.longest, GENERATED, endpoint=True)):
        walk = rng.normal(size=(len(scaler.sensors), length)).cumsum(axis=1)
        walk -= walk.mean(axis=1, keepdims=True)
        walk /= np.maximum(np.abs(walk).max(axis=1, keepdims=True), 1e-9)
        values = scaler.mean[:, None] + reach * (np.round(walk) if number % 2 else walk)
        series.append(np.where(rng.random(values.shape) < 0.01, np.nan, values))
    return Episodes.from_arrays(series, sensors=scaler.sensors, units=detector.units_, interval=data.interval)


def _check_request(model: Path, out: Path) -> None:
    """Reject what cannot be exported before anything is computed."""
    for package in PACKAGES:
        try:
            import_module(package)
        except ImportError as error:
            raise DfstransError(
                f"expected the package {package} for the export, but it cannot be imported ({error}); {INSTALL}"
            ) from error
    if out.suffix.lower() != ".onnx" or out.is_dir():
        raise DfstransError(f"expected {option_name('out')} to end in .onnx, got {out}; rename the file")
    estimator = read_whole_record(model).estimator
    if estimator != DFSTRANS:
        raise DfstransError(
            f"expected a {DFSTRANS} network to export, got a model of the kind {estimator!r} in {model}; predict with "
            "the saved model instead"
        )


def _evenly_chosen(episodes: Episodes, most: int) -> Episodes:
    """Return all episodes, or `most` evenly chosen ones."""
    if len(episodes) == 0:
        raise DfstransError(
            "expected at least one episode to compare on, got none; add episodes, or use generated ones"
        )
    if len(episodes) <= most:
        return episodes
    return episodes[np.linspace(0, len(episodes) - 1, most).astype(np.intp)]


def _record(detector: Diagnoser, export: ExportRecord | None = None) -> OnnxRecord:
    """Return everything except the graph that a prediction needs."""
    return OnnxRecord(
        scaler=detector.scaler_,
        units=detector.units_,
        segment_length=detector.network_settings_.segment_length,
        d_model=detector.network_settings_.d_model,
        encoding=detector.network_settings_.encoding,
        interval=detector.data_.interval,
        time_unit=detector.data_.time_unit,
        threshold=detector.threshold_.model_dump(),
        calibration=detector.calibration_.model_dump(),
        export=None if export is None else export.model_dump(mode="json"),
        committee=None if detector.committee_ is None else detector.committee_.model_dump(mode="json"),
        trees=None if detector.trees_ is None else encode_trees(detector.trees_),
        machines=list(detector.machines_),
        reading=detector.reading_,
    )


def _file_content(graph: bytes, record: OnnxRecord) -> bytes:
    """Return a complete file: the serialised graph, its record and their digest; see `dfstrans.deploy.runtime`."""
    from onnx import ModelProto

    text = json.dumps({**record.to_dict(), "graph_bytes": len(graph)}, allow_nan=False)
    described = ModelProto()
    for key, value in ((CONTENT, text), (DIGEST, digest(graph, text))):
        described.metadata_props.add(key=key, value=value)
    return graph + bytes(described.SerializeToString())


def _graph(detector: Diagnoser) -> bytes:
    """Return the serialised graph, for any number of episodes and segments."""
    if detector.members_ == "trees":
        return _empty_graph()
    settings, committee = detector.network_settings_, detector.committee_
    calibration = detector.calibration_ if committee is None else committee.network
    exported = ExportedNetwork(detector.network_, calibration.shift, calibration.temperature)
    # the exporter keeps axes dynamic only for sizes above one
    example = [torch.zeros(2, 3, settings.n_sensors, settings.segment_length), torch.ones(2, 3, dtype=torch.bool)]
    most = settings.d_model if settings.encoding == "faithful" else None
    episode = torch.export.Dim("episode")
    axes: list[dict[int, Any]] = 2 * [{0: episode, 1: torch.export.Dim("segment", max=most)}]
    baselines = None if detector.trees_ is None else detector.trees_.baselines
    if baselines is not None and detector.network_.machine_features is not None:
        example.append(torch.from_numpy(baselines.of_segments(None, 2)))
        axes.append({0: episode})
    with _quiet(), torch.inference_mode():
        program = torch.onnx.export(
            exported,
            tuple(example),
            dynamo=True,
            input_names=INPUTS[: len(example)],
            output_names=ExportedPass._fields,
            dynamic_shapes=tuple(axes),
            verbose=False,
        )
    assert program is not None  # as always with dynamo
    proto = program.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # stack traces with the paths of this machine
    graph: bytes = proto.SerializeToString()
    return graph


def _empty_graph() -> bytes:
    """Return a graph that does nothing, for trees alone: they are in the record, and the runtime evaluates them."""
    from onnx import TensorProto, helper

    given, returned = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("nothing", "same"))
    graph = helper.make_graph([helper.make_node("Identity", ["nothing"], ["same"])], "trees", [given], [returned])
    opset = helper.make_opsetid("", 17)  # that of any onnxruntime in use
    found: bytes = helper.make_model(graph, ir_version=8, opset_imports=[opset]).SerializeToString()
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about packages and its own code, which do not help the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _largest(ours: np.ndarray, theirs: Tensor) -> float:
    """Return the largest absolute difference, infinite if either has a NaN."""
    difference = np.abs(ours - theirs.numpy())
    return float("inf") if np.isnan(difference).any() else float(difference.max(initial=0))


# ---- the exported network -------------------------------------------------------------------------------------------


class ExportedPass(NamedTuple):
    """The outputs of an exported file; padded segments have attention and relevance 0.

    The relevances equal those of `diagnosis.scores`: the last layer's attention, averaged over heads.
    """

    logit: Tensor  # (b,) float32
    probability: Tensor  # (b,) float64, so that different logits keep different probabilities near 0 and 1
    temporal_attention: Tensor  # (b, layer, s, h, q, k)
    spatial_attention: Tensor  # (b, layer, t, h, q, k)
    global_temporal_relevance: Tensor  # (b, t)
    global_spatial_relevance: Tensor  # (b, s)


class ExportedNetwork(nn.Module):
    """A trained network and its calibration, probability = σ((logit − shift) / temperature).

    Every segment is embedded and padding is masked, so that the graph is the same for any batch.

    Shape:
        segments (b, t, s, p), scaled, without NaN; valid (b, t), False for padded segments; baseline (b, s, 2, k)
    """

    def __init__(self, network: DFSTrans, shift: float, temperature: float) -> None:
        super().__init__()
        self.network = DFSTrans(network.settings)
        self.network.load_state_dict(network.state_dict())
        self.encoding = _Encoding(network.settings)
        self.shift, self.temperature = shift, temperature
        self.eval()

    def forward(self, segments: Tensor, valid: Tensor, baseline: Tensor | None = None) -> ExportedPass:
        """Score episodes and return the attention behind the scores."""
        if baseline is not None:  # the same for all segments of an episode
            baseline = baseline.unsqueeze(1).expand(-1, segments.shape[1], -1, -1, -1).flatten(0, 1)
        embedded = self.network.embed_segments(segments.flatten(0, 1), baseline)
        x = embedded.unflatten(0, segments.shape[:2])  # (b, t, s, d)
        x = x + self.encoding(valid).unsqueeze(1)
        logit, _, attention, _ = self.network.attend(x, valid, return_attention=True)
        assert attention is not None  # requested above
        moment = attention.temporal[:, -1].mean(dim=2).sum(dim=2).mean(dim=1)  # (b, s, h, q, k) → (b, t)
        at_moments = attention.spatial[:, -1].mean(dim=2).sum(dim=2)  # (b, t, h, q, k) → (b, t, s)
        sensor = ((moment * segment_share(x, valid)).unsqueeze(1) @ at_moments).squeeze(1)  # (b, s)
        probability = torch.sigmoid((logit.double() - self.shift) / self.temperature)
        return ExportedPass(logit, probability, *attention, moment, sensor)


class _Encoding(nn.Module):
    """Returns the positional encoding for the number of segments in `valid`: (b, t) → (t, d).

    The faithful encoding has at most d rows, which are stored; the vanilla encoding has no limit and is computed.
    """

    rows: Tensor

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.name, self.d_model = settings.encoding, settings.d_model
        if self.name == "faithful":
            rows = positional_encoding("faithful", self.d_model, self.d_model)
            self.register_buffer("rows", torch.as_tensor(rows, dtype=torch.float32))

    def forward(self, valid: Tensor) -> Tensor:
        n_segments = valid.shape[1]
        if self.name == "faithful":
            return self.rows[:n_segments]
        if self.name == "none":
            return torch.zeros(n_segments, self.d_model)
        position = torch.arange(n_segments, dtype=torch.float64).unsqueeze(1)
        even = torch.arange(0, self.d_model, 2, dtype=torch.float64)
        angle = position * 10_000.0 ** (-even / self.d_model)
        return torch.stack([torch.sin(angle), torch.cos(angle)], dim=2).flatten(1).float()

"""Summaries of a network or a saved model, and the list of all settings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import count_segments
from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.detectors.card import takes_and_gives
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.saved_model import ModelRecord, read_whole_record, settings_of
from dfstrans.errors import DfstransError
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.network import DFSTrans
from dfstrans.settings import DFSTRANS, PRESETS, NetworkShape, Preset
from dfstrans.training.evaluation import check_against_chance

PARTS = {
    "embedding": ("embedding", "quantile_features", "machine_features"),
    "temporal attention": ("temporal",),
    "spatial attention": ("spatial",),
    "feed-forward": ("feedforward",),
    "layer norms": ("temporal_norm", "spatial_norm", "norm"),
    "head": ("head", "logit", "summary"),
}


def network_for(preset: Preset, n_sensors: int, n_segments: int, given: dict[str, Any]) -> NetworkShape:
    """Return the network of a preset for `n_segments` full segments, with the settings `given` as values or text.

    >>> network_for("tuned", 20, 20, {"segment_length": 100}).d_model
    32
    """
    detector = Diagnoser.from_settings(preset=preset, **given)
    blank = np.broadcast_to(np.float32(0), (1, n_sensors, n_segments * detector.all_settings()["segment_length"]))
    return detector.network_settings(Episodes.from_arrays(blank))


def network_summary(settings: NetworkShape, n_segments: int) -> dict[str, Any]:
    """Return parameters by part, widths and settings of a network for episodes of `n_segments` segments."""
    if n_segments < 1:
        raise DfstransError(f"expected at least 1 segment, got {n_segments}")
    positional_encoding(settings.encoding, n_segments, settings.d_model)  # rejects more segments than it can encode
    with torch.device("meta"):
        network = DFSTrans(settings)
    counts = dict.fromkeys(PARTS, 0)
    for name, parameter in network.named_parameters():
        counts[_part_of(name)] += parameter.numel()
    return {
        "parameters": sum(counts.values()),
        "parts": counts,
        "d_model": settings.d_model,
        "segments": n_segments,
        "timepoints": n_segments * settings.segment_length,
        "settings": settings.model_dump(),
    }


def settings_list(kind: type[EpisodeClassifier]) -> list[dict[str, Any]]:
    """List every setting of a kind of detector: name, default, value of the preset "paper", and help."""
    fields = {**kind.network_kind.model_fields, **kind.training_kind.model_fields}
    defaults = kind.default_settings()
    paper = {**defaults, **PRESETS["paper"]} if kind is Diagnoser else defaults
    return [
        {"name": name, "default": default, "paper": paper[name], "help": fields[name].description}
        for name, default in defaults.items()
    ]


def model_summary(folder: Path) -> dict[str, Any]:
    """Return the summary of a saved model, with its threshold and metrics."""
    record = read_whole_record(folder)
    return {
        **_shape(folder, record),
        "estimator": record.estimator,
        "description": takes_and_gives(record.model_dump()),
        "sensors": list(record.sensors),
        "units": list(record.units),
        "data": record.data.model_dump(),
        "known_faults": dict(Counter(record.known_cases.values())),
        "threshold": record.threshold.model_dump(),
        "calibration": record.calibration.model_dump(),
        "metrics": record.metrics,
        "committee": None if record.committee is None else record.committee.summary(),
        "machines": dict(record.machines),
        "chance_check": check_against_chance(record.metrics)._asdict(),
        "created": record.created,
        "versions": record.versions,
    }


def _shape(folder: Path, record: ModelRecord) -> dict[str, Any]:
    """Return the parameters by part for a DFStrans network, else their total."""
    if record.estimator != DFSTRANS:
        return {"parameters": record.parameters, "parts": {}, "settings": record.network}
    network = settings_of(folder, NetworkShape, record.network)
    return network_summary(network, count_segments(record.data.longest, network.segment_length))


def _part_of(parameter: str) -> str:
    pieces = parameter.split(".")
    owner = pieces[2] if pieces[0] == "layers" else pieces[0]
    return next(part for part, owners in PARTS.items() if owner in owners)

"""Latency of one episode from raw values: `python -m benchmarks.prediction`.

Compares prediction with torch, prediction with the exported file, and a diagnosis without the random draws of its trust
verdict. Weights are random, because they do not affect the time.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import torch

from benchmarks.measure import measure_pair, new_parser, progress
from benchmarks.network import SHAPES, Shape
from dfstrans import Diagnoser, Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.deploy.onnx_export import exported_bytes
from dfstrans.deploy.runtime import OnnxDetector
from dfstrans.detectors.saved_model import DataRecord
from dfstrans.diagnosis.diagnose import KnownCases
from dfstrans.diagnosis.reference import EXAMPLES, NormalReference
from dfstrans.settings import PRESETS, NetworkShape
from dfstrans.training.calibration import Calibration, Threshold

NORMAL = 2 * EXAMPLES  # episodes of the normal reference; half of them become examples


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print a table or JSON; progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for preset in options.presets:
        for name in options.shapes:
            progress(f"{name}, {preset}: {options.rounds} rounds")
            rows.append({"preset": preset, "shape": name, **measure(SHAPES[name], preset, options.rounds)})
    print(json.dumps(rows, indent=2) if options.json else _table(rows))


def measure(shape: Shape, preset: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of a prediction, and the relative time of an exported file and of a diagnosis."""
    values = np.random.default_rng(1).normal(size=(NORMAL, shape.n_sensors, shape.n_segments * shape.segment_length))
    normal = Episodes.from_arrays(values)
    settings = Diagnoser(segment_length=shape.segment_length, **PRESETS[preset]).network_settings(normal)
    detector, episode = random_detector(shape, settings)
    detector.reference_ = NormalReference.fit(detector, normal)
    detector.known_cases_, detector.log_ = KnownCases.none(), []
    exported = OnnxDetector.from_bytes(exported_bytes(detector), threads=torch.get_num_threads())

    def predict() -> object:
        return detector.predict_proba(episode)

    others = {
        "onnxruntime": lambda: exported.predict_proba(episode),
        "diagnosis": lambda: [*detector.diagnose(episode)],
    }
    found = {name: measure_pair({"torch": predict, name: other}, rounds) for name, other in others.items()}
    difference = abs(float(detector.decision_function(episode)[0] - exported.decision_function(episode)[0]))
    return {**found, "logit_difference": difference}


def random_detector(shape: Shape, settings: NetworkShape) -> tuple[Diagnoser, Episodes]:
    """A detector with random weights, as if it had been fitted, and one episode."""
    values = np.random.default_rng(0).normal(size=(1, shape.n_sensors, shape.n_segments * shape.segment_length))
    episode = Episodes.from_arrays(values)
    torch.manual_seed(0)
    detector = Diagnoser()
    detector.scaler_, detector.sensors_, detector.units_ = SensorScaler.fit(episode), episode.sensors, episode.units
    detector.network_, detector.network_settings_ = detector.build(settings, detector.scaler_).eval(), settings
    detector.calibration_, detector.threshold_, detector.metrics_ = Calibration(), Threshold(), {}
    detector.committee_ = detector.trees_ = detector.tree_reference_ = None
    detector.reading_ = {}
    length = episode.n_timepoints
    detector.data_ = DataRecord(
        train_episodes=1,
        train_anomalous=0,
        validation_episodes=0,
        validation_anomalous=0,
        train_fingerprint="",
        validation_fingerprint="",
        shortest=length,
        longest=length,
    )
    return detector, episode


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| preset | shape | torch ms | onnxruntime ÷ torch | quartiles | diagnosis ÷ torch | quartiles |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["preset"], f"{row['shape']} {SHAPES[row['shape']].text}"]
        cells.append(f"{row['onnxruntime']['milliseconds']['torch']:.1f}")
        for name in ("onnxruntime", "diagnosis"):
            low, high = row[name]["ratio_quartiles"]
            cells += [f"{row[name]['ratio']:.2f}", f"{low:.2f} to {high:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("prediction", __doc__, rounds=30)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["elevator"], metavar="NAME", help="elevator")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS), help="both")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()

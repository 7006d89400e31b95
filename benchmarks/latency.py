"""One episode at a time: the exported file against eager torch, in one run: `python -m benchmarks.latency`."""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.options import add_shapes, add_threads, new_parser, parsed
from benchmarks.timing import progress, seconds
from benchmarks.workload import SHAPES, Shape
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.deploy.onnx_export import exported_bytes
from dfstrans.deploy.runtime import OnnxDetector
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.saved_model import DataRecord
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkShape
from dfstrans.training.calibration import Calibration, Threshold


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for name in options.shapes:
        progress(f"{name}: exporting, then {options.repeats} rounds")
        rows.append({"shape": name, "size": SHAPES[name].text, **measure(SHAPES[name], options)})
    result = {"batch": 1, "threads": options.threads, "rounds": options.repeats, "rows": rows}
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    """Median seconds from raw values to a probability; the two take turns, so that a busy moment meets both."""
    detector, episode = random_detector(shape)
    exported = OnnxDetector.from_bytes(exported_bytes(detector), threads=options.threads)
    runs = {"torch": lambda: detector.predict_proba(episode), "onnxruntime": lambda: exported.predict_proba(episode)}
    difference = abs(float(detector.decision_function(episode)[0] - exported.decision_function(episode)[0]))
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # the first call also prepares
    for _ in range(options.repeats):
        for name, run in runs.items():
            taken[name].append(seconds(run))
    ratios = sorted(b / a for a, b in zip(taken["torch"], taken["onnxruntime"], strict=True))
    return {
        "milliseconds": {name: 1e3 * median(values) for name, values in taken.items()},
        "ratio": median(ratios),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
        "logit_difference": difference,
    }


def random_detector(shape: Shape, settings: NetworkShape | None = None) -> tuple[Diagnoser, Episodes]:
    """A detector with random weights, as if it had been fitted, and one episode; of the paper's widths unless given."""
    settings = settings or shape.settings
    values = np.random.default_rng(0).normal(size=(1, shape.n_sensors, shape.n_segments * shape.segment_length))
    episode = Episodes.from_arrays(values)
    torch.manual_seed(0)
    detector = Diagnoser()
    detector.network_, detector.network_settings_ = DFSTrans(settings).eval(), settings
    detector.scaler_, detector.sensors_, detector.units_ = SensorScaler.fit(episode), episode.sensors, episode.units
    detector.calibration_, detector.threshold_, detector.metrics_ = Calibration(), Threshold(), {}
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


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"batch {result['batch']}, threads: {result['threads']}, {result['rounds']} rounds",
        "",
        "| shape | torch ms | onnxruntime ms | ratio | quartiles | logit difference |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        torch_ms, onnx_ms = row["milliseconds"].values()
        low, high = row["ratio_quartiles"]
        lines.append(
            f"| {row['shape']} {row['size']} | {torch_ms:.1f} | {onnx_ms:.1f} | {row['ratio']:.2f} "
            f"| {low:.2f} to {high:.2f} | {row['logit_difference']:.1g} |"
        )
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("latency", __doc__)
    add_shapes(parser)
    add_threads(parser)
    parser.add_argument("--repeats", type=int, default=30, help="timed rounds per shape (30)")
    return parsed(parser, arguments, "repeats", "threads")


if __name__ == "__main__":
    main()

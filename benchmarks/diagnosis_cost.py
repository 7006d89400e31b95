"""A diagnosis of one elevator journey against a prediction of it, in one run: `python -m benchmarks.diagnosis_cost`.

Both start from raw values; the diagnosis is without the draws of its trust verdict. Weights are random, as they do not
change the time.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.latency import random_detector
from benchmarks.options import add_threads, new_parser, parsed
from benchmarks.timing import progress, seconds
from benchmarks.workload import SHAPES, Shape
from dfstrans import Diagnoser, Episodes
from dfstrans.diagnosis.known_faults import KnownCases
from dfstrans.diagnosis.reference import EXAMPLES, NormalReference
from dfstrans.settings import PRESETS

WANTED = 1.5
NORMAL = 2 * EXAMPLES  # episodes of the reference: half of them become examples


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for preset in options.presets:
        progress(f"{preset}: {options.repeats} rounds")
        rows.append({"preset": preset, **measure(SHAPES["elevator"], preset, options.repeats)})
    result = {"shape": SHAPES["elevator"].text, "threads": options.threads, "rounds": options.repeats, "rows": rows}
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure(shape: Shape, preset: str, repeats: int) -> dict[str, Any]:
    """Median seconds of both and the median of their ratios; they take turns, so that a busy moment meets both."""
    values = np.random.default_rng(1).normal(size=(NORMAL, shape.n_sensors, shape.n_segments * shape.segment_length))
    normal = Episodes.from_arrays(values)
    settings = Diagnoser(preset=preset, segment_length=shape.segment_length).network_settings(normal)
    detector, episode = random_detector(shape, settings)
    detector.reference_ = NormalReference.fit(detector, normal)
    detector.known_cases_ = KnownCases.none()
    runs = {
        "prediction": lambda: detector.predict_proba(episode),
        "diagnosis": lambda: list(detector.diagnose(episode)),
    }
    for run in runs.values():
        run()  # the first call also prepares
    taken = [{name: seconds(run) for name, run in runs.items()} for _ in range(repeats)]
    ratios = sorted(one["diagnosis"] / one["prediction"] for one in taken)
    return {
        "milliseconds": {name: 1e3 * median(one[name] for one in taken) for name in runs},
        "ratio": median(ratios),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
        "wanted": WANTED,
    }


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"one journey of {result['shape']}, threads: {result['threads']}, {result['rounds']} rounds",
        "",
        f"| preset | prediction ms | diagnosis ms | ratio (wanted: {WANTED:g} at most) | quartiles |",
        "|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        plain, diagnosis = row["milliseconds"].values()
        low, high = row["ratio_quartiles"]
        lines.append(
            f"| {row['preset']} | {plain:.1f} | {diagnosis:.1f} | {row['ratio']:.2f} | {low:.2f} to {high:.2f} |"
        )
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("diagnosis_cost", __doc__)
    add_threads(parser)
    parser.add_argument("--repeats", type=int, default=30, help="timed rounds (30)")
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS), help="both")
    return parsed(parser, arguments, "repeats", "threads")


if __name__ == "__main__":
    main()

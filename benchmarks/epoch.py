"""What an epoch of `fit` costs beside its training steps: `python -m benchmarks.epoch`.

Beside the steps (augmentation, forward and backward pass, optimiser) there is reading from HDF5, scaling, cutting,
validation on 15 episodes per 70 of training, a checkpoint, the averaging of weights, logs and the engine itself. The
network and its batches are those that `Diagnoser` chooses by itself: a slim network, beside which all this weighs more.
One thread, processor time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.options import add_shapes, new_parser, parsed
from benchmarks.timing import progress
from benchmarks.workload import SHAPES, Shape, random_episodes
from dfstrans import Diagnoser
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.writers import save_episodes
from dfstrans.model.network import DFSTrans
from dfstrans.training.fit import train_network
from dfstrans.training.lightning_module import DetectorModule


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(1)
    rows = []
    for name in options.shapes:
        progress(name)
        rows.append({"shape": name, **measure(SHAPES[name], options.episodes, options.epochs)})
    print(json.dumps(rows, indent=2) if options.json else _table(rows))


def measure(shape: Shape, n_episodes: int, n_epochs: int) -> dict[str, float]:
    """Median seconds of an epoch and of its steps, and the median share of an epoch that is not steps."""
    made = random_episodes(shape, n_episodes * 85 // 70)
    with tempfile.TemporaryDirectory() as folder:
        stored = load_episodes(save_episodes(made, Path(folder) / "episodes.h5"))
        epochs = _epochs(shape, stored, n_episodes, n_epochs, Path(folder) / "run")
    return {
        "epoch": median(whole for whole, _ in epochs),
        "steps": median(steps for _, steps in epochs),
        "rest_share": median(1 - steps / whole for whole, steps in epochs),
    }


def _epochs(
    shape: Shape, episodes: Episodes, n_training: int, n_epochs: int, run_folder: Path
) -> list[tuple[float, float]]:
    """Seconds of each whole epoch and of the steps in it, without the first, which builds everything."""
    detector = Diagnoser.from_settings(segment_length=shape.segment_length, epochs=n_epochs + 1, patience=n_epochs + 1)
    train, validation = episodes[:n_training], episodes[n_training:]
    clock = time.process_time
    in_steps = 0.0
    marks: list[tuple[float, float]] = []
    step, start_epoch = DetectorModule.optimizer_step, DetectorModule.on_train_epoch_start

    def timed_step(module: DetectorModule, *arguments: Any, **named: Any) -> None:
        nonlocal in_steps
        start = clock()
        step(module, *arguments, **named)
        in_steps += clock() - start

    def mark(module: DetectorModule) -> None:
        marks.append((clock(), in_steps))
        start_epoch(module)

    with (
        patch.object(DetectorModule, "optimizer_step", timed_step),
        patch.object(DetectorModule, "on_train_epoch_start", mark),
    ):
        network, settings = detector.network_settings(train), detector.training_settings(n_training)
        scaler = SensorScaler.fit(train)
        train_network(lambda: DFSTrans(network), network, settings, train, validation, scaler, run_folder=run_folder)
    marks.append((clock(), in_steps))
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(marks[1:])]


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| shape | epoch s | its steps s | all the rest |", "|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['shape']} {SHAPES[row['shape']].text} | {row['epoch']:.2f} | {row['steps']:.2f} "
            f"| {row['rest_share']:.1%} |"
        )
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("epoch", __doc__)
    add_shapes(parser, "elevator", "SMD")
    parser.add_argument("--episodes", type=int, default=280, help="training episodes of an epoch (280)")
    parser.add_argument("--epochs", type=int, default=5, help="timed epochs (5)")
    return parsed(parser, arguments, "episodes", "epochs")


if __name__ == "__main__":
    main()

"""Growth of time and memory with sensors, segments and episodes: `python -m benchmarks.scaling`.

A small network, so that the fastest-growing part soon dominates: segments of 8 points, 8 dimensions, 2 heads,
feed-forward width 8, no positional encoding (the faithful one needs a dimension per segment).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from benchmarks.measure import Case, measure_in_turns, new_parser, progress
from benchmarks.network import training_loss
from dfstrans import Diagnoser
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import FORMAT, VERSION, fixed_text
from dfstrans.model.detector import Batch
from dfstrans.model.fast import FastDFSTrans
from dfstrans.settings import NetworkShape

SLIM: dict[str, Any] = {
    "segment_length": 8,
    "embedding": "cnn",
    "filters": 8,
    "heads": 2,
    "feedforward": 8,
    "head_width": 8,
    "encoding": "none",
}
LEAST = 10  # of the axis that does not grow
AXIS = (10, 20, 40, 80, 160, 320)
BOTH = (10, 20, 40, 80, 160)
EPISODES = (1_000, 3_000, 10_000, 30_000, 100_000)
BATCH = 4
EPISODE_SENSORS, EPISODE_POINTS = 2, 16  # tiny, so that only their number matters
EPISODE_BATCH = 256
SWEEPS: dict[str, tuple[str, Sequence[int]]] = {
    "sensors": ("sensors S, 10 segments", AXIS),
    "segments": ("segments N_w, 10 sensors", AXIS),
    "both": ("S = N_w", BOTH),
    "episodes": ("episodes N, from HDF5", EPISODES),
}


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print a table or JSON; progress goes to stderr."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = {name: measure_sweep(name, options, Path(folder)) for name in options.sweeps}
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure_sweep(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Seconds and MB of each sweep, and the exponents of its upper half."""
    sizes = [size for size in SWEEPS[name][1] if size <= options.largest]
    found = []
    for size in sizes:
        progress(f"{name}: {size}")
        rounds = 1 if name == "episodes" else options.rounds
        found.append(measure_in_turns({"": _case(name, size, folder)}, rounds, options.threads, options.long)[""])
    return {
        "sizes": sizes,
        "seconds": [one.seconds for one in found],
        "megabytes": [one.megabytes for one in found],
        "time_exponent": exponent(sizes, [one.seconds for one in found]),
        "memory_exponent": exponent(sizes, [one.megabytes for one in found]),
    }


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Least-squares slope of the upper half of the points on a log-log scale.

    >>> round(exponent([1, 2, 4, 8, 16, 32], [9, 9, 9, 8**2, 16**2, 32**2]), 6)
    2.0
    """
    upper = len(sizes) // 2
    logarithms = [[math.log(max(value, 1e-9)) for value in axis[upper:]] for axis in (sizes, values)]
    return float(np.polyfit(*logarithms, 1)[0]) if len(sizes) - upper > 1 else math.nan


def _case(name: str, size: int, folder: Path) -> Case:
    if name == "episodes":
        small, path = (_write_episodes(folder / f"{n}.h5", n) for n in (EPISODE_BATCH, size))
        return Case(partial(_fit_and_predict, small), lambda: partial(_fit_and_predict, path))
    sensors = LEAST if name == "segments" else size
    segments = LEAST if name == "sensors" else size
    return Case(lambda: _training_step(2, 2)(), partial(_training_step, sensors, segments))


def _training_step(n_sensors: int, n_segments: int) -> Callable[[], None]:
    torch.manual_seed(0)
    network = FastDFSTrans(NetworkShape.paper(n_sensors=n_sensors, **SLIM)).train()
    segments = torch.rand(BATCH, n_segments, n_sensors, SLIM["segment_length"])
    labels = (torch.arange(BATCH) % 2).float()

    def step() -> None:
        network.zero_grad()
        training_loss(network, Batch(segments, None, labels)).backward()

    return step


def _fit_and_predict(path: Path) -> None:
    """One epoch of `fit`, including everything before and after it, then the scores of all episodes."""
    episodes = load_episodes(path)
    detector = Diagnoser.from_settings(**SLIM, epochs=1, batch_size=EPISODE_BATCH, precision="32")
    detector.fit(episodes).predict_proba(episodes)


def _write_episodes(path: Path, n: int) -> Path:
    """A file as `save_episodes` writes it, but with chunks of many episodes, to keep the chunk index small."""
    values = np.random.default_rng(0).random((n, EPISODE_SENSORS, EPISODE_POINTS), dtype=np.float32)
    described = Episodes.from_arrays(values, np.arange(n) % 2)
    with h5py.File(path, "w", libver="v110") as file:
        file.attrs.update({"format": FORMAT, "version": VERSION})
        file.attrs["sensors"], file.attrs["units"] = fixed_text(described.sensors), fixed_text(described.units)
        file["lengths"], file["labels"], file["values"] = described.lengths, described.labels, values
        file["ids"] = fixed_text(described.ids.tolist())
    return path


def _table(result: dict[str, Any]) -> str:
    lines = ["| what grows | size | seconds | MB |", "|---|---|---|---|"]
    for name, sweep in result.items():
        for size, spent, megabytes in zip(sweep["sizes"], sweep["seconds"], sweep["megabytes"], strict=True):
            lines.append(f"| {SWEEPS[name][0]} | {size} | {spent:.4f} | {megabytes:.1f} |")
        lines.append(
            f"| {SWEEPS[name][0]} | exponent | {sweep['time_exponent']:.2f} | {sweep['memory_exponent']:.2f} |"
        )
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("scaling", __doc__, rounds=3)
    parser.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS), metavar="NAME", help="all four")
    parser.add_argument("--largest", type=int, default=max(EPISODES), help="skip larger sizes")
    parser.add_argument(
        "--long", type=float, default=2.0, help="a call longer than this many seconds is measured once (2)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()

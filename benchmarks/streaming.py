"""Epochs from an HDF5 file beside epochs from memory, in one run: `python -m benchmarks.streaming`.

The network is the one that `Diagnoser` builds by itself: it is slim, so that reading weighs more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.options import add_shapes, new_parser, parsed
from benchmarks.timing import progress, take_turns
from benchmarks.workload import SHAPES, Shape, random_episodes, training_loss
from dfstrans import Diagnoser
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.writers import save_episodes
from dfstrans.model.network import DFSTrans
from dfstrans.training.batches import batch_loader

BATCH = 16


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(1)
    rows = []
    for name in options.shapes:
        progress(name)
        rows.append({"shape": name, **measure(SHAPES[name], options.episodes, options.rounds)})
    print(json.dumps(rows, indent=2) if options.json else _table(rows))


def measure(shape: Shape, n_episodes: int, rounds: int) -> dict[str, float]:
    """Seconds of an epoch and of reading, scaling and cutting alone; the first epoch of each does not count."""
    episodes = random_episodes(shape, n_episodes)
    with tempfile.TemporaryDirectory() as folder:
        stored = load_episodes(save_episodes(episodes, Path(folder) / "episodes.h5"))
        assert stored.is_stored
        runs = {
            f"{source}_{what}": partial(run, some, shape.segment_length)
            for source, some in (("memory", episodes), ("hdf5", stored))
            for what, run in (("epoch", _epoch), ("reading", _read))
        }
        seconds = take_turns(runs, rounds)
    return {**seconds, "speed_share": seconds["memory_epoch"] / seconds["hdf5_epoch"]}


def _epoch(episodes: Episodes, segment_length: int) -> None:
    torch.manual_seed(0)
    network = DFSTrans(Diagnoser(segment_length=segment_length).network_settings(episodes)).train()
    optimizer = torch.optim.AdamW(network.parameters())
    for batch in _loader(episodes, segment_length):
        optimizer.zero_grad()
        training_loss(network, batch.segments, batch.labels).backward()
        optimizer.step()


def _read(episodes: Episodes, segment_length: int) -> None:
    for _ in _loader(episodes, segment_length):
        pass


def _loader(episodes: Episodes, segment_length: int) -> Any:
    scaler = SensorScaler.fit(episodes[:2])  # its ranges do not matter here
    return batch_loader(episodes, scaler, segment_length, BATCH, shuffle_seed=0)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| shape | epoch, memory s | epoch, HDF5 s | HDF5's speed | reading, memory s | reading, HDF5 s |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['shape']} {SHAPES[row['shape']].text} | {row['memory_epoch']:.3f} | {row['hdf5_epoch']:.3f} "
            f"| {row['speed_share']:.0%} | {row['memory_reading']:.3f} | {row['hdf5_reading']:.3f} |"
        )
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("streaming", __doc__)
    add_shapes(parser, "elevator", "SMD")
    parser.add_argument("--episodes", type=int, default=64, help="episodes of an epoch (64)")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds (3)")
    return parsed(parser, arguments, "episodes", "rounds")


if __name__ == "__main__":
    main()

"""How fast recordings are read, beside bare pyarrow and h5py on the same files: `python -m benchmarks.reading`."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow import csv as arrow_csv

from benchmarks.timing import progress, take_turns
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes

N_SENSORS, N_TIMEPOINTS = 20, 2000


def main(arguments: list[str] | None = None) -> None:
    """Write a file of each format, read it in turns, print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(path, ours, bare, options.rounds)
            for path, ours, bare in cases(some_episodes(options.megabytes), Path(folder))
        ]
    print(json.dumps(rows, indent=2) if options.json else _table(rows))


def some_episodes(megabytes: float) -> Episodes:
    """Labelled episodes whose values take about that much memory."""
    n = max(2, round(megabytes * 1e6 / (4 * N_SENSORS * N_TIMEPOINTS)))
    values = np.random.default_rng(0).normal(size=(n, N_SENSORS, N_TIMEPOINTS)).astype(np.float32)
    return Episodes.from_arrays(values, np.arange(n) % 2, interval=0.1)


def cases(episodes: Episodes, folder: Path) -> list[tuple[Path, Callable[[], object], Callable[[], object]]]:
    """A file of each format, how we read all of it, and how its library does."""
    parquet = save_episodes(episodes, folder / "episodes.parquet")
    hdf5 = save_episodes(episodes, folder / "episodes.h5")
    foreign, text = folder / "table.parquet", folder / "table.csv"
    table = pq.read_table(parquet).replace_schema_metadata(None)  # as another program would have written it
    pq.write_table(table, foreign)
    arrow_csv.write_csv(table, text)
    return [
        (foreign, lambda: load_episodes(foreign), lambda: pq.read_table(foreign)),
        (parquet, lambda: load_episodes(parquet), lambda: pq.read_table(parquet)),
        (text, lambda: load_episodes(text), lambda: arrow_csv.read_csv(text)),
        (hdf5, lambda: load_episodes(hdf5).load(), lambda: _bare_hdf5(hdf5)),
    ]


def measure(path: Path, ours: Callable[[], object], bare: Callable[[], object], rounds: int) -> dict[str, Any]:
    """MB of the file per second, for both."""
    progress(path.name)
    megabytes = path.stat().st_size / 1e6
    seconds = take_turns({"ours": ours, "bare": bare}, rounds)
    return {
        "file": path.name,
        "megabytes": megabytes,
        "ours_mb_per_s": megabytes / seconds["ours"],
        "bare_mb_per_s": megabytes / seconds["bare"],
        "share": seconds["bare"] / seconds["ours"],
    }


def _bare_hdf5(path: Path) -> Any:
    with h5py.File(path, "r") as file:
        return file["values"][:]


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| file | MB | ours MB/s | bare MB/s | ours / bare |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['file']} | {row['megabytes']:.0f} | {row['ours_mb_per_s']:.0f} | {row['bare_mb_per_s']:.0f} "
            f"| {row['share']:.2f} |"
        )
    return "\n".join(lines)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=64, help="size of the values in memory (64)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (5)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()

"""Speed and memory of the network against the plain reference, in one run: `python -m benchmarks.network`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.memory import measure_memory
from benchmarks.workload import BATCH, MODELS, SHAPES, TASKS, Shape, build, count_flops, tasks
from dfstrans.data import Episodes, load_episodes, save_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.training.batches import EpisodeDataset
from dfstrans.training.fit import bf16_is_fast

SMALL_SHAPES_MORE_OFTEN = 3  # a step of theirs takes a tenth of the elevator's and is as easily disturbed
MEMORY_REPEATS = 3  # for small shapes, where the allocator's moods weigh a tenth of the whole
SMALL = 100e9  # FLOPs of a training step
MATRIX = 2048


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print one table (or JSON); progress goes to stderr."""
    options = _parse(arguments)
    torch.set_num_threads(options.threads)
    repeats = 1 if options.quick else options.repeats
    rates = measure_matrix_rates(repeats)
    rows = []
    for name in options.shapes:
        _progress(f"{name}: speed")
        times = measure_times(SHAPES[name], repeats)
        _progress(f"{name}: reading")
        reading = measure_reading(SHAPES[name], repeats)
        for task in TASKS:
            _progress(f"{name}: memory, {task}")
            measured = 1 if options.quick or not _is_small(SHAPES[name]) else MEMORY_REPEATS
            memory = {model: median(measure_memory(model, name, task) for _ in range(measured)) for model in MODELS}
            rows.append(_row(name, task, times[task], memory, max(rates.values()), reading))
            _progress(_line(rows[-1]))  # also what an interrupted run leaves
    result = {"batch": BATCH, "threads": torch.get_num_threads(), "matrix_gflops": rates, "rows": rows}
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure_times(shape: Shape, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds by task and model; the two models take turns, so that a busy moment meets both."""
    runs = {model: tasks(model, build(model, shape), shape) for model in MODELS}
    if _is_small(shape):
        repeats *= SMALL_SHAPES_MORE_OFTEN
    result = {}
    for task in TASKS:
        seconds: dict[str, list[float]] = {model: [] for model in MODELS}
        for model in MODELS:
            runs[model][task]()  # the first call also prepares
        for _ in range(repeats):
            for model in MODELS:
                seconds[model].append(_time(runs[model][task]))
        result[task] = {model: median(values) for model, values in seconds.items()}
    return result


def measure_reading(shape: Shape, repeats: int) -> dict[str, float]:
    """Median seconds to read, scale and cut a batch, from memory and from an HDF5 file."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2 * BATCH, shape.n_sensors, shape.n_segments * shape.segment_length))
    episodes = Episodes.from_arrays(values, labels=np.arange(2 * BATCH) % 2)
    scaler = SensorScaler.fit(episodes)
    rows = rng.permutation(len(episodes))[:BATCH]
    with tempfile.TemporaryDirectory() as folder:
        stored = load_episodes(save_episodes(episodes, Path(folder) / "episodes.h5"))
        if not stored.is_stored:
            raise RuntimeError("expected HDF5 episodes to stay in their file")
        result = {}
        for source, some in (("memory", episodes), ("hdf5", stored)):
            dataset = EpisodeDataset(some, scaler, shape.segment_length)
            dataset[rows]
            result[source] = median(_time(lambda dataset=dataset: dataset[rows]) for _ in range(3 * repeats))
    return result


def measure_matrix_rates(repeats: int) -> dict[str, float]:
    """GFLOPS of a square matrix product in fp32 and, where the processor has it, in bf16."""
    types = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if bf16_is_fast() else {})
    rates = {}
    for name, dtype in types.items():
        _progress(f"matrix product, {name}")
        a, b = (torch.rand(MATRIX, MATRIX).to(dtype) for _ in range(2))
        a @ b
        fastest = min(_time(lambda a=a, b=b: a @ b) for _ in range(3 * repeats))
        rates[name] = 2 * MATRIX**3 / fastest / 1e9
    return rates


def _row(
    name: str, task: str, times: dict[str, float], memory: dict[str, float], rate: float, reading: dict[str, float]
) -> dict[str, Any]:
    return {
        "shape": name,
        "size": SHAPES[name].text,
        "task": task,
        "seconds": times,
        "time_ratio": times["network"] / times["reference"],
        "memory_mb": memory,
        "memory_ratio": memory["network"] / memory["reference"],
        "share_of_matrix_rate": count_flops(SHAPES[name], task) / times["network"] / 1e9 / rate,
        "reading_share": {source: seconds / times["network"] for source, seconds in reading.items()},
    }


def _table(result: dict[str, Any]) -> str:
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in result["matrix_gflops"].items())
    lines = [
        f"batch {result['batch']}, threads: {result['threads']}; matrix product {MATRIX}²: {rates} GFLOPS",
        "",
        "| shape | task | reference s | network s | ratio | reference MB | network MB | ratio | matrix rate "
        "| reading: memory | HDF5 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(lines + [_line(row) for row in result["rows"]])


def _line(row: dict[str, Any]) -> str:
    seconds, memory, reading = row["seconds"], row["memory_mb"], row["reading_share"]
    cells = [
        f"{row['shape']} {row['size']}",
        row["task"],
        f"{seconds['reference']:.3f}",
        f"{seconds['network']:.3f}",
        f"{row['time_ratio']:.2f}",
        f"{memory['reference']:.0f}",
        f"{memory['network']:.0f}",
        f"{row['memory_ratio']:.2f}",
        f"{row['share_of_matrix_rate']:.0%}",
        f"{reading['memory']:.1%}",
        f"{reading['hdf5']:.1%}",
    ]
    return "| " + " | ".join(cells) + " |"


def _is_small(shape: Shape) -> bool:
    return count_flops(shape, "train") < SMALL


def _time(run: Callable[[], object]) -> float:
    """Seconds; of processor time with one thread, which other programs on the machine do not distort."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.network", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="timed rounds per shape; small shapes get more (3)")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="NAME", help="all four")
    parser.add_argument("--threads", type=int, default=1, help="with 1, processor time is measured; else the clock (1)")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if min(options.repeats, options.threads) < 1:
        parser.error("expected at least 1 repeat and at least 1 thread")
    return options


if __name__ == "__main__":
    main()

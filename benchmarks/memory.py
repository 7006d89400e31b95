"""Peak memory of one task, in a process of its own: `python -m benchmarks.memory network elevator train`."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.workload import SHAPES, Shape, build, tasks


def measure_memory(model: str, shape: str, task: str) -> float:
    """How many MB the peak rises in a fresh process that builds the model and does the task twice."""
    command = [sys.executable, "-m", "benchmarks.memory", model, shape, task]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[1])
    return float(done.stdout)


def _rise(model: str, shape: Shape, task: str) -> float:
    torch.set_num_threads(1)
    tiny = Shape(2, 2, 16)
    tasks(model, build(model, tiny), tiny)[task]()  # what the libraries load on first use is not the model's
    before = _peak()
    run = tasks(model, build(model, shape), shape)[task]
    run()
    run()
    return _peak() - before


def _peak() -> float:
    """The largest resident size so far in MB; on Linux from the kernel's mark of this program alone.

    There `getrusage` would also count what the parent process held when it started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    name, shape_name, task_name = sys.argv[1:]
    print(_rise(name, SHAPES[shape_name], task_name))

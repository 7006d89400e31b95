"""Time and memory of alternating runs, so that other load on the machine affects all of them."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from dfstrans.model.detector import bf16_is_fast

Run = Callable[[], object]
LONG = 20.0  # seconds: a longer run is measured only once, in its first call
MATRIX_SIZES = (1024, 2048)


class Case(NamedTuple):
    """The work of one process: an untimed warm-up, then `prepare` returns a function that is called repeatedly.

    The warm-up triggers what libraries load on first use.
    """

    warm_up: Run
    prepare: Callable[[], Run]


class Measured(NamedTuple):
    """Median seconds of a run, and the rise of its process's peak memory, in MB, over preparation and all calls."""

    seconds: float
    megabytes: float


def measure_in_turns(
    cases: Mapping[str, Case], rounds: int, threads: int = 1, long: float = LONG
) -> dict[str, Measured]:
    """Run each case in its own process, alternating; the first round only counts if a call takes long."""
    workers = {name: _Worker(case, threads) for name, case in cases.items()}
    try:
        measured = [{name: worker.run() for name, worker in workers.items()}]
        if max(one.seconds for one in measured[0].values()) < long:
            measured = [{name: worker.run() for name, worker in workers.items()} for _ in range(rounds)]
    finally:
        for worker in workers.values():
            worker.close()
    return {
        name: Measured(median(one[name].seconds for one in measured), measured[-1][name].megabytes) for name in cases
    }


def measure_pair(runs: Mapping[str, Run], rounds: int) -> dict[str, Any]:
    """Alternate two runs in this process: median milliseconds of each, and the ratio of the second to the first."""
    for run in runs.values():
        run()  # the first call includes preparation
    taken = [{name: seconds(run) for name, run in runs.items()} for _ in range(rounds)]
    first, second = runs
    ratios = sorted(one[second] / one[first] for one in taken)
    return {
        "milliseconds": {name: 1e3 * median(one[name] for one in taken) for name in runs},
        "ratio": median(ratios),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
    }


def measure_matrix_rates(rounds: int, threads: int = 1) -> dict[str, float]:
    """GFLOPS of the fastest square matrix product in fp32 and, if supported, in bf16."""
    types = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if bf16_is_fast() else {})
    rates = dict.fromkeys(types, 0.0)
    for size in MATRIX_SIZES:
        cases = {name: Case(_product(8, dtype), partial(_product, size, dtype)) for name, dtype in types.items()}
        for name, measured in measure_in_turns(cases, rounds, threads).items():
            rates[name] = max(rates[name], 2 * size**3 / measured.seconds / 1e9)
    return rates


def seconds(run: Run) -> float:
    """Seconds of one call; with one thread processor time, which other programs affect least."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def progress(text: str) -> None:
    """Print to stderr what is being measured."""
    print(text, file=sys.stderr, flush=True)


def new_parser(benchmark: str, description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """A parser with the options that benchmarks share."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{benchmark}", description=description)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=_count, default=rounds, help=f"timed rounds ({rounds})")
    parser.add_argument("--threads", type=_count, default=1, help="1: processor time; more: wall-clock time (1)")
    return parser


def _count(text: str) -> int:
    if (given := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {given}; correct it")
    return given


def _product(size: int, dtype: torch.dtype) -> partial[object]:
    a, b = (torch.rand(size, size).to(dtype) for _ in range(2))
    return partial(torch.mm, a, b)


class _Worker:
    """A forked process: it shares all imports, and its peak memory starts at the current size."""

    def __init__(self, case: Case, threads: int) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, case, threads), daemon=True)
        self.process.start()
        theirs.close()  # so that the parent notices its end

    def run(self) -> Measured:
        self.pipe.send(True)
        try:
            return Measured(*self.pipe.recv())
        except EOFError:
            raise RuntimeError("a measured process ended early; perhaps memory ran out") from None

    def close(self) -> None:
        with suppress(OSError):  # it may already have ended
            self.pipe.send(False)
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, case: Case, threads: int) -> None:
    torch.set_num_threads(threads)
    case.warm_up()
    before = _peak()
    run = case.prepare()
    while pipe.recv():
        spent = seconds(run)
        pipe.send((spent, _peak() - before))


def _peak() -> float:
    """The largest resident size of this process so far, in MB.

    On Linux it is the kernel's high-water mark of this process: `getrusage` would include memory of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

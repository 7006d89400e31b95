"""Processes that each hold one thing to measure and take turns, so that a busy moment of the machine meets them all."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from benchmarks.timing import seconds

Run = Callable[[], object]
LONG = 20.0  # seconds: what takes longer is measured in its first call, once


class Case(NamedTuple):
    """What one process does: a warm-up that does not count, then it prepares a run, which is called again and again.

    What the libraries load on first use belongs into the warm-up; it is not the run's.
    """

    warm_up: Run
    prepare: Callable[[], Run]


class Measured(NamedTuple):
    """Median seconds of a run, and how many MB the peak of its process rose in preparing it and in all calls."""

    seconds: float
    megabytes: float


def measure_in_turns(
    cases: Mapping[str, Case], rounds: int, threads: int = 1, long: float = LONG
) -> dict[str, Measured]:
    """Each case in a process of its own, called in turns; the first round counts only where a call takes long."""
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


class _Worker:
    """A forked process: it has all that is imported here, and its peak begins where it starts."""

    def __init__(self, case: Case, threads: int) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, case, threads), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is noticed here

    def run(self) -> Measured:
        self.pipe.send(True)
        try:
            return Measured(*self.pipe.recv())
        except EOFError:
            raise RuntimeError("a process that was measured ended early; was there too little memory?") from None

    def close(self) -> None:
        with suppress(OSError):  # it may have ended by itself
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

    On Linux it is the kernel's mark of this process alone: `getrusage` would count what its parent held, too.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

"""Seconds of things that take turns, so that a busy moment of the machine meets them all."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from statistics import median

import torch


def seconds(run: Callable[[], object]) -> float:
    """Seconds of one call; of processor time with one thread, which other programs on the machine do not distort."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def take_turns(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds by name over rounds in which each is called once; a first round prepares and is not counted."""
    for run in runs.values():
        run()
    measured = [{name: seconds(run) for name, run in runs.items()} for _ in range(rounds)]
    return {name: median(one[name] for one in measured) for name in runs}


def progress(text: str) -> None:
    """Tell on stderr what is being measured."""
    print(text, file=sys.stderr, flush=True)

"""Computing the cells of a comparison in this process, or in several."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from queue import Empty
from typing import Any

from dfstrans.errors import DfstransError, settings_as_options
from dfstrans.experiments.cells import Cell, CellKey
from dfstrans.experiments.grid import Comparison, Grid

Tell = Callable[[Cell | DfstransError, CellKey], None]
Begin = Callable[[CellKey], None]


def run(grid: Grid, tell: Tell, begin: Begin, jobs: int = 1, threads: int | None = None) -> dict[str, str]:
    """Compute all cells that are not there, in `jobs` processes of `threads` threads each; what went wrong, by cell.

    `begin` hears of each cell that is begun, `tell` of each that was computed. Without `threads` each process takes
    its share of those that torch would use.
    """
    import torch

    each = threads or max(1, torch.get_num_threads() // jobs)
    if jobs == 1:
        with limited(each):
            return grid.work(tell, begin=begin)
    spawning = multiprocessing.get_context("spawn")
    told: Any = spawning.Queue()
    given_up = spawning.Array("b", len(grid.keys), lock=False)
    arguments = (grid.comparison, each, told, given_up)
    workers = [spawning.Process(target=_work, args=arguments, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    failed: dict[str, str] = {}
    ended: list[BaseException | None] = []
    try:
        while len(ended) < jobs:
            try:
                what, key = told.get(timeout=1.0)
            except Empty:
                died = [worker for worker in workers if worker.exitcode not in (None, 0)]
                if died:
                    raise DfstransError(
                        f"expected {jobs} processes to work to the end, but one ended with code {died[0].exitcode} "
                        "(perhaps memory ran out); run it with fewer jobs: finished cells are kept"
                    ) from None
                continue
            if key is None:
                ended.append(what)
            elif what is None:
                begin(key)
            else:
                if isinstance(what, DfstransError):
                    failed[key.label] = str(what)
                tell(what, key)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
    for error in ended:
        if error is not None:
            raise error
    return failed


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Arithmetic within the block uses so many threads."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def _work(comparison: Comparison, threads: int, told: Any, given_up: MutableSequence[int]) -> None:
    """What a process of its own does; it ends when the one that started it has."""
    parent = multiprocessing.parent_process()

    def tell(what: Cell | DfstransError | None, key: CellKey) -> None:
        if parent is not None and not parent.is_alive():
            os._exit(1)
        told.put((what, key))

    try:
        with settings_as_options(), limited(threads):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the parent has read the same, and said it
                grid = Grid(comparison)
            grid.work(tell, given_up, begin=lambda key: tell(None, key))
        told.put((None, None))
    except BaseException as error:
        told.put((error, None))

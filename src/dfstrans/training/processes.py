"""Training on several processes and computers: torch starts the processes; this keeps them in step [ADR 31].

Every process runs the same program. What writes files, or need not be computed twice, runs on the first one only.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import distributed

from dfstrans.errors import DfstransError, option_name

STARTED_BY_TORCH = "TORCHELASTIC_RUN_ID"  # set in each process that torchrun, or `launch`, has started
PORT = "29500"  # torchrun's
PATIENCE = 10.0  # seconds until another process reports an error that the first one does not have
Result = TypeVar("Result")
Item = TypeVar("Item")


def is_part() -> bool:
    """Return whether this process is one of several that train together."""
    return STARTED_BY_TORCH in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return int(os.environ["RANK"]) if is_part() else 0


def count() -> int:
    """Return the number of processes that train together."""
    return int(os.environ["WORLD_SIZE"]) if is_part() else 1


def count_here() -> int:
    """Return how many of them run on this computer."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if is_part() else 1


def on_first(function: Callable[[], Result]) -> Result:
    """Call a function on the first process only; all processes get its result, or its error."""
    if not is_part():
        return function()
    _join()
    outcome: list[tuple[Result | None, DfstransError | None]] = [(None, None)]
    if rank() == 0:
        try:
            outcome = [(function(), None)]
        except DfstransError as error:
            outcome = [(None, error)]
    distributed.broadcast_object_list(outcome, src=0)
    result, failure = outcome[0]
    if failure is not None:
        raise failure
    return result  # type: ignore[return-value]  # without a failure there is a result


def gathered(item: Item) -> list[Item]:
    """Return the items of all processes."""
    if not is_part():
        return [item]
    _join()
    found: list[Item] = [item] * count()
    distributed.all_gather_object(found, item)
    return found


@contextmanager
def first_reports() -> Iterator[None]:
    """Let the first process report an error that all of them have; the launcher then ends the others."""
    try:
        yield
    except DfstransError:
        if rank():
            time.sleep(PATIENCE)
        raise


def _join() -> None:
    if not distributed.is_initialized():
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def launch(devices: int, nodes: int, command: Sequence[str]) -> int:
    """Run a command in `devices` processes on each of `nodes` computers, and wait; return the exit code.

    With several computers, the same command runs on each, and MASTER_ADDR names the first one. Only the first process
    prints; what the others print is shown if one of them fails.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std  # a second, only needed here
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    address = os.environ.get("MASTER_ADDR", "localhost" if nodes == 1 else "")
    if not address:
        raise DfstransError(
            f"expected the address of the first computer in the variable MASTER_ADDR with "
            f"{option_name('nodes', nodes)}, got none; set it to the same address on every computer"
        )
    port = "0" if nodes == 1 else os.environ.get("MASTER_PORT", PORT)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // devices)))
    with tempfile.TemporaryDirectory() as logs:
        config = LaunchConfig(
            min_nodes=nodes,
            max_nodes=nodes,
            nproc_per_node=devices,
            run_id="dfstrans",
            rdzv_backend="c10d",
            rdzv_endpoint=f"{address}:{port}",
            max_restarts=0,
            monitor_interval=0.2,
            logs_specs=DefaultLogsSpecs(logs, redirects=dict.fromkeys(range(1, devices), Std.ALL)),
        )
        try:
            elastic_launch(config, command[0])(*command[1:])
        except ChildFailedError as error:
            number, failure = error.get_first_failure()
            if failure.exitcode < 0:
                raise DfstransError(
                    f"expected all {devices * nodes} processes to train to the end, but process {number} was ended by "
                    f"{signal.Signals(-failure.exitcode).name}; the finished epochs are kept: continue with "
                    f"{option_name('resume', True)}"
                ) from None
            first = error.failures.get(0)
            if first is None or first.exitcode < 0:  # otherwise the first process has said why
                for path in Path(logs).rglob(f"{failure.local_rank}/stderr.log"):
                    sys.stderr.write(path.read_text(errors="replace"))
            return int(failure.exitcode)
    return 0

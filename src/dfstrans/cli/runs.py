"""Runs of `compare` and `reproduce`: compute them, show their progress and their results."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dfstrans.cli.output import INTERRUPTED, print_columns, print_json, remark
from dfstrans.lab.compare.comparison import ResultTable
from dfstrans.lab.compare.grid import Grid, RunOutcome, compute_runs
from dfstrans.lab.compare.progress import RunStatus, what_is_kept
from dfstrans.lab.compare.runs import RunKey
from dfstrans.progress import LINE_SECONDS

WORDS = ("data", "model", "metric", "rival", "removed", "note", "sensors")  # text columns of result tables
BAR_SECONDS = 1.0  # between updates of the bars


def compute_with_progress(
    grid: Grid, jobs: int, threads: int | None, cluster: Executor | None = None
) -> dict[str, str]:
    """Compute the unfinished runs and show progress; return error messages by run."""
    try:
        with RunProgress(grid, jobs) as shown:
            return compute_runs(grid, shown.begin, shown.end, jobs, threads, cluster)
    except KeyboardInterrupt:
        place = grid.comparison.store.parent
        remark(f"dfstrans: interrupted; {what_is_kept(grid)} are kept in {place}; repeat the command to resume")
        raise typer.Exit(INTERRUPTED) from None


def show_result(
    content: dict[str, Any],
    tables: Iterable[ResultTable],
    failed: dict[str, str],
    written: Iterable[Path],
    as_json: bool,
) -> None:
    """Print the tables with their titles and notes, or `content` as JSON; exit with code 1 if runs failed."""
    if as_json:
        print_json({**content, "failed": failed, "written": [str(path) for path in written]})
    else:
        for table in tables:
            print(table.title)
            print_columns(table.columns, table.rows, words=WORDS)
            print(*table.notes, "", sep="\n")
        for path in written:
            print(f"written   {path}")
    for label, message in failed.items():
        remark(f"failed: {label}: {message}")
    raise typer.Exit(1 if failed else 0)


class RunProgress:
    """Shows one bar for all runs, and one for the epochs of each current run; without a terminal, lines."""

    def __init__(self, grid: Grid, jobs: int, line_seconds: float = LINE_SECONDS) -> None:
        self.status = RunStatus(grid, jobs)
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.runs = self.bar.add_task("runs", total=len(grid.keys), note="")
        self.tasks: dict[str, TaskID] = {}  # of the current runs
        self.lock = Lock()  # several threads update the bars
        self.ended = Event()
        self.watch = Thread(target=self._watch, args=(line_seconds,), daemon=True)

    def __enter__(self) -> Self:
        if done := self.status.done:
            remark(f"{len(done)} of {len(self.status.grid.keys)} runs are already finished")
        self._show()
        self.bar.start()
        self.watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.ended.set()
        self.watch.join()
        self.bar.stop()

    def begin(self, key: RunKey) -> None:
        """Show that a run starts or resumes."""
        with self.lock:
            said = self.status.begin(key)
            self.tasks[key.label] = self.bar.add_task(key.label, total=None, note="")
        self._show()
        if self.bar.disable:
            remark(said)

    def end(self, outcome: RunOutcome, key: RunKey) -> None:
        """Show that a run is finished or has failed."""
        with self.lock:
            said = self.status.end(outcome, key)
            self.bar.remove_task(self.tasks.pop(key.label))
        self._show()
        if said and self.bar.disable:
            remark(said)
        elif said:
            self.bar.console.print(said, highlight=False)

    def _watch(self, line_seconds: float) -> None:
        """Update the display periodically."""
        said = ""
        while not self.ended.wait(line_seconds if self.bar.disable else BAR_SECONDS):
            self._show()
            current = self.status.current()
            if self.bar.disable and current not in ("", said):
                remark(self.status.with_time_left(current))
                said = current

    def _show(self) -> None:
        with self.lock:
            self.bar.update(self.runs, completed=len(self.status.done), note=self.status.time_left())
            for label, epochs in self.status.epochs().items():
                if epochs is not None:
                    self.bar.update(self.tasks[label], total=epochs.of, completed=epochs.done, note="epochs")

"""Progress of a comparison on stderr: runs, epochs and time left, as bars or as lines."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dfstrans.cli.output import remark
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Grid, Outcome
from dfstrans.lab.compare.runs import Run, RunKey
from dfstrans.training.run_folder import Epochs, checkpoint_is_whole, epochs_of

BAR_SECONDS = 1.0  # between updates of the bars
LINE_SECONDS = 60.0  # between lines without a terminal


class RunProgress:
    """Shows one bar for all runs, and one for the epochs of each current run.

    The epochs are read from a run's training folder, so they are known whichever process computes the run.
    """

    def __init__(self, grid: Grid, jobs: int, line_seconds: float = LINE_SECONDS) -> None:
        self.grid, self.jobs, self.line_seconds = grid, jobs, line_seconds
        self.running: dict[str, RunKey] = {}
        self.tasks: dict[str, TaskID] = {}
        self.lock = Lock()  # several threads update the bars
        self.failed: set[str] = set()
        self.said = ""
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
        self.ended = Event()
        self.watch = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.done = self.grid.finished()
        total = len(self.grid.keys)
        self.task = self.bar.add_task("runs", total=total, completed=len(self.done), note=self._describe_time_left())
        if self.done:
            remark(f"{len(self.done)} of {total} runs are already finished")
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
            self.running[key.label] = key
            self.tasks[key.label] = self.bar.add_task(key.label, total=None, note="")
        self._show()
        if self.bar.disable:
            folder = self.grid.training_folder(key)
            epochs = epochs_of(folder) if checkpoint_is_whole(folder) else None
            remark(f"{key.label}: started" if epochs is None else f"{key.label}: resuming after epoch {epochs.done}")

    def end(self, outcome: Outcome, key: RunKey) -> None:
        """Show that a run is finished or has failed."""
        with self.lock:
            del self.running[key.label]
            self.bar.remove_task(self.tasks.pop(key.label))
            self.done = self.grid.finished()
            if isinstance(outcome, DfstransError):
                self.failed.add(key.label)
        self._show()
        if outcome is None:
            return
        if isinstance(outcome, DfstransError):
            self._line(f"{key.label} failed: {outcome}")
            return
        figures = f"F1 {outcome.test['f1']:.3f}, PR-AUC {outcome.test['pr_auc']:.3f}"
        took = duration(outcome.training.seconds)
        done = f"{len(self.done)} of {len(self.grid.keys)} runs"
        self._line("; ".join(filter(None, (f"{done}: {key.label}: {figures}, in {took}", self._describe_time_left()))))

    def _watch(self) -> None:
        """Update the display periodically."""
        while not self.ended.wait(self.line_seconds if self.bar.disable else BAR_SECONDS):
            self._show()
            doing = self._describe_current()
            if self.bar.disable and doing not in ("", self.said):
                remark("; ".join(filter(None, (doing, self._describe_time_left()))))
                self.said = doing

    def _show(self) -> None:
        with self.lock:
            self.bar.update(self.task, completed=len(self.done), note=self._describe_time_left())
            for label, epochs in self._epochs().items():
                if epochs is not None:
                    self.bar.update(self.tasks[label], total=epochs.of, completed=epochs.done, note="epochs")

    def _describe_current(self) -> str:
        """Describe the current runs with their epochs."""
        return "; ".join(f"{label}{_epoch(epochs)}" for label, epochs in self._epochs().items())

    def _epochs(self) -> dict[str, Epochs | None]:
        return {label: epochs_of(self.grid.training_folder(key)) for label, key in tuple(self.running.items())}

    def _line(self, text: str) -> None:
        if self.bar.disable:
            remark(text)
        else:
            self.bar.console.print(text, highlight=False)

    def _describe_time_left(self) -> str:
        """Describe the estimated time left; empty if nothing is left."""
        there = {(run.model, run.fold) for run in self.done}
        waiting = [key for key in self.grid.keys if (key.model, key.fold) not in there and key.label not in self.failed]
        if not waiting:
            return ""
        seconds = seconds_left(waiting, self.done, self._epochs())
        if seconds is None:
            return "time left: unknown"
        return f"about {duration(seconds / min(self.jobs, len(waiting)))} left"


def duration(seconds: float) -> str:
    """A human-readable duration.

    >>> duration(9.6), duration(90), duration(3 * 3600 + 125)
    ('10 s', '1 min 30 s', '3 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def seconds_left(waiting: list[RunKey], done: list[Run], running: Mapping[str, Epochs | None]) -> float | None:
    """Estimated seconds for one process to finish the runs, from the mean duration of each model.

    For a model without a finished run, the epochs of a current run count. None without any estimate.
    """
    took: dict[str, list[float]] = {}
    for run in done:
        took.setdefault(run.model, []).append(run.training.seconds)
    known = set(took)
    under_way = [(key, epochs) for key in waiting if (epochs := running.get(key.label))]
    for key, epochs in under_way:
        if key.model not in known and epochs.done:
            took.setdefault(key.model, []).append(epochs.seconds / epochs.done * epochs.of)
    if not took:
        return None
    means = {model: sum(seconds) / len(seconds) for model, seconds in took.items()}
    usual = sum(means.values()) / len(means)
    spent = {key.label: epochs.seconds for key, epochs in under_way}
    return sum(max(means.get(key.model, usual) - spent.get(key.label, 0.0), 0.0) for key in waiting)


def _epoch(epochs: Epochs | None) -> str:
    """The current epoch, as a suffix to the name of a run.

    >>> _epoch(Epochs(2, 44, 9.0)), _epoch(None)
    (': epoch 3 of 44', '')
    """
    if epochs is None:
        return ""
    return f": epoch {min(epochs.done + 1, epochs.of)} of {epochs.of}"

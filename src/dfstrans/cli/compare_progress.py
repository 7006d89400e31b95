"""How far a comparison is: cells and epochs done and time left, as bars on stderr or as lines."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event, Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dfstrans.cli.output import remark
from dfstrans.errors import DfstransError
from dfstrans.training.run_folder import Epochs, checkpoint_is_whole, epochs_of

if TYPE_CHECKING:
    from dfstrans.lab.compare.grid import Grid
    from dfstrans.lab.compare.runs import Cell, CellKey


LOOK_SECONDS = 1.0  # between looks at the epochs for the bars
LINE_SECONDS = 60.0  # between lines where there are no bars


class CellProgress:
    """Tells of cells that are begun, under way and finished: a bar of all cells, and one of epochs for each that runs.

    The epochs of a cell are read from the folder of its training, whichever process computes it.
    """

    def __init__(self, grid: Grid, jobs: int) -> None:
        self.grid, self.jobs = grid, jobs
        self.running: dict[str, CellKey] = {}
        self.tasks: dict[str, TaskID] = {}
        self.lock = Lock()  # two threads show what runs
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
        self.task = self.bar.add_task("cells", total=total, completed=len(self.done), note=self._left())
        if self.done:
            remark(f"{len(self.done)} of {total} cells are there already")
        self.bar.start()
        self.watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.ended.set()
        self.watch.join()
        self.bar.stop()

    def begin(self, key: CellKey) -> None:
        """A cell is begun, or gone on with."""
        with self.lock:
            self.running[key.label] = key
            self.tasks[key.label] = self.bar.add_task(key.label, total=None, note="")
        self._show()
        if self.bar.disable:
            run = self.grid.run_folder(key)
            epochs = epochs_of(run) if checkpoint_is_whole(run) else None
            remark(f"{key.label}: begun" if epochs is None else f"{key.label}: goes on after epoch {epochs.done}")

    def tell(self, what: Cell | DfstransError, key: CellKey) -> None:
        """One more cell is done, or could not be."""
        with self.lock:
            del self.running[key.label]
            self.bar.remove_task(self.tasks.pop(key.label))
            self.done = self.grid.finished()
            if isinstance(what, DfstransError):
                self.failed.add(key.label)
        self._show()
        if isinstance(what, DfstransError):
            self._line(f"{key.label} failed: {what}")
            return
        figures = f"F1 {what.test['f1']:.3f}, PR-AUC {what.test['pr_auc']:.3f}"
        took = duration(what.training.seconds)
        done = f"{len(self.done)} of {len(self.grid.keys)} cells"
        self._line("; ".join(filter(None, (f"{done}: {key.label}: {figures}, in {took}", self._left()))))

    def _watch(self) -> None:
        """Show the epochs of what runs, from time to time."""
        while not self.ended.wait(LINE_SECONDS if self.bar.disable else LOOK_SECONDS):
            self._show()
            doing = self._doing()
            if self.bar.disable and doing not in ("", self.said):
                remark("; ".join(filter(None, (doing, self._left()))))
                self.said = doing

    def _show(self) -> None:
        with self.lock:
            self.bar.update(self.task, completed=len(self.done), note=self._left())
            for label, epochs in self._epochs().items():
                if epochs is not None:
                    self.bar.update(self.tasks[label], total=epochs.of, completed=epochs.done, note="epochs")

    def _doing(self) -> str:
        """What runs, with its epoch."""
        return "; ".join(f"{label}{_epoch(epochs)}" for label, epochs in self._epochs().items())

    def _epochs(self) -> dict[str, Epochs | None]:
        return {label: epochs_of(self.grid.run_folder(key)) for label, key in tuple(self.running.items())}

    def _line(self, text: str) -> None:
        if self.bar.disable:
            remark(text)
        else:
            self.bar.console.print(text, highlight=False)

    def _left(self) -> str:
        """How long what is not done will take; nothing where nothing is left."""
        there = {(cell.model, cell.fold) for cell in self.done}
        waiting = [key for key in self.grid.keys if (key.model, key.fold) not in there and key.label not in self.failed]
        if not waiting:
            return ""
        seconds = seconds_left(waiting, self.done, self._epochs())
        if seconds is None:
            return "time left: not known yet"
        return f"about {duration(seconds / min(self.jobs, len(waiting)))} left"


def duration(seconds: float) -> str:
    """For people, to the second, the minute or so.

    >>> duration(9.6), duration(90), duration(3 * 3600 + 125)
    ('10 s', '1 min 30 s', '3 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def seconds_left(waiting: list[CellKey], done: list[Cell], running: Mapping[str, Epochs | None]) -> float | None:
    """How long one process would take for the cells that wait or run, if each takes as long as its model did.

    Of a model without a finished cell, the epochs of one that runs tell; None where there are none yet.
    """
    took: dict[str, list[float]] = {}
    for cell in done:
        took.setdefault(cell.model, []).append(cell.training.seconds)
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
    """Which epoch is computed, as it follows the name of a cell.

    >>> _epoch(Epochs(2, 44, 9.0)), _epoch(None)
    (': epoch 3 of 44', '')
    """
    if epochs is None:
        return ""
    return f": epoch {min(epochs.done + 1, epochs.of)} of {epochs.of}"

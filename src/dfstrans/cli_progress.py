"""How far a comparison is: cells done and time left, as a bar on stderr or as a line for each cell."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dfstrans.cli_output import remark
from dfstrans.errors import DfstransError

if TYPE_CHECKING:
    from dfstrans.experiments.cells import Cell, CellKey
    from dfstrans.experiments.grid import Grid


class CellProgress:
    """Tells of finished cells; the time left is what the same models took on other splits."""

    def __init__(self, grid: Grid, jobs: int) -> None:
        self.grid, self.jobs = grid, jobs
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("cells"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        done = self.grid.finished()
        self.task = self.bar.add_task("", total=len(self.grid.keys), completed=len(done), left=self._left(done))
        if done:
            remark(f"{len(done)} of {len(self.grid.keys)} cells are there already")
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.bar.stop()

    def tell(self, what: Cell | DfstransError, key: CellKey) -> None:
        """One more cell is done, or could not be."""
        done = self.grid.finished()
        left = self._left(done)
        self.bar.update(self.task, completed=len(done), left=left)
        if isinstance(what, DfstransError):
            self._line(f"{key.label} failed: {what}")
            return
        figures = f"F1 {what.test['f1']:.3f}, PR-AUC {what.test['pr_auc']:.3f}"
        took = timedelta(seconds=round(what.training.seconds))
        self._line(f"{len(done)} of {len(self.grid.keys)} cells: {key.label}: {figures}, {took} h; {left}")

    def _line(self, text: str) -> None:
        if self.bar.disable:
            remark(text)
        else:
            self.bar.console.print(text, highlight=False)

    def _left(self, done: list[Cell]) -> str:
        seconds = seconds_left(self.grid, done)
        if seconds is None:
            return "time left: not known yet"
        return f"about {timedelta(seconds=round(seconds / self.jobs))} h left"


def seconds_left(grid: Grid, done: list[Cell]) -> float | None:
    """How long one process would take for the cells that are not done, if each takes as long as its model did."""
    if not done:
        return None
    took: dict[str, list[float]] = {}
    for cell in done:
        took.setdefault(cell.model, []).append(cell.training.seconds)
    means = {model: sum(seconds) / len(seconds) for model, seconds in took.items()}
    usual = sum(means.values()) / len(means)
    there = {(cell.model, cell.fold) for cell in done}
    return sum(means.get(key.model, usual) for key in grid.keys if (key.model, key.fold) not in there)

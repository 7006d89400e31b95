"""How far a comparison is: finished, current and failed runs, their epochs, and the time left."""

from __future__ import annotations

from collections.abc import Mapping

from dfstrans.errors import DfstransError, list_few
from dfstrans.lab.compare.grid import Grid, RunOutcome
from dfstrans.lab.compare.runs import Run, RunKey
from dfstrans.progress import duration
from dfstrans.training.run_folder import Epochs, can_resume, checkpoint_is_whole, epochs_of


class RunStatus:
    """Which runs of a grid are finished, current or failed; `jobs` processes compute them.

    Epochs are read from the training folder of a run, so they are known whichever process computes it.
    """

    def __init__(self, grid: Grid, jobs: int) -> None:
        self.grid, self.jobs = grid, jobs
        self.done = grid.finished()
        self.running: dict[str, RunKey] = {}
        self.failed: set[str] = set()

    def begin(self, key: RunKey) -> str:
        """Note that a run starts or resumes; return a sentence about it."""
        self.running[key.label] = key
        folder = self.grid.training_folder(key)
        epochs = epochs_of(folder) if checkpoint_is_whole(folder) else None
        return f"{key.label}: started" if epochs is None else f"{key.label}: resuming after epoch {epochs.done}"

    def end(self, outcome: RunOutcome, key: RunKey) -> str:
        """Note that a run has ended; return a sentence about it, empty if another command has computed it."""
        del self.running[key.label]
        self.done = self.grid.finished()
        if isinstance(outcome, DfstransError):
            self.failed.add(key.label)
            return f"{key.label} failed: {outcome}"
        if outcome is None:
            return ""
        metrics = f"F1 {outcome.test['f1']:.3f}, PR-AUC {outcome.test['pr_auc']:.3f}"
        done = f"{len(self.done)} of {len(self.grid.keys)} runs"
        return self.with_time_left(f"{done}: {key.label}: {metrics}, in {duration(outcome.training.seconds)}")

    def epochs(self) -> dict[str, Epochs | None]:
        """The epochs of each current run; None before the first."""
        return {label: epochs_of(self.grid.training_folder(key)) for label, key in tuple(self.running.items())}

    def current(self) -> str:
        """The current runs with their epochs."""
        return "; ".join(
            label if epochs is None else f"{label}: epoch {min(epochs.done + 1, epochs.of)} of {epochs.of}"
            for label, epochs in self.epochs().items()
        )

    def with_time_left(self, text: str) -> str:
        """The text, followed by the time left if there is any."""
        return "; ".join(filter(None, (text, self.time_left())))

    def time_left(self) -> str:
        """The estimated time left; empty if nothing is left."""
        there = {(run.model, run.fold) for run in self.done}
        waiting = [key for key in self.grid.keys if (key.model, key.fold) not in there and key.label not in self.failed]
        if not waiting:
            return ""
        seconds = seconds_left(waiting, self.done, self.epochs())
        if seconds is None:
            return "time left: unknown"
        return f"about {duration(seconds / min(self.jobs, len(waiting)))} left"


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


def what_is_kept(grid: Grid) -> str:
    """The finished runs, and the finished epochs of others, as part of a sentence."""
    folders = {key.label: grid.training_folder(key) for key in grid.keys}
    begun = {label: epochs for label, at in folders.items() if can_resume(at) and (epochs := epochs_of(at))}
    kept = [f"{epochs.done} of {epochs.of} epochs of {label}" for label, epochs in begun.items()]
    return f"{len(grid.finished())} of {len(grid.keys)} runs" + (f" and {list_few(kept)}" if kept else "")

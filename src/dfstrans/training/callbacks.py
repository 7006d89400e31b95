"""What happens around the epochs: best weights, early stopping, log, progress."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dfstrans.files import written_atomically
from dfstrans.training.run_folder import LogRows, write_log

LOGGED = ("loss", "validation_loss", "validation_f1", "validation_pr_auc")


class BestWeights(Callback):  # type: ignore[misc]
    """Keeps the weights of the last epoch that is as good as any before it, also across a resumed run.

    As good is, of a share found among `n_tested` anomalies, what is at most its standard error below the best: a lead
    of less than that is luck. With 0 of them the best epoch itself is kept.
    """

    def __init__(self, monitor: str, n_tested: int) -> None:
        self.monitor = monitor
        self.n_tested = n_tested
        self.best = -math.inf
        self.epoch = -1
        self.weights: dict[str, torch.Tensor] = {}

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Take a copy when no epoch before this one is better."""
        value = float(trainer.callback_metrics[self.monitor])
        if not (value > self.best or (self.n_tested and value >= self.best - standard_error(self.best, self.n_tested))):
            return
        self.best, self.epoch = max(value, self.best), trainer.current_epoch
        self.weights = {name: tensor.detach().clone() for name, tensor in module.averaged.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"best": self.best, "epoch": self.epoch, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.best, self.epoch, self.weights = state_dict["best"], state_dict["epoch"], state_dict["weights"]


class Patience(Callback):  # type: ignore[misc]
    """Stops when no epoch was worth keeping for long, or when the figures are no numbers any more.

    Without a number of epochs it waits for ever.
    """

    def __init__(self, best: BestWeights, patience: int | None) -> None:
        self.best = best
        self.patience = math.inf if patience is None else patience

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Count the epochs since the one that is kept."""
        diverged = not math.isfinite(float(trainer.callback_metrics[self.best.monitor]))
        trainer.should_stop |= diverged or trainer.current_epoch - self.best.epoch >= self.patience

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stop a resumed run at once when the checkpoint was its last one."""
        if self.best.weights and trainer.current_epoch - 1 - self.best.epoch >= self.patience:
            trainer.should_stop = True


class EpochLog(Callback):  # type: ignore[misc]
    """One row of figures per epoch, in memory and, when there is a folder for it, in a CSV file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: LogRows = []
        self.started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Start the clock."""
        self.started = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Add the epoch's row."""
        row = {"epoch": trainer.current_epoch + 1}
        metrics = {**trainer.callback_metrics, "loss": trainer.callback_metrics["loss_epoch"]}
        row |= {name: float(metrics[name]) for name in LOGGED}
        row["learning_rate"] = trainer.optimizers[0].param_groups[0]["lr"]
        row["seconds"] = time.perf_counter() - self.started
        self.rows.append(row)
        if self.path is not None:
            with written_atomically(self.path) as temporary:
                write_log(self.rows, temporary)

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.rows = state_dict["rows"]


class TrainingProgress(Callback):  # type: ignore[misc]
    """A bar on stderr with loss, validation F1 and the time left; where there is no terminal, a line per epoch.

    The F1 is that of the best threshold; the one that is chosen in the end is steadier, and its F1 lower.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.figures = ""
        self.line = ""  # printed once the epoch's checkpoint is on disk

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Show the bar, at the step a resumed run has reached."""
        total = int(trainer.estimated_stepping_batches)
        self.task = self.progress.add_task("", total=total, completed=trainer.global_step, figures="")
        self.progress.start()
        if trainer.current_epoch:
            self.console.print(f"going on after epoch {trainer.current_epoch}", highlight=False)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """One step further."""
        loss = f"epoch {trainer.current_epoch + 1}  loss {float(trainer.callback_metrics['loss_step']):.3f}"
        self.progress.update(self.task, completed=trainer.global_step, figures=f"{loss}  {self.figures}")

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """The validation figures are new."""
        metrics = trainer.callback_metrics
        self.figures = (
            f"validation loss {float(metrics['validation_loss']):.3f} best F1 {float(metrics['validation_f1']):.3f}"
        )
        epoch = f"training: epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
        self.line = f"{epoch}  loss {float(metrics['loss_epoch']):.3f}  {self.figures}"

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """The epoch before is safe."""
        self._print_line()

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Take the bar down."""
        self._print_line()
        self.progress.stop()

    def _print_line(self) -> None:
        if self.line and self.progress.disable:
            self.console.print(self.line, highlight=False)
        self.line = ""

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        """Take the bar down."""
        self.progress.stop()


def standard_error(share: float, n: int) -> float:
    """Of a share that was found among n.

    >>> standard_error(0.5, 25)
    0.1
    """
    inside = min(max(share, 0.0), 1.0)
    return math.sqrt(inside * (1 - inside) / n)

"""The Lightning module: loss, augmentation, optimiser, validation and callbacks."""

from __future__ import annotations

import copy
import math
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from einops import rearrange
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn import functional

from dfstrans.errors import option_name
from dfstrans.files import atomic_write
from dfstrans.model.detector import Batch, DetectorNetwork, Mixing, TrainingPart
from dfstrans.progress import LINE_SECONDS, about, duration, time_left
from dfstrans.settings import TrainingSettings
from dfstrans.training import processes
from dfstrans.training.evaluation import average_precision, best_f1
from dfstrans.training.run_folder import LogRows, write_log

LOGGED = ("loss", "validation_loss", "validation_f1", "validation_pr_auc")
TIMED_STEPS = 3  # after the first, which is slower
SLOW = 10.0  # seconds after which fewer steps are enough for a forecast
LONG = 60.0  # seconds of training from which ways to shorten it are named
MONITOR = "validation_score"  # metric that compares epochs


class DetectorModule(pl.LightningModule):  # type: ignore[misc]
    """Trains a network with binary cross-entropy and augmentation, and averages its weights."""

    missing_value: Tensor

    def __init__(
        self,
        network: DetectorNetwork,
        settings: TrainingSettings,
        positive_weight: float,
        missing_value: np.ndarray[Any, Any],
        whole_part: TrainingPart,
    ) -> None:
        super().__init__()
        self.network = network
        self.averaged = copy.deepcopy(network).requires_grad_(False)  # these weights are validated and kept
        self.settings = settings
        self.positive_weight = positive_weight
        self.whole_part = whole_part
        self.register_buffer("missing_value", torch.as_tensor(missing_value), persistent=False)
        self.validation_outputs: list[tuple[Tensor, Tensor]] = []

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Return the loss of one augmented batch, or of this process's share of it.

        The augmentation depends only on (seed, step, process), so a resumed run equals an uninterrupted one.
        """
        source = np.random.SeedSequence((self.settings.seed, self.global_step, processes.rank()))
        torch.default_generator.manual_seed(int(source.generate_state(1)[0]))  # faster than for all kinds of devices
        batch = augment(batch, self.settings, self.missing_value)
        n_episodes = len(batch.labels)
        n_of_all = sum(processes.gathered(n_episodes))
        n_typical = n_of_all / processes.count()  # gradients are averaged over processes
        strength, device = self.settings.mixup, batch.labels.device
        mixing = Mixing.draw(n_episodes, strength, device) if strength else None
        labels = batch.labels if mixing is None else mixing.of_labels(batch.labels)

        def share_of_loss(logits: Tensor, rows: slice) -> Tensor:
            return self._loss(logits, labels[rows]) * (len(logits) / n_typical)

        loss = self.network.training_loss(batch._replace(labels=labels), share_of_loss, mixing)
        several = processes.count() > 1
        self.log("loss", loss, on_epoch=True, on_step=True, batch_size=n_of_all, sync_dist=several)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, *_: Any) -> None:
        """Move the averaged weights towards the trained ones; faster in the first steps, to forget the start."""
        step = self.global_step
        share = min(self.settings.weight_averaging, (1 + step) / (10 + step)) if self.settings.weight_averaging else 0.0
        trained = self.network.state_dict()
        for name, tensor in self.averaged.state_dict().items():
            if tensor.is_floating_point():
                tensor.lerp_(trained[name], 1 - share)
            else:
                tensor.copy_(trained[name])

    def on_validation_epoch_start(self) -> None:
        """Prepare the averaged network for prediction."""
        self.averaged.prepare_prediction(self.whole_part)

    def validation_step(self, batch: Batch, _: int) -> None:
        """Collect the logits of a batch for the metrics."""
        self.validation_outputs.append((self.averaged.logits(batch).float().cpu(), batch.labels.cpu()))

    def on_validation_epoch_end(self) -> None:
        """Log loss, F1 at the best threshold and PR-AUC of the validation part."""
        found = [part for parts in processes.gathered(self.validation_outputs) for part in parts]
        logits, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        self.validation_outputs.clear()
        loss = self._loss(logits, labels)
        self.log("validation_loss", loss)
        scores, truth = logits.double().numpy(), labels.numpy().astype(np.int8)
        if not np.isfinite(scores).all():  # diverged: no metric is defined
            for name in ("validation_f1", "validation_pr_auc", MONITOR):
                self.log(name, math.nan)
            return
        pr_auc = average_precision(truth, scores) if truth.any() else math.nan
        self.log("validation_f1", best_f1(truth, scores)[0])
        self.log("validation_pr_auc", pr_auc)
        # PR-AUC with the loss as tie-breaker; only the loss if a class is missing
        ranked = self.settings.select_by == "pr-auc" and 0 < truth.sum() < len(truth)
        self.log(MONITOR, (pr_auc if ranked else 0.0) - 1e-3 * loss)

    def configure_optimizers(self) -> dict[str, Any]:
        """Return AdamW with weight decay on matrices only, and the schedule."""
        s = self.settings
        matrices = [p for p in self.network.parameters() if p.dim() >= 2]
        others = [p for p in self.network.parameters() if p.dim() < 2]
        optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": s.weight_decay}, {"params": others, "weight_decay": 0.0}],
            lr=s.learning_rate,
        )
        if s.schedule == "constant":
            return {"optimizer": optimizer}
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, s.learning_rate, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        weight = torch.tensor(self.positive_weight, device=logits.device)
        return functional.binary_cross_entropy_with_logits(logits.float(), labels, pos_weight=weight)


def augment(batch: Batch, settings: TrainingSettings, missing_value: Tensor) -> Batch:
    """Shift episodes in time, add noise and drop sensors according to the settings; `Mixing` mixes pairs of episodes.

    `missing_value` (s,) replaces dropped sensors.
    """
    segments = batch.segments
    if settings.time_shift:
        segments = shift_in_time(segments, settings.time_shift)
    if settings.noise:
        segments = segments + settings.noise * torch.randn_like(segments)
    if settings.sensor_dropout:
        b, _, s, _ = segments.shape
        missing = (torch.rand(b, 1, s, 1) < settings.sensor_dropout).to(segments.device)
        segments = torch.where(missing, missing_value[:, None], segments)
    return batch._replace(segments=segments)


def shift_in_time(segments: Tensor, largest: float) -> Tensor:
    """Shift each episode by up to `largest` segments in either direction; the first or last value fills the gap.

    Shape:
        (b, t, s, p) → same
    """
    b, t, s, p = segments.shape
    points = rearrange(segments, "b t s p -> b s (t p)")
    most = round(largest * p)
    shift = torch.randint(-most, most + 1, (b, 1))
    source = (torch.arange(t * p) + shift).clamp_(0, t * p - 1)  # (b, t·p)
    shifted = points.gather(-1, source.to(points.device).unsqueeze(1).expand(b, s, t * p))
    return rearrange(shifted, "b s (t p) -> b t s p", p=p)


class BestWeights(Callback):  # type: ignore[misc]
    """Keeps the weights of the last epoch that is as good as the best one, and stops after `patience` worse epochs.

    With `n_tested` anomalies, an epoch counts as good if its metric is within one standard error of the best, treating
    it as a share of `n_tested`: smaller differences are chance. With 0, only the best epoch is kept. Without
    `patience`, training runs to its end unless the metric is NaN.
    """

    def __init__(self, n_tested: int, patience: int | None = None) -> None:
        self.n_tested = n_tested
        self.patience = math.inf if patience is None else patience
        self.best = -math.inf
        self.epoch = -1
        self.weights: dict[str, Tensor] = {}

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Copy the weights of a good epoch, and count the epochs since the last one."""
        value = float(trainer.callback_metrics[MONITOR])
        if value > self.best or (self.n_tested and value >= self.best - standard_error(self.best, self.n_tested)):
            self.best, self.epoch = max(value, self.best), trainer.current_epoch
            self.weights = {
                name: tensor.detach().cpu().clone() for name, tensor in module.averaged.state_dict().items()
            }
        trainer.should_stop |= not math.isfinite(value) or trainer.current_epoch - self.epoch >= self.patience

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Stop a resumed run immediately if its checkpoint was the last one."""
        if self.weights and trainer.current_epoch - 1 - self.epoch >= self.patience:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"best": self.best, "epoch": self.epoch, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.best, self.epoch, self.weights = state_dict["best"], state_dict["epoch"], state_dict["weights"]


def standard_error(share: float, n: int) -> float:
    """Return the standard error of a share among n.

    >>> standard_error(0.5, 25)
    0.1
    """
    inside = min(max(share, 0.0), 1.0)
    return math.sqrt(inside * (1 - inside) / n)


class EpochLog(Callback):  # type: ignore[misc]
    """Keeps one row of metrics per epoch, in memory and, given a path, in a CSV file."""

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
        if self.path is not None and trainer.is_global_zero:
            with atomic_write(self.path) as temporary:
                write_log(self.rows, temporary)

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.rows = state_dict["rows"]


class TrainingProgress(Callback):  # type: ignore[misc]
    """Shows a progress bar on stderr with loss, validation F1 and time left; without a terminal, lines.

    Before the first step it says how long training will take, if `epoch_seconds` are estimated, and after some steps
    how long by measurement. The lines come after each epoch and every 30 s.

    The F1 is at the best threshold, so it is higher than at the more robust threshold chosen in the end.
    """

    def __init__(self, epoch_seconds: float | None = None) -> None:
        self.epoch_seconds = epoch_seconds
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
        self.measured = self.advised = False  # whether the time was measured, and ways to shorten it were named
        self.line = ""  # printed once the epoch's checkpoint is on disk

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Show the bar, starting at the step that a resumed run has reached."""
        total = int(trainer.estimated_stepping_batches)
        self.task = self.progress.add_task("", total=total, completed=trainer.global_step, figures="")
        self.progress.start()
        self.first_step, self.began = trainer.global_step, time.monotonic()
        self.timed_from = self.said_at = self.began
        if trainer.current_epoch:
            self.console.print(f"continuing after epoch {trainer.current_epoch}", highlight=False)
        if self.epoch_seconds is not None:
            seconds = self.epoch_seconds * _epochs_left(trainer)
            self._forecast(trainer, seconds, f"will take {about(seconds)}, by a rough estimate")

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Advance the bar."""
        loss = f"epoch {trainer.current_epoch + 1}  loss {float(trainer.callback_metrics['loss_step']):.3f}"
        self.progress.update(self.task, completed=trainer.global_step, figures=f"{loss}  {self.figures}")
        steps, now = trainer.global_step - self.first_step, time.monotonic()
        if not self.measured and (steps > TIMED_STEPS or now - self.began > SLOW):
            each = (now - self.timed_from) / (steps - 1) if steps > 1 else now - self.began
            seconds = each * _steps_left(trainer)
            self._forecast(trainer, seconds, f"takes about {duration(seconds)}")
            self.measured = True
        if steps == 1:
            self.timed_from = now
        if self.progress.disable and now - self.said_at >= LINE_SECONDS:
            self.said_at, of = now, int(trainer.estimated_stepping_batches)
            left = time_left(steps, of - self.first_step, now - self.began)
            self.console.print(f"training: step {trainer.global_step} of {of}, {left}", highlight=False)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Update the validation metrics."""
        metrics = trainer.callback_metrics
        self.figures = (
            f"validation loss {float(metrics['validation_loss']):.3f} best F1 {float(metrics['validation_f1']):.3f}"
        )
        epoch = f"training: epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
        self.line = f"{epoch}  loss {float(metrics['loss_epoch']):.3f}  {self.figures}"
        done, of = trainer.global_step - self.first_step, int(trainer.estimated_stepping_batches) - self.first_step
        if done < of:
            self.line += f"  {time_left(done, of, time.monotonic() - self.began)}"

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Print the line of the previous epoch, whose checkpoint is now on disk."""
        self._print_line()

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Remove the bar."""
        self._print_line()
        self.progress.stop()

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        """Remove the bar."""
        self.progress.stop()

    def _forecast(self, trainer: pl.Trainer, seconds: float, takes: str) -> None:
        """Say how long the rest of training takes, and once what would make it shorter if it is long."""
        said = f"training {takes} ({_epochs_left(trainer)} epochs of {int(trainer.num_training_batches)} steps)"
        if seconds >= LONG and not self.advised:
            self.advised = True
            said += (
                f"; to shorten it, use fewer epochs ({option_name('epochs', ...)}), longer segments "
                f"({option_name('segment_length', ...)}), fewer normal episodes per epoch "
                f"({option_name('normals_per_anomaly', ...)}) or trees instead of a network "
                f"({option_name('model', 'trees')})"
            )
        self.console.print(said, highlight=False, soft_wrap=True)

    def _print_line(self) -> None:
        if self.line and self.progress.disable:
            self.console.print(self.line, highlight=False, soft_wrap=True)
        self.line = ""


def _epochs_left(trainer: pl.Trainer) -> int:
    return int(trainer.max_epochs or 0) - int(trainer.current_epoch)


def _steps_left(trainer: pl.Trainer) -> float:
    """Return the steps left, with those of validation, which only runs forward and takes a third."""
    validation = _epochs_left(trainer) * sum(trainer.num_val_batches) / 3
    return float(int(trainer.estimated_stepping_batches) - trainer.global_step + validation)

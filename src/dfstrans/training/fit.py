"""One training run: the same data, settings and seed give the same weights, interrupted or not."""

from __future__ import annotations

import io
import logging
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.warnings import PossibleUserWarning

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write
from dfstrans.model.detector import DetectorNetwork, uses_bf16
from dfstrans.settings import TrainingPlan
from dfstrans.training.batches import Draw, batch_loader
from dfstrans.training.calibration import positive_weight
from dfstrans.training.lightning_module import BestWeights, DetectorModule, EpochLog, TrainingProgress
from dfstrans.training.run_folder import CHECKPOINT, LOG, TENSORBOARD, LogRows, prepare_run_folder


@dataclass(frozen=True)
class TrainedNetwork:
    """A network with the weights of its best epoch, and the log of all epochs."""

    network: DetectorNetwork
    best_epoch: int  # counted from 1
    log: LogRows
    odds: float  # by how much training raised the odds of an anomaly: its weight, and normal episodes left out


class Shape(Protocol):
    """The settings of a network."""

    @property
    def segment_length(self) -> int:
        """Points of the segments that it takes."""

    def model_dump(self) -> dict[str, Any]:
        """All settings, as plain values."""


def train_network(
    build: Callable[[], DetectorNetwork],
    shape: Shape,
    settings: TrainingPlan,
    train: Episodes,
    validation: Episodes,
    scaler: SensorScaler,
    *,
    run_folder: Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> TrainedNetwork:
    """Train to the end of the cycle, or at a constant rate until validation stops improving; keep the best epoch.

    `build` makes the network of the given shape; it is called after the seed is set, since it draws the first weights.
    With a `run_folder` each finished epoch leaves a checkpoint there, from which `resume` continues.
    """
    checkpoint = None
    if run_folder is not None:
        checkpoint = prepare_run_folder(run_folder, _run_record(shape, settings, train, validation), resume)
    one_cycle = settings.schedule == "one-cycle"
    # only a schedule that anneals makes later epochs the better ones among equals
    n_tested = _tested(validation) if one_cycle and settings.select_by == "pr-auc" else 0
    # a cycle that is cut short has not annealed: its best epochs would have been the last ones
    best = BestWeights(n_tested, None if one_cycle else settings.patience)
    log = EpochLog(run_folder / LOG if run_folder else None)
    labels, most = train.require_labels(), settings.normals_per_anomaly
    draw = None if most is None else Draw(labels, most)
    thinning = 1.0 if draw is None else draw.thinning
    weight = positive_weight(labels, settings, thinning)
    length, batch_size = shape.segment_length, settings.batch_size
    with torch.random.fork_rng(devices=[]), _quiet_lightning():
        torch.manual_seed(settings.seed)
        network = build()
        whole_part = batch_loader(train, scaler, length, batch_size)
        if checkpoint is None:
            network.prepare_training(whole_part)
        module = DetectorModule(network, settings, weight, scaler.scaled_mean, whole_part)
        trainer = _trainer(settings, [best, log], run_folder, progress)
        with _interruptible(trainer):
            trainer.fit(
                module,
                batch_loader(train, scaler, length, batch_size, shuffle_seed=settings.seed, draw=draw),
                batch_loader(validation, scaler, length, batch_size),
                ckpt_path=checkpoint,
                weights_only=True,
            )
    if not best.weights:
        raise DfstransError(
            "expected a loss that is a number, but training diverged in its first epoch; "
            f"use a smaller {option_name('learning_rate')}, or {option_name('precision', '32')}"
        )
    network.load_state_dict(best.weights)
    return TrainedNetwork(network.eval(), best.epoch + 1, log.rows, weight * thinning)


def _trainer(
    settings: TrainingPlan, callbacks: list[pl.Callback], run_folder: Path | None, progress: bool
) -> pl.Trainer:
    if run_folder is not None:
        name = Path(CHECKPOINT).stem
        callbacks.append(
            ModelCheckpoint(run_folder, filename=name, save_on_train_epoch_end=True, enable_version_counter=False)
        )
    if progress:
        callbacks.append(TrainingProgress())
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=settings.epochs,
        precision="bf16-mixed" if uses_bf16(settings.precision) else "32-true",
        gradient_clip_val=settings.gradient_clip,
        callbacks=callbacks,
        logger=_logger(run_folder),
        enable_checkpointing=run_folder is not None,
        plugins=[AtomicCheckpoints()],
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )


def _tested(validation: Episodes) -> int:
    """Anomalies that the PR-AUC of an epoch rests on; 0 where a class is missing, so that there is none."""
    anomalous = validation.n_anomalous
    return anomalous if anomalous < len(validation) else 0


class AtomicCheckpoints(TorchCheckpointIO):  # type: ignore[misc]
    """Checkpoints that are complete on disk before they get their name; a full disk is a clear error."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write to a temporary file and rename it; through memory, since torch hides errors of the disk."""
        content = io.BytesIO()
        torch.save(checkpoint, content)
        with atomic_write(Path(path)) as temporary:
            temporary.write_bytes(content.getbuffer())


def _run_record(shape: Shape, settings: TrainingPlan, train: Episodes, validation: Episodes) -> dict[str, Any]:
    return {
        "network": shape.model_dump(),
        "training": settings.model_dump(),
        "train_fingerprint": train.fingerprint(),
        "validation_fingerprint": validation.fingerprint(),
    }


def _logger(run_folder: Path | None) -> Any:
    """TensorBoard if it is installed; the CSV log is always written."""
    if run_folder is None or find_spec("tensorboard") is None:
        return False
    return TensorBoardLogger(run_folder, name=TENSORBOARD, version="")


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Silence Lightning's remarks on hardware and workers, which do not concern the user."""
    engine = logging.getLogger("lightning.pytorch")
    level = engine.level
    engine.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PossibleUserWarning)
            warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
            warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
            yield
    finally:
        engine.setLevel(level)


@contextmanager
def _interruptible(trainer: pl.Trainer) -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C: Lightning turns it into an exit and ignores the next one."""
    try:
        yield
    except SystemExit:
        if trainer.interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt from None
        raise

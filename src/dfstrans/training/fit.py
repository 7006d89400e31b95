"""One training run: the same data, settings and seed give the same weights, even after an interruption."""

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

from dfstrans.data.baselines import Baselines
from dfstrans.data.check import estimate_epoch_seconds
from dfstrans.data.coupling import Coupling
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import count_segments
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write
from dfstrans.model.detector import DetectorNetwork, uses_bf16
from dfstrans.model.network import DFSTrans
from dfstrans.settings import Precision, TrainingPlan, episodes_of_an_epoch
from dfstrans.training import processes
from dfstrans.training.batches import Draw, Share, batch_loader
from dfstrans.training.calibration import positive_weight
from dfstrans.training.lightning_module import BestWeights, DetectorModule, EpochLog, TrainingProgress
from dfstrans.training.run_folder import CHECKPOINT, LOG, TENSORBOARD, LogRows, prepare_run_folder


@dataclass(frozen=True)
class TrainedNetwork:
    """A network with the weights of its best epoch, and the log of all epochs."""

    network: DetectorNetwork
    best_epoch: int  # counted from 1
    log: LogRows
    odds: float  # factor by which training raised the odds of an anomaly: class weight times undersampling


class Shape(Protocol):
    """The settings of a network."""

    @property
    def segment_length(self) -> int:
        """Points per segment."""

    def model_dump(self) -> dict[str, Any]:
        """Return all settings as plain values."""


def train_network(
    build: Callable[[], DetectorNetwork],
    shape: Shape,
    settings: TrainingPlan,
    train: Episodes,
    validation: Episodes,
    scaler: SensorScaler,
    baselines: Baselines | None = None,
    coupling: Coupling | None = None,
    *,
    run_folder: Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> TrainedNetwork:
    """Train to the end of the one-cycle schedule, or at a constant rate until validation stops improving.

    Returns the weights of the best epoch. `build` creates the network of the given shape; it is called after seeding,
    since it draws the initial weights. With a `run_folder`, each finished epoch leaves a checkpoint there, from
    which `resume` continues.
    """
    checkpoint, share = None, Share(processes.rank(), processes.count())
    _require_enough(train, validation, settings.batch_size)
    if run_folder is not None:
        record = _run_record(shape, settings, train, validation)
        checkpoint = processes.on_first(lambda: prepare_run_folder(run_folder, record, resume))
    one_cycle = settings.schedule == "one-cycle"
    # only an annealing schedule makes the later of two equally good epochs better
    n_tested = _n_tested(validation) if one_cycle and settings.select_by == "pr-auc" else 0
    # no early stopping for a cycle: its best epochs are usually the last ones
    best = BestWeights(n_tested, None if one_cycle else settings.patience)
    log = EpochLog(run_folder / LOG if run_folder else None)
    labels, most = train.require_labels(), settings.normals_per_anomaly
    draw = None if most is None else Draw(labels, most)
    thinning = 1.0 if draw is None else draw.thinning
    weight = positive_weight(labels, settings, thinning)
    length, batch_size = shape.segment_length, settings.batch_size
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), _quiet_lightning():
        torch.manual_seed(settings.seed)
        network = build()
        whole_part = batch_loader(train, scaler, length, batch_size, baselines=baselines)
        if checkpoint is None and processes.rank() == 0:  # the others get its result with the first weights
            network.prepare_training(whole_part, coupling)
        module = DetectorModule(network, settings, weight, scaler.scaled_mean, whole_part)
        epoch_seconds = _epoch_seconds(network, settings, train, length)
        trainer = _trainer(settings, [best, log], run_folder, TrainingProgress(epoch_seconds) if progress else None)
        with _interruptible(trainer):
            trainer.fit(
                module,
                batch_loader(train, scaler, length, batch_size, settings.seed, draw, baselines, share),
                batch_loader(validation, scaler, length, batch_size, baselines=baselines, share=share),
                ckpt_path=checkpoint,
                weights_only=True,
            )
    if not best.weights:
        raise DfstransError(
            "expected a finite loss, but training diverged in its first epoch; "
            f"use a smaller {option_name('learning_rate')}, or {option_name('precision', '32')}"
        )
    network.cpu().load_state_dict(best.weights)  # prediction runs on the CPU
    return TrainedNetwork(network.eval(), best.epoch + 1, log.rows, weight * thinning)


def _require_enough(train: Episodes, validation: Episodes, batch_size: int) -> None:
    """Reject more processes than episodes in a batch, or than GPUs."""
    n, smallest = processes.count(), min(batch_size, len(train), len(validation))
    if n > smallest:
        raise DfstransError(
            f"expected at most {smallest} processes, one for each episode of a batch, got {n}; use fewer of "
            f"{option_name('devices', ...)}, or a larger {option_name('batch_size', ...)}"
        )
    if torch.cuda.is_available() and processes.count_here() > torch.cuda.device_count():
        raise DfstransError(
            f"expected at most {torch.cuda.device_count()} processes on this computer, one for each GPU, got "
            f"{processes.count_here()}; use fewer of {option_name('devices', ...)}, or set CUDA_VISIBLE_DEVICES to "
            "nothing to train on the CPU"
        )


def _trainer(
    settings: TrainingPlan, callbacks: list[pl.Callback], run_folder: Path | None, progress: pl.Callback | None
) -> pl.Trainer:
    if run_folder is not None:
        name = Path(CHECKPOINT).stem
        callbacks.append(
            ModelCheckpoint(run_folder, filename=name, save_on_train_epoch_end=True, enable_version_counter=False)
        )
    if progress is not None and processes.rank() == 0:
        callbacks.append(progress)
    return pl.Trainer(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        devices=processes.count_here(),
        num_nodes=processes.count() // processes.count_here(),
        strategy="ddp" if processes.count() > 1 else "auto",
        use_distributed_sampler=False,  # the loaders yield shares
        max_epochs=settings.epochs,
        precision="bf16-mixed" if _in_bf16(settings.precision) else "32-true",
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


def _in_bf16(precision: Precision) -> bool:
    """Return whether training computes in bf16; never on a GPU, since the fast network casts for the CPU only."""
    if not torch.cuda.is_available():
        return uses_bf16(precision)
    if precision == "bf16":
        warnings.warn("training on a GPU computes in 32 bits instead of bf16", stacklevel=2)
    return False


def _epoch_seconds(
    network: DetectorNetwork, settings: TrainingPlan, train: Episodes, segment_length: int
) -> float | None:
    """Estimate roughly how long an epoch takes; None for networks whose speed is unknown before the first step."""
    if not isinstance(network, DFSTrans):
        return None
    drawn = episodes_of_an_epoch(len(train), train.n_anomalous, settings.normals_per_anomaly)
    return estimate_epoch_seconds(drawn, float(count_segments(train.lengths, segment_length).mean()), train.n_sensors)


def _n_tested(validation: Episodes) -> int:
    """Return the number of anomalies behind the PR-AUC of an epoch; 0 if a class is missing and PR-AUC undefined."""
    anomalous = validation.n_anomalous
    return anomalous if anomalous < len(validation) else 0


class AtomicCheckpoints(TorchCheckpointIO):  # type: ignore[misc]
    """Writes checkpoints atomically, with a clear error if the disk is full."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Serialise in memory, since torch hides disk errors, then write to a temporary file and rename it."""
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
    """Return a TensorBoard logger if TensorBoard is installed; the CSV log is always written."""
    if run_folder is None or find_spec("tensorboard") is None:
        return False
    return TensorBoardLogger(run_folder, name=TENSORBOARD, version="")


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Silence Lightning's messages about hardware and workers, which are irrelevant to the user."""
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
    """Raise KeyboardInterrupt on Ctrl-C; Lightning would exit instead and ignore a second Ctrl-C."""
    try:
        yield
    except SystemExit:
        if trainer.interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt from None
        raise

"""The network as Lightning trains it: loss, augmentation, optimiser, validation."""

from __future__ import annotations

import copy
import math
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from einops import rearrange
from torch import Tensor
from torch.nn import functional

from dfstrans.model.detector import DetectorNetwork, Mixing, TrainingPart
from dfstrans.settings import TrainingSettings
from dfstrans.training.batches import Batch
from dfstrans.training.evaluation import average_precision, best_f1


def augment(batch: Batch, settings: TrainingSettings, missing_value: Tensor) -> Batch:
    """A little earlier or later, with a little noise, now and then without a sensor; see `Mixing` for pairs.

    `missing_value` (s,) is what a sensor without values stands at.
    """
    segments = batch.segments
    if settings.time_shift:
        segments = shift_in_time(segments, settings.time_shift)
    if settings.noise:
        segments = segments + settings.noise * torch.randn_like(segments)
    if settings.sensor_dropout:
        b, _, s, _ = segments.shape
        missing = torch.rand(b, 1, s, 1) < settings.sensor_dropout
        segments = torch.where(missing, missing_value[:, None], segments)
    return batch._replace(segments=segments)


def shift_in_time(segments: Tensor, largest: float) -> Tensor:
    """Shift each episode by up to `largest` segments, earlier or later, holding the value at the end that opens.

    Shape:
        (b, t, s, p) → same
    """
    b, t, s, p = segments.shape
    points = rearrange(segments, "b t s p -> b s (t p)")
    most = round(largest * p)
    shift = torch.randint(-most, most + 1, (b, 1))
    source = (torch.arange(t * p) + shift).clamp_(0, t * p - 1)  # (b, t·p)
    shifted = points.gather(-1, source.unsqueeze(1).expand(b, s, t * p))
    return rearrange(shifted, "b s (t p) -> b t s p", p=p)


class DetectorModule(pl.LightningModule):  # type: ignore[misc]
    """Binary cross-entropy on logits, with what keeps a small data set from being learned by heart."""

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
        self.averaged = copy.deepcopy(network).requires_grad_(False)  # what is validated and kept
        self.settings = settings
        self.positive_weight = positive_weight
        self.whole_part = whole_part
        self.register_buffer("missing_value", torch.as_tensor(missing_value), persistent=False)
        self.validation_outputs: list[tuple[Tensor, Tensor]] = []

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """The loss of one augmented batch.

        Its randomness is drawn from (seed, step) alone, so that a resumed run goes on as if never interrupted.
        """
        torch.manual_seed(int(np.random.SeedSequence((self.settings.seed, self.global_step)).generate_state(1)[0]))
        segments, valid, labels = augment(batch, self.settings, self.missing_value)
        n_episodes = len(labels)
        mixing = Mixing.draw(n_episodes, self.settings.mixup) if self.settings.mixup else None
        labels = labels if mixing is None else mixing.of_labels(labels)

        def share_of_loss(logits: Tensor, rows: slice) -> Tensor:
            return self._loss(logits, labels[rows]) * (len(logits) / n_episodes)

        loss = self.network.training_loss(segments, valid, labels, share_of_loss, mixing)
        self.log("loss", loss, on_epoch=True, on_step=True, batch_size=n_episodes)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, *_: Any) -> None:
        """Move the averaged weights a step towards the trained ones; the first steps further, to forget the start."""
        step = self.global_step
        share = min(self.settings.weight_averaging, (1 + step) / (10 + step)) if self.settings.weight_averaging else 0.0
        trained = self.network.state_dict()
        for name, tensor in self.averaged.state_dict().items():
            if tensor.is_floating_point():
                tensor.lerp_(trained[name], 1 - share)
            else:
                tensor.copy_(trained[name])

    def on_validation_epoch_start(self) -> None:
        """What is validated, and kept, is the network as it will predict."""
        self.averaged.prepare_prediction(self.whole_part)

    def validation_step(self, batch: Batch, _: int) -> None:
        """Collect logits; the figures need them all."""
        self.validation_outputs.append((self.averaged(batch.segments, batch.valid).logit.float(), batch.labels))

    def on_validation_epoch_end(self) -> None:
        """Loss, F1 at the best threshold and PR-AUC of the validation part."""
        logits, labels = (torch.cat(parts) for parts in zip(*self.validation_outputs, strict=True))
        self.validation_outputs.clear()
        loss = self._loss(logits, labels)
        self.log("validation_loss", loss)
        scores, truth = logits.double().numpy(), labels.numpy().astype(np.int8)
        if not np.isfinite(scores).all():  # diverged: no figure is defined, and no epoch is better than this one's
            for name in ("validation_f1", "validation_pr_auc", "validation_score"):
                self.log(name, math.nan)
            return
        pr_auc = average_precision(truth, scores) if truth.any() else math.nan
        self.log("validation_f1", best_f1(truth, scores)[0])
        self.log("validation_pr_auc", pr_auc)
        # what an epoch is judged by: PR-AUC, and among equals the loss; the loss alone where one class is missing
        ranked = self.settings.select_by == "pr-auc" and 0 < truth.sum() < len(truth)
        self.log("validation_score", (pr_auc if ranked else 0.0) - 1e-3 * loss)

    def configure_optimizers(self) -> dict[str, Any]:
        """AdamW, decay on matrices only, with a schedule that needs no tuning."""
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
        weight = torch.tensor(self.positive_weight)
        return functional.binary_cross_entropy_with_logits(logits.float(), labels, pos_weight=weight)

"""The interface between networks and training, and components shared by all networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dfstrans.data.coupling import Coupling
from dfstrans.settings import Precision

LossOfPart = Callable[[Tensor, slice], Tensor]
"""Returns the contribution of the episodes in `slice`, with these logits, to the loss of their batch."""


class Batch(NamedTuple):
    """Episodes as tensors.

    Shape:
        segments (b, t, s, p); valid (b, t), False for padded segments; labels (b,), NaN if unknown; baseline
        (b, s, 2, k), centre and spread of each segment statistic on the machine, NaN for one without a baseline
    """

    segments: Tensor
    valid: Tensor
    labels: Tensor
    baseline: Tensor | None = None  # None: no machine has a baseline


class TrainingPart(Protocol):
    """The training episodes in batches, in order and without augmentation."""

    def __len__(self) -> int:
        """Batches."""

    def __iter__(self) -> Iterator[Batch]:
        """Yield all episodes."""


class Logits(NamedTuple):
    """The output of a network without attention."""

    logit: Tensor  # (b,)


class Mixing(NamedTuple):
    """Mixup: each episode of a batch is mixed with another one by the same share, in its values and its label."""

    share: Tensor  # (), of the other episode
    other: Tensor  # (b,), its row

    @classmethod
    def draw(cls, n_episodes: int, strength: float, device: torch.device) -> Mixing:
        """Draw random pairs, and a share from the lower half of Beta(strength, strength)."""
        share = torch.distributions.Beta(strength, strength).sample()
        return cls(torch.minimum(share, 1 - share).to(device), torch.randperm(n_episodes).to(device))

    def of_labels(self, labels: Tensor) -> Tensor:
        """Mix labels: (b,) → (b,)."""
        return torch.lerp(labels, labels[self.other], self.share)

    def of_segments(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Mix segments or their embeddings: (b, t, …) → same. Beyond the end of the other episode, x is unchanged."""
        mixed = torch.lerp(x, x[self.other], self.share.to(x.dtype))
        if valid is None:
            return mixed
        return torch.where(valid[self.other].view(*valid.shape, *(1,) * (x.dim() - 2)), mixed, x)


class DetectorNetwork(nn.Module):
    """A network that computes one logit per episode from segments (b, t, s, p); `valid` (b, t) marks real ones."""

    def training_logit(self, segments: Tensor, valid: Tensor, labels: Tensor) -> Tensor:
        """Return the logits of a training batch: (b,). Only a network that compares episodes uses the labels."""
        logit: Tensor = self(segments, valid).logit
        return logit

    def training_loss(self, batch: Batch, loss_of_part: LossOfPart, mixing: Mixing | None = None) -> Tensor:
        """Return the loss of a training batch, computed in one or several parts: ().

        With `mixing`, the labels are already mixed, and the network mixes the values or embeddings of the episodes.
        """
        segments = batch.segments if mixing is None else mixing.of_segments(batch.segments, batch.valid)
        return loss_of_part(self.training_logit(segments, batch.valid, batch.labels), slice(None))

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of a batch: (b,)."""
        logit: Tensor = self(batch.segments, batch.valid).logit
        return logit

    def prepare_training(self, part: TrainingPart, coupling: Coupling | None = None) -> None:
        """Fit what depends on the whole training part; called once, before the first step."""

    def prepare_prediction(self, part: TrainingPart) -> None:
        """Recompute what prediction needs from the whole training part; called before each validation."""


def bf16_is_fast() -> bool:
    """Return whether this processor multiplies bf16 matrices in hardware; if not, bf16 is hundreds of times slower."""
    return bool(torch.cpu._is_amx_tile_supported()) or bool(torch.cpu._is_avx512_bf16_supported())


def uses_bf16(precision: Precision) -> bool:
    """Return whether this precision means bf16 on this processor; warn if bf16 is requested but not available."""
    if precision == "32":
        return False
    fast = bf16_is_fast()
    if precision == "bf16" and not fast:
        warnings.warn("this processor does not support bf16: computing in 32 bits instead", stacklevel=3)
    return fast


def computing_in(precision: Precision) -> AbstractContextManager[object]:
    """Return a context in which matrix products have this precision."""
    return torch.autocast("cpu", torch.bfloat16) if uses_bf16(precision) else nullcontext()


class ExactLinear(nn.Linear):
    """A linear layer that computes in the precision of its weights, even under autocast to bf16.

    The last layers need it: rounded to the 8 bits of bf16, many episodes would have the same logit.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (…, in_features) → (…, out_features)."""
        if not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))

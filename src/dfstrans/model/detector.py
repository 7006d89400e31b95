"""What training and prediction ask of any network, and the pieces that all networks share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dfstrans.settings import Precision

LossOfPart = Callable[[Tensor, slice], Tensor]
"""What the logits of the episodes in `slice` add to the loss of their batch."""


class TrainingPart(Protocol):
    """The training episodes, in order and without augmentation, one batch after the other."""

    def __len__(self) -> int:
        """Batches."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Segments (b, t, s, p), valid (b, t), which is False for padded segments, and labels (b,)."""


class Logits(NamedTuple):
    """The output of a network that has nothing but logits to show."""

    logit: Tensor  # (b,)


class Mixing(NamedTuple):
    """Mixup: each episode of a batch takes the same share of another one, in its values and in its label."""

    share: Tensor  # (), of the other episode
    other: Tensor  # (b,), its row

    @classmethod
    def draw(cls, n_episodes: int, strength: float) -> Mixing:
        """Random pairs, and a share from the lower half of Beta(strength, strength)."""
        share = torch.distributions.Beta(strength, strength).sample()
        return cls(torch.minimum(share, 1 - share), torch.randperm(n_episodes))

    def of_labels(self, labels: Tensor) -> Tensor:
        """Mixed labels: (b,) → (b,)."""
        return torch.lerp(labels, labels[self.other], self.share)

    def of_segments(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Mixed segments, or mixed embeddings of them: (b, t, …) → same. Past the end of the other, x is unchanged."""
        mixed = torch.lerp(x, x[self.other], self.share.to(x.dtype))
        if valid is None:
            return mixed
        return torch.where(valid[self.other].view(*valid.shape, *(1,) * (x.dim() - 2)), mixed, x)


class DetectorNetwork(nn.Module):
    """A network that gives one logit per episode, from segments (b, t, s, p) of which `valid` (b, t) are real."""

    def training_logit(self, segments: Tensor, valid: Tensor, labels: Tensor) -> Tensor:
        """The logits of a training batch: (b,). A network that compares episodes with each other uses their labels."""
        logit: Tensor = self(segments, valid).logit
        return logit

    def training_loss(
        self, segments: Tensor, valid: Tensor, labels: Tensor, loss_of_part: LossOfPart, mixing: Mixing | None = None
    ) -> Tensor:
        """The loss of a training batch, computed in one part or in several: ().

        With `mixing`, the labels are already mixed and the network mixes the episodes: their values, or embeddings.
        """
        if mixing is not None:
            segments = mixing.of_segments(segments, valid)
        return loss_of_part(self.training_logit(segments, valid, labels), slice(None))

    def prepare_training(self, part: TrainingPart) -> None:
        """Fit what depends on the whole training part; called once, before the first step."""

    def prepare_prediction(self, part: TrainingPart) -> None:
        """Recompute what prediction needs of the whole training part; called before each validation."""


def bf16_is_fast() -> bool:
    """Whether this processor multiplies bf16 matrices in hardware; elsewhere bf16 is hundreds of times slower."""
    return bool(torch.cpu._is_amx_tile_supported()) or bool(torch.cpu._is_avx512_bf16_supported())


def uses_bf16(precision: Precision) -> bool:
    """Whether this precision means bf16 on this processor; warns where bf16 is asked for and not available."""
    if precision == "32":
        return False
    fast = bf16_is_fast()
    if precision == "bf16" and not fast:
        warnings.warn("this processor has no bf16 arithmetic: computing in 32 bits instead", stacklevel=3)
    return fast


def computing_in(precision: Precision) -> AbstractContextManager[object]:
    """A context in which matrix products have this precision."""
    return torch.autocast("cpu", torch.bfloat16) if uses_bf16(precision) else nullcontext()


class ExactLinear(nn.Linear):
    """A linear layer that computes in the precision of its weights, also under autocast to bf16.

    The last layers need it: rounded to the 8 bits of bf16, many episodes would share one logit.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (…, in_features) → (…, out_features)."""
        if not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))

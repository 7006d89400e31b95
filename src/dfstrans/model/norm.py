"""Batch norm of the per-sensor CNN, and batch renorm, which trains on what prediction will see."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.model.cache import cache_sized_parts

STEPS_OF_BATCH_NORM = 50  # before the running statistics are worth following
STEPS_OF_TRANSITION = 100
MOMENTUM = 0.05  # of running statistics that training follows
LARGEST_CORRECTION = 5.0  # of the deviation, and of the mean in deviations


class Normalisation(NamedTuple):
    """γ (x − mean) · scale + β for each channel."""

    gamma: Tensor
    beta: Tensor
    mean: Tensor
    scale: Tensor  # 1/deviation


class ChannelNorm(nn.BatchNorm1d):
    """Batch norm with running statistics; with `renormalise`, batch renorm [Ioffe 2017, arXiv:1702.03275].

    Statistics of a batch tell how high a spike is beside the other spikes that chance put into the batch; prediction
    looks at how high it is. Renorm corrects a batch's statistics to the running ones, after some steps in which these
    settle, and lets gradients pass as batch norm does.

    Shape:
        (segment, channel, point) → the same
    """

    def __init__(self, n_channels: int, *, renormalise: bool = False) -> None:
        super().__init__(n_channels, momentum=MOMENTUM if renormalise else 0.1)
        self.renormalise = renormalise

    def normalisation(self, x: Tensor) -> Normalisation:
        """By the batch in training, which also moves the running statistics, and by those in prediction."""
        assert self.running_mean is not None  # always kept: an episode's score must not depend on its batch
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        running = self.running_mean.clone(), (self.running_var + self.eps).rsqrt()
        if not self.training:
            return Normalisation(self.weight, self.bias, *running)
        count = x.numel() // x.shape[1]
        if count < 2:
            raise ValueError("expected more than one value per channel to normalise in training")
        mean, variance = moments(x.detach().to(self.running_mean.dtype), count)
        scale = (variance + self.eps).rsqrt()
        gamma, beta = self._corrected(mean, scale, *running) if self.renormalise else (self.weight, self.bias)
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        return Normalisation(gamma, beta, mean, scale)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise as it stands; a block of the CNN takes `normalisation` and does it with its convolution."""
        if not (self.training and self.renormalise):
            return super().forward(x)
        with_batch = self.normalisation(x)
        return functional.batch_norm(x, None, None, with_batch.gamma, with_batch.beta, training=True, eps=self.eps)

    def _corrected(
        self, mean: Tensor, scale: Tensor, running_mean: Tensor, running_scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        """γ and β with which the batch's statistics give what the running ones would."""
        assert self.num_batches_tracked is not None
        share = min(max((float(self.num_batches_tracked) - STEPS_OF_BATCH_NORM) / STEPS_OF_TRANSITION, 0.0), 1.0)
        stretch = ((running_scale / scale) ** share).clamp(1 / LARGEST_CORRECTION, LARGEST_CORRECTION)
        shift = ((mean - running_mean) * running_scale * share).clamp(-LARGEST_CORRECTION, LARGEST_CORRECTION)
        return self.weight * stretch, self.bias + self.weight * shift


def moments(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel's `count` values in two sweeps; `torch.var_mean` takes five times as long."""
    mean = x.sum(dim=-1).sum(dim=0) / count
    squares = torch.zeros_like(mean)
    for rows in cache_sized_parts(*x.shape):
        squares += (x[rows] - mean[:, None]).square_().sum(dim=-1).sum(dim=0)
    return mean, squares / count

"""The paper's embedding: one small convolutional network per sensor, with batch norm or batch renorm [app:mh1dcnn].

Axes: n segment, s sensor, p point of a segment, d = d_model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

# batch renorm [ADR 16]
BATCH_NORM_STEPS = 50  # plain batch norm until the running statistics are reliable
TRANSITION_STEPS = 100
RENORM_MOMENTUM = 0.05
LARGEST_CORRECTION = 5.0  # factor of the deviation; shift of the mean in deviations


class SensorCNN(nn.Module):
    """One small convolutional network per sensor, all sensors at once [app:mh1dcnn].

    Sensors are the groups of a grouped convolution, so each has its own weights and is independent of the others.
    """

    def __init__(self, *, n_sensors: int, blocks: int, filters: int, kernel: int, renormalise: bool = False) -> None:
        super().__init__()
        width = n_sensors * filters
        self.convolutions = nn.ModuleList(
            nn.Conv1d(n_sensors if block == 0 else width, width, kernel, padding="same", groups=n_sensors)
            for block in range(blocks)
        )
        self.norms = nn.ModuleList(ChannelNorm(width, renormalise=renormalise) for _ in range(blocks))

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor: (n, s, p) → (n, s, d)."""
        x = segments
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(functional.relu(functional.max_pool1d(convolution(x), 2)))  # (n, s·filters, p/2), …
        return x.reshape(*segments.shape[:2], -1)


class ChannelNorm(nn.BatchNorm1d):
    """Batch norm with running statistics; with `renormalise`, batch renorm [Ioffe 2017, arXiv:1702.03275; ADR 16].

    In training, batch norm compares a spike with its own batch; in prediction, with the running statistics. After some
    steps, renorm corrects the former to the latter, with the gradients of batch norm.

    Shape:
        (n, channel, point) → same
    """

    running_mean: Tensor  # always tracked: an episode's score must not depend on its batch
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def __init__(self, n_channels: int, *, renormalise: bool = False) -> None:
        super().__init__(n_channels, momentum=RENORM_MOMENTUM if renormalise else 0.1)
        self.renormalise = renormalise

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel."""
        if not (self.training and self.renormalise):
            return super().forward(x)
        variance, mean = torch.var_mean(x.detach(), dim=(0, 2), correction=0)
        gamma, beta = self.update(mean, variance, x.numel() // x.shape[1])
        return functional.batch_norm(x, None, None, gamma, beta, training=True, eps=self.eps)

    def update(self, mean: Tensor, variance: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Move the running statistics towards those of a batch; return γ and β for an input normalised by the batch.

        With renorm, γ and β reproduce normalisation by the previous running statistics.
        """
        if count < 2:
            raise ValueError(f"expected more than one value per channel to normalise in training, got {count}")
        gamma: Tensor = self.weight
        beta: Tensor = self.bias
        if self.renormalise:
            share = min(max((float(self.num_batches_tracked) - BATCH_NORM_STEPS) / TRANSITION_STEPS, 0.0), 1.0)
            scale, running_scale = ((one + self.eps).rsqrt() for one in (variance, self.running_var))
            stretch = ((running_scale / scale) ** share).clamp(1 / LARGEST_CORRECTION, LARGEST_CORRECTION)
            shift = (mean - self.running_mean) * running_scale * share
            shift = shift.clamp(-LARGEST_CORRECTION, LARGEST_CORRECTION)
            gamma, beta = self.weight * stretch, self.bias + self.weight * shift
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        return gamma, beta

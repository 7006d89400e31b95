"""From the points of one segment of one sensor to a vector of d_model numbers."""

from __future__ import annotations

from typing import Protocol

import torch
from einops import rearrange
from torch import Tensor, nn

from dfstrans.model.convolution import normalise_convolve_pool
from dfstrans.model.norm import ChannelNorm
from dfstrans.settings import NetworkShape


class Heads(Protocol):
    """The shape of one small network per sensor."""

    @property
    def n_sensors(self) -> int:
        """Sensors of an episode."""

    @property
    def blocks(self) -> int:
        """Convolution blocks of each sensor."""

    @property
    def filters(self) -> int:
        """Filters of a block."""

    @property
    def kernel(self) -> int:
        """Points of a kernel."""


class SensorCNN(nn.Module):
    """One small convolutional network per sensor, all sensors at once [app:mh1dcnn].

    Each block is convolution, max-pooling, ReLU, batch norm. Sensors are the groups of one grouped convolution, so
    that each has its own weights and none sees another. A block's norm is computed with the next block's convolution.

    Shape:
        (segment, sensor, point) → (segment, sensor, d_model)
    """

    def __init__(self, settings: Heads, *, renormalise: bool = False) -> None:
        super().__init__()
        self.n_sensors = settings.n_sensors
        width = settings.n_sensors * settings.filters
        self.convolutions = nn.ModuleList(
            nn.Conv1d(
                settings.n_sensors if block == 0 else width,
                width,
                settings.kernel,
                padding="same",
                groups=settings.n_sensors,
            )
            for block in range(settings.blocks)
        )
        self.norms = nn.ModuleList(ChannelNorm(width, renormalise=renormalise) for _ in range(settings.blocks))

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor."""
        x = segments  # (n, s, p), then (n, s·filters, p/2), …
        norm = None
        for convolution, next_norm in zip(self.convolutions, self.norms, strict=True):
            x = normalise_convolve_pool(x, norm, convolution)  # type: ignore[arg-type]
            norm = next_norm
        x = self.norms[-1](x)
        embedded: Tensor = rearrange(x, "n (s f) p -> n s (f p)", s=self.n_sensors)
        return embedded


class SegmentProjection(nn.Module):
    """One linear map for the segments of all sensors, alone or followed by tanh [app:mh1dcnn, tab:linear_comp].

    Shape:
        (segment, sensor, point) → (segment, sensor, d_model)
    """

    def __init__(self, settings: NetworkShape) -> None:
        super().__init__()
        self.tanh = settings.embedding == "tanh"
        self.projection = nn.Linear(settings.segment_length, settings.d_model, bias=False)

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor."""
        x: Tensor = self.projection(segments)
        return torch.tanh(x) if self.tanh else x


def build_embedding(settings: NetworkShape) -> nn.Module:
    """The embedding that the settings name."""
    if settings.embedding == "cnn":
        return SensorCNN(settings, renormalise=settings.norm == "renorm")
    return SegmentProjection(settings)

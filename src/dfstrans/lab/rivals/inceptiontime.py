"""InceptionTime: three residual blocks of parallel convolutions of several lengths.

Ismail Fawaz et al., InceptionTime: Finding AlexNet for time series classification, Data Mining and Knowledge Discovery
34, 2020. One network, as in the DFStrans paper, not an ensemble of five.
"""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.data.scaling import SensorScaler
from dfstrans.lab.rivals.layers import (
    PointNorm,
    WholeEpisodeClassifier,
    WholeEpisodeSettings,
    mean_over_time,
    rejoin,
    silence,
)
from dfstrans.model.detector import DetectorNetwork, ExactLinear, Logits
from dfstrans.settings import setting_name

FILTERS = 32  # tab:hyp_benchmark: channels of the bottleneck and of each convolution
WIDTH = 4 * FILTERS
BLOCKS, MODULES = 3, 3


class InceptionTimeSettings(WholeEpisodeSettings):
    """Settings of an InceptionTime network. The paper uses kernels of 49, 99 and 199 for the elevator."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    kernels: tuple[int, int, int] = Field(
        default=(9, 19, 39), description="Points of the three kernels; odd."
    )  # tab:hyp_benchmark prints [9,19,199] for SMD; the parameter count shows that this is a typo for 39

    @model_validator(mode="after")
    def _check_kernels(self) -> Self:
        if any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise ValueError(
                f"expected odd {setting_name('kernels')}, so that a convolution keeps the length, got "
                f"{self.kernels}; use for example (9, 19, 39)"
            )
        return self


class InceptionModule(nn.Module):
    """Three parallel convolutions after a bottleneck, and a pooled branch: (b, c, t) → (b, 128, t)."""

    def __init__(self, channels: int, kernels: tuple[int, int, int]) -> None:
        super().__init__()
        self.bottleneck = nn.Conv1d(channels, FILTERS, 1, bias=False)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(FILTERS, FILTERS, kernel, padding=kernel // 2, bias=False) for kernel in kernels
        )
        self.pool = nn.MaxPool1d(3, stride=1, padding=1)
        self.pooled = nn.Conv1d(channels, FILTERS, 1, bias=False)
        self.norm = PointNorm(WIDTH)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Apply all branches and concatenate their channels."""
        narrow = self.bottleneck(x)
        # max-pooling pads with −∞, so padding after a shorter episode has to be −∞, too
        highest = silence(self.pool(silence(x, valid, -torch.inf)), valid)
        parts = [convolution(narrow) for convolution in self.convolutions] + [self.pooled(highest)]
        return functional.relu(self.norm(torch.cat(parts, dim=1), valid))


class InceptionBlock(nn.Module):
    """Three modules with a residual connection: (b, c, t) → (b, 128, t)."""

    def __init__(self, channels: int, kernels: tuple[int, int, int]) -> None:
        super().__init__()
        self.inceptions = nn.ModuleList(
            InceptionModule(channels if number == 0 else WIDTH, kernels) for number in range(MODULES)
        )
        self.shortcut = nn.Conv1d(channels, WIDTH, 1)
        self.shortcut_norm = PointNorm(WIDTH)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Add the shortcut to the output of the modules."""
        shortcut = self.shortcut_norm(self.shortcut(x), valid)
        for inception in self.inceptions:
            x = inception(x, valid)
        return functional.relu(x + shortcut)


class InceptionTime(DetectorNetwork):
    """Three blocks, mean over time, linear layer: 192·S + 719 361 parameters with kernels of 9, 19 and 39."""

    def __init__(self, settings: InceptionTimeSettings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            InceptionBlock(settings.n_sensors if number == 0 else WIDTH, settings.kernels) for number in range(BLOCKS)
        )
        self.logit = ExactLinear(WIDTH, 1)

    def forward(self, segments: Tensor, valid: Tensor | None = None) -> Logits:
        """Logits of episodes: segments (b, t, s, p), valid (b, t) → (b,)."""
        x, valid = rejoin(segments, valid)  # (b, s, T)
        for block in self.blocks:
            x = block(x, valid)  # (b, 128, T)
        return Logits(self.logit(mean_over_time(x, valid)).squeeze(-1))


class InceptionTimeClassifier(WholeEpisodeClassifier):
    """InceptionTime for whole episodes of any length; `network` holds the `InceptionTimeSettings`."""

    estimator_name: ClassVar[str] = "inceptiontime"
    network_kind = shape_kind = InceptionTimeSettings

    @staticmethod
    def build(network: InceptionTimeSettings, scaler: SensorScaler) -> InceptionTime:
        """A network with these settings and random weights from torch's generator."""
        return InceptionTime(network)

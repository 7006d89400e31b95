"""InceptionTime: three residual blocks of convolutions of several lengths side by side.

Ismail Fawaz et al., InceptionTime: Finding AlexNet for time series classification, Data Mining and Knowledge Discovery
34, 2020. One network, as the paper of DFStrans used it, not an ensemble of five.
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

FILTERS = 32  # tab:hyp_benchmark: of the bottleneck and of each convolution
WIDTH = 4 * FILTERS
BLOCKS, MODULES = 3, 3


class InceptionTimeSettings(WholeEpisodeSettings):
    """The shape of an InceptionTime network. The paper has kernels of 49, 99 and 199 for the elevator."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    kernels: tuple[int, int, int] = Field(
        default=(9, 19, 39), description="Points of the three kernels; odd."
    )  # tab:hyp_benchmark prints [9,19,199] once for SMD, a typo: the count of parameters says 39

    @model_validator(mode="after")
    def _check_kernels(self) -> Self:
        if any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise ValueError(
                f"expected {setting_name('kernels')} that are odd, so that a convolution keeps the length, got "
                f"{self.kernels}; use others, such as (9, 19, 39)"
            )
        return self


class InceptionModule(nn.Module):
    """Three convolutions behind a bottleneck, and a pooled one beside them: (b, c, t) → (b, 128, t)."""

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
        """Look at each point's surroundings."""
        narrow = self.bottleneck(x)
        # the pool finds −∞ beyond the end of an episode that stands alone, so it has to find it beyond every end
        highest = silence(self.pool(silence(x, valid, -torch.inf)), valid)
        parts = [convolution(narrow) for convolution in self.convolutions] + [self.pooled(highest)]
        return functional.relu(self.norm(torch.cat(parts, dim=1), valid))


class InceptionBlock(nn.Module):
    """Three modules, and the input once more beside them: (b, c, t) → (b, 128, t)."""

    def __init__(self, channels: int, kernels: tuple[int, int, int]) -> None:
        super().__init__()
        self.inceptions = nn.ModuleList(
            InceptionModule(channels if number == 0 else WIDTH, kernels) for number in range(MODULES)
        )
        self.shortcut = nn.Conv1d(channels, WIDTH, 1)
        self.shortcut_norm = PointNorm(WIDTH)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """The modules' output added to the shortcut."""
        shortcut = self.shortcut_norm(self.shortcut(x), valid)
        for inception in self.inceptions:
            x = inception(x, valid)
        return functional.relu(x + shortcut)


class InceptionTime(DetectorNetwork):
    """Three blocks, the mean over time, one linear map. 192·S + 719 361 parameters with kernels of 9, 19 and 39."""

    def __init__(self, settings: InceptionTimeSettings) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            InceptionBlock(settings.n_sensors if number == 0 else WIDTH, settings.kernels) for number in range(BLOCKS)
        )
        self.logit = ExactLinear(WIDTH, 1)

    def forward(self, segments: Tensor, valid: Tensor | None = None) -> Logits:
        """Score episodes: segments (b, t, s, p), valid (b, t) → a logit each."""
        x, valid = rejoin(segments, valid)  # (b, s, T)
        for block in self.blocks:
            x = block(x, valid)  # (b, 128, T)
        return Logits(self.logit(mean_over_time(x, valid)).squeeze(-1))


class InceptionTimeClassifier(WholeEpisodeClassifier):
    """InceptionTime as a detector of whole episodes of any length; `network` has the `InceptionTimeSettings`."""

    estimator_name: ClassVar[str] = "inceptiontime"
    network_kind = shape_kind = InceptionTimeSettings

    @staticmethod
    def build(network: InceptionTimeSettings, scaler: SensorScaler) -> InceptionTime:
        """The network of these settings, with weights from torch's random generator."""
        return InceptionTime(network)

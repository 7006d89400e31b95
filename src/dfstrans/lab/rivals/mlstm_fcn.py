"""MLSTM-FCN: an LSTM and a convolutional network in parallel.

Karim et al., Multivariate LSTM-FCNs for time series classification, Neural Networks 116, 2019.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.lab.rivals.layers import (
    PointNorm,
    WholeEpisodeClassifier,
    WholeEpisodeSettings,
    check_shortest,
    last_of_each,
    mean_over_time,
    rejoin,
)
from dfstrans.model.detector import DetectorNetwork, ExactLinear, Logits

FILTERS, KERNELS = (128, 256, 128), (8, 5, 3)  # tab:hyp_benchmark
UNITS = 128  # of the LSTM; no counted layer matches the table's "Dim feedforward 128"
SQUEEZE = 16
FEWEST_POINTS = sum(kernel - 1 for kernel in KERNELS) + 1  # the convolutions are not padded


class MLSTMFCNSettings(WholeEpisodeSettings):
    """Settings of an MLSTM-FCN network."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    dropout: float = Field(default=0.3, ge=0, lt=1, description="Dropout rate of the convolutions.")
    lstm_dropout: float = Field(default=0.8, ge=0, lt=1, description="Dropout rate of the LSTM output.")


class SqueezeExcite(nn.Module):
    """Squeeze-and-excite: weight each channel by a function of the mean of all channels: (b, c, t) → (b, c, t)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // SQUEEZE, bias=False)
        self.excite = nn.Linear(channels // SQUEEZE, channels, bias=False)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Weight the channels."""
        weight = torch.sigmoid(self.excite(functional.relu(self.squeeze(mean_over_time(x, valid)))))
        return x * weight.unsqueeze(-1)


class MLSTMFCN(DetectorNetwork):
    """An LSTM and three convolutions with squeeze-and-excite in parallel: 1536·S + 340 737 parameters."""

    def __init__(self, settings: MLSTMFCNSettings) -> None:
        super().__init__()
        self.lstm = nn.LSTM(settings.n_sensors, UNITS, batch_first=True)
        self.lstm_dropout = nn.Dropout(settings.lstm_dropout)
        channels = (settings.n_sensors, *FILTERS)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels[i], channels[i + 1], kernel) for i, kernel in enumerate(KERNELS)
        )
        self.norms = nn.ModuleList(PointNorm(filters) for filters in FILTERS)
        self.excites = nn.ModuleList(SqueezeExcite(filters) for filters in FILTERS[:2])
        self.dropout = nn.Dropout(settings.dropout)
        self.logit = ExactLinear(UNITS + FILTERS[-1], 1)

    def forward(self, segments: Tensor, valid: Tensor | None = None) -> Logits:
        """Logits of episodes: segments (b, t, s, p), valid (b, t) → (b,)."""
        x, valid = rejoin(segments, valid)  # (b, s, T)
        steps, _ = self.lstm(x.transpose(1, 2))  # (b, T, 128)
        recurrent = self.lstm_dropout(last_of_each(steps, valid))  # (b, 128)
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = convolution(x)  # (b, c, T − kernel + 1)
            if valid is not None:
                valid = valid[:, KERNELS[number] - 1 :]  # a point is valid if all its inputs are
            x = self.dropout(functional.relu(norm(x, valid)))
            if number < len(self.excites):
                x = self.excites[number](x, valid)
        features = torch.cat([recurrent, mean_over_time(x, valid)], dim=1)  # (b, 256)
        return Logits(self.logit(features).squeeze(-1))


class MLSTMFCNClassifier(WholeEpisodeClassifier):
    """MLSTM-FCN for whole episodes of at least 14 points; `network` holds the `MLSTMFCNSettings`."""

    estimator_name: ClassVar[str] = "mlstm-fcn"
    network_kind = shape_kind = MLSTMFCNSettings

    @staticmethod
    def build(network: MLSTMFCNSettings, scaler: SensorScaler) -> MLSTMFCN:
        """A network with these settings and random weights from torch's generator."""
        return MLSTMFCN(network)

    def check_lengths(self, episodes: Episodes, network: MLSTMFCNSettings) -> None:
        """Refuse episodes that are too short for the convolutions."""
        check_shortest(episodes, FEWEST_POINTS, self.estimator_name)

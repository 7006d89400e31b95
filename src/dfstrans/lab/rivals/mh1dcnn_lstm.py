"""MH1DCNN-LSTM: a small CNN per sensor, applied to each segment, and an LSTM over the segments.

Canizo et al., Multi-head CNN-RNN for multi-time series anomaly detection, Neurocomputing 363, 2019, with the
max-pooling added by the DFStrans paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from einops import rearrange
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import check_segment_length, default_segment_length
from dfstrans.detectors.network import NetworkClassifier
from dfstrans.lab.rivals.layers import EPOCHS, last_of_each
from dfstrans.model.cnn import SensorCNN
from dfstrans.model.detector import DetectorNetwork, ExactLinear, Logits
from dfstrans.model.fast import FastSensorCNN
from dfstrans.settings import DetectorSettings, NetworkShape, check_kernel, setting_name

UNITS, LAYERS = 128, 2  # of the LSTM: tab:hyp_benchmark, confirmed by the parameter counts


class MH1DCNNLSTMSettings(DetectorSettings):
    """Settings of an MH1DCNN-LSTM network.

    The paper's hyper-parameter table has pooling everywhere, but its parameter count for the elevator is that of a
    network without it, `pool=False`.
    """

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    segment_length: int = Field(ge=1, description="Points of a segment.")
    blocks: int = Field(default=3, ge=1, description="Convolution blocks of each sensor.")
    filters: int = Field(default=20, ge=1, description="Filters of a convolution block.")
    kernel: int = Field(default=5, ge=1, description="Points of a convolution kernel; odd.")
    pool: bool = Field(default=True, description="Whether each block halves a segment.")
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Dropout rate of the LSTM output.")

    @property
    def width(self) -> int:
        """Number of features of a segment over all sensors."""
        return self.n_sensors * self.filters * (self.segment_length >> (self.blocks if self.pool else 0))

    @model_validator(mode="after")
    def _check_width(self) -> Self:
        if self.width == 0:
            raise ValueError(
                f"expected {setting_name('segment_length')} to be at least {2**self.blocks}, since each of "
                f"{self.blocks} convolution blocks halves a segment, got {self.segment_length}; use longer "
                "segments, fewer "
                f"{setting_name('blocks')} or {setting_name('pool', False)}"
            )
        check_kernel(self.kernel)
        return self


class UnpooledSensorCNN(SensorCNN):
    """The CNN per sensor without max-pooling: (segment, sensor, point) → (segment, sensor, filters·point)."""

    def forward(self, segments: Tensor) -> Tensor:
        """Embed each segment of each sensor."""
        x = segments
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(functional.relu(convolution(x)))
        return x.reshape(*segments.shape[:2], -1)


class MH1DCNNLSTM(DetectorNetwork):
    """A CNN per sensor and a two-layer LSTM over the segments: 4280·S + 512·width + 198 785 parameters."""

    def __init__(self, settings: MH1DCNNLSTMSettings) -> None:
        super().__init__()
        sizes = settings.model_dump(include={"n_sensors", "blocks", "filters", "kernel"})
        self.heads = FastSensorCNN(SensorCNN(**sizes)) if settings.pool else UnpooledSensorCNN(**sizes)
        self.lstm = nn.LSTM(settings.width, UNITS, num_layers=LAYERS, batch_first=True)
        self.dropout = nn.Dropout(settings.dropout)
        self.logit = ExactLinear(UNITS, 1)

    def forward(self, segments: Tensor, valid: Tensor | None = None) -> Logits:
        """Logits of episodes: segments (b, t, s, p), valid (b, t) → (b,)."""
        if valid is None:
            valid = torch.ones(segments.shape[:2], dtype=torch.bool)
        embedded: Tensor = self.heads(segments[valid])  # (n_valid, s, c): batch norm never sees padding
        x = embedded.new_zeros(*valid.shape, embedded.shape[1] * embedded.shape[2])
        x[valid] = rearrange(embedded, "n s c -> n (s c)")  # (b, t, s·c)
        steps, _ = self.lstm(x)  # (b, t, 128)
        return Logits(self.logit(self.dropout(last_of_each(steps, valid))).squeeze(-1))


class MH1DCNNLSTMClassifier(NetworkClassifier):
    """MH1DCNN-LSTM; `network` holds the `MH1DCNNLSTMSettings`.

    The default `segment_length` follows from the lengths of the training episodes, as for `Diagnoser`.
    """

    estimator_name: ClassVar[str] = "mh1dcnn-lstm"
    network_kind = shape_kind = MH1DCNNLSTMSettings
    own_defaults: ClassVar[Mapping[str, Any]] = EPOCHS

    @staticmethod
    def build(network: MH1DCNNLSTMSettings, scaler: SensorScaler) -> MH1DCNNLSTM:
        """A network with these settings and random weights from torch's generator."""
        return MH1DCNNLSTM(network)

    def network_settings(self, episodes: Episodes) -> MH1DCNNLSTMSettings:
        """Settings of the network that `fit` would build for these episodes."""
        length = self.all_settings()["segment_length"]
        if length is None:
            any_length = NetworkShape.paper(n_sensors=1, segment_length=1 << 20, heads=1, encoding="none")
            length = default_segment_length(episodes, any_length)
        return self._settings(  # type: ignore[no-any-return]
            MH1DCNNLSTMSettings, n_sensors=episodes.n_sensors, segment_length=length
        )

    def check_lengths(self, episodes: Episodes, network: MH1DCNNLSTMSettings) -> None:
        """Refuse segments longer than the shortest episode."""
        if len(episodes):
            check_segment_length(episodes, network.segment_length)

"""Look into the network while it judges episodes: their attention, embeddings and contributions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dfstrans.diagnosis.scores import EpisodeScores
from dfstrans.model.encoding import positional_encoding
from dfstrans.model.fast import episodes_at_once

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes
    from dfstrans.data.scaling import SensorScaler
    from dfstrans.model.network import DFSTrans, ForwardPass
    from dfstrans.settings import NetworkSettings
    from dfstrans.training.evaluation import ChanceCheck


class Detector(Protocol):
    """What a diagnosis needs of a fitted detector."""

    network_: DFSTrans
    network_settings_: NetworkSettings
    scaler_: SensorScaler
    sensors_: tuple[str, ...]
    units_: tuple[str, ...]

    def check_input(self, X: Any) -> Episodes:  # noqa: N803
        """Episodes with the sensors of training, in their order."""

    def batches(self, X: Any) -> Iterator[tuple[Tensor, Tensor, Tensor]]:  # noqa: N803
        """The episodes as the network takes them: segments (b, t, s, p), valid (b, t), labels (b,)."""

    def probability(self, logit: float) -> float:
        """The calibrated probability of a logit."""

    @property
    def decision_threshold(self) -> float:
        """The probability from which on an episode is called anomalous."""

    @property
    def chance_check(self) -> ChanceCheck:
        """Whether it is better than guessing."""

    def forward(self, X: Any) -> Iterator[ForwardPass]:  # noqa: N803
        """The network's output, batch by batch."""


def episode_scores(detector: Detector, episodes: Any) -> Iterator[EpisodeScores]:
    """The scores of each episode from the last layer's attention; one batch is in memory at a time."""
    network, settings = detector.network_, detector.network_settings_
    for segments, valid, _ in detector.batches(episodes):
        for part in torch.arange(len(valid)).split(episodes_at_once(settings, segments.shape[1])):
            with torch.inference_mode():
                x = network.embed(segments[part], valid[part])
                forward = network.attend(x, valid[part], return_attention=True)
            assert forward.attention is not None  # it was asked for
            assert forward.contribution is not None
            a, b = (weights[:, -1].mean(dim=2).numpy() for weights in forward.attention)
            levels = segments[part].mean(dim=-1).numpy()
            encoding = positional_encoding(settings.encoding, segments.shape[1], settings.d_model)
            for row, there in enumerate(valid[part].sum(dim=1).tolist()):
                yield EpisodeScores(
                    logit=float(forward.logit[row]),
                    temporal=a[row, :, :there, :there].astype(np.float64),
                    spatial=b[row, :there].astype(np.float64),
                    embedding=x[row, :there].double().numpy(),
                    encoding=encoding[:there],
                    contribution=forward.contribution[row, :there].double().numpy(),
                    level=levels[row, :there].astype(np.float64),
                    features=forward.features[row].double().numpy(),
                )
